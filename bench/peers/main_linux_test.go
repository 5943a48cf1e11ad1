package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain lets the tests start this program in its two other roles.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-raw") {
		main()
		return
	}
	os.Exit(m.Run())
}

// The whole way with the bare reader: server, clients, log, tables.
func TestBench(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("the server and the clients need a core each")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	small := benchCase{Name: "spread-100", Streams: 5, Requests: 10, Tokens: 10, Query: "pattern=spread&first_us=20000&gap_us=5000"}
	fl := flood(16, 64)
	b := &bench{
		o: options{repeats: 1, out: out, core: 0, serverCore: 1}, log: slog.New(slog.DiscardHandler), self: self,
		tools: []tool{rawTool(self, "user"), rawTool(self, "kernel"), {Name: "broken", Role: peer, Native: true, argv: func(job) []string { return []string{self, "-raw", "nonsense"} }, read: rawTool(self, "user").read}},
		cases: []benchCase{small, fl},
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.results) != 6 {
		t.Fatalf("%d results", len(b.results))
	}
	for _, r := range b.results {
		if broken := r.Tool.Name == "broken"; broken == r.good() {
			t.Errorf("%s, %s: %q", r.Case.Name, r.Tool.Name, r.Exit)
			continue
		} else if broken {
			continue
		}
		if r.CPULoadS <= 0 || r.CPULoadS > r.CPUTotalS+0.02 || r.PeakRSS < r.PeakAnon || r.PeakAnon <= 0 || r.StartS <= 0 || r.StartS > 10 || r.LoadS <= 0 || r.LoadS > r.WallS+0.1 {
			t.Errorf("%s, %s: %+v", r.Case.Name, r.Tool.Name, r)
		}
		if e, ok := r.Errors["ttft_mean"]; ok == r.Case.Flood || e < 0 || e > 50 {
			t.Errorf("%s, %s: TTFT error %v (%v)", r.Case.Name, r.Tool.Name, e, ok)
		}
		if r.Case.Flood && r.Events < fl.events() {
			t.Errorf("%s: %d events", r.Tool.Name, r.Events)
		}
	}
	for _, name := range []string{"table.md", "runs.csv", "versions.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), "R kernel") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	u := usage{started: time.Unix(0, 100), samples: []sample{{200, 50}, {300, 150}}}
	for _, c := range []struct{ from, to, want int64 }{{100, 200, 50}, {150, 250, 75}, {200, 999, 100}} {
		if got := u.between(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}

// The CPU time and the memory of a child are seen while it runs.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	u, err := measure(t.Context(), []string{"sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3"}, dir, 0, time.Minute)
	if err != nil || u.exit != "exit status 3" || u.cpu <= 0 || u.peakRSS <= 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	all := time.Duration(u.between(u.started.UnixNano(), u.started.Add(u.wall).UnixNano()))
	if all < u.cpu*8/10 || all > u.cpu*12/10+20*time.Millisecond {
		t.Errorf("sampled %v of %v", all, u.cpu)
	}
	slow, err := measure(t.Context(), []string{"sleep", "30"}, dir, 0, 50*time.Millisecond)
	if err != nil || slow.exit == "" || slow.wall > 20*time.Second {
		t.Errorf("a client that takes too long: %+v, %v", slow, err)
	}
	if _, err := measure(t.Context(), []string{filepath.Join(dir, "none")}, dir, 0, time.Second); err == nil {
		t.Error("no error for a command that does not exist")
	}
}
