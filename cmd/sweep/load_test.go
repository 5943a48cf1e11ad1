package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep/loadgen"
	"sweep/loadgen/mock"
)

// loadServer answers each request with as many tokens as it asks for.
func loadServer(t *testing.T, timing mock.Timing) string {
	t.Helper()
	var asked atomic.Int64
	server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
		if r.Path == "/count" {
			return mock.Answer(200, fmt.Sprint(asked.Load()))
		}
		asked.Add(1)
		return mock.Stream(r, timing)
	}}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return url
}

// measured says whether a load ended as it should: on a crowded machine its client may well be the limit, and says so.
func measured(code int, said string) bool {
	return code == exitOK || code == exitOther && strings.Contains(said, "client: client_bound")
}

// sweepHere runs a command line in this process.
func sweepHere(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), append([]string{"sweep"}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestLoad: one run gives a table, and every kind of file, and they agree.
func TestLoad(t *testing.T) {
	t.Parallel()
	url, dir := loadServer(t, mock.Timing{First: 2 * time.Millisecond, Gap: time.Millisecond}), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	code, out, said := sweepHere(t, "load", "--url", url, "--model", "m", "-c", "4", "-n", "12", "--input", "5..9", "--output", "6", "--token-ids", "10..90",
		"--json", file("out.json"), "--record", file("a.rec"), "--record", file("a.jsonl"), "--record", file("a.parquet"), "--export", "bench-serving="+file("b.jsonl"), "--export", "vllm="+file("v.json"))
	if !measured(code, out) {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	for _, want := range []string{"4 in flight, 5..9 → 6 tokens", "12 requests in", "TTFT", "client: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	read := func(name string) map[string]any {
		data, err := os.ReadFile(file(name))
		var m map[string]any
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	values := read("out.json")["values"].(map[string]any)
	if values["completed"] != 12.0 || values["output_tokens"] != 72.0 || read("b.jsonl")["completed"] != 12.0 || read("v.json")["total_output_tokens"] != 72.0 {
		t.Errorf("values %v", values)
	}
	lines, err := os.ReadFile(file("a.jsonl"))
	if err != nil || bytes.Count(lines, []byte("\n")) != 12 {
		t.Errorf("%d lines, %v", bytes.Count(lines, []byte("\n")), err)
	}
	record, err := os.Open(file("a.rec"))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	if rec, err := loadgen.ReadRecord(record, nil); err != nil || rec.Requests != 12 || rec.End == nil {
		t.Errorf("the record: %+v, %v", rec, err)
	}
	if info, err := os.Stat(file("a.parquet")); err != nil || info.Size() < 1000 {
		t.Errorf("the parquet file: %v", err)
	}
}

// plannedIn gives the requests of a record with their planned times.
func plannedIn(t *testing.T, path string) (requests map[string]time.Duration, rec loadgen.Recording) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	requests = map[string]time.Duration{}
	rec, err = loadgen.ReadRecord(file, func(r *loadgen.Record) error {
		if r.Outcome != loadgen.OK {
			return fmt.Errorf("%s: %s", r.ID(), r.Reason)
		}
		requests[r.ID()] = r.Sched
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return requests, rec
}

// TestLoadByProcesses: several processes send the requests that one would, at the same planned times, and their record is
// one whole.
func TestLoadByProcesses(t *testing.T) {
	t.Parallel()
	url, dir := loadServer(t, mock.Timing{First: 2 * time.Millisecond, Gap: time.Millisecond}), t.TempDir()
	load := func(processes string) (map[string]time.Duration, loadgen.Recording, map[string]any) {
		record, result := filepath.Join(dir, processes+".rec"), filepath.Join(dir, processes+".json")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), self, "load", "--url", url, "--model", "m", "--rate", "150", "-n", "90", "--input", "4..9", "--output", "2..6", "--token-ids", "10..90",
			"--processes", processes, "--record", record, "--json", result).CombinedOutput()
		if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && measured(failed.ExitCode(), string(out))) {
			t.Fatalf("%v: %s", err, out)
		}
		var doc struct{ Values map[string]any }
		data, err := os.ReadFile(result)
		if err == nil {
			err = json.Unmarshal(data, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		requests, rec := plannedIn(t, record)
		return requests, rec, doc.Values
	}
	one, _, first := load("1")
	three, rec, merged := load("3")
	if len(one) != 90 || !maps.Equal(one, three) {
		t.Errorf("%d requests of one process, %d of three, or other times", len(one), len(three))
	}
	if rec.Head.Parts != 1 || rec.Requests != 90 || rec.End == nil || !rec.End.Complete {
		t.Errorf("the merged record: %+v", rec)
	}
	for _, name := range []string{"sent", "completed", "output_tokens", "prompt_tokens"} {
		if first[name] != merged[name] || first[name] == nil {
			t.Errorf("%s: %v by one process, %v by three", name, first[name], merged[name])
		}
	}
}

// TestLoadOverTLS: https goes by the compatible path, also HTTP/2, and stamps say so.
func TestLoadOverTLS(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"the-model"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer sk-canary" || !bytes.Contains(body, []byte(`"model":"the-model"`)) {
			http.Error(w, "who are you, "+r.Header.Get("Authorization")+"?", http.StatusUnauthorized)
			return
		}
		protocols <- r.Proto
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":512,"completion_tokens":1}}`+"\n\n"+`data: {"choices":[{"text":"b","finish_reason":"length"}],"usage":{"prompt_tokens":512,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, key, proto string
		code             int
	}{{"auto", "sk-canary", "HTTP/1.1", 0}, {"net-http", "sk-canary", "HTTP/2.0", 0}, {"auto", "sk-other-canary", "", 1}} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), self, "load", "--url", server.URL, "--insecure", "--api-key", "LLM_KEY", "-c", "2", "-n", "12", "--output", "2", "--path", c.path,
			"--json", filepath.Join(dir, "out.json"), "--record", filepath.Join(dir, "a.rec"), "--record", filepath.Join(dir, "a.jsonl"))
		cmd.Env = append(os.Environ(), "LLM_KEY="+c.key)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the code says it
		if code := cmd.ProcessState.ExitCode(); code != c.code && !(c.code == exitOK && measured(code, said.String())) {
			t.Errorf("%s: exit code %d: %s", c.path, code, said.String())
		}
		if c.code == 0 && (<-protocols != c.proto || !strings.Contains(said.String(), "stamps by the client")) {
			t.Errorf("%s does not go by %s:\n%s", c.path, c.proto, said.String())
		}
		for len(protocols) > 0 {
			<-protocols
		}
		for _, name := range []string{"out.json", "a.rec", "a.jsonl"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || bytes.Contains(data, []byte("canary")) {
				t.Errorf("%s: the key is in the file (%v)", name, err)
			}
		}
		if strings.Contains(said.String(), "canary") {
			t.Errorf("the key is shown: %s", said.String())
		}
	}
}

