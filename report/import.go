package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep/sweep"
)

// Imported says what an import made.
type Imported struct {
	Dir      string // the new night
	Records  int
	Problems []string // files and lines that could not be read, each one sentence
}

// foreign is one run of another tool.
type foreign struct {
	source string // file, and line where it has several
	tool   string
	fields map[string]json.RawMessage
	serve  map[string]string // parameters of the server
	bench  map[string]string // parameters of the load
	repeat int               // 0: counted
	failed string            // why there are no numbers; "" when there are
	phase  sweep.Phase
}

// Import reads results of SGLang's bench_serving (JSON lines) and vLLM's bench serve and bench sweep (JSON files), in files or folders, into
// a new night below root. Runs are found by what they hold, not by how files are called. The numbers stay as their tool defines them, and
// each record says so.
func Import(root, name string, paths []string, now time.Time) (*Imported, error) {
	im := &Imported{}
	var runs []foreign
	for _, p := range paths {
		err := filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			ext := strings.ToLower(filepath.Ext(path))
			if d.IsDir() || ext != ".json" && ext != ".jsonl" && ext != ".ndjson" && path != p {
				return nil
			}
			found, problems, err := readForeign(path)
			runs = append(runs, found...)
			im.Problems = append(im.Problems, problems...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	if len(runs) == 0 {
		return im, errors.New("import: no run of SGLang's bench_serving or vLLM's bench serve was found")
	}
	im.Dir = filepath.Join(root, name+"-"+now.UTC().Format("20060102T150405Z"))
	if err := os.MkdirAll(root, 0o755); err != nil {
		return im, fmt.Errorf("import: %w", err)
	}
	if err := os.Mkdir(im.Dir, 0o755); err != nil {
		return im, fmt.Errorf("import: %w", err)
	}
	return im, im.write(runs)
}

func (im *Imported) write(runs []foreign) error {
	addVaryingServerInfo(runs)
	seen := map[string]int{}
	var lines bytes.Buffer
	for i, run := range runs {
		r := run.record(filepath.Base(im.Dir))
		key := r.Cell
		seen[key]++
		r.Repeat = seen[key]
		if run.repeat > 0 {
			r.Repeat = run.repeat
		}
		r.Dir = fmt.Sprintf("launches/import=%d/attempt=1", i+1)
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("import: %s: %w", run.source, err)
		}
		lines.Write(append(line, '\n'))
		im.Records++
		if err := run.writeRequests(filepath.Join(im.Dir, filepath.FromSlash(r.Dir), "load="+fileSafe(r.Load.String()))); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(im.Dir, CellsFile), lines.Bytes())
}

func fileSafe(s string) string { return strings.NewReplacer("/", "_", "\\", "_").Replace(s) }

// record is the run as a record of ours.
func (run *foreign) record(night string) sweep.Record {
	r := sweep.Record{
		Night: night, Role: sweep.RoleMeasure, Attempt: 1, Engine: cmp.Or(run.text("backend"), "vllm"), Model: run.text("model_id"), Host: "import",
		Ending: sweep.Ending{Outcome: sweep.OK}, Values: sweep.Values{},
		Notes: []string{"imported from " + run.tool + ": its numbers are by its own definitions (tokens over the whole duration, warm-up and drain included)"},
	}
	names := make([]string, 0, len(run.serve))
	for k := range run.serve {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		r.Axes = append(r.Axes, sweep.Param{Name: strings.ReplaceAll(k, "_", "-"), Value: run.serve[k]})
	}
	r.Config = r.Axes.String()
	if label := cmp.Or(run.text("tag"), run.text("label")); r.Config == "" {
		r.Config = cmp.Or(label, "default")
	}
	r.Load = run.load()
	r.Cell = r.Config + "/" + r.Load.String()
	if date, err := time.Parse("20060102-150405", run.text("date")); err == nil {
		r.EndedAt = date
		if d, ok := run.number("duration"); ok {
			r.StartedAt = date.Add(-time.Duration(d * float64(time.Second)))
		}
	}
	if run.failed != "" {
		r.Outcome, r.Phase, r.Detail, r.Cause = sweep.CrashLoad, run.phase, run.failed, "unknown"
		if run.phase != sweep.PhaseLoad {
			r.Outcome = sweep.CrashStart
		}
		return r
	}
	run.values(r.Values)
	return r
}

// load names the workload by data set and lengths. Where no limit in flight was set, the load has none, and the rate is in its name.
func (run *foreign) load() sweep.Load {
	var name strings.Builder
	name.WriteString(cmp.Or(run.text("dataset_name"), run.bench["dataset_name"], "bench"))
	for _, k := range []string{"random_input_len", "random_output_len", "sharegpt_output_len"} {
		if v := cmp.Or(run.text(k), run.bench[k]); v != "" && v != "null" {
			name.WriteString("-" + strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(k, "random_"), "sharegpt_"), "_len") + v)
		}
	}
	level := 0
	if v, err := strconv.Atoi(cmp.Or(run.text("max_concurrency"), run.bench["max_concurrency"])); err == nil {
		level = v
	}
	if rate := cmp.Or(run.text("request_rate"), run.bench["request_rate"]); rate != "" && rate != "inf" {
		name.WriteString("-rate" + rate)
	}
	others := make([]string, 0, len(run.bench))
	for k := range run.bench {
		if !slices.Contains([]string{"dataset_name", "random_input_len", "random_output_len", "sharegpt_output_len", "max_concurrency", "request_rate", "_benchmark_name", "num_prompts"}, k) {
			others = append(others, k)
		}
	}
	slices.Sort(others)
	for _, k := range others {
		name.WriteString("-" + k + run.bench[k])
	}
	return sweep.Load{Workload: fileSafe(name.String()), Pools: []sweep.Pool{{Class: "all", Concurrency: level}}}
}

