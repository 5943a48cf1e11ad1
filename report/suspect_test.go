package report

import (
	"strings"
	"testing"

	"sweep/sweep"
)

// Why a number is suspect is said by the client's own reasons; other notes of the cell have nothing to do with it. Nights of an
// earlier version have their reasons among the notes.
func TestSuspectSaysItsOwnReasons(t *testing.T) {
	for _, c := range []struct {
		name      string
		why       []string
		want, not string
	}{
		{"with reasons", []string{"slots stood free for 3.0 % of the time"}, "suspect: slots stood free for 3.0 % of the time", "prompts are text"},
		{"of an earlier version", nil, "suspect: prompts are text", "slots"},
	} {
		spec := race(func(r *sweep.Record) {
			if v, _ := r.Axes.Get("setting"); v == "b" {
				r.Verdict, r.VerdictWhy, r.Notes = "suspect", c.why, []string{"prompts are text"}
			}
		})
		_, s := spec.read(t)
		text := tableText(t, s, Options{})
		for line := range strings.Lines(text) {
			if strings.Contains(line, "suspect:") && strings.Contains(line, c.not) {
				t.Errorf("%s: %s", c.name, line)
			}
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, text)
		}
	}
}
