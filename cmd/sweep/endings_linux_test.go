package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// ending is what the records of a config must say.
type ending struct {
	outcome sweep.Outcome
	phase   sweep.Phase // "": any
	cause   string
	texts   []string // parts of the detail, the evidence or the notes
	signal  int      // that ended the server; 0: not looked at
	by      string   // who sent it
	attempt int      // 0: not looked at
	nothing bool     // no rate may be there
}

// endingsHead begins each grid of these nights; the card is that of the profile llama-8b-24gb, 24 GB with 16 GB of weights.
const endingsHead = `engine: sglang
model: meta-llama/Llama-3.1-8B-Instruct
command: [sweep, simulate, sglang, --profile, %[1]s, --speedup, "%[2]d"]
hosts: [{simulate: %[1]s}]
server: {decode-log-interval: 10}
workloads:
  chat: {classes: {short: {input: 40..60, output: 20..40}}}
  docs: {classes: {long: {input: 5k..7k, output: 20..40}}}
measure: {warmup: 100ms, window: %[3]s}
drift: off
`

const (
	shortWindow   = "{min: 1s, max: 2s}"
	longestWindow = "{min: 4s, max: 6s}" // longer than the limit of silence
)

// endingNights are all the endings that the simulator can produce, each in a whole night:
//
//	ok · oom.weights oom.kv oom.graph oom.warmup oom.prefill oom.decode · kv.too_small kv.exhausted · host.short
//	host.killed · bad.flag bad.model · busy.gpu (at the gate; a number withheld; an out-of-memory that is no result) ·
//	hang.start hang.load (silent, and with keep-alive comments) · slow.start · crash.start crash.load (of itself, and by
//	SIGKILL from outside: TestKilledFromOutside) · load.failed load.rejected · skipped.preflight skipped.implied
//
// busy.port is TestTakenPort's, aborted is TestInterrupt's, infra.disk and infra.lost are those of TestFullDisk and
// TestKilledNight.
var endingNights = []struct {
	name, profile string
	speedup       int
	window        string // empty: shortWindow
	grid          string
	want          map[string]ending // by config, and with "@WORKLOAD,CLASS=LEVEL" for one of its loads
}{
	{"too little and too much", "llama-8b-24gb", 60, "", `load: [{workload: chat, concurrency: [2]}]
sweep: {mem-fraction-static: [0.05, 0.80, 0.985, 0.99, 1.1]}
baseline: {mem-fraction-static: 0.80}
`, map[string]ending{
		"mem-fraction-static=0.05":  {outcome: sweep.KVTooSmall, phase: sweep.PhaseKV, texts: []string{"raise mem-fraction-static", "Loaded weights leave no GPU memory"}, nothing: true},
		"mem-fraction-static=0.80":  {outcome: sweep.OK},
		"mem-fraction-static=0.985": {outcome: sweep.OOMWarmup, phase: sweep.PhaseWarmup, texts: []string{"OutOfMemoryError"}},
		"mem-fraction-static=0.99":  {outcome: sweep.OOMGraph, phase: sweep.PhaseGraph, texts: []string{"out of memory"}},
		"mem-fraction-static=1.1":   {outcome: sweep.OOMKV, phase: sweep.PhaseKV, texts: []string{"device memory ran out while the KV pool was allocated", "OutOfMemoryError"}, nothing: true},
	}},
	{"starts", "llama-8b-24gb", 60, "", `load: [{workload: chat, concurrency: [2]}]
limits: {stall: 2s, start: 2m}
include:
  - {label: hangs, fault: hang@weights}
  - {label: dies, fault: die@graph}
  - {label: no-flag, fault: "refuse:chunked-prefill-size", chunked-prefill-size: 1024}
  - {label: no-model, fault: no-model}
  - {label: kernel, fault: oom-kill@weights}
  - {label: crowd, fault: "crowd@dist:40", hicache-size: 16}
  - {label: arithmetic, hicache-size: 100}
`, map[string]ending{
		"hangs":      {outcome: sweep.HangStart, phase: sweep.PhaseWeights, texts: []string{"no progress"}, signal: 9, by: "sweep", attempt: 2},
		"dies":       {outcome: sweep.CrashStart, phase: sweep.PhaseGraph, attempt: 2},
		"no-flag":    {outcome: sweep.BadFlag, texts: []string{"chunked-prefill-size"}, attempt: 1},
		"no-model":   {outcome: sweep.BadModel, texts: []string{"is not a valid JSON file"}, attempt: 1},
		"kernel":     {outcome: sweep.HostKilled, phase: sweep.PhaseWeights, texts: []string{"Killed process", "kernel.log"}, attempt: 1},
		"crowd":      {outcome: sweep.HostShort, texts: []string{"Not enough host memory available"}, attempt: 1},
		"arithmetic": {outcome: sweep.SkippedPreflight, phase: sweep.PhaseGate, texts: []string{"100", "host memory"}, attempt: 1},
	}},
	{"loads", "llama-8b-24gb", 30, "", `load: [{workload: chat, concurrency: [4]}]
limits: {load_stall: 2s, stop: 2s}
include:
  - {label: crashes, fault: crash@12}
  - {label: kernel, fault: oom-kill@12}
  - {label: full, max-running-requests: 1, max-queued-requests: 1}
  - {label: empty, fault: empty@12}
  - {label: exhausted, fault: exhaust@12}
`, map[string]ending{
		"crashes":   {outcome: sweep.CrashLoad, phase: sweep.PhaseLoad, texts: []string{"exit code -9"}, attempt: 2, nothing: true},
		"kernel":    {outcome: sweep.HostKilled, phase: sweep.PhaseLoad, texts: []string{"Killed process", "kernel.log"}, attempt: 1, nothing: true},
		"full":      {outcome: sweep.LoadRejected, texts: []string{"The request queue is full"}, attempt: 1, nothing: true},
		"empty":     {outcome: sweep.LoadFailed, phase: sweep.PhaseLoad, texts: []string{"requests fail"}, attempt: 2, nothing: true},
		"exhausted": {outcome: sweep.KVExhausted, phase: sweep.PhaseLoad, texts: []string{"Prefill out of memory"}, attempt: 2, nothing: true},
	}},
	{"silence and noise", "llama-8b-24gb", 30, longestWindow, `load: [{workload: chat, concurrency: [4]}]
limits: {load_stall: 2s, stop: 2s}
include:
  - {label: healthy, mem-fraction-static: 0.80}
  - {label: mute, fault: mute@12}
  - {label: comments, fault: keep-alive@12}
  - {label: one-token, fault: garbage}
  - {label: other-words, fault: babble}
  - {label: secretly-on, hicache-size: off, fault: "force:enable-hierarchical-cache", hicache-ratio: 1.1}
  - {label: unused, hicache-size: 16}
baseline: {label: healthy}
`, map[string]ending{
		"healthy":     {outcome: sweep.OK, attempt: 1},
		"mute":        {outcome: sweep.HangLoad, phase: sweep.PhaseLoad, texts: []string{"no byte of an answer"}, signal: 9, by: "sweep", attempt: 2, nothing: true},
		"comments":    {outcome: sweep.HangLoad, phase: sweep.PhaseLoad, signal: 9, by: "sweep", attempt: 2, nothing: true},
		"one-token":   {outcome: sweep.OK, texts: []string{"output_suspect: 5 of 5 greedy answers are empty or one token"}},
		"other-words": {outcome: sweep.OK, texts: []string{"output_suspect: 5 of 5 greedy answers differ from the baseline's"}},
		"secretly-on": {outcome: sweep.OK, texts: []string{"mislabelled: hicache-size is off here, but in effect on"}},
		"unused":      {outcome: sweep.OK, texts: []string{"hicache_inert: ", "share nothing"}},
	}},
	{"prompts", "llama-8b-24gb", 30, "", `load: [{workload: docs, concurrency: [2, 4]}]
sweep: {mem-fraction-static: [0.96]}
`, map[string]ending{
		"mem-fraction-static=0.96@docs,long=2": {outcome: sweep.OOMPrefill, phase: sweep.PhaseLoad, texts: []string{"OutOfMemoryError"}, attempt: 1, nothing: true},
		"mem-fraction-static=0.96@docs,long=4": {outcome: sweep.SkippedImplied, texts: []string{"oom.prefill"}, attempt: 1},
	}},
	{"batches", "llama-8b-24gb", 10, "", `load: [{workload: chat, concurrency: [128]}]
include: [{label: wide, mem-fraction-static: 0.993, disable-cuda-graph: true, chunked-prefill-size: 256}]
`, map[string]ending{
		"wide": {outcome: sweep.OOMDecode, phase: sweep.PhaseLoad, texts: []string{"OutOfMemoryError"}, attempt: 1, nothing: true},
	}},
	{"weights", "kimi-k2.5-8xrtx6000", 100, "", `load: [{workload: chat, concurrency: [2]}]
include: [{label: four, tp-size: 4}]
`, map[string]ending{
		"four": {outcome: sweep.OOMWeights, phase: sweep.PhaseWeights, texts: []string{"OutOfMemoryError"}, attempt: 1},
	}},
	{"slow", "llama-8b-24gb", 60, "", `load: [{workload: chat, concurrency: [2]}]
limits: {start: 8s, stall: 6s}
include: [{label: slow, fault: "slow@weights:200"}]
`, map[string]ending{
		"slow": {outcome: sweep.SlowStart, texts: []string{"still made progress"}, attempt: 1},
	}},
	{"a guest", "llama-8b-24gb", 30, "", `load: [{workload: chat, concurrency: [4]}]
include: [{label: visited, fault: "stranger@12:1"}, {label: late, mem-fraction-static: 0.80}]
`, map[string]ending{
		"visited": {outcome: sweep.BusyGPU, phase: sweep.PhaseGate, texts: []string{"process 1 (user root, python3 train.py) holds 1024 MiB on GPU 0"}, attempt: 3, nothing: true},
		"late":    {outcome: sweep.BusyGPU, phase: sweep.PhaseGate, texts: []string{"process 1 (user root"}, attempt: 3},
	}},
	{"a robber", "llama-8b-24gb", 30, "", `load: [{workload: chat, concurrency: [4]}]
include: [{label: robbed, fault: "stranger@12:20"}]
`, map[string]ending{
		"robbed": {outcome: sweep.BusyGPU, attempt: 3, nothing: true},
	}},
}

