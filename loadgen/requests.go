package loadgen

import (
	"fmt"
	"time"
)

// Request is one line of a run's request file: one request that ended. What is not known is absent.
type Request struct {
	ID              string   `json:"id"`                   // CLASS/STREAM/NUMBER, /TURN in a conversation: unique in the run, the same in every run of a seed
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
	Chunks          int      `json:"chunks"`              // token-bearing events
	Coalesced       int      `json:"coalesced,omitempty"` // events of any kind that shared a read with a later byte: their stamps are upper bounds
	Stamps          string   `json:"stamps,omitempty"`    // kernel or user: who stamped the events
	DueS            *float64 `json:"due_s,omitempty"`     // of an open loop: for when it was planned
	Outcome         Outcome  `json:"outcome"`
	Kind            string   `json:"kind,omitempty"` // of a failure or a rejection
	Reason          string   `json:"reason,omitempty"`
}

// ID names the request: CLASS/STREAM/NUMBER, and /TURN from the second turn of a conversation on. It is unique in the run and
// the same in every run of a seed.
func (r *Record) ID() string {
	id := fmt.Sprintf("%s/%s/%d", r.Class, r.Stream, r.Index)
	if r.Turn > 0 {
		id += fmt.Sprintf("/%d", r.Turn)
	}
	return id
}

// line is the request's line in the request file.
func (s *sample) line(r *Record) Request {
	l := Request{
		ID: r.ID(), Class: r.Class, Phase: r.Stream, EndS: r.End.Seconds(),
		RequestedInput: r.AskedInput, RequestedOutput: r.AskedOutput, Chunks: s.chunks, Outcome: r.Outcome, Kind: r.Kind, Reason: r.Reason,
		PromptTokens: known(r.PromptTokens), OutputTokens: known(r.OutputTokens), CachedTokens: known(r.CachedTokens),
		CachedDevice: known(r.CachedDevice), CachedHost: known(r.CachedHost),
	}
	if r.Outcome == Cancelled {
		l.Phase = "cut"
	}
	if s.open {
		due := r.Sched.Seconds()
		l.DueS = &due
	}
	if r.Send < 0 {
		return l
	}
	sent := r.Send.Seconds()
	l.SentS = &sent
	if s.first < 0 {
		return l
	}
	l.Stamps = StampsUser
	if r.Kernel {
		l.Stamps = StampsKernel
	}
	for _, c := range r.Chunks {
		if !c.Exact {
			l.Coalesced++
		}
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
