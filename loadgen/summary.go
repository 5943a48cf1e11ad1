package loadgen

import (
	"slices"
	"time"
)

// summarize computes the values of a window from what its requests saw. It changes nothing but the
// order of what it reads, and gives the same for any order of samples.
//
// Counts are over the window: sent (first byte inside, measured prompts), completed, failed and rejected
// (ended inside, whenever sent), prompt_tokens (of the completed), output_tokens (arrived inside, of all
// requests that did not fail). Rates divide by the window: output_throughput, input_throughput,
// total_throughput, request_throughput (completed). mean_concurrency is the time-weighted number of requests in flight.
//
// TTFT, TPOT, ITL and E2E latency are of requests both sent and ended well inside, so neither the start burst
// nor the requests that the end cut are in them. TTFT runs from the first byte sent to the first
// token-bearing event; E2E to the last; TPOT is (E2E−TTFT)/(n−1); ITL is the time between two token-bearing events of
// one stream, shared evenly by the later one's tokens, a sample for each token (as SGLang's
// bench_serving does for its native route).
func summarize(w window, classes []Class, samples []*sample) map[string]float64 {
	v := map[string]float64{}
	if w.length() <= 0 {
		return v
	}
	ratios := tokensPerChunk(len(classes), samples)
	all := newTally(w, ratios)
	for i, c := range classes {
		t := newTally(w, ratios)
		for _, s := range samples {
			if s.class == i {
				t.add(s, c.SLO)
				all.add(s, c.SLO)
			}
		}
		if t.hasSLO = len(c.SLO) > 0; t.hasSLO {
			t.judgeSLO(c.SLO)
			all.adopt(t)
		}
		if len(classes) > 1 {
			t.put(v, c.Name+"_")
		}
	}
	all.put(v, "")
	return v
}

// tokensPerChunk is, by class, how many tokens an event brings, from the requests whose total is known. It
// serves only for streams cut before the server told their total.
func tokensPerChunk(classes int, samples []*sample) []float64 {
	tokens, chunks := make([]float64, classes), make([]float64, classes)
	for _, s := range samples {
		if s.outcome == OK && s.completion > 0 {
			tokens[s.class] += float64(s.completion)
			chunks[s.class] += float64(s.chunks)
		}
	}
	for i := range tokens {
		if chunks[i] > 0 {
			tokens[i] /= chunks[i]
		}
	}
	return tokens
}

// tally gathers one class, or all of them.
type tally struct {
	w      window
	ratios []float64

	sent, completed, failed, rejected int
	prompt                            int
	output                            float64
	uncounted                         bool          // an answer's prompt tokens are not known
	open                              time.Duration // sum of the time that requests were in flight inside the window

	ttft, tpot, e2e durations
	itl             gaps

	hasSLO bool
	judged int // requests sent inside that ended inside, well or failed
	good   int
	sloMet *bool // nil: too few requests to say
}

func newTally(w window, ratios []float64) *tally { return &tally{w: w, ratios: ratios} }

func (t *tally) add(s *sample, slo []Objective) {
	w := t.w
	if s.sent >= 0 {
		t.open += max(0, min(s.end, w.closed)-max(s.sent, w.opened))
		if s.stream == measured && w.holdsSent(s.sent) {
			t.sent++
		}
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
		t.output += float64(s.windowTokens) + float64(s.windowChunks)*t.ratios[s.class]
	}
	inside := s.stream == measured && w.holdsSent(s.sent) && w.holds(s.end)
	if inside && len(slo) > 0 && s.outcome != Cancelled {
		t.judged++
		if s.good(w, slo) {
			t.good++
		}
	}
	if !s.counts(w) {
		return
	}
	t.ttft = append(t.ttft, s.ttft())
	t.e2e = append(t.e2e, s.e2e())
	if d, ok := s.tpot(); ok {
		t.tpot = append(t.tpot, d)
	}
	t.itl = append(t.itl, s.gaps...)
}

// good says whether a request kept each objective of its class. One of its own metrics stands for it: for
// itl its own quantile over its tokens; a single token keeps tpot and itl.
func (s *sample) good(w window, slo []Objective) bool {
	if !s.counts(w) {
		return false
	}
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
		var d durations
		switch o.Metric {
		case "ttft":
			d = t.ttft
		case "tpot":
			d = t.tpot
		case "e2e":
			d = t.e2e
		case "itl":
			if t.itl.samples() < enough(o.Quantile) {
				return
			}
			slices.Sort(t.itl)
			met = met && gapQuantile(t.itl, o.Quantile) < o.Limit
			continue
		}
		if len(d) < enough(o.Quantile) {
			return
		}
		slices.Sort(d)
		met = met && d[rank(len(d), o.Quantile)] < o.Limit
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

func (t *tally) put(v map[string]float64, prefix string) {
	seconds := t.w.length().Seconds()
	v[prefix+"sent"] = float64(t.sent)
	v[prefix+"completed"] = float64(t.completed)
	v[prefix+"failed"] = float64(t.failed)
	v[prefix+"rejected"] = float64(t.rejected)
	v[prefix+"output_tokens"] = t.output
	v[prefix+"output_throughput"] = t.output / seconds
	v[prefix+"request_throughput"] = float64(t.completed) / seconds
	v[prefix+"mean_concurrency"] = t.open.Seconds() / seconds
	if !t.uncounted {
		v[prefix+"prompt_tokens"] = float64(t.prompt)
		v[prefix+"input_throughput"] = float64(t.prompt) / seconds
		v[prefix+"total_throughput"] = (float64(t.prompt) + t.output) / seconds
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
}