// TestEndings runs a night for each group of endings, side by side.
func TestEndings(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nights")
	}
	t.Parallel()
	for _, n := range endingNights {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.grid(fmt.Sprintf(endingsHead, n.profile, n.speedup, cmp.Or(n.window, shortWindow)) + n.grid)
			code, said := b.run("run", "grid.yaml")
			if code != exitOK && code != exitOther {
				t.Fatalf("exit code %d: %s", code, said)
			}
			records, err := sweep.ReadRecords(b.night())
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range records {
				name := r.Config
				want, ok := n.want[name]
				if !ok {
					name += "@" + r.Load.String()
					want, ok = n.want[name]
				}
				seen[name] = true
				if !ok && r.Config != "default" {
					t.Errorf("nobody asked for %s: %s", name, r.Outcome)
				} else if ok {
					r.Attempt -= b.takenPorts(r)
					want.check(t, name, r)
				}
			}
			for name := range n.want {
				if !seen[name] {
					t.Errorf("%s has no record", name)
				}
			}
			if len(portsOf(b.night())) > 0 { // else no server was started
				b.nothingLeft()
			}
			if t.Failed() {
				t.Log(said)
			}
		})
	}
}

// check holds a record against what it must say.
func (e ending) check(t *testing.T, name string, r sweep.Record) {
	t.Helper()
	if r.Outcome == sweep.ClientBound && e.outcome == sweep.OK { // this machine was busy
		r.Outcome = sweep.OK
	}
	text := r.Detail + "\n" + strings.Join(r.Notes, "\n")
	if r.Evidence != nil {
		text += "\n" + r.Evidence.File + "\n" + r.Evidence.Text
	}
	if r.Outcome != e.outcome || e.phase != "" && r.Phase != e.phase || r.Cause != e.cause && e.cause != "" || e.attempt > 0 && r.Attempt != e.attempt {
		t.Errorf("%s: %s in phase %s (cause %q, attempt %d), want %s in %s (%q, %d)\n%s", name, r.Outcome, r.Phase, r.Cause, r.Attempt, e.outcome, e.phase, e.cause, e.attempt, text)
		return
	}
	for _, part := range e.texts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q is not in\n%s", name, part, text)
		}
	}
	if e.signal > 0 && (r.Exit == nil || r.Exit.Signal != e.signal || r.Exit.By != e.by) {
		t.Errorf("%s: exit %+v, want signal %d by %q", name, r.Exit, e.signal, e.by)
	}
	if v, ok := r.Values["output_throughput"]; ok && e.nothing {
		t.Errorf("%s: a rate of %v", name, v)
	}
}

