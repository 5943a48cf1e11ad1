package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"sweep/sweep"
)

// again is the race once more, with an edit of its own.
func again(t *testing.T, name string, edit func(r *sweep.Record)) *Night {
	t.Helper()
	spec := race(func(r *sweep.Record) {
		edit(r)
	})
	spec.name = name
	n, _ := spec.read(t)
	return n
}

func TestCompareNights(t *testing.T) {
	set := func(r *sweep.Record, setting string, level int) bool {
		v, _ := r.Axes.Get("setting")
		return v == setting && r.Load.Concurrency() == level
	}
	a := again(t, "first", func(r *sweep.Record) {
		if set(r, "c", 16) {
			r.Ending, r.Values = sweep.Ending{Outcome: sweep.OOMPrefill, Phase: sweep.PhaseLoad}, sweep.Values{}
		}
	})
	b := again(t, "second", func(r *sweep.Record) {
		r.EngineVersion = "0.5.23"
		switch {
		case set(r, "a", 8):
			r.Values["output_throughput"] *= 1.10
		case set(r, "a", 16):
			r.Values["output_throughput"] *= 0.90
		case set(r, "b", 8):
			r.Values["output_throughput"] *= 1.005
		case set(r, "b", 16):
			r.Ending, r.Values = sweep.Ending{Outcome: sweep.OOMDecode, Phase: sweep.PhaseLoad}, sweep.Values{}
		case set(r, "c", 4):
			r.Outcome, r.Values = sweep.ClientBound, sweep.Values{}
		}
	})
	b.Configs = append(b.Configs, sweep.Config{Key: "setting=d", Axes: sweep.Params{{Name: "setting", Value: "d"}}})
	d := Compare([]*Night{a, b}, throughput())
	want := map[string]DiffKind{
		"setting=a/w,x=8": DiffBetter, "setting=a/w,x=16": DiffWorse, "setting=b/w,x=8": DiffSame, "setting=b/w,x=16": DiffDies, "setting=c/w,x=8": DiffSame,
		"setting=c/w,x=16": DiffFits, "setting=a/other,x=4": DiffSame, "setting=b/other,x=4": DiffSame, "setting=c/other,x=4": DiffUnknown,
		"setting=d/w,x=8": DiffOnlyHere, "setting=d/w,x=16": DiffOnlyHere, "setting=d/other,x=4": DiffOnlyHere,
	}
	if len(d.Cells) != len(want) {
		t.Errorf("%d cells, want %d", len(d.Cells), len(want))
	}
	for _, c := range d.Cells {
		if got := c.Against[0].Kind; got != want[c.Config+"/"+c.Load] {
			t.Errorf("%s/%s: %s, want %s", c.Config, c.Load, got, want[c.Config+"/"+c.Load])
		}
	}
	if len(d.Differences) != 1 || d.Differences[0].Name != "engine" || d.Differences[0].Values[1] != "sglang 0.5.23" {
		t.Errorf("differences %+v", d.Differences)
	}
	list := d.Regressions(0.05)
	if len(list) != 2 || !strings.Contains(strings.Join(list, "\n"), "setting=a/w,x=16 −10.0 %") || !strings.Contains(strings.Join(list, "\n"), "setting=b/w,x=16 newly fails: OOM decode") {
		t.Errorf("regressions %q", list)
	}
	if list := d.Regressions(0.15); len(list) != 1 {
		t.Errorf("with a limit of 15 %%: %q", list)
	}
	var text, md, js, cs bytes.Buffer
	for _, err := range []error{WriteDiff(&text, d, Options{}), WriteDiffMarkdown(&md, d), WriteDiffJSON(&js, d), WriteDiffCSV(&cs, d)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "compare.txt", text.Bytes())
	for _, w := range []string{"| **setting=a**", "0.5.23"} {
		if !strings.Contains(md.String(), w) {
			t.Errorf("markdown has no %q:\n%s", w, md.String())
		}
	}
	var out struct{ Cells []diffLine }
	if err := json.Unmarshal(js.Bytes(), &out); err != nil || len(out.Cells) != len(want) {
		t.Errorf("%d cells as JSON, %v", len(out.Cells), err)
	}
	if rows, err := csv.NewReader(&cs).ReadAll(); err != nil || len(rows) != 1+len(want) {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
}

// One repeat gives changes without verdicts, and a limit holds them as they stand. Of a latency, less is better.
func TestCompareWithoutRepeats(t *testing.T) {
	one := func(name string, factor float64) *Night {
		spec := race(func(r *sweep.Record) { r.Values["p99_ttft_ms"] = 1000 * factor })
		spec.name, spec.repeats = name, 1
		n, _ := spec.read(t)
		return n
	}
	d := Compare([]*Night{one("a", 1), one("b", 1.2), one("c", 0.8)}, metric("p99_ttft_ms"))
	for _, c := range d.Cells {
		if c.Against[0].Kind != DiffChange || c.Against[1].Kind != DiffChange {
			t.Errorf("%s/%s: %v", c.Config, c.Load, c.Against)
		}
	}
	if list := d.Regressions(0.05); len(list) != 9 || !strings.HasPrefix(list[0], "b: ") {
		t.Errorf("regressions %q, want the nine cells of b", list)
	}
	var text bytes.Buffer
	if err := WriteDiff(&text, d, Options{}); err != nil || !strings.Contains(text.String(), "no noise estimate; changes stand without verdicts") {
		t.Errorf("%v\n%s", err, text.String())
	}
	mean, cells := d.Mean(1)
	near(t, "geometric mean", mean, 0.2, 1e-9)
	if cells != 9 {
		t.Errorf("%d cells in the mean", cells)
	}
}
