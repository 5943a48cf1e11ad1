package loadgen

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// pool holds one class at its level: as many slots as the class's concurrency, each with one request
// in flight at any time.
type pool struct {
	run   *run
	class int
	slots []*slot

	warm, measured chan request // prepared requests, so that nothing is made on the timing path
	free           chan []byte  // buffers to use again
}

// slot sends one request after the other over its own connection.
type slot struct {
	pool   *pool
	client *client
	fails  atomic.Int32 // requests in a row that failed without a token
}

// ready is how many requests of each stream are prepared ahead.
const ready = 16

func newPool(r *run, class int, dial func(context.Context) (conn, error)) *pool {
	p := &pool{run: r, class: class, warm: make(chan request, ready), measured: make(chan request, ready)}
	n := r.spec.Classes[class].Concurrency
	p.free = make(chan []byte, n+2*ready)
	for range n {
		s := &slot{pool: p}
		s.client = &client{dial: dial, timeout: r.spec.RequestTimeout, since: r.since, onRead: s.onRead}
		p.slots = append(p.slots, s)
	}
	return p
}

// prepare makes the requests of a stream ahead of their use, until ctx ends or done closes.
func (p *pool) prepare(ctx context.Context, name string, to chan<- request, done <-chan struct{}) {
	for i := 0; ; i++ {
		var buf []byte
		select {
		case buf = <-p.free:
		default:
		}
		req := p.run.maker.make(p.class, name, i, buf)
		select {
		case to <- req:
		case <-done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// next is the next request to send: of the measured stream once the window is open.
func (p *pool) next(ctx context.Context) (request, bool) {
	select {
	case <-p.run.openedC:
	default:
		select {
		case req := <-p.warm:
			return req, true
		case <-p.run.openedC:
		case <-ctx.Done():
			return request{}, false
		}
	}
	select {
	case req := <-p.measured:
		return req, true
	case <-ctx.Done():
		return request{}, false
	}
}

// Back-off of a slot whose requests fail without a token.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = 2 * time.Second
)

// loop keeps the slot busy until ctx ends.
func (s *slot) loop(ctx context.Context) {
	defer s.client.drop()
	for ctx.Err() == nil {
		req, ok := s.pool.next(ctx)
		if !ok {
			return
		}
		s.send(ctx, req)
		select {
		case s.pool.free <- req.bytes:
		default:
		}
		if n := s.fails.Load(); n > 0 {
			wait(ctx, min(backoffFirst<<min(n-1, 10), backoffMax))
		}
	}
}

// wait sleeps unless ctx ends first.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// send does one request and hands its sample to the run.
func (s *slot) send(ctx context.Context, req request) {
	r := s.pool.run
	r.begin()
	sent, err := s.client.do(ctx, req.bytes)
	reply := &s.client.reply
	x := &sample{
		class: req.class, stream: req.stream, index: req.index, sent: sent, end: r.since(),
		askedIn: req.input, askedOut: req.output,
	}
	x.fill(reply)
	x.verdict = reply.judge(req.output, err)
	if x.outcome != OK {
		if cause := context.Cause(ctx); cause != nil {
			x.verdict = cancelled(cause)
		} else if len(reply.chunks) == 0 {
			s.fails.Add(1)
		}
	}
	r.ended(x, reply)
}

// cancelled is the verdict on a request that the run itself ended.
func cancelled(cause error) verdict {
	if errors.Is(cause, ErrStalled) {
		return verdict{Failed, KindStalled, cause.Error()}
	}
	return verdict{Cancelled, "", cause.Error()}
}

// onRead runs after each read.
func (s *slot) onRead(reply *reply, _ int) {
	if reply.texts > 0 && s.fails.Load() != 0 {
		s.fails.Store(0)
	}
	s.pool.run.arrived(reply)
}
