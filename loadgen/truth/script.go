package truth

import (
	"math"
	"math/rand/v2"
)

// Step is one event of a plan.
type Step struct {
	Kind   Kind
	Tokens int   // that it carries
	AtNS   int64 // when it is due, after the end of the request
	Finish string
}

// Ask is what of a request decides its answer.
type Ask struct {
	Tokens int   // asked for
	Chat   bool  // the route knows roles and reasoning
	Usage  bool  // counts are wanted in an event of their own
	Whole  bool  // no stream is wanted
	Number int   // of the request, decides what is drawn together with the plan's seed
	Phase  int64 // ns that the first token is later than the plan says
}

// Steps gives the first limit events of the answer to a request: what the server will do, but for its lateness.
func (p *Plan) Steps(ask Ask, limit int) []Step {
	s := newScript(p, ask)
	var steps []Step
	for len(steps) < limit {
		step, ok := s.next()
		if !ok {
			break
		}
		steps = append(steps, step)
	}
	return steps
}

// stage is where in an answer a script is.
type stage uint8

const (
	atRole stage = iota
	atTokens
	atUsage
	atDone
	atEnd
)

// script deals out the events of an answer one by one. It allocates nothing.
type script struct {
	plan  *Plan
	ask   Ask
	stage stage
	total int // tokens of the answer; −1: endless
	sent  int
	at    int64 // ns, of the last event
	pcg   rand.PCG
}

func newScript(p *Plan, ask Ask) script {
	s := script{plan: p, ask: ask, total: ask.Tokens, at: p.FirstUS*1000 + ask.Phase}
	if p.Tokens > 0 {
		s.total = p.Tokens
	}
	if p.StopAfter > 0 {
		s.total = min(s.total, p.StopAfter)
	}
	if p.Endless {
		s.total = -1
	}
	s.pcg.Seed(p.Seed, uint64(ask.Number))
	if !ask.Chat || p.RoleUS == 0 {
		s.stage = atTokens
	}
	return s
}

// next gives the next event; false after the last.
func (s *script) next() (Step, bool) {
	if s.stage != atEnd && (s.plan.Status != 0 || s.ask.Whole) {
		return s.whole(), true
	}
	switch s.stage {
	case atRole:
		s.stage = atTokens
		return Step{Kind: Role, AtNS: s.at - s.plan.RoleUS*1000}, true
	case atTokens:
		if s.plan.ResetAfter > 0 && s.sent >= s.plan.ResetAfter {
			s.stage = atEnd
			return Step{Kind: Reset, AtNS: s.at + s.plan.GapUS*1000}, true
		}
		return s.tokens(), true
	case atUsage:
		s.stage = atDone
		s.at += s.plan.UsageUS * 1000
		return Step{Kind: Usage, AtNS: s.at}, true
	case atDone:
		s.stage = atEnd
		return Step{Kind: Done, AtNS: s.at + s.plan.DoneUS*1000}, true
	}
	return Step{}, false
}

// whole is the only event of an answer that is no stream: due when a stream's last token would be.
func (s *script) whole() Step {
	step := Step{Kind: Whole, AtNS: s.at}
	for s.plan.Status == 0 && s.sent < max(s.total, 0) {
		last := s.tokens()
		step.AtNS, step.Finish = last.AtNS, last.Finish
	}
	step.Tokens = s.sent
	s.stage = atEnd
	return step
}

func (s *script) tokens() Step {
	p := s.plan
	n := max(1, p.Chunk)
	if p.ChunkMax > n {
		n += int(s.pcg.Uint64() % uint64(p.ChunkMax-n+1))
	}
	if s.total >= 0 {
		n = min(n, s.total-s.sent)
	}
	kind := Content
	switch {
	case p.EmptyFirst && s.sent == 0:
		kind, n = Empty, min(n, 1)
	case s.ask.Chat && s.sent < p.Reasoning:
		kind, n = Reasoning, min(n, p.Reasoning-s.sent)
	}
	if s.sent > 0 {
		s.at += s.gap()
	}
	s.sent += n
	step := Step{Kind: kind, Tokens: n, AtNS: s.at}
	if s.sent == s.total {
		step.Finish = "length"
		if p.StopAfter > 0 && s.total == p.StopAfter && s.total < s.ask.Tokens {
			step.Finish = "stop"
		}
		s.stage = atDone
		if s.ask.Usage {
			s.stage = atUsage
		}
	}
	return step
}

// uniform is a number of [0, 1).
func (s *script) uniform() float64 { return float64(s.pcg.Uint64()>>11) / (1 << 53) }

// gap draws the time to the next event, in ns.
func (s *script) gap() int64 {
	mean := s.plan.GapUS * 1000
	switch s.plan.Gaps {
	case "exponential":
		return int64(-math.Log(1-s.uniform()) * float64(mean))
	case "lognormal": // sigma 1, about the asked mean
		normal := math.Sqrt(-2*math.Log(1-s.uniform())) * math.Cos(2*math.Pi*s.uniform())
		return int64(math.Exp(normal-0.5) * float64(mean))
	case "stall":
		if s.pcg.Uint64()%stallShare == 0 {
			return stallNS
		}
	}
	return mean
}

// phase is how much later than planned the first token of a request comes, in ns: number counts the requests, now is
// the time of the end of the request on the clock of which the ticks are multiples.
func (p *Plan) phase(number int, now int64) int64 {
	gap := p.GapUS * 1000
	switch {
	case gap == 0 || p.Flood:
	case p.Phase == "spread": // golden-ratio sequence: evenly spread for any number of streams
		turn := float64(number) * 0.6180339887498949
		return int64((turn - math.Floor(turn)) * float64(gap))
	case p.Phase == "lockstep":
		first := now + p.FirstUS*1000
		return (first/gap+1)*gap - first
	}
	return 0
}
