package simulate

import (
	"cmp"
	"slices"
	"time"
)

// decodeStats is what a "Decode batch" line says.
type decodeStats struct {
	running, tokens, queued int
	usage                   float64
	graph                   bool
	throughput              float64 // tokens a second of real time since the last such line
}

// retractStats is what a "KV cache pool is full" line says.
type retractStats struct {
	requests, gained int
	from, to         float64
}

// decodeStep gives each running request one more token, after making room for it.
func (s *scheduler) decodeStep(now time.Time) (step, bool) {
	if len(s.running) == 0 {
		return step{}, false
	}
	if s.cache.available() < len(s.running) {
		s.retract(now)
		if len(s.running) == 0 {
			return s.next(now)
		}
	} else {
		s.ratio = max(s.ratio-s.decay, s.ratioMin)
	}
	s.cache.allocate(len(s.running))
	n := len(s.running)
	return step{
		requests: s.running,
		seconds:  s.profile.StepBase + s.profile.StepPerRequest*float64(n),
		bytes:    s.mem.decodeActivation(n),
	}, true
}

// retract pushes requests out of the batch until the pool has room for some steps: those with the
// fewest generated tokens, of equals the one with the longest prompt. They wait at the end of the queue and start over.
func (s *scheduler) retract(now time.Time) {
	order := slices.Clone(s.running)
	slices.SortStableFunc(order, func(a, b *request) int {
		return cmp.Or(cmp.Compare(b.produced, a.produced), cmp.Compare(len(a.prompt), len(b.prompt)))
	})
	st := retractStats{from: s.ratio}
	before := s.cache.available()
	for len(order) > 1 && (st.requests == 0 || s.cache.available() < len(order)*retractSteps) {
		r := order[len(order)-1]
		order = order[:len(order)-1]
		s.release(r, false)
		r.ids = withOutput(r, r.produced)
		r.base, r.filled = r.produced, 0
		r.retraction++
		s.counts.retracted.Add(1)
		s.counts.retractedIn.Add(int64(len(r.prompt)))
		s.counts.retractedOut.Add(int64(r.produced))
		st.requests++
		s.waiting = append(s.waiting, r)
	}
	if len(order) == 1 && s.cache.available() < 1 {
		s.end(order[0], now, &reason{Type: "abort", Status: 500, Message: "Out of memory even after retracting all other requests in the decode batch. Aborting the last request."})
		order = nil
	}
	s.running = slices.DeleteFunc(s.running, func(r *request) bool { return !slices.Contains(order, r) })
	decoded, wanted := 0, 1
	for _, r := range order {
		decoded += r.produced
		wanted += r.maxNew
	}
	s.ratio = min(1, float64(decoded+retractSteps*len(order))/float64(wanted))
	st.gained, st.to = s.cache.available()-before, s.ratio
	if s.on.retract != nil {
		s.on.retract(st)
	}
}

// withOutput is a request's prompt and the first n tokens that it generated.
func withOutput(r *request, n int) []int32 {
	ids := make([]int32, 0, len(r.prompt)+n)
	ids = append(ids, r.prompt...)
	for i := range n {
		ids = append(ids, r.token(i))
	}
	return ids
}

func (s *scheduler) finishDecode(requests []*request, now time.Time) {
	for _, r := range requests {
		r.produced++
	}
	s.counts.decoded.Add(int64(len(requests)))
	s.counts.decodeSteps.Add(1)
	s.sinceLog += len(requests)
	s.decodeSteps++
	for _, r := range requests {
		s.after(r, now)
	}
	s.compact()
	if s.logInterval > 0 && s.decodeSteps%s.logInterval == 0 {
		s.logDecode(len(requests), now)
	}
}

func (s *scheduler) logDecode(running int, now time.Time) {
	used := s.cache.usedTokens()
	st := decodeStats{running: running, tokens: used, queued: len(s.waiting), usage: float64(used) / float64(s.cache.total), graph: s.mem.maxDecodeBS >= running}
	if !s.lastLog.IsZero() {
		st.throughput = float64(s.sinceLog) / max(1e-6, now.Sub(s.lastLog).Seconds())
	}
	s.lastLog, s.sinceLog = now, 0
	s.snapshot(st.throughput)
	if s.on.decode != nil {
		s.on.decode(st)
	}
}

// after publishes a request's new token, and ends the request when it was the last.
func (s *scheduler) after(r *request, now time.Time) {
	switch {
	case r.aborted:
		s.end(r, now, &reason{Type: "abort", Message: "Abort in running batch"})
	case r.produced >= r.maxNew:
		s.end(r, now, &reason{Type: "length"})
	case r.produced >= r.stopAt:
		s.end(r, now, &reason{Type: "stop"})
	default:
		r.publish(now, nil)
	}
}

// end takes a request out: its tokens stay in the tree as long as nobody needs the room.
func (s *scheduler) end(r *request, now time.Time, cause *reason) {
	if r.node != nil || s.cache.disabled {
		s.release(r, true)
	}
	s.full = false
	r.publish(now, cause)
	r.node = nil
	r.ids = nil // marks it as ended
	if s.on.ended != nil {
		s.on.ended(r)
	}
}

// release gives a request's tokens back: to the tree, or (keep false: a retraction) to the free ones.
func (s *scheduler) release(r *request, keep bool) {
	context := r.context()
	if s.cache.disabled {
		s.cache.free += context
		return
	}
	if !keep {
		s.cache.free += context - r.inTree
	} else {
		s.cache.insert(withOutput(r, context-len(r.prompt))[:context], r.inTree)
	}
	s.cache.unlock(r.node)
	r.node, r.inTree = nil, 0
}

// compact drops ended requests from the batch.
func (s *scheduler) compact() {
	s.running = slices.DeleteFunc(s.running, func(r *request) bool { return r.ids == nil })
}
