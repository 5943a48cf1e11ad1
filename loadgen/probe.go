package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Probe sends one request and says what it saw. The spec's classes, warm-up and window are not used. The
// error says that no request could be made or that ctx ended; a server that does not answer as asked
// is an Answer with a Reason.
func Probe(ctx context.Context, spec Spec, ask Ask) (Answer, error) {
	const name = "probe"
	answer := Answer{PromptTokens: unknown, CachedTokens: unknown}
	spec.Classes = []Class{{Name: name, Concurrency: 1, Input: Range{ask.Input, ask.Input}, Output: Range{ask.Output, ask.Output}}}
	spec.Window, spec.Warmup = Window{Min: 1, Max: 1}, Warmup{}
	spec, err := spec.withDefaults()
	if err != nil {
		return answer, fmt.Errorf("probe: %w", err)
	}
	dial, _, err := dialer(&spec)
	if err != nil {
		return answer, fmt.Errorf("probe: %w", err)
	}
	m, err := newMaker(&spec)
	if err != nil {
		return answer, fmt.Errorf("probe: %w", err)
	}
	start := time.Now()
	c := &client{dial: dial, timeout: spec.RequestTimeout, since: func() time.Duration { return time.Since(start) }}
	unhook := context.AfterFunc(ctx, c.stop)
	defer unhook()
	defer c.drop()

	req := m.make(0, probing, rand.Int(), nil) // never the same prompt twice: a cached one proves less
	c.reply.asked = req.output
	trip, err := c.do(ctx, req.bytes)
	s := c.reply.sample(trip, c.since(), req.judge(&c.reply, err))
	answer.OK, answer.Reason = s.outcome == OK, s.reason
	if s.kind != "" {
		answer.Reason = s.kind + ": " + s.reason
	}
	answer.PromptTokens, answer.OutputTokens, answer.CachedTokens = s.prompt, max(0, s.completion), c.reply.cached
	answer.HTTPStatusCode = c.reply.resp.status
	if s.first >= 0 {
		answer.TTFT, answer.E2E = s.ttft(), s.e2e()
	}
	if cause := context.Cause(ctx); cause != nil && !answer.OK {
		return answer, fmt.Errorf("probe: %w", cause)
	}
	return answer, nil
}

// sample is what an answer comes to that is not part of a run.
func (r *reply) sample(t trip, end time.Duration, v verdict) sample {
	rec := Record{Send: t.send, Sent: t.sent, End: end, Outcome: v.outcome, Kind: v.kind, Reason: v.reason}
	r.record(&rec)
	rec.Chunks, _ = appendChunks(nil, r.track.sealed()) // packed by this process a moment ago
	var s sample
	s.fill(&rec, rec.Bearing(nil))
	return s
}
