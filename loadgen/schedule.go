package loadgen

import (
	"context"
	"sync"
	"time"
)

// schedule holds the requests of an open class: their times, drawn before the clock starts, and the requests
// themselves, prepared ahead of their use. They are dealt out to lanes, one for each thread that sends.
type schedule struct {
	maker *maker
	class int
	plan  *plan
	times []time.Duration // the first arrivals
	lanes []chan request  // closed after the last request
	limit int             // of requests; 0: none

	low    chan struct{} // of capacity 1: a lane is half empty
	primed chan struct{} // closed when the lanes were full for the first time
	once   sync.Once
	free   chan []byte
}

// mostPlanned is how many arrivals are drawn before the clock starts; a longer run draws the others, of the same
// stream, ahead of their use.
const mostPlanned = 1 << 20

func newSchedule(m *maker, class int) *schedule {
	c := &m.spec.Classes[class]
	s := &schedule{
		maker: m, class: class, plan: newPlan(c.Arrivals, stream(m.spec.Seed, "arrivals", c.Name)),
		low: make(chan struct{}, 1), primed: make(chan struct{}),
	}
	if w := &m.spec.Window; w.Exactly {
		s.limit = w.Requests[c.Name]
	}
	horizon := m.spec.Warmup.Time + m.spec.Warmup.StableMax + m.spec.Window.Max
	for len(s.times) < mostPlanned && (len(s.times) == 0 || s.times[len(s.times)-1] <= horizon) {
		at, ok := s.plan.draw()
		if !ok {
			break
		}
		s.times = append(s.times, at)
	}
	return s
}

// at is the time of an arrival. It is called with growing indices.
func (s *schedule) at(i int) (time.Duration, bool) {
	if i < len(s.times) {
		return s.times[i], true
	}
	return s.plan.draw()
}

// split makes the lanes.
func (s *schedule) split(n int) {
	size := s.maker.sizeOf(s.class)
	depth := min(max(leastReady, readyBytes/size/n), mostReady/n)
	for range n {
		s.lanes = append(s.lanes, make(chan request, depth))
	}
	s.free = make(chan []byte, n*depth+leastReady)
}

// prepare fills the lanes until ctx ends or the last request is in.
func (s *schedule) prepare(ctx context.Context) {
	defer func() {
		for _, l := range s.lanes {
			close(l)
		}
		s.once.Do(func() { close(s.primed) })
	}()
	part, parts := s.maker.spec.Part, s.maker.spec.Parts
	for i, n := 0, 0; s.limit == 0 || i < s.limit; i++ {
		due, ok := s.at(i)
		if !ok {
			return
		}
		if i%parts != part {
			continue
		}
		var buf []byte
		select {
		case buf = <-s.free:
		default:
		}
		req := s.maker.make(s.class, measured, i, buf)
		req.due = due
		if !s.fill(ctx, s.lanes[n%len(s.lanes)], req) {
			return
		}
		n++
	}
}

// fill puts a request into a lane, and waits while that is full.
func (s *schedule) fill(ctx context.Context, lane chan request, req request) bool {
	for len(lane) == cap(lane) { // nobody else fills it
		s.once.Do(func() { close(s.primed) })
		select {
		case <-s.low:
		case <-ctx.Done():
			return false
		}
	}
	lane <- req
	return ctx.Err() == nil
}

// take returns the next request of a lane. ok is false when none is ready; over, when none will come.
func (s *schedule) take(lane int) (req request, ok, over bool) {
	l := s.lanes[lane]
	select {
	case req, ok = <-l:
		if !ok {
			return req, false, true
		}
	default:
		return req, false, false
	}
	s.taken(l)
	return req, true, false
}

func (s *schedule) taken(lane chan request) {
	if len(lane) > cap(lane)/2 {
		return
	}
	select {
	case s.low <- struct{}{}:
	default:
	}
}

// next is take that waits until a request is ready or ctx ends.
func (s *schedule) next(ctx context.Context, lane int) (req request, ok bool) {
	select {
	case req, ok = <-s.lanes[lane]:
		s.taken(s.lanes[lane])
		return req, ok
	case <-ctx.Done():
		return req, false
	}
}

// back takes a request's buffer to be used again.
func (s *schedule) back(buf []byte) {
	select {
	case s.free <- buf:
	default:
	}
}
