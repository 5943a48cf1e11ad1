package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// absent makes the second of a world's two hosts one that is not reached for so long, and has each step of a launch take a minute.
func absent(t *testing.T, w *world, until time.Duration, final bool, devices ...string) {
	t.Helper()
	w.plan.Grid.Hosts[1].GPUs = devices
	began := time.Now()
	for _, h := range w.hosts {
		h.dies = func(string) bool { time.Sleep(time.Minute); return false }
	}
	w.hosts[1].opens = func() error {
		if time.Since(began) < until {
			return &LinkError{Err: errors.New("no route to host"), Final: final}
		}
		return nil
	}
}

// once holds that nothing was measured twice, and counts the records of each host and outcome.
func (w *world) once() map[string]int {
	w.t.Helper()
	for _, h := range w.hosts {
		for cell, n := range h.measured {
			if n += w.hosts[0].measured[cell]; h != w.hosts[0] && n > 1 {
				w.t.Errorf("%s was measured %d times", cell, n)
			}
		}
	}
	counts := map[string]int{}
	for _, r := range w.records() {
		counts[fmt.Sprint(r.Host, " ", r.Outcome)]++
	}
	return counts
}

const forever = 1000 * time.Hour

// TestHostThatIsAway: a night goes on without a host that is not reached at its start, says so once, tries it again, and
// leaves no cell without an outcome.
func TestHostThatIsAway(t *testing.T) {
	const half = testCells / 2
	for _, c := range []struct {
		name    string
		until   time.Duration
		final   bool
		devices []string // of the host that is away, where those of the other differ
		code    int
		quick   bool     // the other host is done at once
		links   []string // what is said, in order: each holds this
		counts  func(map[string]int) bool
	}{
		{
			name: "comes back", until: 4 * time.Minute, code: codeResults, links: []string{"not reached (no route to host); the night goes on", "reached after"},
			counts: func(n map[string]int) bool { return n["gpu2 ok"] > 0 && n["gpu1 ok"]+n["gpu2 ok"] == testCells },
		},
		{
			name: "comes back, other devices", until: 5 * time.Minute, devices: []string{"0"}, code: codeResults,
			links:  []string{"wait for it, as no other host has the same devices", "reached after"},
			counts: func(n map[string]int) bool { return n["gpu2 ok"] >= half-1 && n["gpu1 ok"]+n["gpu2 ok"] == testCells },
		},
		{
			name: "never comes", until: forever, code: codeResults, links: []string{"hosts with the same devices take its 4 launches when they have done their own"},
			counts: func(n map[string]int) bool { return n["gpu1 ok"] == testCells },
		},
		{
			name: "never comes, other devices", until: forever, devices: []string{"0"}, code: codeOther,
			links: []string{"no other host has the same devices", "launches are without a result, as infra.ssh; resume"},
			counts: func(n map[string]int) bool {
				return n["gpu2 infra.ssh"] > 0 && n["gpu1 ok"]+n["gpu2 infra.ssh"] == testCells
			},
		},
		{
			name: "comes back when the other is done", until: 8 * time.Minute, quick: true, devices: []string{"0"}, code: codeResults,
			links:  []string{"no other host has the same devices", "reached after 8m"},
			counts: func(n map[string]int) bool { return n["gpu2 ok"] >= half-1 && n["gpu1 ok"]+n["gpu2 ok"] == testCells },
		},
		{
			name: "comes back too late", until: 20 * time.Minute, quick: true, devices: []string{"0"}, code: codeOther,
			links:  []string{"no other host has the same devices", "infra.ssh"},
			counts: func(n map[string]int) bool { return n["gpu1 ok"]+n["gpu2 infra.ssh"] == testCells },
		},
		{
			name: "refuses", until: forever, final: true, code: codeResults, links: []string{"no further try can help: no route", "its 4 launches go to other hosts"},
			counts: func(n map[string]int) bool { return n["gpu1 ok"] == testCells },
		},
		{
			name: "refuses, other devices", until: forever, final: true, devices: []string{"0"}, code: codeOther, links: []string{"no further try can help", "infra.ssh"},
			counts: func(n map[string]int) bool {
				return n["gpu2 infra.ssh"] > 0 && n["gpu1 ok"]+n["gpu2 infra.ssh"] == testCells
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "gpu1", "gpu2")
				absent(t, w, c.until, c.final, c.devices...)
				if c.quick {
					w.hosts[0].dies, w.hosts[1].dies = nil, nil
				}
				began := time.Now()
				s, err := w.run(t.Context(), t.Context())
				took := time.Since(began)
				if counts := w.once(); err != nil || s.Code() != c.code || !c.counts(counts) {
					t.Errorf("code %d, %v; records %v", s.Code(), err, counts)
				}
				if work := time.Duration(len(w.hosts[0].events)+len(w.hosts[1].events)) * time.Minute; !c.quick && took > work {
					t.Errorf("it took %v, and the work of all %v", took, work)
				} else if c.quick && took > awayPatience+2*awayMost {
					t.Errorf("it was tried for %v", took)
				}
				if len(w.heard.links) != len(c.links) {
					t.Errorf("said %q, want %q", w.heard.links, c.links)
				}
				for i, want := range c.links[:min(len(c.links), len(w.heard.links))] {
					if got := w.heard.links[i]; !strings.HasPrefix(got, "gpu2 ") || !strings.Contains(got, want) {
						t.Errorf("said %q, want %q", got, want)
					}
				}
				if c.code == codeResults {
					return
				}
				w.hosts[1].opens = nil // the next day
				if s, err := w.run(t.Context(), t.Context()); err != nil || s.Code() != codeResults || s.Outcomes[OK] != testCells {
					t.Errorf("resume: %+v, %v", s, err)
				}
				w.once()
			})
		})
	}
}

