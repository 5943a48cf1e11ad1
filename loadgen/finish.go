package loadgen

import (
	"fmt"
	"time"
)

// finish makes the result when every request has ended.
func (r *run) finish(err error) Result {
	r.endWindow() // of a run that was stopped
	res := r.result
	if err != nil {
		res.Complete = false
	}
	res.Values = map[string]float64{}
	if r.win.opened < 0 {
		res.Notes = r.notes()
		return res
	}
	res.Window = r.win.length()
	res.Values = summarize(r.win, r.spec.Classes, r.samples)
	res.Values["client_max_silence_s"] = time.Duration(r.watch.maxSilence.Load()).Seconds()
	res.Steady = r.watch.steady(r.win, life(r.win, r.samples))
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
func life(w window, samples []*sample) time.Duration {
	sums, counts := map[int]time.Duration{}, map[int]time.Duration{}
	for _, s := range samples {
		if s.counts(w) {
			sums[s.class] += s.e2e()
			counts[s.class]++
		}
	}
	var longest time.Duration
	for class, sum := range sums {
		longest = max(longest, sum/counts[class])
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
	chunks := 0
	for _, s := range r.samples {
		if s.outcome == Cancelled {
			chunks += s.windowChunks
		}
	}
	if chunks > 0 {
		notes = append(notes, fmt.Sprintf("tokens of streams that the window's end cut are counted by the tokens per event of their class: %d events", chunks))
	}
	resent := 0
	for _, p := range r.pools {
		for _, s := range p.slots {
			resent += s.client.resent
		}
	}
	if resent > 0 {
		notes = append(notes, fmt.Sprintf("%d requests met a connection that the server was closing, and went over a new one", resent))
	}
	if r.blank {
		notes = append(notes, "some requests ended well without a finish reason")
	}
	return notes
}
