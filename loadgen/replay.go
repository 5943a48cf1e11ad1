package loadgen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteRequests writes the lines of a request file, each a [Request], out of a record.
func WriteRequests(to io.Writer, record io.Reader) error {
	out := bufio.NewWriterSize(to, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(true) // as in a run's own file
	var x sample
	var bearing []Chunk
	_, err := readFinished(record, func(f *finished) error {
		bearing = f.rec.Bearing(bearing[:0])
		x.open = f.open
		x.fill(&f.rec, bearing)
		return enc.Encode(x.line(&f.rec))
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("request file: %w", err)
	}
	return nil
}

// Summarize computes a result out of records: of one run again, or of several processes that shared one load by
// [Spec.Part], merged exactly: the requests of all count as those of one run do. The window is the stretch in which all of them
// had theirs open; of a number of requests ([Window.Exactly]) the stretch in which one of them had. Shares in the evidence are those of the worst process, counts are sums.
func Summarize(records ...io.ReadSeeker) (Result, error) {
	if len(records) == 0 {
		return Result{}, errors.New("summarize: no record")
	}
	parts := make([]Recording, len(records))
	for i, r := range records {
		var err error
		if parts[i], err = ReadRecord(r, nil); err != nil {
			return Result{}, fmt.Errorf("summarize: record %d: %w", i+1, err)
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return Result{}, fmt.Errorf("summarize: record %d: %w", i+1, err)
		}
	}
	if err := fit(parts); err != nil {
		return Result{}, fmt.Errorf("summarize: %w", err)
	}
	g := newReplay(parts)
	for i, r := range records {
		if _, err := readFinished(r, g.add); err != nil {
			return Result{}, fmt.Errorf("summarize: record %d: %w", i+1, err)
		}
	}
	return g.result(parts), nil
}

// fit says why records are not of one load.
func fit(parts []Recording) error {
	head := &parts[0].Head
	seen := map[int]bool{}
	for i := range parts {
		h := &parts[i].Head
		same := func(a, b Class) bool { return a.Name == b.Name && a.Concurrency == b.Concurrency }
		if h.Seed != head.Seed || h.Salt != head.Salt || h.Route != head.Route || h.Model != head.Model || !slices.EqualFunc(h.Classes, head.Classes, same) {
			return fmt.Errorf("record %d is of another load than the first", i+1)
		}
		if h.Parts != len(parts) || seen[h.Part] {
			return fmt.Errorf("record %d is part %d of %d, and %d records are given", i+1, h.Part, h.Parts, len(parts))
		}
		seen[h.Part] = true
	}
	return nil
}

// replay gathers the requests of records as a run does.
type replay struct {
	win     window
	halves  [2]window // of the window
	tokens  [2]int
	summary *summary
	res     Result
	sample  sample
	bearing []Chunk
	last    time.Duration
	first   time.Duration // end of the request that FirstFailure tells of
}

func newReplay(parts []Recording) *replay {
	g := &replay{win: common(parts), summary: newSummary(parts[0].Head.Classes)}
	g.res.Failures, g.res.Values = map[string]int{}, map[string]float64{}
	middle := g.win.opened + (g.win.closed-g.win.opened)/2
	g.halves = [2]window{{g.win.opened, middle}, {middle, g.win.closed}}
	return g
}

// common is the window of all parts together.
func common(parts []Recording) window {
	w := window{-1, never}
	for i, p := range parts {
		switch {
		case p.Opened < 0:
			return window{-1, never}
		case i == 0:
			w.opened = p.Opened
		case p.Head.Exactly:
			w.opened = min(w.opened, p.Opened)
		default:
			w.opened = max(w.opened, p.Opened)
		}
		switch {
		case p.Closed < 0 && p.Head.Exactly:
			return window{w.opened, never}
		case p.Closed < 0:
		case i > 0 && p.Head.Exactly:
			w.closed = max(w.closed, p.Closed)
		default:
			w.closed = min(w.closed, p.Closed)
		}
	}
	return w
}

func (g *replay) add(f *finished) error {
	x, rec := &g.sample, &f.rec
	g.bearing = rec.Bearing(g.bearing[:0])
	x.class, x.open = f.class, f.open
	x.fill(rec, g.bearing)
	for i, w := range g.halves {
		x.inWindow(g.bearing, w)
		g.tokens[i] += x.windowTokens + x.windowChunks
	}
	g.summary.add(x, g.bearing, g.win)
	g.last = max(g.last, x.end)
	g.res.Sent++
	switch x.outcome {
	case OK:
		g.res.Completed++
	case Failed, Rejected:
		if x.outcome == Failed {
			g.res.Failed++
		} else {
			g.res.Rejected++
		}
		g.res.Failures[x.kind]++
		if g.res.FirstFailure == "" || x.end < g.first {
			g.res.FirstFailure, g.first = firstFailure(rec), x.end
		}
	}
	return nil
}

func firstFailure(rec *Record) string {
	return fmt.Sprintf("%s request %d: %s: %s", rec.Class, rec.Index, rec.Kind, rec.Reason)
}

func (g *replay) result(parts []Recording) Result {
	res := g.res
	head := &parts[0].Head
	res.Client, res.Stamps, res.Complete, res.Verdict = head.Client, head.Stamps, true, Valid
	if g.win.closed == never {
		g.win.closed = g.last // the writer was killed inside the window
		res.Complete = false
	}
	res.Span, res.Whole = g.last, g.summary.wholeValues(g.last)
	for i := range parts {
		p := &parts[i]
		if p.Head.Stamps != StampsKernel {
			res.Stamps = p.Head.Stamps
		}
		if p.Head.Client != head.Client {
			res.Client = strings.Join([]string{res.Client, p.Head.Client}, "+")
		}
		if p.End == nil {
			res.Complete = false
			res.Verdict = worse(res.Verdict, Suspect)
			res.Why = append(res.Why, fmt.Sprintf("part %d: its process ended before it could judge itself", p.Head.Part))
			continue
		}
		res.Complete = res.Complete && p.End.Complete
		res.Verdict = worse(res.Verdict, p.End.Verdict)
		res.Evidence = merged(res.Evidence, p.End.Evidence)
		for _, why := range p.End.Why {
			if len(parts) > 1 {
				why = fmt.Sprintf("part %d: %s", p.Head.Part, why)
			}
			res.Why = append(res.Why, why)
		}
	}
	if g.win.opened < 0 || g.win.length() == 0 {
		return res
	}
	res.Opened, res.Closed = head.Started.Add(g.win.opened), head.Started.Add(g.win.closed)
	res.Window = g.win.length()
	res.Values, res.Definitions = g.summary.values(res.Window), g.summary.definitions(res.Window)
	res.Steady = agree(float64(g.tokens[0]), float64(g.tokens[1]), g.win, g.summary.life())
	return res
}

// worse is the graver of two verdicts.
func worse(a, b string) string {
	order := []string{"", Valid, Suspect, ClientBound}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// sums are the keys of evidence that add up over processes.
var sums = []string{"reads", "events", "unstamped_reads", "starved", "losses", "lost_records", "unsent_requests", "clock_steps", "gc_cycles", "gc_pause_ms"}

// merged joins the evidence of two processes.
func merged(a, b Evidence) Evidence {
	if a == nil {
		a = Evidence{}
	}
	for k, v := range b {
		old, ok := a[k]
		switch {
		case !ok:
			a[k] = v
		case slices.Contains(sums, k):
			a[k] = old + v
		case strings.HasSuffix(k, "_left"):
			a[k] = min(old, v)
		default:
			a[k] = max(old, v)
		}
	}
	return a
}