// TestLoadUsage: all that is wrong with a command line is said at once.
func TestLoadUsage(t *testing.T) {
	t.Parallel()
	code, _, said := sweepHere(t, "load", "--url", "ftp://x", "--input", "9..3", "--output", "0", "--rate", "3", "-c", "2", "--body", "[1]", "--processes", "0", "--header", "X", "--token-ids", "a")
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"--url", "--input", "--output", "just one of", "--body", "--processes", "--header", "--token-ids"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not complained of:\n%s", want, said)
		}
	}
	if code, _, said := sweepHere(t, "load", "--url", "http://127.0.0.1:1", "--model", "m", "-c", "1", "--record", "/nonexistent/x"); code != exitEnvironment || !strings.Contains(said, "/nonexistent/x") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if code, out, said := sweepHere(t, "load", "--url", "http://127.0.0.1:1", "--model", "m", "-c", "1", "-n", "20"); code != exitOther || !strings.Contains(out+said, "refused") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
}

// TestLoadShapes: what the flags say of a load is what the generator is asked for.
func TestLoadShapes(t *testing.T) {
	t.Parallel()
	env := &environ{Getenv: os.Getenv}
	f := &loadFlags{url: "http://127.0.0.1:1", api: "completions", input: "100..200", output: "5", stages: "30s:1..20,1m:20", arrivals: loadgen.Gamma, shape: 0.5, prefix: "8x64", duration: time.Minute, precision: 0.02, processes: 1, part: -1}
	j, err := newLoadJob(env, f)
	if err != nil {
		t.Fatal(err)
	}
	c := j.spec.Classes[0]
	if s := c.Arrivals.Stages; len(s) != 2 || s[0] != (loadgen.Stage{For: 30 * time.Second, From: 1, To: 20}) || s[1].From != 20 || c.Prefix.Groups != 8 || c.Prefix.Tokens != 64 || j.spec.Window.Precision != 0.02 || j.spec.Window.Min != 6*time.Second {
		t.Errorf("%+v %+v", c, j.spec.Window)
	}
	f.stages, f.concurrency, f.turns, f.think = "", "4", "2..5", time.Second
	if j, err = newLoadJob(env, f); err != nil || j.spec.Classes[0].Session.Turns != (loadgen.Range{Min: 2, Max: 5}) || j.spec.Classes[0].Session.Think != time.Second {
		t.Errorf("%v: %+v", err, j.spec.Classes[0].Session)
	}
	for _, bad := range []func(f *loadFlags){
		func(f *loadFlags) { f.prefix = "8" }, func(f *loadFlags) { f.turns = "0" }, func(f *loadFlags) { f.turns = "" },
		func(f *loadFlags) { f.precision = 2 }, func(f *loadFlags) { f.concurrency, f.stages = "", "30s" },
	} {
		broken := *f
		bad(&broken)
		if _, err := newLoadJob(env, &broken); err == nil {
			t.Errorf("%+v is taken", broken)
		}
	}
}

