package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// badOwn spoils what requests are and when they go.
var badOwn = []badGrid{
	{name: "unknown api", old: "{classes:", new: "{api: caht, classes:", want: []string{`:3:22: unknown api "caht" (did you mean "chat"?)`}},
	{name: "own field", old: "{classes:", new: "{body: {model: x, max_tokens: 5}, classes:", want: []string{
		`:3:24: field "model" of a request is sweep's own (take it out)`,
		`:3:34: field "max_tokens" of a request is sweep's own (take it out)`,
	}},
	{name: "prompts that are not there", old: "input: 100..200, output: 10", new: "prompts: nowhere.jsonl", want: []string{`:3:54: prompts cannot be read: no such file or directory (name a file that is there; a relative path begins at the grid's folder)`}},
	{name: "prompts and input", old: "input: 100..200, output: 10", new: "prompts: testdata/own/prompts.jsonl, input: 5, shared_prefix: {groups: 1, tokens: 1}", want: []string{
		`:3:82: class "short" has prompts of its own: they have the length that they have, and share what they share (take it out)`,
		`:3:92: class "short" has prompts of its own: they have the length that they have, and share what they share (take it out)`,
	}},
	{name: "prompts of no known form", old: "input: 100..200, output: 10", new: "prompts: testdata/own/broken", want: []string{`:3:54: testdata/own/broken: line 1: no JSON object (see sweep help grid for the forms that are known)`}},
	{name: "messages off the chat route", old: "input: 100..200, output: 10", new: "prompts: testdata/own/messages", want: []string{`:3:54: testdata/own/messages holds messages, which only the chat route takes (write api: chat in the workload)`}},
	{name: "nothing bounds it", old: "input: 100..200, output: 10", new: "prompts: testdata/own/open, output: natural", want: []string{`:3:81: output is natural, and nothing bounds it (write {natural: 600}, the most tokens that an answer may have)`}},
	{name: "natural of drawn prompts", old: "output: 10", new: "output: natural", want: []string{`:3:70: output is natural, and nothing bounds it (write {natural: 600}, the most tokens that an answer may have)`}},
	{name: "output of neither", old: "output: 10", new: "output: {most: 5}", want: []string{
		`:3:70: output says neither a length nor natural (write {natural: 600})`,
		`:3:71: unknown key "most" (known are natural)`,
	}},
	{name: "session in part", old: "output: 10", new: "output: 10, session: {turns: 2}", want: []string{`:3:83: session has no input (write it as in {turns: 2..5, input: 50..200, think: 3s})`}},
	{name: "session at a rate", old: "output: 10}, long: {input: 1k, output: 20}}}}\nload: [{workload: w, concurrency: [4, 8]}]", new: "output: 10, session: {turns: 2, input: 5}}, long: {input: 1k, output: 20}}}}\nload: [{workload: w, rate: 2}]",
		want: []string{`:4:22: class "short" of workload "w" makes conversations, which a rate cannot plan (write a concurrency: so many users at once)`}},
	{name: "rate and concurrency", old: "concurrency: [4, 8]", new: "concurrency: 4, rate: 2", want: []string{`:4:38: a load is held at a concurrency or sent at a rate, not both (keep one of the two)`}},
	{name: "arrivals without a rate", old: "concurrency: [4, 8]", new: "concurrency: 4, arrivals: constant", want: []string{`:4:38: only a load with a rate has arrivals (give it a rate as well)`}},
	{name: "two kinds of load", old: "concurrency: [4, 8]}", new: "concurrency: 4}, {workload: w, rate: 2}", want: []string{`:4:39: workload "w" is loaded by concurrency in another entry: the two cannot stand in one table (give the workload a second name for it)`}},
	{name: "no rates", old: "concurrency: [4, 8]", new: "rate: []", want: []string{`:4:22: rate has no levels (write requests a second as in [0.5, 2], or a ladder as in 1:64:x2)`}},
	{name: "rate of nothing", old: "concurrency: [4, 8]", new: "rate: [0, fast, 1e9]", want: []string{
		`:4:29: rate is 0 requests a second (write a number above 0, at most 100000)`,
		`:4:32: rate is a number, not "fast" (write requests a second, as in 0.5)`,
		`:4:38: rate is a number, not "1e9" (write requests a second, as in 0.5)`,
	}},
	{name: "rate of a class left out", old: "concurrency: [4, 8]", new: "rate: {short: 1}", want: []string{`:4:28: a rate of workload "w" says nothing of long (give each class a number)`}},
	{name: "unknown law", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: poison", want: []string{`:4:41: unknown law "poison" of arrivals (did you mean "poisson"?)`}},
	{name: "gamma without shape", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {law: gamma}", want: []string{`:4:47: gamma arrivals have no shape (write {law: gamma, shape: 0.5}: below 1 in bursts, above 1 more even than Poisson)`}},
	{name: "shape of another law", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {law: constant, shape: 2}", want: []string{`:4:57: only gamma arrivals have a shape (write law: gamma)`}},
	{name: "half of the steps", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {steps: 3}", want: []string{`:4:41: steps need their number and the time of each (write it as in {steps: 4, each: 30s})`}},
	{name: "ramp and steps", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {ramp: 10s, steps: 3, each: 5s}", want: []string{`:4:53: arrivals rise by a ramp or in steps, not both (keep one of the two)`}},
	{name: "trace with a law", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {law: constant, trace: testdata/own/trace.jsonl}", want: []string{`:4:57: a trace has its own times: no law, ramp or steps beside it (keep the trace alone)`}},
	{name: "trace that is over soon", old: "classes: {short: {share: 3, input: 100..200, output: 10}, long: {input: 1k, output: 20}}}}\nload: [{workload: w, concurrency: [4, 8]}]",
		new:  "classes: {short: {share: 3, input: 100..200, output: 10}}}}\nload: [{workload: w, rate: 50, arrivals: {trace: testdata/own/trace.jsonl}}]",
		want: []string{`:4:50: warning: the 600 requests of the trace are over after 12s at 50/s, and warm-up and window take 1m at least (take a lower rate, a shorter window or a longer trace)`}},
	{name: "trace for two classes", old: "concurrency: [4, 8]", new: "rate: 1, arrivals: {trace: testdata/own/trace.jsonl}", want: []string{`:4:42: a trace brings one kind of request, and workload "w" has 2 classes (give it a workload with one class)`}},
}

// lookIntoTests stands for the load generator's reader: the file's name says what is in it.
func lookIntoTests(_, path string) (FileFacts, error) {
	switch filepath.Base(path) {
	case "broken":
		return FileFacts{}, errors.New("line 1: no JSON object")
	case "trace.jsonl":
		return FileFacts{Requests: 600}, nil
	case "messages":
		return FileFacts{Answered: true, Messages: true}, nil
	case "open":
		return FileFacts{}, nil
	}
	return FileFacts{Answered: true}, nil
}

// A file counts by its content: the same under another name is the same cell, another content is another cell, and a night keeps
// a copy by which its own grid is read.
func TestFilesCountByContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := "engine: sglang\nmodel: /m\nworkloads: {w: {classes: {a: {prompts: own.jsonl, output: 5}}}}\nload: [{workload: w, concurrency: [4]}]\nmeasure: {window: 2m}\n"
	write("own.jsonl", `{"prompt": "a"}`+"\n")
	write("same.jsonl", `{"prompt": "a"}`+"\n")
	write("grid.yaml", text)
	write("renamed.yaml", strings.ReplaceAll(text, "own.jsonl", "same.jsonl"))
	read := func(path string, kept map[string]string) (*Grid, string) {
		t.Helper()
		g, problems, err := GridReader{Kept: kept}.Read(path)
		if g == nil {
			t.Fatal(err, problems)
		}
		plan, err := g.Plan()
		if err != nil {
			t.Fatal(err)
		}
		return g, newManifest(plan, nil).Cells[0].ContentKey
	}
	g, key := read(filepath.Join(dir, "grid.yaml"), nil)
	if _, again := read(filepath.Join(dir, "renamed.yaml"), nil); again != key {
		t.Error("the same content under another name is another cell")
	}
	plan, err := g.Plan()
	if err != nil {
		t.Fatal(err)
	}
	n, err := CreateNight(NightOptions{Root: filepath.Join(dir, "results"), Plan: plan, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	write("own.jsonl", `{"prompt": "b"}`+"\n")
	if _, other := read(filepath.Join(dir, "grid.yaml"), nil); other == key {
		t.Error("another content is the same cell")
	}
	m, err := ReadManifest(n.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, again := read(n.GridPath(), m.KeptFiles(n.Dir)); again != key {
		t.Error("the night's own grid is read with other prompts")
	}
	if err := n.keepFiles(&Grid{Workloads: []Workload{{Classes: []Class{{Prompts: &File{SHA256: "0", path: filepath.Join(dir, "own.jsonl")}}}}}}); err == nil {
		t.Error("a file that changed since it was read is kept")
	}
	again, err := g.Again(Again{Name: "again", Loads: g.Loads, Only: []string{"default"}})
	if err != nil || !strings.Contains(string(again), filepath.Join(dir, "own.jsonl")) {
		t.Errorf("%v: the grid made out of it names its prompts otherwise:\n%s", err, again)
	}
}

// Loads at a rate: how totals are split, their keys, their order, and their way into a record and another grid.
func TestRates(t *testing.T) {
	t.Parallel()
	text := strings.Replace(goodGrid, "load: [{workload: w, concurrency: [4, 8]}]",
		"load: [{workload: w, rate: [8, 0.5:2:0.5, {short: 3, long: 0.25}], arrivals: {law: gamma, shape: 0.5, ramp: 30s}}]", 1)
	g, problems := testReader().ReadBytes("grid.yaml", []byte(text))
	if g == nil {
		t.Fatal(problems)
	}
	var keys []string
	for _, l := range g.Loads {
		keys = append(keys, l.String())
	}
	want := []string{"w,short=0.375rps,long=0.125rps,gamma=0.5,ramp=30s", "w,short=0.75rps,long=0.25rps,gamma=0.5,ramp=30s",
		"w,short=1.125rps,long=0.375rps,gamma=0.5,ramp=30s", "w,short=1.5rps,long=0.5rps,gamma=0.5,ramp=30s", "w,short=3rps,long=0.25rps,gamma=0.5,ramp=30s", "w,short=6rps,long=2rps,gamma=0.5,ramp=30s"}
	if !slices.Equal(keys, want) {
		t.Errorf("loads %q, want %q", keys, want)
	}
	if l := g.Loads; !l[5].Above(l[4]) || l[4].Above(l[5]) || l[5].LevelText() != "8/s" || l[4].Rate() != 3.25 || l[0].Concurrency() != 0 {
		t.Errorf("levels of %v", l)
	}
	again, err := g.Again(Again{Name: "again", Loads: g.Loads[4:5], Only: []string{"default"}})
	if err != nil {
		t.Fatal(err)
	}
	g2, problems := testReader().ReadBytes("again.yaml", again)
	if g2 == nil || len(g2.Loads) != 1 || g2.Loads[0].String() != want[4] {
		t.Errorf("%v in\n%s", problems, again)
	}
	line, err := Record{Load: g.Loads[4], Values: Values{"running": 2}}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if err := r.UnmarshalJSON(line); err != nil || r.Load.String() != want[4] || len(r.Values) != 1 || strings.Contains(string(line), "concurrency") || !strings.Contains(string(line), `"request_rate":3.25`) {
		t.Errorf("%v, %v: %s", err, r.Values, line)
	}
}

// badAttach spoils a grid for a server that somebody else runs.
var badAttach = []badGrid{
	{name: "attach to no URL", add: "attach: localhost:30000\n", want: []string{`:5:9: attach "localhost:30000" is no URL of a server (write http://HOST:PORT)`}},
	{name: "attach with a path", add: "attach: http://h:1/v1\n", want: []string{`:5:9: attach "http://h:1/v1" has a path (write http://HOST:PORT: the routes below it are the engine's)`}},
	{name: "attach with a password", add: "attach: http://u:p@h:1\n", want: []string{`:5:9: attach holds a password, which would stand in files (take it out)`}},
	{name: "attach beside launches", add: "attach: http://h:1\ncommand: [x]\nserver: {tp-size: 8}\nsweep: {a: [1, 2]}\nhosts: [{gpus: all}]\n", want: []string{
		`:6:1: "command" has no meaning beside attach (take one of the two out: an attached server runs as it was started)`,
		`:7:1: "server" has no meaning beside attach (take one of the two out: an attached server runs as it was started)`,
		`:8:1: "sweep" has no meaning beside attach (take one of the two out: an attached server runs as it was started)`,
		`:9:1: "hosts" has no meaning beside attach (take one of the two out: an attached server runs as it was started)`,
	}},
	{name: "flush alone", add: "flush: true\n", want: []string{`:5:1: flush is of an attached server only (leave it out: the cache of sweep's own servers is always emptied between loads)`}},
	{name: "key without attach", add: "attach_key: LLM_KEY\n", want: []string{`:5:1: attach_key is of an attached server only (leave it out: sweep's own servers ask for no key)`}},
	{name: "the key itself", add: "attach: http://h:1\nattach_key: sk-12\n", want: []string{`:6:13: attach_key is no name of an environment variable (write attach_key: NAME, and put the key into the environment)`}},
	{name: "flush of another word", add: "attach: http://h:1\nflush: 3\n", want: []string{`:6:8: flush is true or false, not "3" (write true or false)`}},
}

// A grid for an attached server has one config, which starts nothing; the URL is part of what a cell is.
func TestAttach(t *testing.T) {
	t.Parallel()
	read := func(more string) (*Grid, string) {
		t.Helper()
		g, problems := testReader().ReadBytes("grid.yaml", []byte(goodGrid+more))
		if g == nil {
			t.Fatal(problems)
		}
		plan, err := g.Plan()
		if err != nil || len(plan.Launches) != 1 {
			t.Fatalf("%d launches, %v", len(plan.Launches), err)
		}
		jobs := plan.Probes(nil)
		if jobs[0].Attach != g.Attach || jobs[0].Flush != g.Flush {
			t.Errorf("job %+v", jobs[0])
		}
		return g, newManifest(plan, nil).Cells[0].ContentKey
	}
	g, key := read("attach: http://10.0.0.5:30000/\nflush: true\n")
	if g.Attach != "http://10.0.0.5:30000" || !g.Flush {
		t.Errorf("attach %q, flush %v", g.Attach, g.Flush)
	}
	if g, other := read("attach: http://10.0.0.5:30001\n"); other == key || g.Flush {
		t.Error("another server is the same cell, or flushed unasked")
	}
	if v, ok := asJSON(goodGrid + "attach: http://10.0.0.5:30000\nflush: false\n"); !ok || schema(t).Validate(v) != nil {
		t.Error("the schema refuses it")
	}
}
