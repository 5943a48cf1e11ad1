package sweep

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(GridSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("grid.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("grid.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a grid as an editor holds it against a schema; ok is false when it is no YAML, or not one document.
func asJSON(data string) (v any, ok bool) {
	var documents []any
	if err := yaml.Load([]byte(data), &documents, yaml.WithAllDocuments()); err != nil || len(documents) != 1 {
		return nil, false
	}
	return documents[0], true
}

// TestSchemaGood: each grid that runs is one by the schema.
func TestSchemaGood(t *testing.T) {
	t.Parallel()
	s := schema(t)
	files, err := filepath.Glob("../grids/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("testdata/grid/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	grids := map[string]string{"good": goodGrid, "all": wholeGrid}
	for _, file := range append(append(files, more...), "../cmd/sweep/testdata/plan/night.yaml") {
		if strings.Contains(file, "notyet") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		grids[file] = string(data)
	}
	if len(grids) < 7 {
		t.Errorf("only %d grids", len(grids))
	}
	for name, text := range grids {
		if v, ok := asJSON(text); !ok {
			t.Errorf("%s is no YAML", name)
		} else if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if grid, problems := testReader().ReadBytes("grid.yaml", []byte(wholeGrid)); grid == nil {
		t.Errorf("the reader refuses what the schema is to take: %v", firstLines(problems))
	}
}

// wholeGrid has each key in each of its forms.
const wholeGrid = `name: all
engine: sglang
model: ~/m
command: ./start.sh
workdir: ~/w
container: {runtime: docker, image: "lmsysorg/sglang@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", args: [--shm-size=32g, -v, "/m:/m:ro"]}
env: {A: 1, B: "x${env:C}", HF_TOKEN: "${env:HF_TOKEN}", TOKENIZERS_PARALLELISM: false}
hosts: [{gpus: [0, "1", GPU-12345678-1234]}, {simulate: two-cards, gpus: all, strangers: wait, gpu_reset: on, recover: [/opt/r.sh, 3]}]
server: {tp-size: 2, cuda-graph-bs: [1, 2, 4], x: off}
sweep:
  mem-fraction-static: 0.80:0.94:0.02
  n: [-1, 1:8:x2, auto]
  spec: {off: {}, none: , eagle: {speculative-algorithm: EAGLE, steps: 3}}
exclude: [{mem-fraction-static: 0.80, spec: eagle}]
include: [{label: shipped, spec: eagle, schedule-conservativeness: 0.5}]
baseline: {label: shipped}
unacceptable: [{spec: eagle, reason: quality}]
workloads:
  w:
    classes:
      short: {share: 3, input: 100..1.5k, output: 10, shared_prefix: {groups: 4, tokens: 64}, slo: {ttft: p90<30s}}
      long: {input: 1k, output: 1k..2k}
    slo: {tpot: [p50<80ms, "p99.9 < 1m30s"], e2e: p95<150ms}
  own:
    api: chat
    body: {top_p: 0.9, tools: [{type: function}], seed: 7}
    classes:
      mine: {share: 2, prompts: testdata/own/prompts.jsonl, output: natural}
      bounded: {prompts: testdata/own/prompts.jsonl, output: {natural: 100..600}}
      as-asked: {prompts: testdata/own/prompts.jsonl}
      talk: {input: 10, output: 10, session: {turns: 2..5, input: 20, think: 1s}}
  r: {api: completions, classes: {a: {input: 1, output: 1}, b: {input: 1, output: 1}}}
  t: {api: generate, classes: {a: {input: 1, output: 1}}}
load:
  - {workload: own, concurrency: 8}
  - {workload: r, rate: [0.5, 1:8:x2, {a: 3, b: 0.25}]}
  - {workload: r, rate: 7, arrivals: constant}
  - {workload: r, rate: 7, arrivals: {law: gamma, shape: 0.5, ramp: 30s}}
  - {workload: r, rate: 7, arrivals: {steps: 4, each: 30s}}
  - {workload: t, rate: 9, arrivals: {trace: testdata/own/trace.jsonl}}
  - {workload: w, concurrency: [4, 8:64:x2, {short: 3, long: 2}]}
  - {workload: w, concurrency: 1k}
measure: {warmup: 30s, window: {min: 2m, requests: {short: 300, long: 30}, max: 15m}}
limits: {start: 1h, stall: 10m, load_stall: 1m30s, stop: 20s}
repeats: 2
drift: off
`

// beyondSchema are bad grids whose form is right: what is wrong stands in two places, is arithmetic, is how
// YAML writes a value, or is known only to an engine.
var beyondSchema = []string{
	// how YAML is written
	"merge key", "tag", "too large", "leading zero", "octal", "spelling of true", "key twice",
	// what two places say
	"two spellings", "off twice", "range meets value", "same key in results", "repeats a server flag", "bundle and axis",
	"exclude unknown axis", "exclude unknown value", "exclude everything", "include twice", "include unknown bundle",
	"baseline lacks an axis", "baseline unknown value", "baseline excluded", "baseline unknown label",
	"load of unknown workload", "level of an unknown class", "class left out", "load twice", "gpus of another entry", "all gpus twice",
	"gpus of another entry over ssh", "pinned for another's eyes", "home of another machine",
	"two kinds of load", "rate of a class left out", "session at a rate", "trace for two classes", "prompts that are not there", "prompts of no known form", "messages off the chat route", "nothing bounds it",
	// arithmetic
	"wrong way", "million steps", "huge range", "ladder down", "product", "product of loads", "long folder", "length backwards", "prefix too long",
	"fewer than classes", "too many", "max below min", "too long",
	// what others know
	"owned", "include owned flag", "profile", "measured key",
}

// TestSchemaBad: the schema refuses each bad grid of the reader's own tests, but those whose form is right,
// and takes those with warnings only.
func TestSchemaBad(t *testing.T) {
	t.Parallel()
	s := schema(t)
	seen := map[string]bool{}
	for _, table := range [][]badGrid{badYAML, badNames, badFlags, badAxes, badChoices, badLoads, badOwn, badAttach, badMeasures, badHosts} {
		for _, test := range table {
			v, ok := asJSON(test.text(t))
			warnings := !slices.ContainsFunc(test.want, func(w string) bool { return !strings.Contains(w, ": warning: ") })
			beyond := slices.Contains(beyondSchema, test.name)
			seen[test.name] = true
			switch err := s.Validate(v); {
			case !ok: // no YAML: refused before any schema
			case warnings && err != nil:
				t.Errorf("%s: a warning is refused: %v", test.name, err)
			case beyond && err != nil:
				t.Errorf("%s: the schema sees what it is not taken to see: %v", test.name, err)
			case !warnings && !beyond && err == nil:
				t.Errorf("%s: not refused: %s", test.name, test.want[0])
			}
		}
	}
	for _, name := range beyondSchema {
		if !seen[name] {
			t.Errorf("no bad grid is named %q", name)
		}
	}
}