// values takes the numbers that mean the same, under our names.
func (run *foreign) values(to sweep.Values) {
	rename := strings.NewReplacer("_e2el_ms", "_e2e_latency_ms")
	for k := range run.fields {
		v, ok := run.number(k)
		if !ok {
			continue
		}
		switch name := rename.Replace(k); {
		case strings.HasSuffix(k, "_ms"):
			to[name] = v
		case k == "total_token_throughput":
			to["total_throughput"] = v
		case slices.Contains([]string{"request_throughput", "input_throughput", "output_throughput", "total_throughput", "completed", "failed", "request_goodput", "accept_length"}, k):
			to[k] = v
		case k == "duration":
			to["duration_s"] = v
		case k == "concurrency":
			to["mean_concurrency"] = v
		case k == "total_input_tokens":
			to["prompt_tokens"] = v
		case k == "total_output_tokens":
			to["output_tokens"] = v
		}
	}
	if in, ok := to["prompt_tokens"]; ok && to["duration_s"] > 0 {
		if _, known := to["input_throughput"]; !known {
			to["input_throughput"] = in / to["duration_s"]
		}
	}
}

// writeRequests writes requests.jsonl where the tool kept each request.
func (run *foreign) writeRequests(dir string) error {
	var ttfts, inputs, outputs []float64
	var itls [][]float64
	var errs []string
	for key, to := range map[string]any{"ttfts": &ttfts, "input_lens": &inputs, "output_lens": &outputs, "itls": &itls, "errors": &errs} {
		if raw, ok := run.fields[key]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return nil // a list of another shape: the summary stands
			}
		}
	}
	if len(ttfts) == 0 || len(outputs) != len(ttfts) {
		return nil
	}
	var b bytes.Buffer
	for i, ttft := range ttfts {
		e2e := ttft
		for _, gap := range at(itls, i) {
			e2e += gap
		}
		outcome := "ok"
		if outputs[i] == 0 || i < len(errs) && errs[i] != "" {
			outcome = "failed"
		}
		line := map[string]any{"id": fmt.Sprintf("all/%d", i), "class": "all", "phase": "window", "outcome": outcome}
		if outcome == "ok" {
			line["ttft_ms"], line["e2e_ms"], line["output_tokens"] = ttft*1000, e2e*1000, outputs[i]
			if i < len(inputs) {
				line["prompt_tokens"] = inputs[i]
			}
			if outputs[i] > 1 && len(at(itls, i)) > 0 {
				line["tpot_ms"] = (e2e - ttft) * 1000 / (outputs[i] - 1)
			}
		}
		data, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("import: %s: %w", run.source, err)
		}
		b.Write(append(data, '\n'))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return writeFile(filepath.Join(dir, "requests.jsonl"), b.Bytes())
}

func at(lists [][]float64, i int) []float64 {
	if i < len(lists) {
		return lists[i]
	}
	return nil
}
