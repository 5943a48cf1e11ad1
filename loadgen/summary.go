package loadgen

import "time"

// summary gathers what a run's requests come to, class by class, in memory that does not grow with the run.
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
//
// The whole run is gathered by the same rules, from the first request to the last.
type summary struct {
	classes []Class
	window  []*tally // by class
	whole   []*tally
}

func newSummary(classes []Class) *summary {
	s := &summary{classes: classes}
	for range classes {
		s.window = append(s.window, newTally(false))
		s.whole = append(s.whole, newTally(true))
	}
	return s
}

// add takes a request that ended. w is the window as it is known now: what has ended is before its close.
func (s *summary) add(x *sample, bearing []Chunk, w window) {
	slo := s.classes[x.class].SLO
	x.inWindow(bearing, w)
	if x.outcome == OK && len(bearing) > 0 {
		x.keepGaps(bearing, slo)
	}
	s.window[x.class].add(x, slo, w, x.windowTokens, x.windowChunks)
	all := window{0, never}
	x.inWindow(bearing, all)
	s.whole[x.class].add(x, slo, all, x.windowTokens, x.windowChunks)
}

// values are the numbers of the window; wholeValues those of the whole run, which took so long.
func (s *summary) values(length time.Duration) map[string]float64 {
	return s.put(s.window, length, false)
}

func (s *summary) wholeValues(length time.Duration) map[string]float64 {
	return s.put(s.whole, length, false)
}

// definitions are the latencies of the window by the other definitions that are in use.
func (s *summary) definitions(length time.Duration) map[string]float64 {
	return s.put(s.window, length, true)
}

func (s *summary) put(tallies []*tally, length time.Duration, definitions bool) map[string]float64 {
	v := map[string]float64{}
	if length <= 0 {
		return v
	}
	all := newTally(tallies[0].whole)
	for i, c := range s.classes {
		t := tallies[i]
		if t.hasSLO = len(c.SLO) > 0; t.hasSLO {
			t.judgeSLO(c.SLO)
			all.adopt(t)
		}
		all.join(t)
		switch {
		case len(s.classes) == 1:
		case definitions:
			t.putDefinitions(v, c.Name+"_")
		default:
			t.put(v, c.Name+"_", length)
		}
	}
	if definitions {
		all.putDefinitions(v, "")
	} else {
		all.put(v, "", length)
	}
	return v
}
