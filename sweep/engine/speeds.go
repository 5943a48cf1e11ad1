package engine

import (
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

const (
	maxSpeeds  = 4096 // figures that are listed; of a longer log the list is left out
	collapse   = 0.5  // share of the speed before a retraction under which a regime counts as collapsed
	fewSpeeds  = 3    // figures that make a regime
	keptSpeeds = 2048 // figures of one replica that a median is made from
)

// speeds gathers the tokens/s that decode lines give. The first figure after a start or after idle time covers time in
// which nothing ran, so that it is listed and not counted.
type speeds struct {
	list     []float64
	tooMany  bool
	replicas map[string]*replica

	before, after []float64 // tokens/s for each running request, before and after the first retraction
	pushed        bool
}

// replica is one data-parallel rank: each prints its own share.
type replica struct {
	fresh   bool // nothing ran before the next figure
	steady  []float64
	stride  int // one of so many figures is kept
	skipped int
	first   float64
	figures int
	last    float64 // of a line every ten seconds: whether it ran to the end shows the next line
	pending bool
}

func (s *speeds) add(e sweep.LogEvent) {
	gen, ok := e.Values[sweep.SignalGenThroughput]
	running, haveRunning := e.Values[sweep.SignalRunning]
	_, timed := e.Values["prompt_throughput"]
	r := s.replica(e)
	if e.Text == "prefill" && !timed {
		r.fresh = r.fresh || haveRunning && running == 0
		return
	}
	if !ok {
		return
	}
	if timed && (gen == 0 || running == 0) {
		if gen > 0 {
			s.listed(gen)
		}
		r.fresh, r.pending = true, false
		return
	}
	s.listed(gen)
	if haveRunning && running > 0 {
		s.regime(gen / running)
	}
	r.figures++
	if r.figures == 1 {
		r.first = gen
	}
	if r.pending {
		r.keep(r.last)
		r.pending = false
	}
	switch {
	case r.fresh:
	case timed:
		r.last, r.pending = gen, true
	default:
		r.keep(gen)
	}
	r.fresh = false
}

func (s *speeds) replica(e sweep.LogEvent) *replica {
	key := ""
	if n, ok := e.Values["engine"]; ok {
		key = strconv.FormatFloat(n, 'f', -1, 64)
	}
	for word := range strings.FieldsSeq(e.Rank) {
		if strings.HasPrefix(word, "DP") {
			key = word
		}
	}
	r := s.replicas[key]
	if r == nil {
		if s.replicas == nil {
			s.replicas = map[string]*replica{}
		}
		r = &replica{stride: 1}
		if len(s.replicas) < maxRanks {
			s.replicas[key] = r
		}
	}
	return r
}

func (s *speeds) listed(v float64) {
	if len(s.list) >= maxSpeeds {
		s.tooMany, s.list = true, nil
	}
	if !s.tooMany {
		s.list = append(s.list, v)
	}
}

// keep holds a figure for the median, ever fewer of them in a long log.
func (r *replica) keep(v float64) {
	if r.skipped++; r.skipped < r.stride {
		return
	}
	r.skipped = 0
	if len(r.steady) == keptSpeeds {
		for i := range keptSpeeds / 2 {
			r.steady[i] = r.steady[2*i]
		}
		r.steady = r.steady[:keptSpeeds/2]
		r.stride *= 2
	}
	r.steady = append(r.steady, v)
}

func (s *speeds) regime(each float64) {
	list := &s.before
	if s.pushed {
		list = &s.after
	}
	if len(*list) < keptSpeeds {
		*list = append(*list, each)
	}
}

func (s *speeds) retracted() { s.pushed = true }

// collapsed reports that requests ran at less than half the speed after a retraction, and went on so.
func (s *speeds) collapsed() bool {
	return len(s.before) >= fewSpeeds && len(s.after) >= fewSpeeds && median(s.after) < collapse*median(s.before)
}

// steadyState is the speed of the whole engine: the median of each replica, added up.
func (s *speeds) steadyState() (float64, bool) {
	total, found := 0.0, false
	single := len(s.replicas) > 1
	for _, r := range s.replicas {
		single = single && r.figures <= 1
	}
	for _, r := range s.replicas {
		switch {
		case len(r.steady) > 0:
			total += median(r.steady)
			found = true
		case single && r.figures == 1: // one line of each: there is nothing better
			total += r.first
			found = true
		case r.figures > 0:
			return 0, false
		}
	}
	return total, found
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
