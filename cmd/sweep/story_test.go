package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep/sweep"
)

// storyNight is a night of two cells in one launch.
func storyNight() (*sweep.Night, []sweep.PlannedCell) {
	load := func(n int) sweep.Load {
		return sweep.Load{Workload: "w", Pools: []sweep.Pool{{Class: "c", Concurrency: n}}}
	}
	cells := []sweep.PlannedCell{
		{Cell: "a=1/w,c=1", Repeat: 1, Launch: "a=1/repeat=1", Host: "local", Load: load(1)},
		{Cell: "a=1/w,c=2", Repeat: 1, Launch: "a=1/repeat=1", Host: "local", Load: load(2)},
		{Cell: "a=2/w,c=1", Repeat: 1, Launch: "a=2/repeat=1", Host: "local", Load: load(1)},
	}
	return &sweep.Night{Dir: "results/n", Manifest: sweep.Manifest{Repeats: 1, Hosts: []sweep.HostSpec{{Name: "local"}}, Cells: cells}}, cells
}

func TestStoryInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newStory(newLineView(&out, time.Now), time.Now)
		night, cells := storyNight()
		start := time.Now() // 2000-01-01 00:00:00 UTC in a bubble
		event := func(e sweep.Event) {
			e.At, e.Job, e.Attempt = time.Now(), "a=1/repeat=1", 1
			s.Event("local", e)
		}
		s.Begin(night, cells, nil)
		event(sweep.Event{Kind: sweep.EventLaunch})
		event(sweep.Event{Kind: sweep.EventPhase, Phase: sweep.PhaseWeights, Text: "weights 1/64 · 1.8/s"})
		event(sweep.Event{Kind: sweep.EventPhase, Phase: sweep.PhaseWeights, Text: "weights 62/64 · 1.8/s \x1b[2J"})
		time.Sleep(61 * time.Second)
		event(sweep.Event{Kind: sweep.EventReady, Text: "ready after 61 s"})
		event(sweep.Event{Kind: sweep.EventLoad, Cell: cells[0].Cell})
		time.Sleep(30 * time.Second)
		s.Record(sweep.Record{
			Cell: cells[0].Cell, Repeat: 1, Load: cells[0].Load, Host: "local", Ending: sweep.Ending{Outcome: sweep.OK},
			Values: sweep.Values{"output_throughput": 4918.4, "p99_ttft_ms": 1412}, StartedAt: start.Add(61 * time.Second), EndedAt: time.Now(),
		})
		s.Record(sweep.Record{
			Cell: cells[1].Cell, Repeat: 1, Load: cells[1].Load, Host: "local",
			Ending: sweep.Ending{Outcome: sweep.OOMPrefill, Detail: "device memory ran out \x1b[31m"},
		})
		event(sweep.Event{Kind: sweep.EventEnd, Outcome: sweep.OOMPrefill, Text: "device memory ran out \x1b[31m"}) // told a line above
		event(sweep.Event{Kind: sweep.EventEnd, Outcome: sweep.OOMPrefill, Text: "2 GiB short"})
		s.Lost("local", errors.New("the agent is gone"), false)
		s.interrupted("interrupt: stopping")
		s.End(sweep.Summary{})
		time.Sleep(5 * time.Minute) // no heartbeat after the end
		zone, _ := start.Zone()
		if zone != "UTC" {
			start = start.Local()
		}
		clock := func(d time.Duration) string { return start.Add(d).Format(time.TimeOnly) }
		// After the first record: one more load of 30 s with c=1, one with c=2 that is taken to last as long, two
		// launches' starts of 61 s, as the first launch still has a cell.
		want := []string{
			clock(0) + " night results/n: 3 cells to run in 2 starts",
			clock(0) + " launch a=1/repeat=1",
			clock(0) + " a=1/repeat=1: weights",
			clock(60*time.Second) + ` still at work: 0 of 3 cells · a=1/repeat=1 · weights 62/64 · 1.8/s \x1b[2J`,
			clock(61*time.Second) + " a=1/repeat=1: ready after 61 s",
			clock(61*time.Second) + " a=1/w,c=1: load",
			clock(91*time.Second) + " [1/3] a=1/w,c=1: 4,918 tok/s, p99 TTFT 1.41 s · done ≈ " + clock((91+60+61)*time.Second),
			clock(91*time.Second) + ` [2/3] a=1/w,c=2: oom.prefill: device memory ran out \x1b[31m · done ≈ ` + clock((91+30+61)*time.Second),
			clock(91*time.Second) + " a=1/repeat=1: the launch ended as oom.prefill",
			clock(91*time.Second) + " a=1/repeat=1: the launch ended as oom.prefill: 2 GiB short",
			clock(91*time.Second) + " the agent is gone; what it left is kept, the rest is handed over again",
			clock(91*time.Second) + " interrupt: stopping",
		}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for i := range max(len(got), len(want)) {
			var g, w string
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if g != w {
				t.Errorf("line %d\n got %s\nwant %s", i+1, g, w)
			}
		}
	})
}

// TestViews: a terminal is not told each step, and quiet means quiet until something is wrong.
func TestViews(t *testing.T) {
	var out bytes.Buffer
	v := quietView{&out}
	v.line("a line")
	v.step("a step")
	v.state("", 1, 2, nil)
	if out.Len() > 0 {
		t.Errorf("quiet says %q", out.String())
	}
	v.alert("wrong")
	v.end()
	if out.String() != "wrong\n" {
		t.Errorf("quiet says %q of what is wrong", out.String())
	}
	bars := newBarView(io.Discard) // that it ends, with bars that are not full
	bars.state("1 of 3 cells", 1, 3, map[string]*hostState{"local": {what: "a=1", text: "weights", share: 0.5}})
	bars.line("a line")
	bars.end()
}

func TestThousands(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 9.33: "9.3", 99.96: "100.0", 100: "100", 999.4: "999", 1317: "1,317", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := thousands(x); got != want {
			t.Errorf("%g: %s, want %s", x, got, want)
		}
	}
}

// TestStorySaysWhenTheNightEnds: at its begin, and instead of a time at which all would be done when that is later.
func TestStorySaysWhenTheNightEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newStory(newLineView(&out, time.Now), time.Now)
		night, cells := storyNight()
		night.Deadline = time.Now().Add(2 * time.Minute)
		s.Begin(night, cells, nil)
		began := time.Now()
		time.Sleep(50 * time.Second)
		for i, want := range []string{"ends by " + clockOf(time.Now(), night.Deadline) + ", before all is done", "done ≈ "} {
			s.Record(sweep.Record{Cell: cells[i].Cell, Repeat: 1, Load: cells[i].Load, Host: "local", Ending: sweep.Ending{Outcome: sweep.OK}, StartedAt: began, EndedAt: began.Add(50 * time.Second)})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if got := lines[len(lines)-1]; !strings.Contains(got, want) {
				t.Errorf("record %d: %s, want %q", i+1, got, want)
			}
		}
		s.End(sweep.Summary{})
		if want := "the night ends by " + clockOf(began, night.Deadline); !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %q", out.String(), want)
		}
	})
}
