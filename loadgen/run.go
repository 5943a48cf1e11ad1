package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
)

type conn = net.Conn

// errClosing is why in-flight requests end when the window closes.
var errClosing = errors.New("in flight when the window closed")

// run is one run: pools of slots, and a coordinator that decides when the window opens and closes.
type run struct {
	spec    Spec
	start   time.Time
	maker   *maker
	pools   []*pool
	lines   *recorder
	watch   *watch
	openedC chan struct{} // closed when the window opens
	moved   chan struct{} // of capacity 1: a request ended

	inFlight  atomic.Int64
	openSince atomic.Int64 // when inFlight last rose from zero, ns since the start
	live      atomic.Int64 // tokens received, or text events where the server does not count as it goes
	failing   atomic.Int64 // requests that failed since the last token

	openedAt atomic.Int64 // win.opened, to be read without the lock

	mu       sync.Mutex
	win      window // opened −1 before the window, closed in the far future until it closes
	samples  []*sample
	ends     []int // by class: requests of the warm-up that ended
	inside   []int // by class: requests both sent and ended well inside
	result   Result
	lastFail string
	blank    bool // a request ended well without a finish reason
	totals   bool // a server told only totals
}

const never = time.Duration(1<<63 - 1)

// Run holds the pools of a spec through warm-up and window, and says what the requests saw. It returns
// when every request has ended and every connection is closed.
//
// The error says that the run did not come to its end: ErrStalled, ErrFailing, the cause of ctx, or a
// request file that cannot be written. The result then holds what was seen until then, with Complete false.
func Run(ctx context.Context, spec Spec) (Result, error) {
	r, dial, err := newRun(spec)
	if err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	for i := range r.spec.Classes {
		r.pools = append(r.pools, newPool(r, i, dial))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var writer, workers conc.WaitGroup
	writer.Go(r.lines.loop)
	for _, p := range r.pools {
		workers.Go(func() { p.prepare(ctx, warmUp, p.warm, r.openedC) })
		workers.Go(func() { p.prepare(ctx, measured, p.measured, nil) })
		for _, s := range p.slots {
			workers.Go(func() { s.loop(ctx) })
		}
	}
	err = r.coordinate(ctx)
	cause := err
	if cause == nil {
		cause = errClosing
	}
	cancel(cause)
	for _, p := range r.pools {
		for _, s := range p.slots {
			s.client.stop()
		}
	}
	workers.Wait()
	r.lines.close()
	writer.Wait()
	if err == nil {
		err = r.lines.failed()
	}
	return r.finish(err), err
}

func newRun(spec Spec) (*run, func(context.Context) (net.Conn, error), error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	dial, err := dialer(&spec)
	if err != nil {
		return nil, nil, err
	}
	r := &run{
		spec: spec, start: time.Now(), openedC: make(chan struct{}), moved: make(chan struct{}, 1),
		lines: newRecorder(spec.Requests), win: window{opened: -1, closed: never},
		ends: make([]int, len(spec.Classes)), inside: make([]int, len(spec.Classes)),
	}
	r.result.Failures = map[string]int{}
	r.openedAt.Store(-1)
	r.watch = &watch{}
	r.maker, err = newMaker(&r.spec)
	return r, dial, err
}

// since is the time since the start of the run, from the monotonic clock.
func (r *run) since() time.Duration { return time.Since(r.start) }

// opened is when the window opened; −1 before.
func (r *run) opened() time.Duration { return time.Duration(r.openedAt.Load()) }

func (r *run) begin() {
	if r.inFlight.Add(1) == 1 {
		r.openSince.Store(int64(r.since()))
	}
	r.spec.Counters.Sent.Add(1)
}

// arrived notes what one read brought.
func (r *run) arrived(reply *reply) {
	r.watch.byteAt(reply.now, reply.moved, r.opened())
	r.spec.Counters.LastByte.Store(r.start.Add(reply.now).UnixNano())
	if reply.texts == 0 {
		return
	}
	if len(reply.chunks) == reply.texts { // nothing came before this read
		r.spec.Counters.FirstTokens.Add(1)
	}
	if r.failing.Load() != 0 {
		r.failing.Store(0)
	}
	if reply.fresh > 0 {
		r.spec.Counters.Tokens.Add(int64(reply.fresh))
		r.live.Add(int64(reply.fresh))
	} else {
		r.live.Add(int64(reply.texts))
	}
}

// ended takes the sample of a request that ended.
func (r *run) ended(x *sample, reply *reply) {
	r.inFlight.Add(-1)
	c := r.spec.Counters
	if !reply.continuous && reply.completion > 0 {
		c.Tokens.Add(int64(reply.completion))
	}
	switch x.outcome {
	case OK:
		c.Finished.Add(1)
		c.FinishedTokens.Add(int64(x.completion))
		c.PromptTokens.Add(int64(max(0, x.prompt)))
	case Failed:
		c.Failed.Add(1)
		r.failing.Add(1)
	case Rejected:
		c.Rejected.Add(1)
		r.failing.Add(1)
	}
	r.mu.Lock()
	x.inWindow(reply.chunks, r.win)
	if x.counts(r.win) {
		x.keepGaps(reply.chunks, r.spec.Classes[x.class].SLO)
	}
	r.count(x, reply)
	r.lines.add(x.line(r.spec.Classes[x.class].Name))
	r.mu.Unlock()
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// count keeps a sample and the run's own counts; r.mu is held.
func (r *run) count(x *sample, reply *reply) {
	r.samples = append(r.samples, x)
	res := &r.result
	res.Sent++
	switch x.outcome {
	case OK:
		res.Completed++
		r.blank = r.blank || reply.finish == finishNone
		r.totals = r.totals || !reply.continuous
	case Failed, Rejected:
		if x.outcome == Failed {
			res.Failed++
		} else {
			res.Rejected++
		}
		res.Failures[x.kind]++
		r.lastFail = fmt.Sprintf("%s: %s", x.kind, x.reason)
		if res.FirstFailure == "" {
			res.FirstFailure = fmt.Sprintf("%s request %d: %s", r.spec.Classes[x.class].Name, x.index, r.lastFail)
		}
	}
	if x.stream == warmUp && x.index < r.spec.Classes[x.class].Concurrency {
		r.ends[x.class]++
	}
	if x.stream == measured && x.outcome == OK && r.win.holdsSent(x.sent) && r.win.holds(x.end) {
		r.inside[x.class]++
	}
}
