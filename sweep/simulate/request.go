package simulate

import (
	"sync"
	"time"
)

// reason says why a request ended.
type reason struct {
	Type    string // length, stop or abort
	Status  int    // of an abort: the HTTP status
	Message string // of an abort
}

// request is one generation: the HTTP side fills in what is asked and waits on notify; the scheduler
// owns all under "scheduling" and publishes progress.
type request struct {
	id        string
	prompt    []int32
	maxNew    int // as asked, cut to what context and pool allow
	stopAt    int // tokens after which the model ends it
	ignoreEOS bool
	interval  int // tokens between two publications
	probe     bool
	stream    bool
	received  time.Time

	// Scheduling.
	ids        []int32 // prompt, and after a retraction what had been generated
	filled     int     // how many of ids have their KV on the device
	base       int     // tokens generated before the last admission: they are in ids
	produced   int     // tokens generated
	node       *node   // held in the tree
	inTree     int     // tokens of ids that are in the tree under node
	seed       uint64
	one        bool // it says one token again and again: a fault
	retraction int
	aborted    bool // asked for from outside

	mu       sync.Mutex
	progress progress
	notify   chan struct{} // capacity 1
}

// progress is what a client may know of its request.
type progress struct {
	tokens      int // published
	done        *reason
	cached      int // prompt tokens found in the cache, on the device and on the host
	cachedHost  int
	retractions int
	queued      time.Duration // until the first forward
	forwarded   time.Time     // first forward
	first       time.Time     // first token
	ended       time.Time
}

func newRequest(id string, prompt []int32, maxNew int) *request {
	r := &request{id: id, prompt: prompt, maxNew: maxNew, stopAt: maxNew, interval: 1, received: time.Now(), notify: make(chan struct{}, 1)}
	r.seed = 14695981039346656037
	for _, t := range prompt[max(0, len(prompt)-64):] {
		r.seed = (r.seed ^ uint64(uint32(t))) * 1099511628211
	}
	return r
}

// token is the i-th token that the request generates: the same prompt gives the same tokens.
func (r *request) token(i int) int32 {
	if r.one {
		i = 0
	}
	x := r.seed + uint64(i+1)*0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return outputTokens[x%uint64(len(outputTokens))]
}

// context is how many tokens of KV the request has: all but the token generated last.
func (r *request) context() int { return r.filled + max(0, r.produced-r.base-1) }

// remaining is how many tokens the scheduler still reserves for it, before the ratio.
func (r *request) remaining() int { return min(r.maxNew-r.produced, clipNewTokens) }

// snapshot is what the client may know now.
func (r *request) snapshot() progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// wake tells the waiting side that something has changed.
func (r *request) wake() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}

// publish makes the generated tokens known when it is time: SGLang sends the first token, then each interval-th, then the last.
func (r *request) publish(now time.Time, cause *reason) {
	due := cause != nil || r.interval <= 1 || r.produced%r.interval == 1
	if !due {
		return
	}
	r.mu.Lock()
	p := &r.progress
	p.tokens = r.produced
	p.retractions = r.retraction
	if p.first.IsZero() && r.produced > 0 {
		p.first = now
	}
	if cause != nil {
		p.done = cause
		p.ended = now
	}
	r.mu.Unlock()
	r.wake()
}

// admitted records the request's first forward.
func (r *request) admitted(now time.Time, device, host int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := &r.progress; p.forwarded.IsZero() {
		p.forwarded = now
		p.queued = now.Sub(r.received)
		p.cached = device + host
		p.cachedHost = host
	}
}
