package gpu

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// polls is a machine whose memory in use changes with each look.
type polls struct {
	used  []int64 // MiB; the last one stays
	err   error   // of the first look
	looks int
}

// Devices implements [Lister].
func (p *polls) Devices(context.Context) ([]Device, error) {
	i := min(p.looks, len(p.used)-1)
	p.looks++
	if p.err != nil && p.looks == 1 {
		return nil, p.err
	}
	if p.used[i] < 0 {
		return nil, nil
	}
	return []Device{{UUID: "a", MemoryTotal: new(int64(100_000 * mib)), MemoryUsed: new(p.used[i] * mib)}}, nil
}

func TestWaitBaseline(t *testing.T) {
	tests := []struct {
		name    string
		p       polls
		seconds float64 // of the report
		took    time.Duration
		polls   int
		err     error
		over    int64 // MiB at the end
	}{
		{"clean", polls{used: []int64{1004}}, 0, 2 * pollEvery, 3, nil, 0},
		{"within 1 % of a large card", polls{used: []int64{2000}}, 0, 2 * pollEvery, 3, nil, 0},
		{"comes back", polls{used: []int64{90_000, 20_000, 1004}}, 2 * pollEvery.Seconds(), 4 * pollEvery, 5, nil, 0},
		{"goes up again", polls{used: []int64{1004, 1004, 9000, 1004}}, 3 * pollEvery.Seconds(), 5 * pollEvery, 6, nil, 0},
		{"one look fails", polls{used: []int64{1004}, err: ErrHung}, pollEvery.Seconds(), 3 * pollEvery, 4, nil, 0},
		{"stays", polls{used: []int64{9000}}, 10, 10 * time.Second, 0, ErrDirty, 8000},
		{"off the bus", polls{used: []int64{-1}}, 10, 10 * time.Second, 0, ErrDirty, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				r, err := WaitBaseline(ctx, &tt.p, Baseline{"a": 1000 * mib})
				if !errors.Is(err, tt.err) || r.Seconds != tt.seconds || time.Since(began) != tt.took || tt.polls > 0 && r.Polls != tt.polls {
					t.Errorf("%+v after %v, %v", r, time.Since(began), err)
				}
				over, ok := r.Over["a"]
				if over > 0 {
					over /= mib
				}
				if over != tt.over || ok != (tt.err != nil) {
					t.Errorf("over %v", r.Over)
				}
			})
		})
	}
	if r, err := WaitBaseline(t.Context(), nil, nil); err != nil || r.Polls != 0 {
		t.Errorf("a machine without devices: %+v, %v", r, err)
	}
}

func TestOverSmallCard(t *testing.T) {
	t.Parallel()
	b := Baseline{"a": 10 * mib}
	card := func(used int64) []Device {
		return []Device{{UUID: "a", MemoryTotal: new(int64(8192 * mib)), MemoryUsed: new(used * mib)}, {UUID: "b", MemoryUsed: new(int64(5000 * mib))}, {UUID: "c"}}
	}
	if over := b.Over(card(10 + 256)); len(over) != 0 {
		t.Errorf("within 256 MiB: %v", over)
	}
	if over := b.Over(card(10 + 257)); over["a"] != 257*mib || len(over) != 1 {
		t.Errorf("beyond 256 MiB: %v", over)
	}
	if u := Used(card(3)); len(u) != 2 || u["a"] != 3*mib {
		t.Errorf("used %v", u)
	}
}

// The driver of an H200 kept 20 GB for 7 s after a server's end, as it was recorded; the wait ends when they are back and
// not before.
func TestWaitBaselineRecorded(t *testing.T) {
	b, err := os.ReadFile("testdata/h200_after_exit.txt")
	if err != nil {
		t.Fatal(err)
	}
	var p polls
	for line := range strings.Lines(string(b)) {
		if _, text, ok := strings.Cut(line, ", "); ok && !strings.Contains(text, "memory") {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			p.used = append(p.used, n, n) // one look a second was recorded, and two are made
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r, err := WaitBaseline(t.Context(), &p, Baseline{"a": 0})
		if want := float64(len(p.used)-2) * pollEvery.Seconds(); err != nil || r.Seconds != want || want < 7 {
			t.Errorf("clean after %v s, want %v: %v", r.Seconds, want, err)
		}
	})
}
