package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"sweep/sweep"
)

// However a log's bytes arrive, and whatever they are, it is explained in the same way, and nothing that it says
// can harm a terminal.
func FuzzExplain(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/C*.log")
	if err != nil || len(files) == 0 {
		f.Fatalf("no logs: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 4000)])
		f.Add(data[max(0, len(data)-1500):])
	}
	f.Add([]byte(`{"log":"[2026-03-01 10:00:00 TP0] Decode batch, #running-req: 1\r 5%|x| 1/2 [00:01<00:02, 1.0it/s]\n","stream":"stderr"}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, engine := range append(Names(), "other", "") {
			q := Question{Engine: engine, File: "x"}
			whole, err := Explain(bytes.NewReader(log), q)
			if err != nil {
				t.Fatal(err)
			}
			single, err := Explain(iotest.OneByteReader(bytes.NewReader(log)), q)
			if err != nil || !reflect.DeepEqual(whole, single) {
				t.Errorf("%s: byte by byte %+v, at once %+v, %v", engine, single, whole, err)
			}
			if strings.ContainsAny(fmt.Sprint(whole.Evidence, whole.Detail, whole.Remarks, whole.Next, whole.Facts), "\x00\x1b\r") {
				t.Errorf("control characters: %+v", whole)
			}
			q.Exit = &sweep.Exit{Code: 1}
			if dead, err := Explain(bytes.NewReader(log), q); err != nil || dead.Outcome == nil {
				t.Errorf("%s: a dead server without an outcome: %+v %v", engine, dead, err)
			}
		}
	})
}

// What is kept does not grow with the log, whatever it repeats.
func TestKeptIsBounded(t *testing.T) {
	var b book
	b.open("sglang")
	line := func(i int) []byte {
		return fmt.Appendf(nil, "[2026-03-01 %02d:%02d:%02d TP%d] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: NCCL error: number %d\n[2026-03-01 10:00:00 DP%d TP0] Decode batch, #running-req: 1, field%d: 3, gen throughput (token/s): 9.00\n(W%d pid=%d) ERROR 03-01 10:00:00 [a.py:1] Traceback (most recent call last):\nKV cache pool is full. Retract requests.\n",
			i/3600%24, i/60%60, i%60, i, i, i, i, i, i)
	}
	for i := range 20000 {
		b.feed(line(i))
	}
	c, r := b.chapter, b.inner
	for what, n := range map[string]int{"first signs": len(c.signs) - keptFirst, "last signs": len(c.last) - keptLast, "phases": len(c.phases) - keptPhases, "stamps": len(c.stamps) - 16,
		"speeds": len(c.speeds.list) - maxSpeeds, "replicas": len(c.speeds.replicas) - maxRanks, "names": len(r.names.fields) - maxNames, "traces": len(r.traces) - maxRanks,
		"pids": len(r.pids) - maxPIDs, "ranks": len(r.phases) - maxRanks, "prefixes": len(r.transport.learned) - maxLearned} {
		if n > 0 {
			t.Errorf("%s: %d too many", what, n)
		}
	}
	if _, listed := c.stated()["decode_throughput"]; listed {
		t.Error("a list without its middle")
	}
	if len(c.signs) != keptFirst || len(c.last) != keptLast || c.last[keptLast-1].Line < 19999*5 {
		t.Errorf("kept %d and %d signs", len(c.signs), len(c.last))
	}
}

func TestDetect(t *testing.T) {
	for _, l := range labels(t) {
		data, err := os.ReadFile(filepath.Join("testdata/cases", l.File))
		if err != nil {
			t.Fatal(err)
		}
		if got := Detect(data); got != l.Engine && l.File != "C31.log" { // a hub's error alone
			t.Errorf("%s: have %q, want %s", l.File, got, l.Engine)
		}
	}
}
