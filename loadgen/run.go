package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
)

// errClosing is why in-flight requests end when the window closes.
var errClosing = errors.New("in flight when the window closed")

// run is one run: a path that keeps requests going, a collector of those that ended, and a coordinator that decides
// when the window opens and closes.
type run struct {
	spec      Spec
	start     time.Time
	maker     *maker
	feeds     []*feed     // of the closed classes
	schedules []*schedule // of the open ones
	builder   *builder
	path      path
	out       *collector
	watch     *watch
	openedC   chan struct{} // closed when the window opens
	moved     chan struct{} // of capacity 1: a request ended

	inFlight  atomic.Int64
	openSince atomic.Int64 // when inFlight last rose from zero, ns since the start
	live      atomic.Int64 // tokens received, or text events where the server does not count as it goes
	failing   atomic.Int64 // requests that failed since the last token

	shots struct{ begin, open, close *shot } // what the client observed of itself; open is nil before the window

	openedAt atomic.Int64 // win.opened, to be read without the lock

	mu       sync.Mutex
	win      window // opened −1 before the window, closed in the far future until it closes
	summary  *summary
	ends     []int // by class: requests of the warm-up that ended
	inside   []int // by class: requests both sent and ended well inside
	over     []int // by class: measured requests that ended, of a conversation the last one
	result   Result
	lastEnd  time.Duration // when the last request was over
	lastFail string
	blank    bool  // a request ended well without a finish reason
	totals   bool  // a server told only totals
	unequal  int   // requests whose prompt the server counts otherwise
	badCount error // the first of them
	cut      int   // chunks without a count of streams that were cut
}

const never = time.Duration(1<<63 - 1)

// Run holds the pools of a spec through warm-up and window, and says what the requests saw. It returns
// when every request has ended and every connection is closed.
//
// The error says that the run did not come to its end: ErrStalled, ErrFailing, the cause of ctx, or a
// file that cannot be written. The result then holds what was seen until then, with Complete false.
func Run(ctx context.Context, spec Spec) (Result, error) {
	r, err := newRun(spec)
	if err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	return r.do(ctx)
}

func (r *run) do(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var makers, collector, writer conc.WaitGroup
	for _, f := range r.feeds {
		makers.Go(func() { f.prepare(ctx, &f.warm, r.openedC) })
		makers.Go(func() { f.prepare(ctx, &f.measured, nil) })
	}
	for _, s := range r.schedules {
		makers.Go(func() { s.prepare(ctx) })
	}
	for _, f := range r.feeds {
		<-f.warm.primed
		<-f.measured.primed
	}
	for _, s := range r.schedules {
		<-s.primed
	}
	if err := r.path.prepare(ctx); err != nil {
		cancel(err)
		makers.Wait()
		return Result{}, fmt.Errorf("load: %w", err)
	}
	if err := r.await(ctx); err != nil {
		cancel(err)
		r.path.drive(ctx)
		makers.Wait()
		return Result{}, fmt.Errorf("load: %w", err)
	}
	r.begins()
	writer.Go(r.out.out.loop)
	collector.Go(r.out.loop)
	var turns conc.WaitGroup
	turns.Go(r.builder.loop)
	makers.Go(func() { r.path.drive(ctx) })
	err := r.coordinate(ctx)
	r.endWindow() // of a run that was stopped
	cause := err
	if cause == nil {
		cause = errClosing
	}
	cancel(cause)
	makers.Wait()
	close(r.builder.jobs)
	turns.Wait()
	r.out.close()
	collector.Wait()
	result := r.finish(err)
	r.out.out.note(frameEnd, r.recordEnd(&result))
	r.out.out.close()
	writer.Wait()
	if err == nil {
		err = r.out.out.failed()
		result.Complete = result.Complete && err == nil
	}
	return result, err
}

// await waits for the moment when the clock starts.
func (r *run) await(ctx context.Context) (err error) {
	at := r.spec.StartAt
	if r.spec.Ready != nil {
		if at, err = r.spec.Ready(ctx); err != nil {
			return err
		}
	}
	wait(ctx, time.Until(at))
	return nil
}

func newRun(spec Spec) (*run, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{
		spec: spec, start: time.Now(), openedC: make(chan struct{}), moved: make(chan struct{}, 1),
		win: window{opened: -1, closed: never}, summary: newSummary(spec.Classes),
		ends: make([]int, len(spec.Classes)), inside: make([]int, len(spec.Classes)), over: make([]int, len(spec.Classes)),
	}
	r.result.Failures = map[string]int{}
	r.openedAt.Store(-1)
	r.watch = &watch{}
	if r.maker, err = newMaker(&r.spec); err != nil {
		return nil, err
	}
	for i := range r.spec.Classes {
		if r.spec.Classes[i].Arrivals != nil {
			r.schedules = append(r.schedules, newSchedule(r.maker, i))
		} else {
			r.feeds = append(r.feeds, newFeed(r.maker, i, r.openedC))
		}
	}
	slots := 0
	for i := range r.spec.Classes {
		slots += r.spec.Classes[i].slots
	}
	r.builder = newBuilder(r.maker, slots)
	r.out = newCollector(r)
	if r.path, err = newPath(r); err != nil {
		return nil, err
	}
	for _, s := range r.schedules {
		s.split(r.path.lanes())
	}
	return r, nil
}

