package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// confirmNights are a night whose candidate is c at 16, the night that measures it again, and the soak.
func confirmNights(t *testing.T, again, soak func(r *sweep.Record)) (first, second, third *Summary) {
	t.Helper()
	_, first = race(func(*sweep.Record) {}).read(t)
	spec := race(again)
	spec.name, spec.repeats = "race-confirm", 5
	spec.loads = []sweep.Load{load("w", "x", 16), load("w-burst", "x", 16, "burst", 12), load("other", "x", 4)}
	_, second = spec.read(t)
	spec = race(soak)
	spec.name, spec.repeats = "race-soak", 1
	spec.loads = []sweep.Load{load("w", "x", 16), load("other", "x", 4)}
	_, third = spec.read(t)
	return first, second, third
}

func TestJudge(t *testing.T) {
	is := func(r *sweep.Record, setting, workload string) bool {
		v, _ := r.Axes.Get("setting")
		return v == setting && r.Load.Workload == workload
	}
	die := func(r *sweep.Record) {
		r.Ending, r.Values = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}, sweep.Values{}
	}
	fine := func(*sweep.Record) {}
	for _, tt := range []struct {
		name        string
		again, soak func(r *sweep.Record)
		confirmed   bool
		want        string
	}{
		{"holds", fine, func(r *sweep.Record) { r.Values["window_s"] = 1800 }, true, "it lived through a soak of 30m0s; it lived through bursts of 12 of the longest prompts at once"},
		{"another is faster", func(r *sweep.Record) {
			if is(r, "b", "w") {
				r.Values["output_throughput"] *= 1.6
			}
		}, fine, false, "setting=b was faster: it is behind by 6.2 %"},
		{"a tie holds", func(r *sweep.Record) {
			if is(r, "b", "w") {
				r.Values["output_throughput"] *= 1.5
			}
		}, fine, true, "1 is slower, 1 is not told apart from it (setting=b)"},
		{"dies in a fresh start", func(r *sweep.Record) {
			if is(r, "c", "w") && r.Repeat == 4 {
				die(r)
			}
		}, fine, false, "it died: OOM prefill (1/5)"},
		{"dies in the burst", func(r *sweep.Record) {
			if is(r, "c", "w-burst") {
				die(r)
			}
		}, fine, false, "it did not live through the burst: OOM prefill"},
		{"dies in the soak", fine, func(r *sweep.Record) {
			if is(r, "c", "w") {
				die(r)
			}
		}, false, "it did not live through the soak: OOM prefill"},
		{"misses a service level", func(r *sweep.Record) { r.Values["slo_met"] = 0 }, fine, false, "it missed a service level"},
	} {
		first, again, soak := confirmNights(t, tt.again, tt.soak)
		c := first.Judge(again, soak, time.Now())
		if len(c.Workloads) != 2 {
			t.Fatalf("%s: %+v", tt.name, c)
		}
		v := c.Workloads[0]
		if v.Confirmed != tt.confirmed || !strings.Contains(strings.Join(v.Why, "; "), tt.want) {
			t.Errorf("%s: confirmed %v: %q, want %v: %q", tt.name, v.Confirmed, v.Why, tt.confirmed, tt.want)
		}
	}
}

// What a confirmation says is in the night's report from then on, and only of the best that it measured.
func TestConfirmedInTheReport(t *testing.T) {
	first, again, soak := confirmNights(t, func(*sweep.Record) {}, func(*sweep.Record) {})
	if err := first.Judge(again, soak, time.Now()).Write(first.Night.Dir); err != nil {
		t.Fatal(err)
	}
	n, err := Read(first.Night.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(n)
	text := tableText(t, s, Options{})
	for _, want := range []string{"Best: 4,896 tok/s", "Confirmed by 5 fresh starts with other prompts: 4,944 tok/s (95 %", " best "} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "andidate") || strings.Contains(nextText(s), "sweep confirm") {
		t.Error("what is confirmed is still called a candidate, or is to be confirmed again")
	}
	n.Confirmation.Workloads[0].Load = "w,x=8"
	if Summarize(n).Sheets[0].Confirmed {
		t.Error("a confirmation at another load counts")
	}
}

func TestCandidates(t *testing.T) {
	_, s := kimi(2).read(t)
	configs, loads := s.Candidates(2)
	want := "[mem-fraction-static=0.88,hicache-size=48 mem-fraction-static=0.85,hicache-size=48 mem-fraction-static=0.85,hicache-size=off]"
	if fmt.Sprint(configs) != want || len(loads) != 2 || loads[1].String() != "synth,short=150,long=32" {
		t.Errorf("candidates %v at %v, want %s", configs, loads, want)
	}
	s.Night.Workloads[1].Classes[1].Input = sweep.Range{Min: 9000, Max: 14000}
	if got := s.BurstCount("synth"); got != 12 { // 164,963 tokens ÷ 14,000
		t.Errorf("%d prompts fill the pool, want 12", got)
	}
	if s.BurstCount("short-only") != 0 {
		t.Error("a burst of prompts whose length is not known")
	}
	_, s = nights()["all-failed"].read(t)
	if configs, loads := s.Candidates(3); len(configs)+len(loads) > 0 {
		t.Errorf("candidates of a night without a best: %v %v", configs, loads)
	}
}
