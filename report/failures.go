package report

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sweep/sweep"
)

// failure is one way in which a cell ended without a number, as the page tells it.
type failure struct {
	Title   string // cells
	Words   string // "OOM prefill (1/3)"
	Outcome string
	Where   string // phase, cause, exit
	Detail  string
	Lines   []logLine
	Source  string // of the lines
}

// logLine is a line of a log; Hit marks the one that the verdict rests on.
type logLine struct {
	Text string
	Hit  bool
}

const (
	linesBefore = 4
	linesAfter  = 2
	longestLine = 600 // bytes shown of a line of a log
)

// failures lists what failed and what was not run, each cell once.
func (s *Summary) pageFailures() (failed, skipped []failure) {
	at, last := map[string]int{}, map[string]*Row{} // equal skips stand together
	for _, sheet := range s.Sheets {
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				seen := map[string]bool{}
				list := q.Failed()
				for _, r := range list {
					words := shortEnding(r)
					if seen[words] {
						continue
					}
					seen[words] = true
					f := s.failureOf(sheet, row, q, r, countEnding(list, words))
					if r.Outcome.Family() != "skipped" {
						failed = append(failed, f)
						continue
					}
					key := f.Words + "\x00" + f.Detail
					i, ok := at[key]
					switch {
					case ok && last[key] == row:
						skipped[i].Title += ", " + loadLabel(q.Load, sheet.Loads)
					case ok:
						skipped[i].Title += "; " + f.Title
					}
					last[key] = row
					if ok {
						continue
					}
					at[key] = len(skipped)
					skipped = append(skipped, f)
				}
			}
		}
	}
	return failed, skipped
}

func (s *Summary) failureOf(sheet *Sheet, row *Row, q *Square, r sweep.Record, times int) failure {
	f := failure{
		Title:   fmt.Sprintf("%s, %s at %s", s.Night.curveLabel(row.Config, ""), sweep.Printable(sheet.Workload), loadLabel(q.Load, sheet.Loads)),
		Words:   shortEnding(r),
		Outcome: sweep.Printable(string(r.Outcome)),
		Detail:  sweep.Printable(r.Detail),
	}
	if q.Repeats > 1 {
		f.Words += fmt.Sprintf(" (%d/%d)", times, q.Repeats)
	}
	var where []string
	if r.Phase != "" {
		where = append(where, "in phase "+string(r.Phase))
	}
	if r.Cause != "" {
		where = append(where, "cause "+r.Cause)
	}
	if x := r.Exit; x != nil {
		text := fmt.Sprintf("exit code %d", x.Code)
		if x.Signal != 0 {
			text = fmt.Sprintf("signal %d", x.Signal)
		}
		if x.By != "" {
			text += " by " + x.By
		}
		where = append(where, text)
	}
	if r.ImpliedBy != "" {
		where = append(where, "implied by "+r.ImpliedBy)
		if f.Detail == "" {
			f.Detail = sweep.Printable("implied by " + r.ImpliedBy)
		}
	}
	f.Where = sweep.Printable(strings.Join(where, ", "))
	if e := r.Evidence; e != nil && e.Text != "" {
		f.Lines = s.Night.around(*e)
		f.Source = sweep.Printable(fmt.Sprintf("%s, line %d, byte %d", e.File, e.Line, e.Offset))
	} else if answeredOnly(r) {
		f.Source = noLine
	}
	return f
}

// around reads the lines around an evidence from the log that it names; where that is gone, the line itself is known.
func (n *Night) around(e sweep.Evidence) []logLine {
	only := []logLine{{Text: clipLine(e.Text), Hit: true}}
	if e.File == "" || !filepath.IsLocal(filepath.FromSlash(e.File)) || path.Base(e.File) == "requests.jsonl" { // the requests beside it tell nothing more
		return only
	}
	f, err := os.Open(filepath.Join(n.Dir, filepath.FromSlash(e.File)))
	if err != nil {
		return only
	}
	defer func() { _ = f.Close() }() // only read from
	const reach = 8 << 10
	start := max(0, e.Offset-reach)
	buf := make([]byte, e.Offset-start+reach)
	got, _ := f.ReadAt(buf, start) // as much as there is
	buf = buf[:got]
	hit := int(e.Offset - start)
	if hit > len(buf) {
		return only
	}
	before := bytes.Split(bytes.TrimSuffix(buf[:hit], []byte("\n")), []byte("\n"))
	if start > 0 && len(before) > 0 {
		before = before[1:] // cut in its middle
	}
	if hit == 0 {
		before = nil
	}
	after := bytes.Split(buf[hit:], []byte("\n"))
	prefix := strings.TrimSuffix(e.Text, "…")
	if len(after) == 0 || !strings.HasPrefix(string(after[0]), strings.TrimSpace(prefix[:min(len(prefix), 40)])) && !strings.Contains(string(after[0]), prefix[:min(len(prefix), 40)]) {
		return only // the log is not the one that was read
	}
	var out []logLine
	for _, l := range before[max(0, len(before)-linesBefore):] {
		out = append(out, logLine{Text: clipLine(string(l))})
	}
	out = append(out, logLine{Text: clipLine(string(after[0])), Hit: true})
	for _, l := range after[1:min(len(after), 1+linesAfter)] {
		out = append(out, logLine{Text: clipLine(string(l))})
	}
	return out
}

func clipLine(s string) string {
	if len(s) > longestLine {
		s = strings.ToValidUTF8(s[:longestLine], "") + "…"
	}
	return sweep.Printable(s)
}
