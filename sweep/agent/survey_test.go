//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
)

// write makes files below dir: names and contents by turns.
func write(t *testing.T, dir string, files ...string) string {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const twoShards = `{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"}}`

func TestModelFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		files     []string
		model     string // below the folder; "" is the folder itself
		form      sweep.ModelForm
		settings  string // of load-format
		environ   []string
		problem   string
		remote    string
		weights   int64
		tokenizer string
	}{
		{name: "whole", files: []string{"config.json", "{}", "model-1.safetensors", "12345", "model-2.safetensors", "123", "model.safetensors.index.json", twoShards, "consolidated.safetensors", "12345678", "tokenizer.json", "{}"}, weights: 8},
		{name: "no index", files: []string{"config.json", "{}", "model.safetensors", "123", "consolidated.safetensors", "123", "tiktoken.model", ""}, weights: 3},
		{name: "cut short", files: []string{"config.json", "{}", "model-1.safetensors", "1", "model-2.safetensors", "", "model.safetensors.index.json", twoShards, "vocab.json", ""}, weights: 1,
			problem: "1 of 2 files of its weights are missing, the first is model-2.safetensors"},
		{name: "no weights", files: []string{"config.json", "{}", "tokenizer.model", ""}, problem: "no weights"},
		{name: "dummy weights", files: []string{"config.json", "{}", "tokenizer.model", ""}, settings: "dummy"},
		{name: "no tokenizer", files: []string{"config.json", "{}", "model.safetensors", "123"}, weights: 3, tokenizer: "has no tokenizer"},
		{name: "tokenizer left at the hub", files: []string{"config.json", "{}", "model.safetensors", "123", "tokenizer.json", "version https://git-lfs.github.com/spec/v1\n"}, weights: 3, tokenizer: "only a pointer"},
		{name: "no config", files: []string{"model.safetensors", "123"}, problem: "has no config.json", tokenizer: "has no tokenizer"},
		{name: "Mistral's form", files: []string{"params.json", "{}", "tekken.json", "{}"}},
		{name: "bad config", files: []string{"config.json", "<html>"}, problem: "is no JSON", tokenizer: "has no tokenizer"},
		{name: "missing", model: "nowhere/at/all", problem: "no such folder or file"},
		{name: "gguf", files: []string{"m.gguf", "GGUF\x03"}, model: "m.gguf", form: sweep.ModelGGUF},
		{name: "no gguf", files: []string{"m.gguf", "<html>"}, model: "m.gguf", form: sweep.ModelGGUF, problem: "no GGUF file"},
		{name: "empty gguf", files: []string{"m.gguf", ""}, model: "m.gguf", form: sweep.ModelGGUF, problem: "no GGUF file"},
		{name: "folder of gguf", files: []string{"m.gguf", "GGUF"}, form: sweep.ModelGGUF, problem: "reads one .gguf file", tokenizer: "has no tokenizer"},
		{name: "hub", model: "hub:meta/m", remote: "the first start downloads it"},
		{name: "hub, old id", model: "hub:gpt2", remote: "the first start downloads it"},
		{name: "hub, offline", model: "hub:meta/m", environ: []string{"HF_HUB_OFFLINE=1"}, problem: "HF_HUB_OFFLINE keeps the server from fetching it"},
		{name: "hub, there", files: []string{"hub/models--meta--m/snapshots/abc/config.json", "{}", "hub/models--meta--m/snapshots/abc/model.safetensors", "12", "hub/models--meta--m/snapshots/abc/tokenizer.json", ""},
			model: "hub:meta/m", environ: []string{"HF_HUB_OFFLINE=1"}, weights: 2},
		{name: "bucket", model: "hub:s3://bucket/m", remote: "where its address says"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, t.TempDir(), test.files...)
			job := sweep.Job{Engine: "sglang", Model: filepath.Join(dir, test.model)}
			if id, hub := strings.CutPrefix(test.model, "hub:"); hub {
				job.Model = id
			}
			if test.settings != "" {
				job.Config.Settings = []sweep.Setting{{Name: "load-format", Values: []string{test.settings}}}
			}
			if test.form == "" {
				test.form = sweep.ModelFolder
			}
			m := lookAtModel(job, test.form, append([]string{"HF_HOME=" + dir}, test.environ...))
			if !strings.Contains(m.problem, test.problem) || test.problem == "" && m.problem != "" {
				t.Errorf("problem %q, want %q", m.problem, test.problem)
			}
			if !strings.Contains(m.remote, test.remote) || test.remote == "" && m.remote != "" {
				t.Errorf("remote %q, want %q", m.remote, test.remote)
			}
			if m.weights != test.weights {
				t.Errorf("%d bytes of weights, want %d", m.weights, test.weights)
			}
			if got := tokenizerProblem(job, m); !strings.Contains(got, test.tokenizer) || test.tokenizer == "" && got != "" {
				t.Errorf("tokenizer %q, want %q", got, test.tokenizer)
			}
		})
	}
}