// newPath chooses the way of the requests: the fast one where it can be had.
func newPath(r *run) (path, error) {
	dial, address, err := dialer(&r.spec)
	if err != nil {
		return nil, err
	}
	proxy := viaProxy(&r.spec)
	plain := strings.HasPrefix(r.spec.URL, "http://") && r.spec.Dial == nil
	switch r.spec.Client {
	case "", ClientEpoll:
		if plain && !(proxy && r.spec.Client == "") {
			if p := newShardPath(r, address); p != nil {
				return p, nil
			}
		}
		if r.spec.Client == ClientEpoll {
			return nil, errors.New("the client over epoll needs Linux and plain HTTP over TCP")
		}
	}
	if r.spec.Stamps == StampsKernel {
		return nil, errors.New("stamps of the kernel need Linux and plain HTTP over TCP")
	}
	return newConnPath(r, dial, r.spec.Client == ClientHTTP || proxy && r.spec.Client == "")
}

// begins starts the clock of the run.
func (r *run) begins() {
	r.start = time.Now()
	r.out.out.note(frameHead, r.recordHead())
	r.shots.begin = r.shoot()
	if w := r.spec.Warmup; !w.Cohort && !w.Stable && w.Time == 0 {
		r.shots.open = r.shots.begin
		r.open(r.start) // without a warm-up the first request is a measured one, however long the look at the machine took
	}
}

// sinceCounters is a time of the run as the caller's counters have it.
func (r *run) sinceCounters(now time.Duration) time.Duration {
	if r.spec.Counters.Since.IsZero() {
		return now
	}
	return now + r.start.Sub(r.spec.Counters.Since)
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
	r.spec.Counters.LastByte.Store(int64(r.sinceCounters(reply.now)))
	if reply.texts == 0 {
		return
	}
	if reply.track.bearing == reply.texts { // nothing came before this read
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

// settle completes a request that ended with what its answer said, and counts it.
func (r *run) settle(f *finished, reply *reply, v verdict, end time.Duration) {
	rec := &f.rec
	rec.Outcome, rec.Kind, rec.Reason, rec.End = v.outcome, v.kind, r.spec.conceal(v.reason), end
	reply.record(rec)
	if clean := r.spec.Clean; clean != nil && (rec.Reason != "" || reply.finish == finishOther) {
		rec.Reason, rec.Finish = clean(rec.Reason), clean(rec.Finish)
	}
	f.track = append(f.track[:0], reply.track.sealed()...)
	r.inFlight.Add(-1)
	c := r.spec.Counters
	if !reply.continuous && reply.completion > 0 {
		c.Tokens.Add(int64(reply.completion))
	}
	switch v.outcome {
	case OK:
		c.Finished.Add(1)
		c.FinishedTokens.Add(int64(rec.OutputTokens))
		c.PromptTokens.Add(int64(max(0, rec.PromptTokens)))
	case Failed:
		c.Failed.Add(1)
		r.failing.Add(1)
	case Rejected:
		c.Rejected.Add(1)
		r.failing.Add(1)
	}
}

// ended hands over a request that ended.
func (r *run) ended(f *finished, reply *reply, v verdict, end time.Duration) {
	r.settle(f, reply, v, end)
	r.out.put(f)
}

// count keeps the run's own counts; r.mu is held.
func (r *run) count(x *sample, rec *Record, goesOn bool) {
	res := &r.result
	res.Sent++
	r.lastEnd = max(r.lastEnd, x.end)
	switch x.outcome {
	case OK:
		res.Completed++
		r.blank = r.blank || rec.Finish == ""
		r.totals = r.totals || !rec.Counted
	case Failed, Rejected:
		if x.outcome == Failed {
			res.Failed++
		} else {
			res.Rejected++
		}
		res.Failures[x.kind]++
		r.lastFail = fmt.Sprintf("%s: %s", x.kind, x.reason)
		if res.FirstFailure == "" {
			res.FirstFailure = firstFailure(rec)
		}
	case Cancelled:
		x.inWindow(r.out.bearing, r.win)
		r.cut += x.windowChunks
	}
	if x.open && x.outcome != Cancelled || x.stream == warmUp && rec.Turn == 0 && rec.Index < r.spec.Classes[x.class].Concurrency {
		r.ends[x.class]++
	}
	if x.stream == measured && !goesOn {
		r.over[x.class]++
	}
	if x.stream == measured && x.outcome == OK && r.win.holdsSent(x.begun()) && r.win.holds(x.end) {
		r.inside[x.class]++
	}
}

// checkPrompt holds the server's count of a prompt against what was sent; r.mu is held.
func (r *run) checkPrompt(f *finished) {
	rec := &f.rec
	if !f.exact || rec.Outcome != OK || rec.PromptTokens < 0 || rec.PromptTokens == rec.AskedInput {
		return
	}
	if r.unequal == 0 {
		r.badCount = fmt.Errorf("%w: %d ids, %d tokens by its count (request %s)", ErrPrompts, rec.AskedInput, rec.PromptTokens, rec.ID())
	}
	r.unequal++
}
