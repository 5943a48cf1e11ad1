package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Request is one line of a run's request file: one request that ended. What is not known is absent.
type Request struct {
	ID              string   `json:"id"`                   // CLASS/STREAM/NUMBER: unique in the run, the same in every run of a seed
	Class           string   `json:"class"`                // name of the class
	Phase           string   `json:"phase"`                // warmup, window, or cut: in flight when the window closed
	SentS           *float64 `json:"sent_s,omitempty"`     // first byte written, in s since the start of the run; absent: no connection
	TTFTMS          *float64 `json:"ttft_ms,omitempty"`    // to the first token-bearing event
	TPOTMS          *float64 `json:"tpot_ms,omitempty"`    // mean time of the tokens after the first
	E2EMS           *float64 `json:"e2e_ms,omitempty"`     // to the last token-bearing event
	MaxITLMS        *float64 `json:"max_itl_ms,omitempty"` // longest time between two token-bearing events
	EndS            float64  `json:"end_s"`                // when the request was over, in s since the start of the run
	RequestedInput  int      `json:"requested_input"`      // tokens, or words when prompts are text
	RequestedOutput int      `json:"requested_output"`
	PromptTokens    *int     `json:"prompt_tokens,omitempty"` // as the server counts
	OutputTokens    *int     `json:"output_tokens,omitempty"` // as the server counts
	CachedTokens    *int     `json:"cached_tokens,omitempty"` // prompt tokens found in a prefix cache
	CachedDevice    *int     `json:"cached_device_tokens,omitempty"`
	CachedHost      *int     `json:"cached_host_tokens,omitempty"`
	Chunks          int      `json:"chunks"` // token-bearing events
	Outcome         Outcome  `json:"outcome"`
	Kind            string   `json:"kind,omitempty"` // of a failure or a rejection
	Reason          string   `json:"reason,omitempty"`
}

func (s *sample) line(class string) Request {
	l := Request{
		ID: fmt.Sprintf("%s/%s/%d", class, s.stream, s.index), Class: class, Phase: s.stream, EndS: s.end.Seconds(),
		RequestedInput: s.askedIn, RequestedOutput: s.askedOut, Chunks: s.chunks, Outcome: s.outcome, Kind: s.kind, Reason: s.reason,
		PromptTokens: known(s.prompt), OutputTokens: known(s.completion), CachedTokens: known(s.cached),
		CachedDevice: known(s.device), CachedHost: known(s.host),
	}
	if s.outcome == Cancelled {
		l.Phase = "cut"
	}
	if s.sent < 0 {
		return l
	}
	sent := s.sent.Seconds()
	l.SentS = &sent
	if s.first < 0 {
		return l
	}
	l.TTFTMS, l.E2EMS = inMS(s.ttft()), inMS(s.e2e())
	if d, ok := s.tpot(); ok {
		l.TPOTMS = inMS(d)
	}
	if s.chunks > 1 {
		l.MaxITLMS = inMS(s.maxGap)
	}
	return l
}

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func inMS(d time.Duration) *float64 { v := ms(d); return &v }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// recorder writes the request file from a goroutine of its own, so that a slow disk slows no stream.
type recorder struct {
	w io.Writer

	mu     sync.Mutex
	queue  []Request
	closed bool
	err    error
	wake   chan struct{} // of capacity 1
}

func newRecorder(w io.Writer) *recorder { return &recorder{w: w, wake: make(chan struct{}, 1)} }

func (r *recorder) add(l Request) {
	if r.w == nil {
		return
	}
	r.mu.Lock()
	r.queue = append(r.queue, l)
	r.mu.Unlock()
	r.signal()
}

func (r *recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// close lets loop write what is queued and return.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.signal()
}

func (r *recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// loop writes lines until close. After the first error it writes no more.
func (r *recorder) loop() {
	var buf []byte
	for range r.wake {
		r.mu.Lock()
		lines, closed := r.queue, r.closed
		r.queue = nil
		r.mu.Unlock()
		buf = buf[:0]
		for _, l := range lines {
			b, err := json.Marshal(l)
			if err != nil {
				continue // a Request always has a JSON form
			}
			buf = append(append(buf, b...), '\n')
		}
		if len(buf) > 0 && r.failed() == nil {
			if _, err := r.w.Write(buf); err != nil {
				r.mu.Lock()
				r.err = fmt.Errorf("write the request file: %w", err)
				r.mu.Unlock()
			}
		}
		if closed {
			return
		}
	}
}
