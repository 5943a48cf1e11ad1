package loadgen

import (
	"fmt"
	"time"
)

// finish makes the result when every request has ended.
func (r *run) finish(err error) Result {
	res := r.result
	if err != nil {
		res.Complete = false
	}
	res.Values = map[string]float64{}
	res.Span = r.lastEnd
	res.Whole = r.summary.wholeValues(res.Span)
	if r.win.opened < 0 {
		res.Notes = r.notes()
		return res
	}
	res.Window = r.win.length()
	res.Values = r.summary.values(res.Window)
	res.Definitions = r.summary.definitions(res.Window)
	res.Values["client_max_silence_s"] = time.Duration(r.watch.maxSilence.Load()).Seconds()
	res.Steady = r.watch.steady(r.win, r.summary.life())
	gapMS := res.Values["median_itl_ms"]
	var p50, p99 float64
	res.Verdict, p50, p99 = r.watch.verdict(gapMS)
	if len(r.watch.late) >= enough(0.99) {
		res.Values["client_lag_p99_ms"] = p99
	}
	res.Notes = r.notes()
	if res.Verdict != Valid {
		res.Notes = append(res.Notes, fmt.Sprintf("the client's own timer woke late: p50 %.1f ms, p99 %.1f ms, against %.1f ms between tokens", p50, p99, gapMS))
	}
	return res
}

// life is the longest mean life of a request among the classes; 0 when none counts.
func (s *summary) life() time.Duration {
	var longest time.Duration
	for _, t := range s.window {
		if t.counted > 0 {
			longest = max(longest, t.life/time.Duration(t.counted))
		}
	}
	return longest
}

// notes are what a reader of the numbers must know.
func (r *run) notes() []string {
	var notes []string
	if !r.maker.ids {
		notes = append(notes, "prompts are text: their lengths are words, the server's count of tokens is recorded")
	}
	if r.totals {
		notes = append(notes, "the server tells only a request's total of tokens: it is spread evenly over the events that brought text")
	}
	if r.cut > 0 {
		notes = append(notes, fmt.Sprintf("tokens of streams that the window's end cut are counted by the tokens per event of their class: %d events", r.cut))
	}
	if n := r.path.resent(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d requests met a connection that the server was closing, and went over a new one", n))
	}
	if r.blank {
		notes = append(notes, "some requests ended well without a finish reason")
	}
	return notes
}

func (r *run) recordHead() RecordHead {
	s := &r.spec
	return RecordHead{
		Schema: 1, Started: r.start, URL: s.URL, Route: s.Route, Model: s.Model, Seed: s.Seed, Salt: s.Salt,
		Parts: 1, Classes: s.Classes, Client: ClientConn, Stamps: StampsUser,
	}
}

func (r *run) recordEnd(res *Result) RecordEnd {
	return RecordEnd{Complete: res.Complete, Ended: r.lastEnd, Verdict: res.Verdict}
}
