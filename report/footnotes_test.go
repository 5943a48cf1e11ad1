package report

import (
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestFootnotes(t *testing.T) {
	f := &footnotes{}
	marks := []string{
		f.alike("read 5.4 ms late; 12 % of the time"), f.mark("died at 0.95"), f.alike("read 1.4 ms late; 12 % of the time"), f.alike("read 10 ms late; 12 % of the time"),
		f.mark("died at 0.96"), f.mark("died at 0.95"), f.alike("another reason"),
	}
	if want := []string{"[1]", "[2]", "[1]", "[1]", "[3]", "[2]", "[4]"}; !slices.Equal(marks, want) {
		t.Errorf("marks %v, want %v", marks, want)
	}
	if want := []string{"read 1.4 to 10 ms late; 12 % of the time", "died at 0.95", "died at 0.96", "another reason"}; !slices.Equal(f.texts(), want) {
		t.Errorf("texts %q, want %q", f.texts(), want)
	}
}

// A suspicion is told by its own grounds: not by what the launch said of itself, nor once more for each cell with other numbers.
func TestSuspicionIsShort(t *testing.T) {
	spec := nightSpec{name: "busy", repeats: 1, plan: true, axes: []sweep.Axis{axis("mem-fraction-static", "0.80", "0.90")}, loads: ladder(16, 64)}
	late := 2.5
	spec.edit = func(r *sweep.Record) bool {
		r.Notes = append(r.Notes, "hierarchical cache is on")
		if r.Load.Concurrency() == 64 {
			r.Verdict = "suspect"
			if why := "the client read its sockets " + trim(late) + " ms late"; r.Baseline { // as earlier versions had it
				r.Notes = append(r.Notes, why)
			} else {
				r.VerdictWhy = []string{why}
			}
			late++
		}
		return true
	}
	_, s := spec.read(t)
	var text strings.Builder
	if err := WriteTable(&text, s, Options{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "[1] suspect: the client read its sockets 2.5 to 3.5 ms late\n") || strings.Contains(text.String(), "[2]") {
		t.Errorf("the notes are not one line:\n%s", text.String())
	}
	if !strings.Contains(text.String(), "A doubt about its number: suspect: the client read its sockets 3.5 ms late.") {
		t.Errorf("the headline does not tell the doubt:\n%s", text.String())
	}
}

// A long line of evidence is quoted short in a note; the page has it whole.
func TestEvidenceIsShort(t *testing.T) {
	line := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. " + strings.Repeat("Of the allocated memory 21 GiB is in use. ", 10)
	spec := kimi(1)
	end := spec.end
	spec.end = func(c sweep.Config, l sweep.Load, repeat int) sweep.Ending {
		e := end(c, l, repeat)
		if e.Evidence != nil {
			e.Evidence.Text = line
		}
		return e
	}
	_, s := spec.read(t)
	for _, row := range s.Sheets[1].Rows {
		if _, r, ok := firstDeath(row); ok {
			if got := reason(r); len(got) > 300 || !strings.Contains(got, "Tried to allocate 1.02 GiB") || !strings.Contains(got, " …” (launches/x/server.log:812)") {
				t.Errorf("%d bytes: %s", len(got), got)
			}
		}
	}
	var page strings.Builder
	if err := WritePage(&page, s, PageOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), strings.TrimSpace(line)) {
		t.Error("the page has not the whole line")
	}
}
