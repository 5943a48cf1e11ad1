package loadgen

import "time"

// tally gathers one class, or all of them, over the window or over the whole run.
type tally struct {
	whole bool // takes requests of every stream of prompts

	sent, completed, failed, rejected int
	started                           int // requests in all
	unsent                            int // of an open class: due inside, and never sent
	prompt                            int
	tokens                            int           // that arrived, as counted
	chunks                            int           // of streams that were cut before the server told their total
	guessed                           float64       // the same in tokens, of classes that were joined
	okTokens, okChunks                int           // of requests that ended well: the tokens per chunk
	uncounted                         bool          // an answer's prompt tokens are not known
	open                              time.Duration // sum of the time that requests were in flight inside the window
	counted                           int           // requests that count for latency
	life                              time.Duration // sum of their lives

	ttft, tpot, e2e, itl             dist
	sched, shown, gap, ntpot, stream dist // by other definitions

	hasSLO bool
	judged int // requests sent inside that ended inside, well or failed
	good   int
	sloMet *bool // nil: too few requests to say
}

func newTally(whole bool) *tally {
	t := &tally{whole: whole}
	for i, d := range t.dists() {
		d.rough = whole || i >= 4
	}
	return t
}

// add takes a request that ended: tokens of it arrived inside, and chunks whose tokens nobody counted.
func (t *tally) add(s *sample, slo []Objective, w window, tokens, chunks int) {
	t.started++
	ours := t.whole || s.stream == measured
	if s.sent >= 0 && w.opened >= 0 {
		t.open += max(0, min(s.end, w.closed)-max(s.sent, w.opened))
		if ours && w.holdsSent(s.begun()) {
			t.sent++
		}
	}
	if s.open && s.sent < 0 && s.outcome == Cancelled && w.holdsSent(s.sched) {
		t.unsent++
	}
	if w.holds(s.end) {
		switch s.outcome {
		case OK:
			t.completed++
			t.prompt += max(0, s.prompt)
			t.uncounted = t.uncounted || s.prompt < 0
		case Failed:
			t.failed++
		case Rejected:
			t.rejected++
		}
	}
	if s.outcome == OK || s.outcome == Cancelled {
		t.tokens += tokens
		t.chunks += chunks
	}
	if s.outcome == OK && s.completion > 0 {
		t.okTokens += s.completion
		t.okChunks += s.chunks
	}
	inside := ours && w.holdsSent(s.begun()) && w.holds(s.end)
	counts := inside && s.outcome == OK && s.first >= 0
	if inside && len(slo) > 0 && s.outcome != Cancelled {
		t.judged++
		if counts && s.good(slo) {
			t.good++
		}
	}
	if counts {
		t.measure(s)
	}
}

// measure takes the latencies of a request.
func (t *tally) measure(s *sample) {
	t.counted++
	t.life += s.e2e()
	t.ttft.add(s.ttft(), 1)
	t.e2e.add(s.e2e(), 1)
	if d, ok := s.tpot(); ok {
		t.tpot.add(d, 1)
	}
	t.itl.addGaps(s.gaps, false)
	if t.whole {
		return
	}
	t.gap.addGaps(s.gaps, true)
	if s.open {
		t.sched.add(s.first-s.sched, 1)
	}
	if s.shown >= 0 {
		t.shown.add(s.shown-s.sent, 1)
	}
	if s.completion > 0 {
		t.ntpot.add(s.e2e()/time.Duration(s.completion), 1)
	}
	if s.tail >= 0 {
		t.stream.add(s.tail-s.sent, 1)
	}
}

// good says whether a request that counts kept each objective of its class. One of its own metrics stands for it: for
// itl its own quantile over its tokens; a single token keeps tpot and itl.
func (s *sample) good(slo []Objective) bool {
	itl := 0
	for _, o := range slo {
		var d time.Duration
		switch o.Metric {
		case "ttft":
			d = s.ttft()
		case "e2e":
			d = s.e2e()
		case "tpot":
			d, _ = s.tpot()
		case "itl":
			d = s.sloGaps[itl]
			itl++
		}
		if d >= o.Limit {
			return false
		}
	}
	return true
}