// helpScript prints a help with the flags and counts how often it is asked.
func helpScript(t *testing.T, dir string, flags ...string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\necho x >> %s/asked\ncat <<'E'\nusage: serve [-h]\n\noptions:\n", dir)
	for i := range 20 {
		fmt.Fprintf(&b, "  --flag-%d N   words\n", i)
	}
	for _, f := range flags {
		fmt.Fprintf(&b, "  --%s X\n", f)
	}
	b.WriteString("E\n")
	write(t, dir, "serve", b.String())
}

func asked(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "x")
}

// TestHelpIsKept: a help is read once for each version of the command.
func TestHelpIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helpScript(t, dir, "tp-size")
	e := &sweep.Engine{Name: "sglang", Help: [][]string{{"--help"}}, Argv: func(s sweep.ServerSpec) []string {
		var argv []string
		for _, x := range s.Settings {
			argv = append(argv, "--"+x.Name, x.Value())
		}
		return argv
	}}
	call := helpCall{engine: e, argv: []string{filepath.Join(dir, "serve")}, cache: filepath.Join(dir, "cache")}
	setting := func(name string) []sweep.Setting { return []sweep.Setting{{Name: name, Values: []string{"1"}}} }
	check := func(name string, wantAsked int, wantProblem bool) {
		t.Helper()
		flags, ok := call.kept()
		fresh := false
		if !ok {
			var err error
			if flags, err = call.ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			fresh = true
		}
		problems, _, err := call.flagProblems(t.Context(), setting(name), flags, fresh)
		if err != nil || (len(problems) > 0) != wantProblem {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
		if n := asked(t, dir); n != wantAsked {
			t.Errorf("%s: asked %d times, want %d", name, n, wantAsked)
		}
	}
	check("tp-size", 1, false)
	check("tp-size", 1, false)
	check("dp-size", 2, true) // what a kept help does not know is asked again
	helpScript(t, dir, "tp-size", "dp-size")
	check("dp-size", 3, false)
	call.workdir = dir
	check("tp-size", 4, false) // a command in another folder may be another
	call.cache = ""
	check("tp-size", 5, false)
	check("tp-size", 6, false)
}

// TestHelpFails: a command that gives no help is no reason to refuse anything.
func TestHelpFails(t *testing.T) {
	t.Parallel()
	dir := write(t, t.TempDir(), "broken", "#!/bin/sh\necho ImportError: no module named torch >&2\nexit 1\n", "silent", "#!/bin/sh\n", "slow", "#!/bin/sh\nsleep 60\n", "none", "text")
	for name, want := range map[string]string{"broken": "ImportError: no module named torch", "silent": "lists no flags", "none": "none", "slow": "too late"} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("too late"))
		call := helpCall{engine: &sweep.Engine{Name: "x", Help: [][]string{{"--help=all"}, {"--help"}}}, argv: []string{filepath.Join(dir, name)}}
		if name != "slow" {
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
		}
		began := time.Now()
		if _, err := call.ask(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
}

