package simulate

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// limits are the settings that the scheduler works by.
type limits struct {
	chunk           int // tokens of one prefill step; 0: no chunking
	maxPrefill      int
	maxRunning      int
	maxQueued       int // 0: no limit
	conservativity  float64
	logInterval     int // decode steps between two log lines
	prefillRequests int // in one prefill step; 0: no limit
	clip            int // new tokens reserved for a request at most
}

// retractSteps is how many decode steps the pool must have room for after a retraction.
const retractSteps = 20

// scheduler is SGLang's continuous batching in model time: prefill goes before decode, one step at a time.
type scheduler struct {
	limits
	profile *Profile
	mem     *memory
	cache   *cache
	speed   float64

	// on reports what happened; the fields may be nil.
	on struct {
		prefill func(prefillStats)
		decode  func(decodeStats)
		retract func(retractStats)
		died    func(failure)
		ended   func(*request) // each request that finished or was aborted
		grown   func()         // activations needed more memory than ever before
	}
	mute      func() bool                      // asked before each step: stop answering for good
	exhausted func() bool                      // asked before each prefill: die of its own count of the KV pool
	sleep     func(context.Context, time.Time) // until a step ends

	waiting  []*request
	running  []*request
	chunked  *request // whose prompt is prefilled in pieces
	full     bool     // the last look found no room: wait until a request ends
	ratio    float64  // of the reserve for new tokens that is really kept
	ratio0   float64
	ratioMin float64
	decay    float64

	decodeSteps  int
	sinceLog     int // tokens generated since the last decode line
	lastLog      time.Time
	lastPrefill  time.Time
	stopped      chan struct{} // closed when run returned
	lastComputed int           // tokens computed and found in the last prefill
	lastCached   int

	mu     sync.Mutex
	inbox  []*request
	aborts map[string]bool
	tasks  []func() // run between two steps
	pause  chan struct{}
	wakeup chan struct{}

	counts counters
	load   atomic.Pointer[loadSnapshot]
	late   lateness
}

// counters only grow; they are read by other goroutines.
type counters struct {
	prefillComputed, prefillCached, decoded          atomic.Int64
	cachedDevice, cachedHost                         atomic.Int64
	retracted, retractedIn, retractedOut             atomic.Int64
	busyMicros, prefillGraphSteps, prefillPlainSteps atomic.Int64
	decodeSteps                                      atomic.Int64
	firsts                                           atomic.Int64 // of decoded: tokens that came out of a prefill
}

// loadSnapshot is what /v1/loads shows: taken after each step.
type loadSnapshot struct {
	at                              time.Time
	running, waiting, waitingTokens int
	used, evictable, free, total    int
	hostUsed, hostTotal             int
	gen, ratio                      float64
	evicted, loadedBack             int64
}