// takenPorts counts the attempts before a record's that met a port of another test, which takes them on purpose.
func (b *bed) takenPorts(r sweep.Record) int {
	n := 0
	for i := 1; i < r.Attempt; i++ {
		var l sweep.LaunchResult
		data, err := os.ReadFile(filepath.Join(b.night(), filepath.Dir(r.Dir), fmt.Sprintf("attempt=%d", i), "launch.json"))
		if err == nil && json.Unmarshal(data, &l) == nil && l.Outcome == sweep.BusyPort {
			n++
		}
	}
	return n
}

// grid replaces the bed's grid.
func (b *bed) grid(text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "grid.yaml"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// portsOf are the ports that the night's launches were given.
func portsOf(night string) []string {
	var ports []string
	scripts, _ := filepath.Glob(filepath.Join(night, "launches", "*", "*", "*", "server.log"))
	for _, path := range scripts {
		ports = append(ports, filepath.Dir(path))
	}
	return ports
}

// TestHealthyUntilTheLargePrompt is the trap of the founding story: the server says 200 to every question for its
// health and dies in its first large prefill.
func TestHealthyUntilTheLargePrompt(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	b.grid(fmt.Sprintf(endingsHead, "llama-8b-24gb", 30, shortWindow) + "load: [{workload: docs, concurrency: [2]}]\nsweep: {mem-fraction-static: [0.96]}\n")
	if code, said := b.run("run", "grid.yaml"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, said)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil || len(records) != 1 || records[0].Outcome != sweep.OOMPrefill {
		t.Fatalf("%+v, %v", records, err)
	}
	log, err := os.ReadFile(filepath.Join(b.night(), records[0].Evidence.File))
	if err != nil {
		t.Fatal(err)
	}
	healthy, died := strings.Index(string(log), `"GET /health HTTP/1.1" 200`), int(records[0].Evidence.Offset)
	if healthy < 0 || healthy > died {
		t.Errorf("no healthy answer (at %d) before the end (at %d)", healthy, died)
	}
}

// TestKilledFromOutside kills the server itself while it is under load, each time it is started: a crash with the
// cause killed, whose sender nobody knows. It is neither our own kill nor proved to be the kernel's.
func TestKilledFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	b.grid(fmt.Sprintf(endingsHead, "llama-8b-24gb", 20, shortWindow) + "load: [{workload: chat, concurrency: [4]}]\ninclude: [{label: killed, mem-fraction-static: 0.80}]\n")
	cmd, said := b.sweep("run", "grid.yaml")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() { done <- exitCode(cmd) }()
	killed := map[string]bool{}
	for {
		select {
		case code := <-done:
			if code != exitOther {
				t.Errorf("exit code %d: %s", code, said)
			}
			b.checkKilled()
			return
		case <-time.After(20 * time.Millisecond):
		}
		under, err := filepath.Glob(filepath.Join(b.dir, "results", "*", "launches", "*", "*", "attempt=*", "load=*.part"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range under {
			dir := filepath.Dir(part)
			owner, err := proc.ReadOwner(filepath.Join(dir, "owner.json"))
			if err == nil && !killed[dir] {
				killed[dir] = true
				_ = owner.Server.Signal(syscall.SIGKILL) // our own test's server
			}
		}
	}
}

func (b *bed) checkKilled() {
	b.t.Helper()
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(records, func(r sweep.Record) bool { return r.Config == "killed" })
	if i < 0 {
		b.t.Fatalf("no record of the config: %+v", records)
	}
	ending{outcome: sweep.CrashLoad, phase: sweep.PhaseLoad, cause: "killed", signal: 9, attempt: 2, nothing: true, texts: []string{"SIGKILL"}}.check(b.t, "killed", records[i])
	var r map[string]any
	if data, err := json.Marshal(records[i]); err != nil || json.Unmarshal(data, &r) != nil || r["cause"] != "killed" {
		b.t.Errorf("cells.jsonl says %v, %v", r["cause"], err)
	}
	b.nothingLeft()
}
