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
	res.Client, res.Stamps = r.path.kind()
	slots, bounded := 0, false
	for _, c := range r.spec.Classes {
		slots += c.slots
		bounded = bounded || c.Arrivals != nil && c.Arrivals.MaxOpen > 0
	}
	res.WholeEvidence = r.between(r.shots.begin, r.shots.close, slots)
	res.WholeEvidence.addRoom(r.path.room())
	r.summary.unsent(res.WholeEvidence, r.summary.whole)
	res.WholeVerdict, _ = res.WholeEvidence.verdict(res.Whole["median_itl_ms"], res.Stamps == StampsKernel, bounded)
	if r.win.opened < 0 {
		res.Notes = r.notes(&res)
		return res
	}
	res.Window = r.win.length()
	res.Values = r.summary.values(res.Window)
	res.Definitions = r.summary.definitions(res.Window)
	if half, _, ok := r.watch.interval(r.win, r.summary.life()); ok {
		res.Definitions["output_throughput_half_width"] = half
	}
	res.Values["client_max_silence_s"] = time.Duration(r.watch.maxSilence.Load()).Seconds()
	res.Steady = r.watch.steady(r.win, r.summary.life())
	res.Evidence = r.between(r.shots.open, r.shots.close, slots)
	r.summary.unsent(res.Evidence, r.summary.window)
	if p99, ok := res.Evidence["timer_late_p99_ms"]; ok && int(r.shots.close.late.total-r.shots.open.late.total) >= enough(0.99) {
		res.Values["client_lag_p99_ms"] = p99
	}
	res.Verdict, res.Why = res.Evidence.verdict(res.Values["median_itl_ms"], res.Stamps == StampsKernel, bounded)
	res.Notes = r.notes(&res)
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

// unsent counts the requests of open classes that were due and never went.
func (s *summary) unsent(e Evidence, tallies []*tally) {
	for i, c := range s.classes {
		if c.Arrivals != nil {
			e["unsent_requests"] += float64(tallies[i].unsent)
		}
	}
}

// plateau is the share of the times between events that are about 40 ms, where a delayed acknowledgement ends, when
// they stand alone there.
func (s *summary) plateau() (share float64, ok bool) {
	all := dist{rough: true}
	for _, t := range s.window {
		all.join(&t.gap)
	}
	if all.n < 100 {
		return 0, false
	}
	at := func(from, to float64) float64 {
		return float64(all.below(time.Duration(to*1e6))-all.below(time.Duration(from*1e6))) / float64(all.n)
	}
	share = at(39, 45)
	median := ms(all.quantile(0.5))
	return share, share >= 0.02 && share > 4*(at(33, 39)+at(45, 51)) && (median < 33 || median > 51)
}

// notes are what a reader of the numbers must know.
func (r *run) notes(res *Result) []string {
	var notes []string
	if !r.maker.ids {
		notes = append(notes, "prompts are text: their lengths are words, the server's count of tokens is recorded")
	}
	if r.unequal > 0 {
		notes = append(notes, fmt.Sprintf("%d requests: %v", r.unequal, r.badCount))
	}
	for i := range r.spec.Classes {
		c := &r.spec.Classes[i]
		if n := len(c.Prompts); n > 0 && r.summary.whole[i].started > n {
			notes = append(notes, fmt.Sprintf("class %s: %d prompts for %d requests: repeated ones may come from a prefix cache", c.Name, n, r.summary.whole[i].started))
		}
	}
	if r.totals {
		notes = append(notes, "the server tells only a request's total of tokens: it is spread evenly over the events that brought text")
	}
	if r.cut > 0 {
		notes = append(notes, fmt.Sprintf("tokens of streams that the window's end cut are counted by the tokens per event of their class: %d events", r.cut))
	}
	for _, c := range r.spec.Classes {
		if c.Arrivals != nil && c.Arrivals.MaxOpen > 0 && res.WholeEvidence["send_lag_p99_us"] > 1000*lagSuspect {
			notes = append(notes, fmt.Sprintf("class %s: the bound of %d requests in flight made others late: it was no open loop", c.Name, c.Arrivals.MaxOpen))
		}
	}
	if res.Client != ClientEpoll && r.spec.Dial == nil {
		notes = append(notes, fmt.Sprintf("requests travelled by %s: events are stamped only after the client woke up for them", res.Client))
	}
	if n := r.path.resent(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d requests met a connection that the server was closing, and went over a new one", n))
	}
	if n := res.WholeEvidence["losses"]; n > 0 {
		notes = append(notes, fmt.Sprintf("the network lost or reordered %.0f segments", n))
	}
	if share, ok := r.summary.plateau(); ok {
		notes = append(notes, fmt.Sprintf("%.1f %% of the times between events are about 40 ms, and few are near it: the delayed acknowledgement of TCP meets Nagle's rule at the server or a proxy (TCP_NODELAY is missing there)", 100*share))
	}
	if r.blank {
		notes = append(notes, "some requests ended well without a finish reason")
	}
	return notes
}

func (r *run) recordHead() RecordHead {
	s := &r.spec
	client, stamps := r.path.kind()
	return RecordHead{
		Schema: 1, Started: r.start, URL: s.URL, Route: s.Route, Model: s.Model, Seed: s.Seed, Salt: s.Salt,
		Part: s.Part, Parts: s.Parts, Classes: s.Classes, Client: client, Stamps: stamps, Exactly: s.Window.Exactly,
	}
}

func (r *run) recordEnd(res *Result) RecordEnd {
	return RecordEnd{Complete: res.Complete, Ended: r.lastEnd, Verdict: res.Verdict, Why: res.Why, Evidence: res.Evidence}
}
