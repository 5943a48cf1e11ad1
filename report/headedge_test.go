package report

import (
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestEdgeLine(t *testing.T) {
	spec := kimi(1)
	_, s := spec.read(t)
	for i, want := range []string{
		"The edge was not reached: mem-fraction-static 0.93, the largest that was tried, served every load of this workload. Refused before its start: " + preflight300 + ".",
		"The edge lies between mem-fraction-static 0.88, which served every load, and 0.93, which ran out of device memory (OOM prefill) with 150 short + 32 long requests in flight; " +
			"when it was ready, 7.13 GiB of device memory were left. Refused before its start: " + preflight300 + ".",
	} {
		if got := s.edgeLine(s.Sheets[i]); got != want {
			t.Errorf("%s:\n%s, want\n%s", s.Sheets[i].Workload, got, want)
		}
	}

	// While loads are waiting nothing is known of the edge.
	spec.edit = func(r *sweep.Record) bool { return r.Load.Workload == "short-only" && r.Load.Concurrency() == 64 }
	_, s = spec.read(t)
	if got := s.edgeLine(s.Sheets[0]); strings.Contains(got, "edge") {
		t.Errorf("an unfinished night says %q", got)
	}

	// Every value died.
	all := nights()["all-failed"]
	_, s = all.read(t)
	if got := s.edgeLine(s.Sheets[0]); !strings.Contains(got, "No mem-fraction-static served every load") && !strings.Contains(got, "The edge: ") {
		t.Errorf("a night of failures says %q", got)
	}
}

// The page answers, under its question each, what a reader came for.
func TestDecision(t *testing.T) {
	_, s := kimi(3).read(t)
	d := s.decision(s.Sheets[1])
	var questions []string
	for _, a := range d.Answers {
		questions = append(questions, a.Question)
		for _, l := range a.Lines {
			if !strings.HasSuffix(l, ".") || strings.HasSuffix(l, "..") {
				t.Errorf("%q is no sentence", l)
			}
		}
	}
	var all strings.Builder
	for _, a := range d.Answers {
		all.WriteString(strings.Join(a.Lines, " ") + "\n")
	}
	for _, want := range []string{
		"mem-fraction-static 0.88, hicache-size 48.", "against the baseline at the same load (mem-fraction-static 0.85, hicache-size off, 1,",
		"Next comes mem-fraction-static 0.85, hicache-size 48 with 1,", "with 95 % confidence", "Differences below", "The edge lies between",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the decision does not say %q:\n%s", want, all.String())
		}
	}
	if got := strings.Join(questions, " "); got != "Which config? By how much? How sure? Where is the edge?" {
		t.Errorf("questions %q", got)
	}
	if d.Command == "" {
		t.Error("there is no command to paste")
	}
}

// answersTo are the lines of a decision under a question.
func answersTo(d pageDecision, question string) string {
	for _, a := range d.Answers {
		if a.Question == question {
			return strings.Join(a.Lines, "\n")
		}
	}
	return ""
}

// With one repeat the drift of the baseline is what a gain must exceed.
func TestDriftVerdict(t *testing.T) {
	night := func(after, best float64) nightSpec {
		return nightSpec{
			name: "drift", repeats: 1, plan: true, drift: true, loads: ladder(8), axes: []sweep.Axis{axis("threads", "2", "4")},
			edit: func(r *sweep.Record) bool {
				threads, _ := r.Axes.Get("threads")
				r.Values["output_throughput"] = map[string]float64{"2": 1000, "4": best}[threads]
				if r.Role == sweep.RoleDrift {
					r.Values["output_throughput"] = after
				}
				return true
			},
		}
	}
	for _, c := range []struct {
		after, best float64
		want        string
	}{
		{865, 1613, "The baseline drifted −13.5 % over the repeat, from 1,000 to 865 tok/s. A gain below 13.5 % is not told apart from drift: the candidate's +61.3 % is larger."},
		{1100, 1080, "The baseline drifted +10.0 % over the repeat, from 1,000 to 1,100 tok/s. A gain below 10.0 % is not told apart from drift: the candidate's +8.0 % is not larger, and may be drift."},
		{990, 900, "The baseline drifted −1.0 % over the repeat, from 1,000 to 990 tok/s. A gain below 1.0 % is not told apart from drift."},
	} {
		_, s := night(c.after, c.best).read(t)
		if got := s.driftLine(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
		if got := answersTo(s.decision(s.Sheets[0]), "How sure?"); !strings.HasSuffix(got, c.want) {
			t.Errorf("the page says %s", got)
		}
		if text := tableText(t, s, Options{}); !strings.Contains(text, c.want) {
			t.Errorf("the terminal does not say %s", c.want)
		}
	}
	_, s := kimi(1).read(t) // two workloads, two loads each
	for _, want := range []string{
		" by load over the repeat, the most from 751 to 775 tok/s at short 53 + long 11 in flight. A gain below the drift is not told apart from it: ",
		"in short-only the candidate's +15.2 % is larger; in synth the candidate's +12.5 % is larger.",
	} {
		if got := s.driftLine(); !strings.Contains(got, want) {
			t.Errorf("%s: no %q", got, want)
		}
	}
	_, s = kimi(2).read(t)
	if got := s.driftLine(); strings.Contains(got, "told apart") || !strings.Contains(got, "noise") {
		t.Errorf("two repeats have a noise estimate: %s", got)
	}
}

// A night on a simulator says so where it decides, before anything else of how sure it is.
func TestDecisionSaysSimulated(t *testing.T) {
	const all = "The server was simulated, speed-up 20: its numbers say nothing of real hardware."
	for name, c := range map[string]struct {
		edit func(r *sweep.Record)
		want string
	}{
		"simulated":            {func(*sweep.Record) {}, all},
		"with a refused start": {func(r *sweep.Record) { r.Notes = slices.Concat([]string{"hierarchical cache is on"}, r.Notes) }, all},
		"real":                 {func(r *sweep.Record) { r.Notes = nil }, ""},
		"in part": {func(r *sweep.Record) {
			if v, _ := r.Axes.Get("hicache-size"); v == "off" {
				r.Notes = nil
			}
		}, "Some of the servers were simulated, speed-up 20: their numbers say nothing of real hardware."},
	} {
		spec := kimi(1)
		spec.edit = func(r *sweep.Record) bool {
			if c.edit(r); r.Outcome.Family() == "skipped" {
				r.Notes = nil
			}
			return true
		}
		_, s := spec.read(t)
		first, _, _ := strings.Cut(answersTo(s.decision(s.Sheets[0]), "How sure?"), "\n")
		if c.want != "" && first != c.want || c.want == "" && strings.Contains(first, "simulated") {
			t.Errorf("%s: the page begins with %q", name, first)
		}
		if text := tableText(t, s, Options{}); c.want != "" && strings.Count(text, c.want) != 2 || c.want == "" && strings.Contains(text, "simulated") {
			t.Errorf("%s: the terminal does not say %q for both workloads", name, c.want)
		}
	}
}
