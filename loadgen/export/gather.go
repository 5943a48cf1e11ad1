package export

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"sweep/loadgen"
)

// rules are the definitions by which a tool measures a request.
type rules struct {
	ttft, e2e, tpot func(r *loadgen.Record) (time.Duration, bool)
	bears           func(c loadgen.Chunk) bool // an event that ends a time between two tokens
	perToken        bool                       // that time is shared by the tokens of the event, where the server counts them
}

// benchServing are the rules of SGLang's bench_serving: to the first text, and to the stream's end mark.
func benchServing(native bool) rules {
	return rules{
		ttft: (*loadgen.Record).TextTTFT, e2e: (*loadgen.Record).StreamE2E, tpot: (*loadgen.Record).StreamTPOT, perToken: native,
		bears: func(c loadgen.Chunk) bool {
			return c.Kind == loadgen.ChunkContent || c.Kind == loadgen.ChunkReasoning
		},
	}
}

// vllm are the rules of vLLM's bench serve: from the first event with a choice to the last.
func vllm() rules {
	return rules{
		ttft: (*loadgen.Record).ChoiceTTFT, e2e: (*loadgen.Record).ChoiceE2E,
		tpot: func(r *loadgen.Record) (time.Duration, bool) {
			first, ok1 := r.ChoiceTTFT()
			last, ok2 := r.ChoiceE2E()
			if !ok1 || !ok2 || r.OutputTokens < 2 {
				return 0, false
			}
			return (last - first) / time.Duration(r.OutputTokens-1), true
		},
		bears: func(c loadgen.Chunk) bool { return c.Kind >= loadgen.ChunkRole && c.Kind <= loadgen.ChunkTool },
	}
}

// span is when a request was in flight, and when its tokens came.
type span struct {
	from, to time.Duration
	tokens   []time.Duration
}

// totals are what a tool would have gathered. Latencies are in ms.
type totals struct {
	completed, failed    int
	input, output        int
	ttft, tpot, itl, e2e []float64
	first, last          time.Duration // of all requests, −1: none
	peakTokens           int           // most tokens in a second that begins with a whole one since the first start
	peakSpread           int           // most requests that touch such a second
	peakExact            int           // most requests in flight
}

// gather reads a record by a tool's rules.
func gather(record io.Reader, by rules) (*totals, error) {
	t := &totals{first: -1}
	var spans []span
	_, err := loadgen.ReadRecord(record, func(r *loadgen.Record) error {
		if r.Stream != "window" || r.Send < 0 {
			return nil
		}
		if t.first < 0 || r.Send < t.first {
			t.first = r.Send
		}
		t.last = max(t.last, r.End)
		switch r.Outcome {
		case loadgen.OK:
			spans = append(spans, t.add(r, by))
		case loadgen.Failed, loadgen.Rejected:
			t.failed++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	t.peaks(spans)
	return t, nil
}

// add takes a request that ended well.
func (t *totals) add(r *loadgen.Record, by rules) span {
	const ms = float64(time.Millisecond)
	t.completed++
	output := r.OutputTokens
	if output < 0 {
		output = r.AskedOutput // as both tools do, where the server does not say
	}
	t.output += output
	t.input += max(0, r.PromptTokens)
	if r.PromptTokens < 0 {
		t.input += r.AskedInput
	}
	s := span{from: r.Send, to: r.End}
	if d, ok := by.ttft(r); ok {
		t.ttft = append(t.ttft, float64(d)/ms)
		s.tokens = append(s.tokens, r.Send+d)
	}
	if d, ok := by.e2e(r); ok {
		t.e2e = append(t.e2e, float64(d)/ms)
		s.to = r.Send + d
	}
	if d, ok := by.tpot(r); ok {
		t.tpot = append(t.tpot, float64(d)/ms)
	}
	last := time.Duration(-1)
	for _, c := range r.Chunks {
		if !by.bears(c) {
			continue
		}
		if last >= 0 {
			n := 1
			if by.perToken && r.Counted {
				n = c.Tokens
			}
			for i := range n {
				t.itl = append(t.itl, float64(c.At-last)/ms/float64(n))
				s.tokens = append(s.tokens, last+(c.At-last)*time.Duration(i+1)/time.Duration(n))
			}
			if n == 0 {
				continue
			}
		}
		last = c.At
	}
	return s
}

// peaks finds the crowded seconds.
func (t *totals) peaks(spans []span) {
	if len(spans) == 0 {
		return
	}
	zero := slices.MinFunc(spans, func(a, b span) int { return int(a.from - b.from) }).from
	second := func(at time.Duration) int { return int((at - zero) / time.Second) }
	n := 0
	for _, s := range spans {
		n = max(n, second(s.to)+1)
		for _, at := range s.tokens {
			n = max(n, second(at)+1)
		}
	}
	tokens, open := make([]int, n), make([]int, n)
	var edges []time.Duration // starts as they are, ends as ^end: an end sorts apart
	for _, s := range spans {
		for _, at := range s.tokens {
			tokens[second(at)]++
		}
		for i := second(s.from); i <= second(s.to); i++ {
			open[i]++
		}
		edges = append(edges, s.from, ^s.to)
	}
	t.peakTokens, t.peakSpread = slices.Max(tokens), slices.Max(open)
	at := func(e time.Duration) (time.Duration, int) {
		if e < 0 {
			return ^e, -1
		}
		return e, 1
	}
	slices.SortFunc(edges, func(a, b time.Duration) int {
		x, dx := at(a)
		y, dy := at(b)
		if x != y {
			return int(x - y)
		}
		return dx - dy // a slot that is taken again at once was held once
	})
	level := 0
	for _, e := range edges {
		_, d := at(e)
		level += d
		t.peakExact = max(t.peakExact, level)
	}
}

// duration is how long the requests took, in s.
func (t *totals) duration() float64 { return max(0, t.last-max(0, t.first)).Seconds() }

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// deviation is the standard deviation of the population, as numpy's std.
func deviation(list []float64) float64 {
	m, sum := mean(list), 0.0
	for _, v := range list {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(list)))
}

// percentile is numpy's, linear between neighbours. The list is sorted.
func percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}