// TestSurveyUnstartable: what its own help cannot start without is missing before any launch.
func TestSurveyUnstartable(t *testing.T) {
	t.Parallel()
	e, _ := engine.Lookup("sglang")
	for said, want := range map[string]string{
		"python3: Error while finding module specification for 'sglang.launch_server' (ModuleNotFoundError: No module named 'sglang')": "no Python package sglang",
		"Traceback\nModuleNotFoundError: No module named 'torch._C'":                                                                   "no Python package torch._C",
		"ImportError: libnuma.so.1: cannot open shared object file: No such file or directory":                                         "no library libnuma.so.1",
		"No module named 'helion', going on\nRuntimeError: no device":                                                                  "", // a launch may do better
	} {
		dir := write(t, t.TempDir(), "server", fmt.Sprintf("#!/bin/sh\nprintf '%%b\n' \"%s\" >&2\nexit 1\n", said))
		s := Survey{Self: "/no/sweep", Engine: e, Out: t.TempDir(), Ask: true}
		found := s.Look(t.Context(), []sweep.Job{{Engine: "sglang", Model: "m/m", Host: "local", Command: []string{filepath.Join(dir, "server")}}})
		i := slices.IndexFunc(found, func(f sweep.Finding) bool { return f.Check == CheckCommand && f.Level == sweep.LevelMissing })
		if want == "" {
			if i >= 0 {
				t.Errorf("%s: %+v", said, found[i])
			}
		} else if i < 0 || !found[i].Blocks || !strings.Contains(found[i].Text, want) {
			t.Errorf("%s: want %q in %+v", said, want, found)
		}
	}
}

// TestSurvey: everything that is missing is said at once.
func TestSurvey(t *testing.T) {
	t.Parallel()
	e, _ := engine.Lookup("sglang")
	job := func(key string, settings ...string) sweep.Job {
		j := sweep.Job{
			Engine: "sglang", Model: "/no/model", Host: "local", Command: []string{"/no/python", "-m", "x"}, Workdir: "/no/workdir",
			Env: sweep.Params{{Name: "A", Value: "${env:NOT_SET_HERE}"}, {Name: "B", Value: "${env:NOR_THIS}"}}, Config: sweep.Config{Key: key},
		}
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			j.Config.Settings = append(j.Config.Settings, sweep.Setting{Name: name, Values: []string{value}})
		}
		return j
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := Survey{Self: self, Engine: e, Environ: []string{"PATH=/nowhere"}, Out: "/proc/no/results", Ask: true}
	found := s.Look(t.Context(), []sweep.Job{job("a", "tp-size=2", "hicache-size=off"), job("b", "tp-size=2", "hicache-size=100000"), job("c", "page-size=3", "chunked-prefill-size=4")})
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s %v: %s", f.Level, f.Check, f.Configs, f.Text))
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"missing workdir []: workdir /no/workdir: no such folder", "missing command []: command /no/python: no such file", "warning flags []: not held",
		"missing env []: env A refers to ${env:NOT_SET_HERE}", "missing env []: env B refers to ${env:NOR_THIS}", "missing model []: model /no/model: no such",
		"missing tokenizer", "refused configs [b]: hicache-size 100000 is per rank: 2 ranks", "free on this machine", "refused configs [c]: chunked-prefill-size 4 is no multiple of page-size 3: write 3",
		"missing results directory []: nothing can be written to /proc", "ports []: ", "host memory []: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
	for _, f := range found {
		if f.Blocks != (f.Check == CheckModel) {
			t.Errorf("blocks: %+v", f)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestSurveyOfSimulated: two hosts of one grid are looked at each for itself.
func TestSurveyOfSimulated(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	a := n.simulatedJob("", "a@1")
	b := n.simulatedJob("", "a@1")
	b.Host = "local-2"
	b.Config.Settings = append(b.Config.Settings, sweep.Setting{Name: "mem-fraction-statc", Values: []string{"1"}})
	s := Survey{Self: n.opt.Self, Engine: n.engine, Out: t.TempDir(), Asking: func(c string) { t.Errorf("told of %s", c) }}
	var wrong []sweep.Finding
	hosts := map[string]int{}
	for _, f := range s.Look(t.Context(), []sweep.Job{a, b}) {
		hosts[f.Host]++
		if f.Level != sweep.LevelOK {
			wrong = append(wrong, f)
		}
	}
	if len(wrong) != 1 || wrong[0].Host != "local-2" || wrong[0].Level != sweep.LevelFlags || wrong[0].Flag != "mem-fraction-statc" || wrong[0].Configs != nil {
		t.Errorf("%+v", wrong)
	}
	if hosts["local"] < 6 || hosts["local-2"] < 6 || len(hosts) != 2 {
		t.Errorf("findings by host: %v", hosts)
	}
	if found := (Survey{Self: n.opt.Self}).Look(t.Context(), nil); len(found) < 4 {
		t.Errorf("without jobs: %+v", found)
	}
}
