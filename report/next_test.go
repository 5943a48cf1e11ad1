package report

import (
	"strings"
	"testing"

	"sweep/sweep"
)

func nextText(s *Summary) string {
	var b strings.Builder
	for _, step := range s.Next() {
		b.WriteString(step.Text + " | " + step.Command + "\n")
	}
	return b.String()
}

func TestNext(t *testing.T) {
	served := func(r *sweep.Record) bool {
		if r.Outcome.Family() == "skipped" {
			r.Values = sweep.Values{} // never started
		}
		return true
	}
	night := kimi(2)
	night.edit = served
	_, s := night.read(t)
	text := nextText(s)
	for _, want := range []string{
		"sweep confirm ", "--top 3 --repeats 5", "Try mem-fraction-static 0.91, between 0.88, which served every load, and 0.93, which died",
		"KV tokens and", "past the knee: of 182 in flight",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("two repeats of the Kimi night: no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "resume") || strings.Contains(text, "One repeat") {
		t.Errorf("a whole night of two repeats is told to go on or to repeat:\n%s", text)
	}
	_, s = nights()["unfinished"].read(t)
	if text := nextText(s); !strings.Contains(text, "The night is not finished: 30 of 120 cells have a result. Where it does not run any more, go on with it. | sweep resume ") {
		t.Errorf("unfinished: %s", text)
	}
	_, s = nights()["all-failed"].read(t)
	if text := nextText(s); strings.Contains(text, "confirm") {
		t.Errorf("nothing was measured, and a candidate is to be confirmed: %s", text)
	}
	rising := nightSpec{name: "rising", repeats: 2, plan: true, axes: []sweep.Axis{axis("threads", "1", "2")}, loads: ladder(8, 16, 32)}
	_, s = rising.read(t)
	if text := nextText(s); !strings.Contains(text, "still rose at the highest load that was tried") || !strings.Contains(text, "try more than 32 in flight") {
		t.Errorf("rising: %s", text)
	}
	bound := kimi(1)
	bound.end = func(c sweep.Config, l sweep.Load, _ int) sweep.Ending {
		if l.Workload == "synth" {
			return sweep.Ending{Outcome: sweep.ClientBound}
		}
		return sweep.Ending{}
	}
	_, s = bound.read(t)
	if text := nextText(s); !strings.Contains(text, "18 numbers are withheld because the client was the limit") || !strings.Contains(text, "One repeat says nothing of noise") {
		t.Errorf("bound: %s", text)
	}
}

// A host cache is to be left out where it was used at no load, not where only a low load had no need of it.
func TestNextLeavesOutOnlyUnusedCaches(t *testing.T) {
	night := func(unused func(mem string, level int) bool, mems ...string) string {
		spec := nightSpec{name: "caches", repeats: 1, plan: true, loads: ladder(8, 16, 32),
			axes: []sweep.Axis{axis("mem-fraction-static", mems...), axis("hicache-size", "off", "16")},
			edit: func(r *sweep.Record) bool {
				mem, _ := r.Axes.Get("mem-fraction-static")
				if size, _ := r.Axes.Get("hicache-size"); size != "off" {
					r.Values["host_pool_tokens"], r.Values["cached_tokens_host"], r.Values["load_back_tokens"] = 5000, 12, 12
					if unused(mem, r.Load.Concurrency()) {
						r.Values["cached_tokens_host"], r.Values["load_back_tokens"] = 0, 0
					}
				}
				return true
			}}
		_, s := spec.read(t)
		return nextText(s)
	}
	mems := []string{"0.80", "0.86", "0.88", "0.90", "0.92"}
	if text := night(func(_ string, level int) bool { return level == 8 }, mems...); strings.Contains(text, "host cache") {
		t.Errorf("unused at the lowest load alone: %s", text)
	}
	text := night(func(mem string, level int) bool { return mem == "0.80" || level == 8 }, mems...)
	if !strings.Contains(text, "In chat a host cache was used at no load that was measured (mem 0.80 · hicache 16): ") {
		t.Errorf("one unused: %s", text)
	}
	text = night(func(string, int) bool { return true }, mems...)
	if !strings.Contains(text, "(mem 0.80 · hicache 16; mem 0.86 · hicache 16; mem 0.88 · hicache 16 and 2 more): ") {
		t.Errorf("all unused: %s", text)
	}
}

// The lines around an evidence come from the log that it names, and only from there.
func TestEvidenceWithItsLines(t *testing.T) {
	dir := put(t, map[string]string{CellsFile: "", "server.log": "one\ntwo\nthree\nfour\nfive\nCUDA out of memory\nafter\nlast\n"})
	n := &Night{Dir: dir}
	lines := n.around(sweep.Evidence{File: "server.log", Line: 6, Offset: 24, Text: "CUDA out of memory"})
	var got []string
	for _, l := range lines {
		mark := ""
		if l.Hit {
			mark = "*"
		}
		got = append(got, mark+l.Text)
	}
	if text := strings.Join(got, "|"); text != "two|three|four|five|*CUDA out of memory|after|last" {
		t.Errorf("lines %s", text)
	}
	for _, e := range []sweep.Evidence{
		{File: "../../etc/passwd", Offset: 0, Text: "x"}, {File: "gone.log", Text: "x"}, {File: "server.log", Offset: 9999, Text: "x"}, {File: "server.log", Offset: 0, Text: "not there"},
	} {
		if lines := n.around(e); len(lines) != 1 || lines[0].Text != e.Text {
			t.Errorf("%+v: %v", e, lines)
		}
	}
}
