package agent

import (
	"context"
	"maps"
	"sync"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// scrapeTimeout bounds one reading of a server's counters.
const scrapeTimeout = 5 * time.Second

// settleTime is how long after a scrape the client's counters are read again: a request that the server
// has counted as ended reaches the client a moment later.
const settleTime = 20 * time.Millisecond

// sampler reads a server's counters about once a second while a load runs, and watches the client.
type sampler struct {
	read     func(context.Context) (sweep.Values, error)
	counters *loadgen.Counters
	out      *lines
	load     string // name of the load, for metrics.jsonl
	// firstCounted: the server's decode counter includes first tokens, so they are not set apart here.
	firstCounted bool
	began        time.Time

	kick chan chan struct{} // scrape now, and close the channel after

	mu      sync.Mutex
	scrapes []scrape
	opened  time.Time // zero: the window is not open yet
	closed  time.Time
	silence time.Duration // longest time without a byte in the window
	failed  int           // scrapes that gave nothing
}

func newSampler(read func(context.Context) (sweep.Values, error), counters *loadgen.Counters, out *lines, load string) *sampler {
	return &sampler{read: read, counters: counters, out: out, load: load, began: time.Now(), kick: make(chan chan struct{}, 2)}
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { every(ctx, 100*time.Millisecond, s.listen) })
	defer wg.Wait()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		s.scrape(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case done := <-s.kick:
			s.scrape(ctx)
			close(done)
		}
	}
}

// window is the load generator's call when its window opens and closes. Each end gets a scrape of its
// own; the closing one is waited for, as the streams are cut after it.
func (s *sampler) window(open bool) {
	s.mu.Lock()
	if open {
		s.opened = time.Now()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	select {
	case s.kick <- done:
	default: // a slow server still owes the last scrape
		done = nil
	}
	if open {
		return
	}
	if done != nil {
		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
	}
	s.mu.Lock()
	s.closed = time.Now()
	s.mu.Unlock()
}

func (s *sampler) received() client {
	c := client{
		Tokens:         s.counters.Tokens.Load(),
		Finished:       s.counters.Finished.Load(),
		FinishedTokens: s.counters.FinishedTokens.Load(),
	}
	if !s.firstCounted {
		c.FirstTokens = s.counters.FirstTokens.Load()
	}
	return c
}

func (s *sampler) scrape(ctx context.Context) {
	if s.read == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	began, before := time.Now(), s.received()
	values, err := s.read(ctx)
	took := time.Since(began)
	maps.DeleteFunc(values, func(_ string, x float64) bool { return !sweep.Number(x) })
	if err != nil || len(values) == 0 {
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
		return
	}
	time.Sleep(settleTime)
	sc := scrape{At: began.Add(took / 2), Values: values, Before: before, After: s.received()}
	s.mu.Lock()
	s.scrapes = append(s.scrapes, sc)
	s.mu.Unlock()
	line := map[string]any{"t": unixSeconds(sc.At), "load": s.load, "took_ms": float64(took.Microseconds()) / 1000,
		"client_tokens": sc.Before.Tokens, "client_finished": sc.Before.Finished}
	for k, v := range values {
		line[k] = v
	}
	_ = s.out.add(line, false) // the first error stays in out
}

// listen watches for silence of the whole client.
func (s *sampler) listen() {
	last := s.counters.LastByte.Load()
	if last == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened.IsZero() || !s.closed.IsZero() {
		return
	}
	// Silence before the window opened is not the window's.
	if quiet := min(time.Since(s.counters.Since)-time.Duration(last), time.Since(s.opened)); quiet > s.silence {
		s.silence = quiet
	}
}

// signals gives the window's signals.
func (s *sampler) signals() sweep.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened.IsZero() {
		return sweep.Values{}
	}
	var in []scrape
	for _, sc := range s.scrapes {
		if !sc.At.Before(s.opened) && (s.closed.IsZero() || !sc.At.After(s.closed)) {
			in = append(in, sc)
		}
	}
	v := windowSignals(in)
	v["client_max_silence_s"] = s.silence.Seconds()
	return v
}