// TestLoadWorkload: the classes of a grid, each with its own pool.
func TestLoadWorkload(t *testing.T) {
	t.Parallel()
	url := loadServer(t, mock.Timing{First: time.Millisecond})
	grid := filepath.Join(t.TempDir(), "g.yaml")
	text := "name: x\nengine: sglang\nmodel: m\nworkloads:\n  synth: {classes: {short: {input: 4..6, output: 3, share: 3}, long: {input: 9, output: 5, share: 1}}}\nload: [{workload: synth, concurrency: [4]}]\nsweep: {mem-fraction-static: [0.8, 0.9]}\n"
	if err := os.WriteFile(grid, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"8", "short=6,long=2"} {
		code, out, said := sweepHere(t, "load", "--url", url, "--model", "m", "--workload", grid, "-c", level, "-n", "short=12,long=4")
		if !measured(code, out) || !strings.Contains(out, "short 6 in flight, 4..6 → 3 tokens · long 2 in flight, 9 → 5 tokens") || !strings.Contains(out, "long TTFT") {
			t.Errorf("exit code %d:\n%s%s", code, out, said)
		}
	}
	own := strings.Replace(text, "classes: {short: {input: 4..6,", "api: chat, body: {top_p: 0.5}, classes: {short: {prompts: p.jsonl,", 1)
	if err := errors.Join(os.WriteFile(grid, []byte(own), 0o600), os.WriteFile(filepath.Join(filepath.Dir(grid), "p.jsonl"), []byte(`{"messages":[{"role":"user","content":"hi"}]}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, out, said := sweepHere(t, "load", "--url", url, "--model", "m", "--workload", grid, "-c", "8", "-n", "short=12,long=4"); !measured(code, out) || !strings.Contains(out, "short 6 in flight, 1 prompt") || !strings.Contains(out, "/chat/completions") {
		t.Errorf("exit code %d:\n%s%s", code, out, said)
	}
	if code, _, said := sweepHere(t, "load", "--url", url, "--model", "m", "--workload", grid, "-c", "short=6"); code != exitUsage || !strings.Contains(said, "long=16") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
