package agent

import (
	"fmt"
	"strings"
	"testing"

	"sweep/sweep"
)

// TestBreakerStopsANight: launches that fail alike at their start, or for the machine, end a night before its time; each
// cell says why, and an agent that is started again begins to count anew.
func TestBreakerStopsANight(t *testing.T) {
	tests := []struct {
		how          string
		jobs, starts int // jobs of the night, and those that are started
		outcome      sweep.Outcome
		says         string
	}{
		{"crashes", 7, breakStart, sweep.CrashStart, "5 configs in a row failed to start in the same way: crash.start"},
		{"port-taken", 4, breakMachine, sweep.BusyPort, "3 launches in a row ended in trouble of this machine, the last with: busy.port"},
		{"dies", 7, 7, sweep.OOMGraph, ""}, // each is a result
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			n := newNight(t)
			var jobs []sweep.Job
			for i := range tt.jobs {
				j := n.job(tt.how, "a@1")
				j.Config.Key = fmt.Sprintf("mem=%d", i)
				j.Config.Axes = sweep.Params{{Name: "mem", Value: fmt.Sprint(i)}}
				j.ID = j.Config.Key + "/repeat=1"
				j.Loads[0].Cell, j.Loads[0].ContentKey = j.Config.Key+"/a", j.Config.Key
				jobs = append(jobs, j)
			}
			n.submit(jobs...)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, j := range jobs {
				all := n.launches(j)
				last := all[len(all)-1]
				want := tt.outcome
				if i >= tt.starts {
					want = sweep.SkippedBreaker
				}
				if last.Outcome != want || last.Loads[0].Outcome != want || last.Loads[0].State != stateDone {
					t.Errorf("launch %d: %s, its load %+v; want %s", i+1, last.Outcome, last.Loads, want)
				}
				if i >= tt.starts && (len(all) != 1 || !strings.Contains(last.Detail, tt.says)) {
					t.Errorf("launch %d: %d attempts, %s; want %q", i+1, len(all), last.Detail, tt.says)
				}
			}
		})
	}
}
