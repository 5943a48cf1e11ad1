package loadgen

import (
	"slices"
	"time"
)

// sample is what a request's record comes to. Times count from the start of the run.
type sample struct {
	class  int
	stream string // warmUp or measured
	verdict

	open  bool          // of an open loop: it belongs to the time for which it was planned
	sched time.Duration // planned
	sent  time.Duration // first byte written; −1: never
	first time.Duration // first token-bearing event; −1: none came
	last  time.Duration // last token-bearing event
	shown time.Duration // first visible text; −1: none came
	tail  time.Duration // the stream's end mark, or the end of the response; −1: never
	end   time.Duration // when the request was over

	prompt, completion int // as the server counts; unknown when it did not say

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

func newGap(d time.Duration, tokens int) gap {
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

func (s *sample) ttft() time.Duration { return s.first - s.sent }
func (s *sample) e2e() time.Duration  { return s.last - s.sent }

// tpot is the mean time of the tokens after the first; ok is false for a single token.
func (s *sample) tpot() (d time.Duration, ok bool) {
	if s.completion < 2 {
		return 0, false
	}
	return (s.last - s.first) / time.Duration(s.completion-1), true
}

// fill takes what a record says, and its token-bearing chunks.
func (s *sample) fill(r *Record, bearing []Chunk) {
	s.stream, s.verdict = r.Stream, verdict{r.Outcome, r.Kind, r.Reason}
	s.sched, s.sent, s.end = r.Sched, r.Send, r.End
	s.prompt, s.completion = r.PromptTokens, r.OutputTokens
	s.chunks = len(bearing)
	s.first, s.last, s.shown, s.tail, s.maxGap = -1, -1, -1, -1, 0
	s.windowTokens, s.windowChunks, s.gaps, s.sloGaps = 0, 0, s.gaps[:0], s.sloGaps[:0]
	if len(bearing) == 0 {
		return
	}
	s.first, s.last = bearing[0].At, bearing[len(bearing)-1].At
	if d, ok := r.ContentTTFT(); ok {
		s.shown = s.sent + d
	}
	if d, ok := r.StreamE2E(); ok {
		s.tail = s.sent + d
	}
	for i := 1; i < len(bearing); i++ {
		s.maxGap = max(s.maxGap, bearing[i].At-bearing[i-1].At)
	}
}

// begun is the moment that decides whether a request belongs to a window.
func (s *sample) begun() time.Duration {
	if s.open {
		return s.sched
	}
	return s.sent
}

// inWindow counts what arrived inside the window.
func (s *sample) inWindow(chunks []Chunk, w window) {
	s.windowTokens, s.windowChunks = 0, 0
	for _, c := range chunks {
		switch {
		case !w.holds(c.At):
		case c.Tokens >= 0:
			s.windowTokens += c.Tokens
		default:
			s.windowChunks++
		}
	}
}

// keepGaps keeps the times between tokens, and for each objective on them the request's own quantile.
func (s *sample) keepGaps(chunks []Chunk, slo []Objective) {
	s.gaps, s.sloGaps = s.gaps[:0], s.sloGaps[:0]
	for i, from := 1, chunks[0].At; i < len(chunks); i++ {
		if chunks[i].Tokens != 0 { // an event that brought text but, by the total, no token of its own
			s.gaps = append(s.gaps, newGap(chunks[i].At-from, chunks[i].Tokens))
			from = chunks[i].At
		}
	}
	slices.Sort(s.gaps)
	for _, o := range slo {
		if o.Metric == "itl" {
			s.sloGaps = append(s.sloGaps, gapQuantile(s.gaps, o.Quantile))
		}
	}
}
