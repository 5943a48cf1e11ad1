package report

import (
	"strings"
	"testing"

	"sweep/sweep"
)

func TestArithmetic(t *testing.T) {
	tests := []struct{ sentence, want string }{
		{preflight300, "8 × 300 GB > 449 GB"},
		{"8 × 300 GB > 449 GB", "8 × 300 GB > 449 GB"},
		{"hicache-size 300 is per rank: 8 ranks × 300 GB = 2400 GB, but this host has 449 GB of memory", "8 × 300 GB > 449 GB"},
		{"8 ranks × 300 GB = 2,400 GB; 449 GB are there, at most 48 GB a rank fit", ""}, // two amounts: which is meant is not known
		{"hicache-size 300 is per rank: 8 ranks × 300 GB = 2,400 GB of host memory, but only 430 GB of 449 GB are free on gpu1; at most 52 fits", "8 × 300 GB > 449 GB"},
		{"8 ranks × 300 GB do not fit", ""},
		{"8 ranks × 300 GB = 2,400 GB of 9,000 GB", ""}, // it fits: then the reason is another
		{"8 ranks × 300 GB against 449 GiB", ""},        // unlike units
		{"the model is too large", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := arithmetic(tt.sentence); got != tt.want {
			t.Errorf("arithmetic(%q) = %q, want %q", tt.sentence, got, tt.want)
		}
	}
}

func TestCommas(t *testing.T) {
	tests := []struct {
		v        float64
		decimals int
		want     string
	}{
		{0, 0, "0"}, {-0.001, 0, "0"}, {-0.001, 1, "0.0"}, {999, 0, "999"}, {1000, 0, "1,000"}, {1234567.891, 2, "1,234,567.89"},
		{-1234, 0, "-1,234"}, {-123, 0, "-123"}, {0.5, 2, "0.50"},
	}
	for _, tt := range tests {
		if got := commas(tt.v, tt.decimals); got != tt.want {
			t.Errorf("commas(%g, %d) = %q, want %q", tt.v, tt.decimals, got, tt.want)
		}
	}
	for v, want := range map[float64]string{0.254: "+25.4 %", -0.031: "−3.1 %", 0: "+0.0 %", -0.0001: "+0.0 %", 12.5: "+1,250.0 %"} {
		if got := percent(v); got != want {
			t.Errorf("percent(%g) = %q, want %q", v, got, want)
		}
	}
}

// Each outcome has words of its own: a new one must not appear as its raw name.
func TestEveryOutcomeHasWords(t *testing.T) {
	for _, o := range []sweep.Outcome{
		sweep.OK, sweep.OOMWeights, sweep.OOMKV, sweep.OOMGraph, sweep.OOMWarmup, sweep.OOMPrefill, sweep.OOMDecode, sweep.KVTooSmall,
		sweep.KVExhausted, sweep.HostShort, sweep.HostKilled, sweep.BadFlag, sweep.BadModel, sweep.BadGPU, sweep.BusyGPU, sweep.BusyPort,
		sweep.HangStart, sweep.HangLoad, sweep.SlowStart, sweep.CrashStart, sweep.CrashLoad, sweep.LoadFailed, sweep.LoadRejected,
		sweep.ClientBound, sweep.InfraSSH, sweep.InfraDisk, sweep.InfraLost, sweep.InfraGPU, sweep.SkippedPreflight, sweep.SkippedImplied,
		sweep.SkippedDeadline, sweep.SkippedBreaker, sweep.Aborted, "",
	} {
		if w := shortOutcome(o); w == "" || strings.Contains(w, ".") {
			t.Errorf("outcome %q is %q in a table", o, w)
		}
	}
}

func TestLoadLabel(t *testing.T) {
	a, b, c := load("m", "short", 6, "long", 2), load("m", "short", 4, "long", 4), load("m", "short", 2, "long", 2)
	all := []sweep.Load{a, b, c}
	for want, l := range map[string]sweep.Load{"short 6 + long 2": a, "short 4 + long 4": b, "4": c} {
		if got := loadLabel(l, all); got != want {
			t.Errorf("loadLabel(%s) = %q, want %q", l, got, want)
		}
	}
}
