package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
)

// path is a way for requests to the server and back.
type path interface {
	// prepare opens the connections that the closed pools need.
	prepare(ctx context.Context) error
	// lanes is into how many parts each schedule is to be split.
	lanes() int
	// drive keeps the pools busy until ctx ends. Then it cuts what is in flight, hands over every request, and
	// closes every connection before it returns.
	drive(ctx context.Context)
	// failing says whether each slot's last three requests failed without a token.
	failing() bool
	// resent counts the requests that went over a new connection because the old one was being closed.
	resent() int
	// kind says how requests travel, and who stamps events.
	kind() (client, stamps string)
	// room is what is left for further connections, asked before the connections are closed.
	room() room
	// load adds what the path observed of itself until now.
	load(*shot)
}

// connPath holds each slot by a goroutine of its own over a net.Conn: for TLS, for connections in memory and for
// systems without epoll. Events are stamped after the goroutine woke up.
type connPath struct {
	run   *run
	dial  func(context.Context) (net.Conn, error)
	slots []*slot // of the closed classes

	transport *http.Transport // nil: by net.Conn
	base      *url.URL

	stats connStats

	mu   sync.Mutex
	open []*slot // of the open classes
}

// connStats is what all slots observed.
type connStats struct {
	reads, events, coalesced atomic.Int64
	turn                     hist // from a slot's release to its next request
	lag                      hist // from a planned time to the request
}

// newConnPath makes a path by dial, or through the standard library when library is set.
func newConnPath(r *run, dial func(context.Context) (net.Conn, error), library bool) (*connPath, error) {
	p := &connPath{run: r, dial: dial}
	if library {
		base, err := url.Parse(r.spec.URL)
		if err != nil {
			return nil, fmt.Errorf("server's URL: %w", err)
		}
		slots := 0
		for i := range r.spec.Classes {
			slots += r.spec.Classes[i].connections()
		}
		p.base, p.transport = base, newTransport(&r.spec, slots)
	}
	for _, f := range r.feeds {
		for range r.spec.Classes[f.class].slots {
			p.slots = append(p.slots, p.newSlot(f.back))
			p.slots[len(p.slots)-1].feed = f
		}
	}
	return p, nil
}

func (p *connPath) newSlot(back func([]byte)) *slot {
	s := &slot{path: p, back: back}
	if p.transport != nil {
		s.client = &httpClient{transport: p.transport, base: p.base, timeout: p.run.spec.RequestTimeout, since: p.run.since, onRead: s.onRead}
		return s
	}
	s.client = &client{dial: p.dial, timeout: p.run.spec.RequestTimeout, since: p.run.since, onRead: s.onRead}
	return s
}

func (p *connPath) lanes() int { return 1 }

func (p *connPath) prepare(context.Context) error { return nil } // each slot dials with its first request

func (p *connPath) drive(ctx context.Context) {
	var workers conc.WaitGroup
	for _, s := range p.slots {
		workers.Go(func() { s.loop(ctx) })
	}
	for _, sch := range p.run.schedules {
		workers.Go(func() { newDispatcher(p, sch).loop(ctx) })
	}
	<-ctx.Done()
	for _, s := range p.slots {
		s.client.stop()
	}
	p.mu.Lock()
	for _, s := range p.open {
		s.client.stop()
	}
	p.mu.Unlock()
	workers.Wait()
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

func (p *connPath) failing() bool {
	for _, s := range p.slots {
		if s.fails.Load() < 3 {
			return false
		}
	}
	return true
}

func (p *connPath) resent() int {
	n := 0
	for _, s := range slices.Concat(p.slots, p.open) {
		n += s.client.repeats()
	}
	return n
}

func (p *connPath) kind() (client, stamps string) {
	if p.transport != nil {
		return ClientHTTP, StampsUser
	}
	return ClientConn, StampsUser
}

func (p *connPath) room() room { return room{unknown, unknown} }

func (p *connPath) load(s *shot) {
	s.reads += p.stats.reads.Load()
	s.events += p.stats.events.Load()
	s.coalesced += p.stats.coalesced.Load()
	p.stats.turn.shot(&s.turn)
	p.stats.lag.shot(&s.lag)
}

// slot sends one request after the other over its own connection.
type slot struct {
	path   *connPath
	feed   *feed        // of a closed class
	back   func([]byte) // takes a request's buffer back
	client sender
	freed  time.Duration // when it became free; the planned time of a request of an open class
	fails  atomic.Int32  // requests in a row that failed without a token
}

// Back-off of a slot whose requests fail without a token.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = 2 * time.Second
)

func backoff(fails int32) time.Duration { return min(backoffFirst<<min(fails-1, 10), backoffMax) }

// loop keeps the slot busy until ctx ends.
func (s *slot) loop(ctx context.Context) {
	defer s.client.drop()
	for ctx.Err() == nil {
		s.freed = s.path.run.since()
		req, ok := s.feed.next(ctx)
		if !ok {
			return
		}
		v := s.send(ctx, req)
		for req.goesOn(v) && ctx.Err() == nil {
			reply, end := s.client.answer(), s.path.run.since()
			next := s.path.run.maker.follow(&req, reply.said, max(0, reply.completion), nil)
			s.freed = end + next.think
			wait(ctx, s.freed-s.path.run.since())
			if ctx.Err() != nil {
				return
			}
			s.back(req.bytes)
			req = next
			v = s.send(ctx, req)
		}
		s.back(req.bytes)
		if n := s.fails.Load(); n > 0 {
			wait(ctx, backoff(n))
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

// send does one request and hands its record over.
func (s *slot) send(ctx context.Context, req request) verdict {
	r := s.path.run
	admit := r.since()
	r.begin()
	answer := s.client.answer()
	answer.wants, answer.asked = req.talk != nil, req.output
	trip, err := s.client.do(ctx, req.bytes)
	reply := s.client.answer()
	f := r.out.blank()
	f.exact, f.class, f.open = req.exact, req.class, s.feed == nil
	f.rec = req.record()
	f.rec.Sched, f.rec.Admit, f.rec.Send, f.rec.Sent, f.rec.Resent = s.freed, admit, trip.send, trip.sent, trip.resent
	f.rec.Retransmits = unknown
	v := req.judge(reply, err)
	if v.outcome != OK {
		if cause := context.Cause(ctx); cause != nil {
			v = cancelled(cause)
		} else if reply.track.bearing == 0 {
			s.fails.Add(1)
		}
	}
	if trip.send >= 0 && s.feed != nil {
		s.path.stats.turn.add(trip.send - s.freed)
	} else if trip.send >= 0 {
		s.path.stats.lag.add(trip.send - s.freed)
	}
	f.goes = req.goesOn(v)
	r.ended(f, reply, v, r.since())
	return v
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
	p := &s.path.stats
	p.reads.Add(1)
	p.events.Add(int64(reply.arrived))
	p.coalesced.Add(int64(max(0, reply.arrived-1)))
	s.path.run.arrived(reply)
}
