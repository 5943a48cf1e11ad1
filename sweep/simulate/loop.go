package simulate

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// failure is how a scheduler died.
type failure struct {
	prefill bool  // while prefilling, else while decoding
	bytes   int64 // that could not be allocated; 0: it was no matter of memory
	badID   bool  // a token id outside of the vocabulary
	pool    bool  // its own count of the KV pool
}

// lateness is how far real time fell behind the planned.
type lateness struct {
	steps, late          atomic.Int64
	lostMicros, maxMicro atomic.Int64
}

// submit hands a request to the scheduler.
func (s *scheduler) submit(r *request) {
	r.ids = r.prompt
	s.mu.Lock()
	s.inbox = append(s.inbox, r)
	s.mu.Unlock()
	s.rouse()
}

// abort ends a request wherever it is; an empty id ends all.
func (s *scheduler) abort(id string) {
	s.mu.Lock()
	s.aborts[id] = true
	s.mu.Unlock()
	s.rouse()
}

// do runs f between two steps and waits for it; it reports false when the scheduler no longer runs.
func (s *scheduler) do(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	s.mu.Lock()
	s.tasks = append(s.tasks, func() { f(); close(done) })
	s.mu.Unlock()
	s.rouse()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	case <-s.stopped:
		return false
	}
}

func (s *scheduler) rouse() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// hold stops the scheduler before its next step, as a stopped process would be; the function lets it go on.
func (s *scheduler) hold() (release func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.pause = gate
	s.mu.Unlock()
	s.rouse()
	return func() {
		s.mu.Lock()
		s.pause = nil
		s.mu.Unlock()
		close(gate)
	}
}

// receive takes what came in since the last step.
func (s *scheduler) receive(now time.Time) {
	s.mu.Lock()
	inbox, tasks := s.inbox, s.tasks
	s.inbox, s.tasks = nil, nil
	aborts := s.aborts
	if len(aborts) > 0 {
		s.aborts = map[string]bool{}
	}
	s.mu.Unlock()
	for _, r := range inbox {
		if s.maxQueued > 0 && len(s.waiting) >= s.maxQueued && !r.probe {
			s.end(r, now, &reason{Type: "abort", Status: 503, Message: "The request queue is full."})
			continue
		}
		s.waiting = append(s.waiting, r)
	}
	if len(aborts) > 0 {
		s.abortAll(aborts, now)
	}
	for _, task := range tasks {
		task()
	}
}

func (s *scheduler) abortAll(ids map[string]bool, now time.Time) {
	meant := func(r *request) bool { return ids[""] || ids[r.id] }
	s.waiting = slices.DeleteFunc(s.waiting, func(r *request) bool {
		if meant(r) {
			s.end(r, now, &reason{Type: "abort", Message: "Abort in waiting queue"})
			return true
		}
		return false
	})
	for _, r := range s.running {
		r.aborted = r.aborted || meant(r)
	}
	if s.chunked != nil && meant(s.chunked) {
		s.chunked.aborted = true
	}
}

// run serves until ctx ends or the scheduler dies. Steps follow one another on the planned clock, so that the sleeps' own
// error does not add up and a moment's delay is made up for; where the machine cannot keep up, the plan slips and the
// slip is counted as lost.
func (s *scheduler) run(ctx context.Context) {
	defer close(s.stopped)
	planned := time.Now()
	// Prefill steps can be shorter than any timer is exact: what counts is to be late by more than a decode step.
	yardstick := time.Duration(s.profile.StepBase / s.speed * float64(time.Second))
	for ctx.Err() == nil {
		if !s.passGate(ctx) {
			return
		}
		now := time.Now()
		st, ok := s.next(now)
		if !ok {
			s.idle()
			if !s.wait(ctx) {
				return
			}
			planned = time.Now()
			continue
		}
		if bad := s.fits(st); bad != nil {
			if s.on.died != nil {
				s.on.died(*bad)
			}
			return
		}
		length := time.Duration(st.seconds / s.speed * float64(time.Second))
		planned = planned.Add(length)
		s.sleep(ctx, planned)
		now = time.Now()
		planned = planned.Add(s.late.count(now.Sub(planned), max(length, yardstick)))
		s.finish(st, now)
	}
}

// passGate waits while the scheduler is held or mute; false: ctx ended.
func (s *scheduler) passGate(ctx context.Context) bool {
	if s.mute != nil && s.mute() {
		<-ctx.Done()
		return false
	}
	s.mu.Lock()
	gate := s.pause
	s.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *scheduler) wait(ctx context.Context) bool {
	select {
	case <-s.wakeup:
		return true
	case <-ctx.Done():
		return false
	}
}

// idle is what SGLang does with an empty batch: the reserve's ratio starts over.
func (s *scheduler) idle() {
	s.ratio = s.ratio0
	s.snapshot(0)
}

// fits checks a step against the GPU's memory and the vocabulary.
func (s *scheduler) fits(st step) *failure {
	if st.prefill && s.exhausted != nil && s.exhausted() {
		return &failure{prefill: true, pool: true}
	}
	peak := s.mem.peak
	if !s.mem.activate(st.bytes) {
		return &failure{prefill: st.prefill, bytes: st.bytes}
	}
	if s.mem.peak > peak && s.on.grown != nil {
		s.on.grown()
	}
	if st.prefill {
		for _, r := range st.requests {
			for _, id := range r.ids {
				if id < 0 || int(id) >= s.profile.VocabularySize {
					return &failure{prefill: true, badID: true}
				}
			}
		}
	}
	return nil
}

// sleepUntil sleeps for what is left until t.
func sleepUntil(ctx context.Context, t time.Time) {
	d := time.Until(t)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// makeUp is how many steps a delay may be long to be made up for: a hiccup of the machine, no lasting slowness.
const makeUp = 50

// count notes one step that ended behind its plan, which is late when that is more than limit. It returns by how much
// the plan must slip.
func (l *lateness) count(behind, limit time.Duration) (slip time.Duration) {
	l.steps.Add(1)
	if behind > time.Duration(l.maxMicro.Load())*time.Microsecond {
		l.maxMicro.Store(behind.Microseconds())
	}
	if behind > limit {
		l.late.Add(1)
	}
	slip = max(0, behind-makeUp*limit)
	l.lostMicros.Add(slip.Microseconds())
	return slip
}

// snapshot publishes what the outside may see. gen is the throughput of the last decode line; −1 keeps what was there.
func (s *scheduler) snapshot(gen float64) {
	old := s.load.Load()
	if gen < 0 && old != nil {
		gen = old.gen
	}
	n := &loadSnapshot{
		at: time.Now(), running: len(s.running), waiting: len(s.waiting), gen: gen, ratio: s.ratio,
		used: s.cache.usedTokens(), evictable: s.cache.evictable, free: s.cache.free, total: s.cache.total,
		evicted: s.cache.evictedTotal,
	}
	for _, r := range s.waiting {
		n.waitingTokens += len(r.ids)
	}
	if h := s.cache.host; h != nil {
		n.hostUsed, n.hostTotal, n.loadedBack = h.used, h.total, h.loadBackTotal
	}
	s.load.Store(n)
}

// flush empties the cache when nothing runs or waits.
func (s *scheduler) flush() bool {
	if len(s.running) > 0 || len(s.waiting) > 0 || s.chunked != nil {
		return false
	}
	s.cache.reset()
	return true
}
