package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sweep/bench/peers/rawreader"
)

// tool is one client.
type tool struct {
	Name    string // in tables
	Version string
	Role    role
	Stamps  string // kernel or user
	Native  bool   // it can carry the largest cases
	argv    func(j job) []string
	read    func(j job) (reported, error)
}

// role says what a client is to the comparison.
type role int

const (
	limit role = iota // the bare reader
	ours
	peer
)

// job is one run of one client.
type job struct {
	Case benchCase
	URL  string
	Dir  string // for its files, empty before
}

func (j job) out() string { return filepath.Join(j.Dir, "out.json") }

// rawTool is the bare reader; self is this program.
func rawTool(self, stamps string) tool {
	return tool{
		Name: "R " + stamps, Role: limit, Stamps: stamps, Native: true, Version: "bench/peers/rawreader",
		argv: func(j job) []string {
			return []string{self, "-raw", strings.Join([]string{strings.TrimPrefix(j.URL, "http://"), strconv.Itoa(j.Case.Streams), strconv.Itoa(j.Case.Requests), strconv.Itoa(j.Case.Tokens), stamps, j.out()}, ",")}
		},
		read: func(j job) (reported, error) {
			var r rawreader.Result
			if err := readJSON(j.out(), &r); err != nil {
				return reported{}, err
			}
			t := &r.User
			if r.Kernel != nil {
				t = r.Kernel
			}
			v := values{}
			for i, d := range []rawreader.Distribution{t.TTFT, t.ITL, t.TPOT, t.E2E} {
				v.put(metricNames[i], d)
			}
			return reported{Values: v, Completed: r.Requests, DurationS: r.DurationS}, nil
		},
	}
}

// runRaw is what the -raw flag does.
func runRaw(spec string) error {
	f := strings.Split(spec, ",")
	if len(f) != 6 {
		return fmt.Errorf("-raw wants ADDRESS,STREAMS,REQUESTS,TOKENS,STAMPS,FILE")
	}
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(f[i+1]); err != nil {
			return fmt.Errorf("-raw: %w", err)
		}
	}
	r, err := rawreader.Run(rawreader.Options{Address: f[0], Streams: n[0], Requests: n[1], Tokens: n[2], Kernel: f[4] == "kernel"})
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(f[5], text, 0o644)
}

// ourTool is our client: a template of a command.
func ourTool(template, stamps, version string) tool {
	return tool{
		Name: "sweep " + stamps, Role: ours, Stamps: stamps, Native: true, Version: version,
		argv: func(j job) []string {
			r := strings.NewReplacer("{url}", j.URL, "{streams}", strconv.Itoa(j.Case.Streams), "{requests}", strconv.Itoa(j.Case.Requests), "{tokens}", strconv.Itoa(j.Case.Tokens), "{stamps}", stamps, "{out}", j.out())
			args := strings.Fields(template)
			for i := range args {
				args[i] = r.Replace(args[i])
			}
			return args
		},
		read: func(j job) (reported, error) {
			var doc struct {
				Values map[string]float64 `json:"values"`
			}
			var flat map[string]any
			if err := readJSON(j.out(), &flat); err != nil {
				return reported{}, err
			}
			if err := readJSON(j.out(), &doc); err != nil {
				return reported{}, err
			}
			for name, v := range doc.Values {
				if _, there := flat[name]; !there {
					flat[name] = v
				}
			}
			return fromFlat(flat, "e2e_latency", "duration_s"), nil
		},
	}
}

// fromFlat reads figures named as SGLang's and vLLM's clients do: mean_ttft_ms, median_ttft_ms, p99_ttft_ms.
func fromFlat(flat map[string]any, e2e, duration string) reported {
	r := reported{Values: values{}}
	number := func(name string) (float64, bool) {
		v, ok := flat[name].(float64)
		return v, ok
	}
	for _, metric := range metricNames {
		name := metric
		if metric == "e2e" {
			name = e2e
		}
		for _, statistic := range statisticNames {
			prefix := statistic
			if statistic == "p50" {
				prefix = "median"
			}
			if v, ok := number(prefix + "_" + name + "_ms"); ok {
				r.Values[metric+"_"+statistic] = v
			}
		}
	}
	for name, to := range map[string]*int{"completed": &r.Completed, "failed": &r.Failed} {
		if v, ok := number(name); ok {
			*to = int(v)
		}
	}
	r.DurationS, _ = number(duration)
	return r
}

// sglangTool is SGLang's client, in Rust or in Python: the flags are the same.
func sglangTool(name, version, python, module, tokenizer string, native bool) tool {
	return tool{
		Name: name, Version: version, Role: peer, Stamps: "user", Native: native,
		argv: func(j job) []string {
			c := j.Case
			return []string{
				python, "-m", module, "--backend", "sglang-oai", "--base-url", j.URL, "--model", "mock", "--tokenizer", tokenizer,
				"--dataset-name", "random-ids", "--random-input-len", "16", "--random-output-len", strconv.Itoa(c.Tokens), "--random-range-ratio", "1",
				"--num-prompts", strconv.Itoa(c.Requests), "--max-concurrency", strconv.Itoa(c.Streams),
				"--output-file", j.out(), "--output-details", "--disable-tqdm", "--warmup-requests", "1",
			}
		},
		read: func(j job) (reported, error) { return readFlat(j.out(), "e2e_latency") },
	}
}

// vllmTool is vLLM's client, in Rust or in Python.
func vllmTool(name, version, command, tokenizer string, native bool) tool {
	return tool{
		Name: name, Version: version, Role: peer, Stamps: "user", Native: native,
		argv: func(j job) []string {
			c := j.Case
			return []string{
				command, "bench", "serve", "--backend", "openai", "--base-url", j.URL, "--endpoint", "/v1/completions", "--model", "mock", "--tokenizer", tokenizer,
				"--dataset-name", "random", "--random-input-len", "16", "--random-output-len", strconv.Itoa(c.Tokens),
				"--num-prompts", strconv.Itoa(c.Requests), "--max-concurrency", strconv.Itoa(c.Streams),
				"--save-result", "--save-detailed", "--result-dir", j.Dir, "--result-filename", filepath.Base(j.out()),
				"--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99", "--disable-tqdm", "--ignore-eos",
			}
		},
		read: func(j job) (reported, error) { return readFlat(j.out(), "e2el") },
	}
}

func readFlat(path, e2e string) (reported, error) {
	var flat map[string]any
	if err := readJSON(path, &flat); err != nil {
		return reported{}, err
	}
	return fromFlat(flat, e2e, "duration"), nil
}

// readJSON reads a file of JSON, or the last line of one that holds a line a run. SGLang writes bare Infinity.
func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(": Infinity"), []byte(": null"))
	if !json.Valid(text) {
		text = bytes.TrimSpace(text)
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("result %s: %w", path, err)
	}
	return nil
}
