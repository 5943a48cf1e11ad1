package loadgen

import (
	"slices"
	"time"
)

// sample is what one request saw. Times count from the start of the run.
type sample struct {
	class  int
	stream string // warmUp or measured
	index  int
	verdict

	sent  time.Duration // first byte written; −1: never
	first time.Duration // first token-bearing event; −1: none came
	last  time.Duration // last token-bearing event
	end   time.Duration // when the request was over

	askedIn, askedOut    int
	prompt, completion   int // as the server counts; unknown when it did not say
	cached, device, host int

	windowTokens int   // completion tokens that arrived inside the window
	windowChunks int   // token-bearing events inside the window whose tokens the server never counted
	chunks       int   // token-bearing events in all
	gaps         []gap // between token-bearing events, for requests that count for latency
	maxGap       time.Duration
	sloGaps      []time.Duration // for each objective on itl: the request's own quantile
}

// gap is a time between two token-bearing events of a stream, shared evenly by the tokens that the
// later one brought: the time per token in ns times 2^20, plus the number of tokens. Gaps sort by
// time per token.
type gap uint64

const gapTokens = 1<<20 - 1

func newGap(d time.Duration, tokens int32) gap {
	n := uint64(min(max(tokens, 1), gapTokens))
	return gap(uint64(max(d, 0))/n<<20 | n)
}

func (g gap) perToken() time.Duration { return time.Duration(g >> 20) }
func (g gap) tokens() int             { return int(g & gapTokens) }

// window is the measured stretch. It is not open before opened is set (−1), and what arrives at the very
// moment of opening or closing is outside.
type window struct{ opened, closed time.Duration }

// holds says whether something that arrived at t did so inside.
func (w window) holds(t time.Duration) bool { return w.opened >= 0 && t > w.opened && t < w.closed }

// holdsSent says the same of a request sent at t: one sent by the opening is inside.
func (w window) holdsSent(t time.Duration) bool {
	return w.opened >= 0 && t >= w.opened && t < w.closed
}

func (w window) length() time.Duration { return max(0, w.closed-w.opened) }

// counts says whether the request counts for latency: it was sent after the window had opened, ended well
// before it closed, and its stream was made of measured prompts.
func (s *sample) counts(w window) bool {
	return s.outcome == OK && s.stream == measured && w.holdsSent(s.sent) && w.holds(s.end) && s.first >= 0
}

func (s *sample) ttft() time.Duration { return s.first - s.sent }
func (s *sample) e2e() time.Duration  { return s.last - s.sent }

// tpot is the mean time of the tokens after the first; ok is false for a single token.
func (s *sample) tpot() (d time.Duration, ok bool) {
	if s.completion < 2 {
		return 0, false
	}
	return (s.last - s.first) / time.Duration(s.completion-1), true
}

// fill takes what an answer said. Where the server gave only a total, its tokens are spread evenly over the
// events that brought text.
func (s *sample) fill(r *reply) {
	s.prompt, s.completion = r.prompt, r.completion
	s.cached, s.device, s.host = r.cached, r.device, r.host
	s.chunks = len(r.chunks)
	s.first, s.last = -1, -1
	if len(r.chunks) == 0 {
		return
	}
	s.first, s.last = r.chunks[0].at, r.chunks[len(r.chunks)-1].at
	if !r.continuous && r.completion >= 0 {
		spread(r.chunks, r.completion)
	}
	for i := 1; i < len(r.chunks); i++ {
		s.maxGap = max(s.maxGap, r.chunks[i].at-r.chunks[i-1].at)
	}
}

func spread(chunks []chunk, total int) {
	n, given := len(chunks), 0
	for i := range chunks {
		until := total * (i + 1) / n
		chunks[i].tokens = int32(until - given)
		given = until
	}
}

// inWindow counts what arrived inside the window.
func (s *sample) inWindow(chunks []chunk, w window) {
	for _, c := range chunks {
		switch {
		case !w.holds(c.at):
		case c.tokens >= 0:
			s.windowTokens += int(c.tokens)
		default:
			s.windowChunks++
		}
	}
}

// keepGaps keeps the times between tokens, and for each objective on them the request's own quantile.
func (s *sample) keepGaps(chunks []chunk, slo []Objective) {
	s.gaps = make([]gap, 0, max(0, len(chunks)-1))
	for i, from := 1, chunks[0].at; i < len(chunks); i++ {
		if chunks[i].tokens != 0 { // an event that brought text but, by the total, no token of its own
			s.gaps = append(s.gaps, newGap(chunks[i].at-from, chunks[i].tokens))
			from = chunks[i].at
		}
	}
	slices.Sort(s.gaps)
	for _, o := range slo {
		if o.Metric == "itl" {
			s.sloGaps = append(s.sloGaps, gapQuantile(s.gaps, o.Quantile))
		}
	}
}