// TestNoHostIsThere: where no host is reached that has something to do, nothing runs, and each has its reason.
func TestNoHostIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "gpu1", "gpu2")
		absent(t, w, forever, false)
		w.hosts[0].opens = func() error { return &LinkError{Err: errors.New("it lets nobody in"), Final: true} }
		_, err := w.run(t.Context(), t.Context())
		if err == nil || err.Error() != "host gpu1: it lets nobody in\nhost gpu2: no route to host" {
			t.Errorf("%v", err)
		}
		if len(w.hosts[0].events)+len(w.hosts[1].events) > 0 || w.heard.begins > 0 {
			t.Error("something ran")
		}
	})
}

// TestAwayAndAtWork: what an earlier process handed to a host that is not reached now, the host may be at work on: it waits
// for that host, unless its agent is known to have stopped. What was handed elsewhere and is at work there stays there.
func TestAwayAndAtWork(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%t", stopped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "gpu1", "gpu2")
				absent(t, w, forever, false)
				n := w.open()
				i := slices.IndexFunc(n.Manifest.Cells, func(c PlannedCell) bool { return c.Host == "gpu2" })
				launch := n.Manifest.Cells[i].Launch
				err := n.Note(JournalEntry{Kind: JournalSubmit, Host: "gpu2", Jobs: []string{launch}})
				if stopped {
					err = errors.Join(err, n.Note(JournalEntry{Kind: JournalStop, Host: "gpu2", Text: AgentStopped}))
				}
				if err := errors.Join(err, n.Close()); err != nil {
					t.Fatal(err)
				}
				s, err := w.run(t.Context(), t.Context())
				want := map[bool]int{true: 0, false: 3}[stopped]
				if err != nil || s.Outcomes[InfraSSH] != want || s.Outcomes[OK] != testCells-want {
					t.Fatalf("%+v, %v", s, err)
				}
				for _, r := range w.records() {
					if c := w.cell(r); !stopped && (r.Outcome == InfraSSH) != (c == launch) {
						t.Errorf("%s of %s ended as %s", r.Cell, c, r.Outcome)
					}
				}
				w.once()
			})
		})
	}
}

// cell is the launch of a record's cell.
func (w *world) cell(r Record) string {
	w.t.Helper()
	m, err := ReadManifest(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range m.Cells {
		if c.Cell == r.Cell && c.Repeat == r.Repeat {
			return c.Launch
		}
	}
	w.t.Fatalf("%s is not planned", r.Cell)
	return ""
}
