package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// kept puts a file into a night's folder.
func kept(t *testing.T, night, name, content string) *sweep.File {
	t.Helper()
	sum := sha256.Sum256([]byte(content))
	f := &sweep.File{Name: name, SHA256: hex.EncodeToString(sum[:])}
	path := filepath.Join(night, filepath.FromSlash(f.Kept()))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// The fields of a request: the engine's, over them the workload's, each where the route has them.
func TestRequestOfAWorkload(t *testing.T) {
	t.Parallel()
	e := &sweep.Engine{Generate: "/v1/completions", Body: map[string]any{"temperature": 0, "ignore_eos": true, "stream_options": map[string]any{"include_usage": true}}}
	for _, c := range []struct {
		api   string
		body  map[string]any
		route string
		want  string
	}{
		{"", nil, "/v1/completions", `{"ignore_eos":true,"stream_options":{"include_usage":true},"temperature":0}`},
		{"chat", map[string]any{"temperature": 0.7, "top_p": 0.9}, "/v1/chat/completions", `{"ignore_eos":true,"stream_options":{"include_usage":true},"temperature":0.7,"top_p":0.9}`},
		{"generate", map[string]any{"sampling_params": map[string]any{"top_p": 0.9}, "return_logprob": true}, "/generate",
			`{"return_logprob":true,"sampling_params":{"ignore_eos":true,"temperature":0,"top_p":0.9}}`},
	} {
		route, body, err := Request(e, sweep.Workload{API: c.api, Body: c.body})
		got, jsonErr := json.Marshal(body)
		if err != nil || jsonErr != nil || route != c.route || string(got) != c.want {
			t.Errorf("%q: %s %s, %v; want %s %s", c.api, route, got, err, c.route, c.want)
		}
	}
	if len(e.Body) != 3 {
		t.Errorf("the engine's own fields were changed: %v", e.Body)
	}
}

// What a grid says of a class and its level comes out at the load generator.
func TestClassesOfALoad(t *testing.T) {
	t.Parallel()
	night := t.TempDir()
	prompts := kept(t, night, "own.jsonl", `{"prompt": "one", "output_tokens": 3}`+"\n"+`{"prompt": "two", "output_tokens": 4}`+"\n")
	trace := kept(t, night, "t.jsonl", `{"timestamp": 0, "input_length": 9, "output_length": 1}`+"\n"+`{"timestamp": 4000, "input_length": 9, "output_length": 1}`+"\n")
	w := sweep.Workload{Name: "w", SLO: []sweep.Objective{{Metric: "tpot", Quantile: 0.5, Limit: time.Second}}, Classes: []sweep.Class{
		{Name: "own", Prompts: prompts, Natural: true, SLO: []sweep.Objective{{Metric: "ttft", Quantile: 0.9, Limit: time.Second}}},
		{Name: "talk", Input: sweep.Range{Min: 5, Max: 6}, Output: sweep.Range{Min: 7, Max: 8}, SharedPrefix: &sweep.SharedPrefix{Groups: 2, Tokens: 3},
			Session: &sweep.Session{Turns: sweep.Range{Min: 2, Max: 3}, Input: sweep.Range{Min: 1, Max: 2}, Think: time.Second}},
	}}
	files := keptFiles(night)
	list, err := files.classes(w, sweep.Load{Workload: "w", Pools: []sweep.Pool{{Class: "own", Concurrency: 3}, {Class: "talk", Concurrency: 1}}})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if c := list[0]; c.Concurrency != 3 || len(c.Prompts) != 2 || !c.Natural || len(c.SLO) != 2 || c.Arrivals != nil {
		t.Errorf("%+v", c)
	}
	if c := list[1]; c.Session == nil || c.Session.Think != time.Second || c.Prefix.Groups != 2 || c.Output.Max != 8 {
		t.Errorf("%+v", c)
	}
	for _, c := range []struct {
		name string
		law  sweep.Arrivals
		ok   func(*loadgen.Arrivals) bool
	}{
		{"gamma", sweep.Arrivals{Law: sweep.ArrivalsGamma, Shape: 0.5}, func(a *loadgen.Arrivals) bool {
			return a.Law == loadgen.Gamma && a.Rate == 2 && a.Shape == 0.5
		}},
		{"ramp", sweep.Arrivals{Law: sweep.ArrivalsPoisson, Ramp: time.Minute}, func(a *loadgen.Arrivals) bool {
			return len(a.Stages) == 1 && a.Stages[0] == loadgen.Stage{For: time.Minute, From: 0, To: 2}
		}},
		{"steps", sweep.Arrivals{Law: sweep.ArrivalsConstant, Steps: 2, Each: time.Second}, func(a *loadgen.Arrivals) bool {
			return len(a.Stages) == 2 && a.Stages[0].To == 1 && a.Stages[1].From == 2
		}},
		{"trace", sweep.Arrivals{Law: sweep.ArrivalsTrace, Trace: trace}, func(a *loadgen.Arrivals) bool {
			return a.Law == loadgen.Trace && len(a.Requests) == 2 && a.Requests[1].At == 500*time.Millisecond
		}},
	} {
		a, err := files.arrivals(&c.law, 2)
		if err != nil || !c.ok(a) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
}

// A night's copy that is gone or is another one is said, and not sent.
func TestFilesAreChecked(t *testing.T) {
	t.Parallel()
	night := t.TempDir()
	f := kept(t, night, "own.jsonl", `{"prompt": "one"}`+"\n")
	path := filepath.Join(night, filepath.FromSlash(f.Kept()))
	for _, c := range []struct{ content, want string }{{`{"prompt": "two"}` + "\n", "not what the night was planned with"}, {"", "cannot be read"}} {
		err := os.WriteFile(path, []byte(c.content), 0o600)
		if c.content == "" {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = keptFiles(night).Class(sweep.Class{Name: "a", Prompts: f}, nil)
		if _, ok := errors.AsType[*EnvironmentError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