// judgeSLO compares each objective's quantile over the class with its limit.
func (t *tally) judgeSLO(slo []Objective) {
	met := true
	for _, o := range slo {
		var d *dist
		switch o.Metric {
		case "ttft":
			d = &t.ttft
		case "tpot":
			d = &t.tpot
		case "e2e":
			d = &t.e2e
		case "itl":
			d = &t.itl
		}
		if d.n < enough(o.Quantile) {
			return
		}
		met = met && d.quantile(o.Quantile) < o.Limit
	}
	t.sloMet = &met
}

// adopt joins a class's objectives into the whole: met when each class that has some met its own.
func (t *tally) adopt(class *tally) {
	switch {
	case !t.hasSLO:
		t.sloMet = class.sloMet
	case class.sloMet == nil || t.sloMet == nil:
		t.sloMet = nil
	default:
		met := *t.sloMet && *class.sloMet
		t.sloMet = &met
	}
	t.hasSLO = true
}

// guess is how many tokens the uncounted chunks stand for, by the tokens per chunk of the requests whose total is known.
func (t *tally) guess() float64 {
	if t.chunks == 0 || t.okChunks == 0 {
		return t.guessed
	}
	return t.guessed + float64(t.chunks)*float64(t.okTokens)/float64(t.okChunks)
}

// join adds a class.
func (t *tally) join(o *tally) {
	t.sent += o.sent
	t.unsent += o.unsent
	t.completed += o.completed
	t.failed += o.failed
	t.rejected += o.rejected
	t.prompt += o.prompt
	t.tokens += o.tokens
	t.guessed += o.guess()
	t.uncounted = t.uncounted || o.uncounted
	t.open += o.open
	t.judged += o.judged
	t.good += o.good
	ours, theirs := t.dists(), o.dists()
	for i := range ours {
		ours[i].join(theirs[i])
	}
}

// dists are all distributions, those by other definitions last.
func (t *tally) dists() []*dist {
	return []*dist{&t.ttft, &t.tpot, &t.e2e, &t.itl, &t.sched, &t.shown, &t.gap, &t.ntpot, &t.stream}
}

func (t *tally) put(v map[string]float64, prefix string, length time.Duration) {
	seconds := length.Seconds()
	output := float64(t.tokens) + t.guess()
	v[prefix+"sent"] = float64(t.sent)
	v[prefix+"completed"] = float64(t.completed)
	v[prefix+"failed"] = float64(t.failed)
	v[prefix+"rejected"] = float64(t.rejected)
	v[prefix+"output_tokens"] = output
	v[prefix+"output_throughput"] = output / seconds
	v[prefix+"request_throughput"] = float64(t.completed) / seconds
	v[prefix+"mean_concurrency"] = t.open.Seconds() / seconds
	if !t.uncounted {
		v[prefix+"prompt_tokens"] = float64(t.prompt)
		v[prefix+"input_throughput"] = float64(t.prompt) / seconds
		v[prefix+"total_throughput"] = (float64(t.prompt) + output) / seconds
	}
	if t.hasSLO && t.judged > 0 {
		v[prefix+"request_goodput"] = float64(t.good) / seconds
		v[prefix+"goodput_share"] = float64(t.good) / float64(t.judged)
	}
	if t.hasSLO && t.sloMet != nil {
		v[prefix+"slo_met"] = 0
		if *t.sloMet {
			v[prefix+"slo_met"] = 1
		}
	}
	t.ttft.put(v, prefix, "ttft")
	t.tpot.put(v, prefix, "tpot")
	t.itl.put(v, prefix, "itl")
	t.e2e.put(v, prefix, "e2e_latency")
	t.sched.put(v, prefix, "sched_ttft") // of an open loop
}

// putDefinitions writes the latencies by the other definitions: content_ttft (to the first visible text), chunk_gap (between
// two events, whatever they held), ntpot (E2E ÷ tokens), stream_latency (to the stream's own end mark).
func (t *tally) putDefinitions(v map[string]float64, prefix string) {
	t.shown.put(v, prefix, "content_ttft")
	t.gap.put(v, prefix, "chunk_gap")
	t.ntpot.put(v, prefix, "ntpot")
	t.stream.put(v, prefix, "stream_latency")
}
