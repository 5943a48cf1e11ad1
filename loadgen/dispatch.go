package loadgen

import (
	"context"
	"time"

	"github.com/sourcegraph/conc"
)

// dispatcher sends the requests of an open class at their times, each by a slot of its own goroutine.
type dispatcher struct {
	path     *connPath
	schedule *schedule
	idle     chan *slot // as a stack would be better for the connections, a queue is good enough for this path
	room     chan struct{}
	workers  conc.WaitGroup
}

// mostOpen is how many requests of an open class this path keeps in flight when nothing else bounds them.
const mostOpen = 1 << 14

func newDispatcher(p *connPath, s *schedule) *dispatcher {
	n := p.run.spec.Classes[s.class].Arrivals.MaxOpen
	if n == 0 {
		n = mostOpen
	}
	return &dispatcher{path: p, schedule: s, idle: make(chan *slot, n), room: make(chan struct{}, n)}
}

func (d *dispatcher) loop(ctx context.Context) {
	defer d.workers.Wait()
	r := d.path.run
	for {
		req, ok := d.schedule.next(ctx, 0)
		if !ok {
			return
		}
		if left := req.due - r.since(); left > 0 {
			wait(ctx, left)
		}
		select {
		case d.room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			d.leave(ctx, req)
			return
		}
		d.send(ctx, req)
	}
}

// send gives a request to a slot that is free, or to a new one.
func (d *dispatcher) send(ctx context.Context, req request) {
	var s *slot
	select {
	case s = <-d.idle:
	default:
		s = d.path.newSlot(d.schedule.back)
		d.path.mu.Lock()
		d.path.open = append(d.path.open, s)
		d.path.mu.Unlock()
		if ctx.Err() != nil {
			s.client.stop()
		}
	}
	s.freed = req.due
	d.workers.Go(func() {
		s.send(ctx, req)
		s.back(req.bytes)
		d.idle <- s
		<-d.room
	})
}

// leave records the requests that were due and never went, from req on.
func (d *dispatcher) leave(ctx context.Context, req request) {
	r := d.path.run
	for ok := true; ok && req.due <= r.since(); req, ok, _ = d.schedule.take(0) {
		r.out.put(unsent(r.out.blank(), req, cancelled(context.Cause(ctx)), r.since()))
	}
}

// unsent makes the record of a request that was due and never went.
func unsent(f *finished, req request, v verdict, now time.Duration) *finished {
	f.class, f.open, f.exact, f.goes, f.track = req.class, true, req.exact, false, f.track[:0]
	f.rec = req.record()
	rec := &f.rec
	rec.Sched, rec.Admit, rec.Send, rec.Sent, rec.Header, rec.End = req.due, -1, -1, -1, -1, now
	rec.Outcome, rec.Kind, rec.Reason = v.outcome, v.kind, v.reason
	rec.PromptTokens, rec.OutputTokens, rec.CachedTokens, rec.CachedDevice, rec.CachedHost, rec.Retransmits = unknown, unknown, unknown, unknown, unknown, unknown
	return f
}
