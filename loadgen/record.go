package loadgen

import "time"

// Record is all that is kept of one request. Times count from the start of the run; −1 is "never". All metrics are
// functions of it, so that they can be computed again, also by another definition.
type Record struct {
	Class  string
	Stream string // "warmup" or "window": which stream of prompts it is from
	Index  int    // in its stream
	Turn   int    // of its conversation, from 0

	Sched  time.Duration // when it was planned to go: by the schedule, or when its slot became free
	Admit  time.Duration // when it was taken up
	Send   time.Duration // just before its first byte was given to the kernel
	Sent   time.Duration // when the kernel had taken its last byte
	Header time.Duration // stamp of the read that completed the response's head
	End    time.Duration // when it was over: end of the response, or of the connection

	Chunks []Chunk

	Outcome Outcome
	Kind    string // of a failure or a rejection
	Reason  string
	Status  int    // of HTTP; 0: none came
	Finish  string // the server's reason for the end of the generation, when it gave one

	AskedInput, AskedOutput int // tokens; words of input when prompts are text
	PromptTokens            int // as the server counts; −1 when it did not say, here and below
	OutputTokens            int
	CachedTokens            int // prompt tokens found in a prefix cache
	CachedDevice            int
	CachedHost              int

	Counted     bool // the server counted tokens as it went; false: it told a total at the end, or nothing
	Kernel      bool // stamps are the kernel's; false: the client's own after its wake-up
	Resent      bool // the first connection was just being closed by the server
	Reads       int  // reads that the answer took
	Retransmits int  // TCP segments that had to be sent again, on its connection, until its end; −1: not known
}

// Bearing appends the chunks that bear tokens, with the tokens that each stands for. Where the server told only a
// total, it is spread evenly over them; where it told nothing, Tokens stays −1.
func (r *Record) Bearing(to []Chunk) []Chunk {
	start := len(to)
	for _, c := range r.Chunks {
		switch {
		case c.Bears():
			to = append(to, c)
		case c.Kind == ChunkUsage && c.Tokens > 0 && len(to) > start: // tokens without an event of their own
			to[len(to)-1].Tokens += c.Tokens
		}
	}
	if bearing := to[start:]; !r.Counted && r.OutputTokens >= 0 && len(bearing) > 0 {
		n, given := len(bearing), 0
		for i := range bearing {
			until := r.OutputTokens * (i + 1) / n
			bearing[i].Tokens = until - given
			given = until
		}
	}
	return to
}

// firstOf is the stamp of the first chunk that fits.
func (r *Record) firstOf(fits func(Chunk) bool) (time.Duration, bool) {
	for _, c := range r.Chunks {
		if fits(c) {
			return c.At, true
		}
	}
	return 0, false
}

func (r *Record) lastBearing() (time.Duration, bool) {
	for i := len(r.Chunks) - 1; i >= 0; i-- {
		if r.Chunks[i].Bears() {
			return r.Chunks[i].At, true
		}
	}
	return 0, false
}

// from is a time counted from a start; ok is false when one of them never was.
func from(start time.Duration, at time.Duration, ok bool) (time.Duration, bool) {
	if !ok || start < 0 {
		return 0, false
	}
	return at - start, true
}

// TTFT is the service time to the first token: from the first byte sent to the first event that bears a token.
func (r *Record) TTFT() (time.Duration, bool) {
	at, ok := r.firstOf(Chunk.Bears)
	return from(r.Send, at, ok)
}

// ScheduledTTFT is the same from the moment for which the request was planned: what a user feels when the client, or a
// limit on what it keeps open, sends late.
func (r *Record) ScheduledTTFT() (time.Duration, bool) {
	at, ok := r.firstOf(Chunk.Bears)
	return from(r.Sched, at, ok)
}

// ContentTTFT is the time to the first visible text: after the reasoning of a model that thinks aloud.
func (r *Record) ContentTTFT() (time.Duration, bool) {
	at, ok := r.firstOf(func(c Chunk) bool { return c.Kind == ChunkContent })
	return from(r.Send, at, ok)
}