func newScheduler(p *Profile, mem *memory, c *cache, l limits, speed float64) *scheduler {
	s := &scheduler{
		limits: l, profile: p, mem: mem, cache: c, speed: speed,
		sleep: sleepUntil, aborts: map[string]bool{}, wakeup: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	s.ratio0 = min(0.7*l.conservativity, 1)
	s.ratioMin = min(s.ratio0*0.14, 1)
	s.decay = (s.ratio0 - s.ratioMin) / 600
	s.ratio = s.ratio0
	s.snapshot(0)
	return s
}

// prefillStats is what a "Prefill batch" line says.
type prefillStats struct {
	newSeq, newTokens, cachedTokens  int
	usage                            float64
	running, queued, pending         int
	graph                            bool
	throughput                       float64 // tokens a second of real time since the last prefill
	contextTokens, cachedHost, loads int
}

// step is one forward pass that has been decided on.
type step struct {
	prefill  bool
	requests []*request
	stats    prefillStats
	seconds  float64 // of model time
	bytes    int64   // of activation
}

// next decides what the next forward pass is; ok is false when there is nothing to do.
func (s *scheduler) next(now time.Time) (step, bool) {
	s.receive(now)
	if st, ok := s.prefillStep(now); ok {
		return st, true
	}
	return s.decodeStep(now)
}

// adder is the budget of one prefill step, as SGLang's PrefillAdder keeps it.
type adder struct {
	s            *scheduler
	offset       float64 // tokens kept for what is still to be generated
	input, chunk int
	requests     []*request
	stats        prefillStats
	spent        int // tokens computed
}

func (a *adder) total() float64 { return float64(a.s.cache.available()) - a.offset }

func (a *adder) spend(tokens, reserve int) {
	a.offset += float64(reserve) // the tokens themselves have left the pool already
	a.input -= tokens
	a.chunk -= tokens
	a.spent += tokens
}

func (a *adder) exhausted() bool {
	return a.total() <= 0 || a.input <= 0 || (a.s.limits.chunk > 0 && a.chunk <= 0)
}

// prefillStep admits waiting requests, first come first served, as far as the budget goes.
func (s *scheduler) prefillStep(now time.Time) (step, bool) {
	if s.chunked == nil && (s.full || len(s.waiting) == 0) {
		return step{}, false
	}
	a := &adder{s: s, input: s.maxPrefill, chunk: math.MaxInt}
	if s.limits.chunk > 0 {
		a.chunk = s.limits.chunk
	}
	for _, r := range s.running {
		a.offset += float64(r.remaining()) * s.ratio
	}
	wasRunning := len(s.running)
	if r := s.chunked; r != nil {
		s.chunked = nil
		a.resume(r)
	}
	for len(s.waiting) > 0 && s.chunked == nil {
		if wasRunning+len(a.requests) >= s.maxRunning {
			s.full = true
			break
		}
		if s.prefillRequests > 0 && len(a.requests) >= s.prefillRequests {
			break
		}
		if !a.add(s.waiting[0], now) {
			break
		}
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		if a.exhausted() {
			break
		}
	}
	if len(a.requests) == 0 {
		return step{}, false
	}
	return s.finishPrefillStep(a, wasRunning, now), true
}

func (s *scheduler) finishPrefillStep(a *adder, wasRunning int, now time.Time) step {
	st := &a.stats
	st.newSeq, st.newTokens = len(a.requests), a.spent
	st.usage = float64(s.cache.usedTokens()) / float64(s.cache.total)
	st.running, st.queued = wasRunning, len(s.waiting)
	for _, r := range s.waiting {
		st.pending += len(r.ids)
	}
	if s.chunked != nil {
		st.pending += len(s.chunked.ids) - s.chunked.filled
	}
	st.graph = s.mem.prefillGraph && st.newTokens <= s.limits.chunk
	if !s.lastPrefill.IsZero() {
		st.throughput = float64(st.newTokens) / max(1e-6, now.Sub(s.lastPrefill).Seconds())
	}
	s.lastPrefill = now
	s.lastComputed, s.lastCached = st.newTokens, st.cachedTokens
	seconds := s.profile.PrefillBase + s.profile.PrefillPerTokenS*float64(a.spent)
	seconds += float64(st.loads) * float64(s.mem.cell) / s.profile.LoadBackBytesPS
	s.counts.prefillComputed.Add(int64(st.newTokens))
	s.counts.prefillCached.Add(int64(st.cachedTokens))
	s.counts.cachedHost.Add(int64(st.cachedHost))
	s.counts.cachedDevice.Add(int64(st.cachedTokens - st.cachedHost))
	s.counts.busyMicros.Add(int64(seconds * 1e6))
	if st.graph {
		s.counts.prefillGraphSteps.Add(1)
	} else {
		s.counts.prefillPlainSteps.Add(1)
	}
	if s.on.prefill != nil {
		s.on.prefill(*st)
	}
	return step{
		prefill: true, requests: a.requests, stats: *st, seconds: seconds,
		bytes: s.mem.prefillActivation(st.newTokens, st.contextTokens),
	}
}

// resume goes on with a prompt that did not fit into the last step.
func (a *adder) resume(r *request) {
	s := a.s
	n := min(len(r.ids)-r.filled, a.chunk, a.input)
	if !s.cache.allocate(n) {
		n = s.cache.available()
		s.cache.allocate(n)
	}
	r.filled += n
	a.requests = append(a.requests, r)
	a.stats.contextTokens += r.filled
	if r.filled < len(r.ids) {
		s.chunked = r
		a.spend(n, 0)
		return
	}
	a.spend(n, min(r.maxNew-r.produced, s.clip))
}

// add admits one request; false leaves it in the queue.
func (a *adder) add(r *request, now time.Time) bool {
	s := a.s
	f := s.cache.match(r.ids[:len(r.ids)-1]) // the last token must be computed
	input := len(r.ids) - f.deviceLen - f.hostLen
	reserve := min(r.maxNew-r.produced, s.clip)
	need := float64(input + f.hostLen + reserve)
	s.cache.lock(f.device)
	if need >= a.total() { // SGLang looks again after locking: what it locks can no longer be evicted
		s.cache.unlock(f.device)
		s.full = true
		return false
	}
	loaded := s.cache.loadBack(&f)
	if loaded > 0 {
		s.cache.lock(f.device)
		s.cache.unlock(ancestor(f.device, loaded))
	}
	input = len(r.ids) - f.deviceLen
	if input > a.input && len(a.requests) > 0 {
		s.cache.unlock(f.device)
		return false
	}
	n, reserved := input, reserve
	if input > a.chunk {
		n, reserved = a.chunk, 0
		s.chunked = r
	}
	if n <= 0 || !s.cache.allocate(n) {
		s.chunked = nil
		s.cache.unlock(f.device)
		return false
	}
	r.node, r.inTree = f.device, f.deviceLen
	r.filled = f.deviceLen + n
	r.base = r.produced
	r.admitted(now, f.deviceLen-loaded, loaded)
	a.stats.cachedTokens += f.deviceLen
	a.stats.cachedHost += loaded
	a.stats.loads += loaded
	a.stats.contextTokens += r.filled
	a.requests = append(a.requests, r)
	a.spend(n, reserved)
	return true
}

// ancestor is the node that lies tokens above n.
func ancestor(n *node, tokens int) *node {
	for tokens > 0 {
		tokens -= len(n.key)
		n = n.parent
	}
	return n
}

// finish is the end of a step: tokens appear, requests end.
func (s *scheduler) finish(st step, now time.Time) {
	if st.prefill {
		s.finishPrefill(st.requests, now)
	} else {
		s.finishDecode(st.requests, now)
	}
	s.snapshot(-1)
}

func (s *scheduler) finishPrefill(requests []*request, now time.Time) {
	for _, r := range requests {
		s.intoTree(r)
		if r == s.chunked {
			continue
		}
		r.produced++
		s.counts.decoded.Add(1)
		s.counts.firsts.Add(1)
		s.sinceLog++
		s.running = append(s.running, r)
		s.after(r, now)
	}
	s.compact()
}

// intoTree gives the tree what a request has prefilled, so that others can share it at once.
func (s *scheduler) intoTree(r *request) {
	if s.cache.disabled {
		return
	}
	last := s.cache.insert(r.ids[:r.filled], r.inTree)
	s.cache.lock(last)
	s.cache.unlock(r.node)
	r.node, r.inTree = last, r.filled
}
