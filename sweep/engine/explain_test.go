package engine

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// A logLabel is what a right answer to a log says; see testdata/cases/README.md.
type logLabel struct {
	File         string
	Engine       string
	Sidecars     []string
	Outcome      *sweep.Outcome
	AlsoOK       []sweep.Outcome `json:"also_ok"`
	Phase        sweep.Phase
	AlsoPhase    []sweep.Phase `json:"also_phase"`
	Cause        string
	Notes        []string
	EvidenceLine *int  `json:"evidence_line"`
	EvidenceAlso []int `json:"evidence_also"`
	Facts        map[string]any
	Why          string
}

func labels(t testing.TB) []logLabel {
	t.Helper()
	data, err := os.ReadFile("testdata/cases/labels.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []logLabel
	for line := range bytes.Lines(data) {
		var l logLabel
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func explainFile(t testing.TB, name string, q Question) Explanation {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	q.File = filepath.Base(name)
	e, err := Explain(f, q)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Public reports of failures and of healthy starts, read right with and without the engine's name.
func TestReportedCases(t *testing.T) {
	for _, l := range labels(t) {
		for _, named := range []string{"", l.Engine} {
			t.Run(l.File+"/"+named, func(t *testing.T) {
				q := Question{Engine: named}
				for _, side := range l.Sidecars {
					f, err := os.Open(filepath.Join("testdata/cases", side))
					if err != nil {
						t.Fatal(err)
					}
					q.Kernel, err = KernelKills(f)
					f.Close()
					if err != nil || len(q.Kernel) == 0 {
						t.Fatalf("kernel log: %v, %d kills", err, len(q.Kernel))
					}
				}
				e := explainFile(t, filepath.Join("testdata/cases", l.File), q)
				l.check(t, e)
			})
		}
	}
}

func (l logLabel) check(t *testing.T, e Explanation) {
	t.Helper()
	same := e.Outcome == nil && l.Outcome == nil || e.Outcome != nil && l.Outcome != nil && *e.Outcome == *l.Outcome
	if !same && (e.Outcome == nil || !slices.Contains(l.AlsoOK, *e.Outcome)) {
		t.Errorf("outcome %v, want %v: %s\n%+v", word(e.Outcome), word(l.Outcome), l.Why, e)
	}
	if e.Phase != l.Phase && !slices.Contains(l.AlsoPhase, e.Phase) {
		t.Errorf("phase %s, want %s", e.Phase, l.Phase)
	}
	if e.Cause != l.Cause && same {
		t.Errorf("cause %q, want %q", e.Cause, l.Cause)
	}
	if got, want := slices.Sorted(slices.Values(e.Notes)), slices.Sorted(slices.Values(l.Notes)); !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
	if l.EvidenceLine != nil {
		near := func(n int) bool { return e.Evidence != nil && max(n, e.Evidence.Line)-min(n, e.Evidence.Line) <= 1 }
		if !near(*l.EvidenceLine) && !slices.ContainsFunc(l.EvidenceAlso, near) {
			t.Errorf("evidence %+v, want line %d or %v", e.Evidence, *l.EvidenceLine, l.EvidenceAlso)
		}
	}
	for name, want := range l.Facts {
		if !sameFact(e.Facts[name], want) {
			t.Errorf("%s is %v, want %v", name, e.Facts[name], want)
		}
	}
	if e.Next == "" || strings.Count(e.Next, "\n") > 0 {
		t.Errorf("next: %q", e.Next)
	}
}

func word(o *sweep.Outcome) string {
	if o == nil {
		return "null"
	}
	return string(*o)
}

// sameFact compares numbers within 1 %, lists in order, and whole numbers and texts exactly.
func sameFact(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		return slices.ContainsFunc(want["any_of"].([]any), func(one any) bool { return sameFact(got, one) })
	case []any:
		list, ok := got.([]float64)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range list {
			if !sameFact(list[i], want[i]) {
				return false
			}
		}
		return true
	case float64:
		v, ok := got.(float64)
		if want == math.Trunc(want) && math.Abs(want) > 100 {
			return ok && v == want
		}
		return ok && math.Abs(v-want) <= 0.01*math.Abs(want)
	}
	return got == want
}