// ChoiceTTFT is the time to the first event with a choice, be it empty or only a role: what vLLM's bench serve
// calls TTFT.
func (r *Record) ChoiceTTFT() (time.Duration, bool) {
	at, ok := r.firstOf(func(c Chunk) bool { return c.Kind >= ChunkRole && c.Kind <= ChunkTool })
	return from(r.Send, at, ok)
}

// TextTTFT is the time to the first event with text of any kind, so that a first token without text is passed over:
// what SGLang's bench_serving calls TTFT.
func (r *Record) TextTTFT() (time.Duration, bool) {
	at, ok := r.firstOf(func(c Chunk) bool { return c.Kind == ChunkContent || c.Kind == ChunkReasoning })
	return from(r.Send, at, ok)
}

// E2E is the time from the first byte sent to the last event that bears a token.
func (r *Record) E2E() (time.Duration, bool) {
	at, ok := r.lastBearing()
	return from(r.Send, at, ok)
}

// StreamE2E is the time to the stream's end mark, or to the end of the response where it has none: it includes a late
// usage event and a late [DONE], as in SGLang's bench_serving.
func (r *Record) StreamE2E() (time.Duration, bool) {
	at, ok := r.firstOf(func(c Chunk) bool { return c.Kind == ChunkDone })
	if !ok {
		at, ok = r.End, r.Outcome == OK
	}
	return from(r.Send, at, ok)
}

// ChoiceE2E is the time to the last event with a choice: what vLLM's bench serve calls E2EL.
func (r *Record) ChoiceE2E() (time.Duration, bool) {
	for i := len(r.Chunks) - 1; i >= 0; i-- {
		if k := r.Chunks[i].Kind; k >= ChunkRole && k <= ChunkTool {
			return from(r.Send, r.Chunks[i].At, true)
		}
	}
	return 0, false
}

// TPOT is the mean time of the tokens after the first: (E2E − TTFT) ÷ (tokens − 1). A single token has none.
func (r *Record) TPOT() (time.Duration, bool) {
	first, ok1 := r.TTFT()
	last, ok2 := r.E2E()
	return r.perToken(last-first, r.OutputTokens-1, ok1 && ok2)
}

// StreamTPOT is the same up to the stream's end mark: (StreamE2E − TextTTFT) ÷ (tokens − 1), as in SGLang's bench_serving.
func (r *Record) StreamTPOT() (time.Duration, bool) {
	first, ok1 := r.TextTTFT()
	last, ok2 := r.StreamE2E()
	return r.perToken(last-first, r.OutputTokens-1, ok1 && ok2)
}

// NTPOT is E2E ÷ tokens: the "normalised latency" of the vLLM and Orca papers.
func (r *Record) NTPOT() (time.Duration, bool) {
	d, ok := r.E2E()
	return r.perToken(d, r.OutputTokens, ok)
}

func (r *Record) perToken(d time.Duration, tokens int, ok bool) (time.Duration, bool) {
	if !ok || tokens < 1 {
		return 0, false
	}
	return d / time.Duration(tokens), true
}

// Gaps appends the times between two events that bear tokens ("inter-chunk latency"): the stalls of the stream as it
// was, whatever an event held. bearing is from [Record.Bearing].
func Gaps(to []time.Duration, bearing []Chunk) []time.Duration {
	for i := 1; i < len(bearing); i++ {
		to = append(to, bearing[i].At-bearing[i-1].At)
	}
	return to
}

// ITL appends the times per token: each gap shared evenly by the tokens of the later event, once for each of them.
func ITL(to []time.Duration, bearing []Chunk) []time.Duration {
	if len(bearing) == 0 {
		return to
	}
	at := bearing[0].At
	for _, c := range bearing[1:] {
		n := c.Tokens
		if n == 0 { // text without a token of its own, by the total
			continue
		}
		n = max(n, 1)
		for range n {
			to = append(to, (c.At-at)/time.Duration(n))
		}
		at = c.At
	}
	return to
}
