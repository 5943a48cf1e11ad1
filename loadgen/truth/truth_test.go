package truth

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// at makes the log of a request whose events were written on time; ms after its end.
func at(events ...Event) *Request {
	r := &Request{Status: 200, Complete: 1_000_000_000, Events: events}
	for i := range r.Events {
		e := &r.Events[i]
		e.Start = e.Start*1_000_000 + r.Complete
		if e.Last = e.Last*1_000_000 + r.Complete; e.Last < e.Start {
			e.Last = e.Start
		}
	}
	return r
}

// want holds expected values in ms; NaN: absent.
type want struct {
	tokens                                   int
	event, token, text, content, e2e, e2eEnd float64
	tpot, tpotEnd                            float64
	gaps, tokenGaps                          []float64
	complete                                 bool
}

func TestExpect(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	for _, c := range []struct {
		name string
		r    *Request
		want want
	}{
		{"plain", at(Event{Kind: Content, Tokens: 1, Start: 100}, Event{Kind: Content, Tokens: 1, Start: 110}, Event{Kind: Content, Tokens: 1, Start: 140}, Event{Kind: Done, Start: 140}),
			want{3, 100, 100, 100, 100, 140, 140, 20, 20, []float64{10, 30}, []float64{10, 30}, true}},
		{"role early, usage and end mark late", at(Event{Kind: Role, Start: 50}, Event{Kind: Content, Tokens: 1, Start: 250}, Event{Kind: Content, Tokens: 1, Start: 270}, Event{Kind: Usage, Start: 370}, Event{Kind: Done, Start: 470}),
			want{2, 50, 250, 250, 250, 270, 470, 20, 220, []float64{20}, []float64{20}, true}},
		{"empty first", at(Event{Kind: Empty, Tokens: 1, Start: 100}, Event{Kind: Content, Tokens: 1, Start: 120}, Event{Kind: Content, Tokens: 1, Start: 140}, Event{Kind: Done, Start: 140}),
			want{3, 100, 100, 120, 120, 140, 140, 20, 10, []float64{20, 20}, []float64{20, 20}, true}},
		{"reasoning, then content", at(Event{Kind: Reasoning, Tokens: 2, Start: 100}, Event{Kind: Content, Tokens: 2, Start: 130}, Event{Kind: Done, Start: 130}),
			want{4, 100, 100, 100, 130, 130, 130, 10, 10, []float64{30}, []float64{15, 15}, true}},
		{"several tokens an event", at(Event{Kind: Content, Tokens: 3, Start: 100}, Event{Kind: Content, Tokens: 4, Start: 120}, Event{Kind: Content, Tokens: 5, Start: 160}, Event{Kind: Done, Start: 160}),
			want{12, 100, 100, 100, 100, 160, 160, 60.0 / 11, 60.0 / 11, []float64{20, 40}, []float64{5, 5, 5, 5, 8, 8, 8, 8, 8}, true}},
		{"an event counts when its last byte is written", at(Event{Kind: Content, Tokens: 1, Start: 100, Last: 103}, Event{Kind: Content, Tokens: 1, Start: 110, Last: 111}, Event{Kind: Done, Start: 112}),
			want{2, 103, 103, 103, 103, 111, 112, 8, 9, []float64{8}, []float64{8}, true}},
		{"one token", at(Event{Kind: Content, Tokens: 1, Start: 100}, Event{Kind: Done, Start: 105}),
			want{1, 100, 100, 100, 100, 100, 105, none, none, nil, nil, true}},
		{"reset after two tokens", at(Event{Kind: Content, Tokens: 1, Start: 100}, Event{Kind: Content, Tokens: 1, Start: 110}, Event{Kind: Reset, Start: 120}),
			want{2, 100, 100, 100, 100, 110, none, 10, none, []float64{10}, []float64{10}, false}},
		{"nothing came", at(), want{0, none, none, none, none, none, none, none, none, nil, nil, false}},
		{"at once", at(Event{Kind: Whole, Tokens: 5, Start: 300}), want{5, none, 300, none, none, 300, 300, 0, none, nil, nil, true}},
	} {
		x := Expect(c.r)
		check := func(name string, got *int64, want float64) {
			if (got == nil) != math.IsNaN(want) || got != nil && float64(*got) != want*1e6 {
				t.Errorf("%s: %s is %v, want %v ms", c.name, name, got, want)
			}
		}
		check("first event", x.FirstEvent, c.want.event)
		check("first token", x.FirstToken, c.want.token)
		check("first text", x.FirstText, c.want.text)
		check("first content", x.FirstContent, c.want.content)
		check("E2E to the last token", x.E2EToken, c.want.e2e)
		check("E2E to the end", x.E2EEnd, c.want.e2eEnd)
		for i, got := range []*float64{x.TPOT, x.TPOTEnd} {
			w := []float64{c.want.tpot, c.want.tpotEnd}[i]
			if (got == nil) != math.IsNaN(w) || got != nil && math.Abs(*got-w*1e6) > 1e-3 {
				t.Errorf("%s: TPOT %d is %v, want %v ms", c.name, i, got, w)
			}
		}
		var gaps, tokenGaps []float64
		for _, g := range x.GapITL {
			gaps = append(gaps, float64(g)/1e6)
		}
		for _, g := range x.TokenITL {
			tokenGaps = append(tokenGaps, g/1e6)
		}
		if x.Tokens != c.want.tokens || x.Complete != c.want.complete || !reflect.DeepEqual(gaps, c.want.gaps) || !reflect.DeepEqual(tokenGaps, c.want.tokenGaps) {
			t.Errorf("%s: tokens %d, complete %v, gaps %v, by token %v; want %+v", c.name, x.Tokens, x.Complete, gaps, tokenGaps, c.want)
		}
	}
}

// perfect is the log of a request that a punctual server answered.
func perfect(p *Plan, ask Ask) *Request {
	r := &Request{Plan: p, Status: 200, Complete: 5_000_000_000, Asked: ask.Tokens}
	if p.Status != 0 {
		r.Status = p.Status
	}
	for _, s := range p.Steps(ask, 2000) {
		at := r.Complete + s.AtNS
		r.Events = append(r.Events, Event{Kind: s.Kind, Tokens: int32(s.Tokens), Due: at, Start: at, Last: at})
		r.Sent += s.Tokens
		r.End = at
	}
	return r
}

// Whatever the plan, the values agree with each other and with the plan.
func TestExpectProperties(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	for n := range 2000 {
		p := Plan{
			FirstUS: rng.Int64N(1000), GapUS: rng.Int64N(1000), Gaps: pick("", "exponential", "lognormal", "stall"), Seed: rng.Uint64(),
			Chunk: rng.IntN(4), Reasoning: rng.IntN(6), EmptyFirst: rng.IntN(2) == 0, UsageUS: rng.Int64N(300), DoneUS: rng.Int64N(300),
		}
		p.ChunkMax, p.RoleUS = p.Chunk+rng.IntN(3), rng.Int64N(p.FirstUS+1)
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		ask := Ask{Tokens: 1 + rng.IntN(60), Chat: rng.IntN(2) == 0, Usage: rng.IntN(2) == 0, Number: n}
		r := perfect(&p, ask)
		x := Expect(r)
		var sum int64
		for _, g := range x.GapITL {
			sum += g
		}
		total := 0.0
		for _, g := range x.TokenITL {
			total += g
		}
		firstTokens := 0
		for _, e := range r.Events {
			if e.Tokens > 0 {
				firstTokens = int(e.Tokens)
				break
			}
		}
		span := *x.E2EToken - *x.FirstToken
		switch {
		case x.Tokens != ask.Tokens || !x.Complete:
			t.Errorf("%+v %+v: %d tokens, complete %v", p, ask, x.Tokens, x.Complete)
		case *x.FirstToken != p.FirstUS*1000 || *x.E2EEnd < *x.E2EToken+p.DoneUS*1000 || ask.Usage && *x.E2EEnd != *x.E2EToken+(p.DoneUS+p.UsageUS)*1000:
			t.Errorf("%+v %+v: first token %d, end %d after the last", p, ask, *x.FirstToken, *x.E2EEnd-*x.E2EToken)
		case ask.Chat && p.RoleUS > 0 && *x.FirstEvent != (p.FirstUS-p.RoleUS)*1000 || *x.FirstEvent > *x.FirstToken:
			t.Errorf("%+v %+v: first event %d", p, ask, *x.FirstEvent)
		case x.FirstText != nil && *x.FirstText < *x.FirstToken || x.FirstContent != nil && *x.FirstContent < *x.FirstText:
			t.Errorf("%+v %+v: first text before the first token", p, ask)
		case sum != span || math.Abs(total-float64(span)) > 1 || len(x.TokenITL) != x.Tokens-firstTokens:
			t.Errorf("%+v %+v: gaps add up to %d and %g of %d, %d of %d tokens", p, ask, sum, total, span, len(x.TokenITL), x.Tokens)
		case x.Tokens > 1 && math.Abs(*x.TPOT*float64(x.Tokens-1)-float64(span)) > 1:
			t.Errorf("%+v %+v: TPOT %g", p, ask, *x.TPOT)
		}
	}
}

// The drawn gaps have the mean that was asked for, and their own shape.
func TestGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gaps            string
		mean, over, dev float64 // mean in ms; share of gaps over twice 10 ms; allowed deviation of the mean
	}{
		{"constant", 10, 0, 0},
		{"exponential", 10, math.Exp(-2), 0.03},
		{"lognormal", 10, 0.1159, 0.03}, // P(N > (ln 2 + ½))
		{"stall", 10 + 490.0/100, 0.01, 0.06},
	} {
		p := Plan{GapUS: 10_000, Gaps: c.gaps, Seed: 7}
		x := Expect(perfectLong(&p, 40_000))
		sum, over := 0.0, 0.0
		for _, g := range x.GapITL {
			sum += float64(g) / 1e6
			if g > 20_000_000 {
				over++
			}
		}
		n := float64(len(x.GapITL))
		if math.Abs(sum/n/c.mean-1) > c.dev || math.Abs(over/n-c.over) > 0.01 {
			t.Errorf("%s: mean %.3f ms, %.4f over 20 ms; want %.3f, %.4f", c.gaps, sum/n, over/n, c.mean, c.over)
		}
	}
}

func perfectLong(p *Plan, tokens int) *Request {
	r := &Request{Plan: p, Status: 200}
	for _, s := range p.Steps(Ask{Tokens: tokens}, tokens) {
		r.Events = append(r.Events, Event{Kind: s.Kind, Tokens: int32(s.Tokens), Start: s.AtNS, Last: s.AtNS})
	}
	return r
}

// The same seed and number give the same answer, another number another one.
func TestStepsAreReproducible(t *testing.T) {
	t.Parallel()
	p := Plan{FirstUS: 1, GapUS: 1000, Gaps: "exponential", ChunkMax: 5, Seed: 3}
	a, b := p.Steps(Ask{Tokens: 50, Number: 1}, 100), p.Steps(Ask{Tokens: 50, Number: 1}, 100)
	if !reflect.DeepEqual(a, b) {
		t.Error("two answers to one request differ")
	}
	if c := p.Steps(Ask{Tokens: 50, Number: 2}, 100); reflect.DeepEqual(a, c) {
		t.Error("two requests got one answer")
	}
}

func TestParsePlan(t *testing.T) {
	t.Parallel()
	base := Plan{FirstUS: 7, GapUS: 8, Phase: "spread", Seed: 9, Batch: 3}
	for _, c := range []struct {
		text string
		want Plan
		err  string
	}{
		{`{}`, base, ""},
		{`{"gap_us":5}`, Plan{FirstUS: 7, GapUS: 5, Phase: "spread", Seed: 9, Batch: 3}, ""},
		{`{"pattern":"late-done"}`, Plan{Pattern: "late-done", FirstUS: 7, GapUS: 8, Phase: "spread", Seed: 9, DoneUS: 100_000}, ""},
		{`{"pattern":"429","first_us":1}`, Plan{Pattern: "429", FirstUS: 1, GapUS: 8, Phase: "spread", Seed: 9, Status: 429}, ""},
		{`{"pattern":"nonsense"}`, Plan{}, `pattern "nonsense" is none of 429`},
		{`{"speed":1}`, Plan{}, "unknown field"},
		{`{"role_us":8}`, Plan{}, "role_us 8 is more than first_us 7"},
		{`{"gaps":"gamma"}`, Plan{}, "none of constant"},
		{`{"batch":2,"split":2}`, Plan{}, "exclude"},
		{`{"endless":true,"gap_us":0}`, Plan{}, "endless"},
		{`{"chunk":3,"chunk_max":2}`, Plan{}, "below"},
		{`{"status":200}`, Plan{}, "no refusal"},
		{`[]`, Plan{}, "cannot unmarshal"},
	} {
		got, err := ParsePlan(base, []byte(c.text))
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %+v, %v; want %+v, %s", c.text, got, err, c.want, c.err)
		}
	}
	got, err := ParseQuery(DefaultPlan(), "pattern=500&gap_us=3&close=true")
	if want := (Plan{Pattern: "500", FirstUS: 200_000, GapUS: 3, Status: 500, Close: true}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want call
	}{
		{`{"prompt":"a \"stream\": true, b","max_tokens":5,"truth":{"gap_us":3}}`, call{tokens: 5, prompt: 4, plan: []byte(`{"gap_us":3}`)}},
		{`{"stream" : true,"prompt":[[1,2]],"max_new_tokens": 7,"stream_options":{"include_usage":true}}`, call{stream: true, usage: true, tokens: 7, prompt: 2}},
		{`{"stream":true,"messages":[{"role":"user","content":" one two"}],"max_completion_tokens":9,"stream_options":{"continuous_usage_stats": true}}`, call{stream: true, continuous: true, tokens: 9, prompt: 2}},
		{`{"prompt":[]}`, call{}},
		{`{"prompt":""}`, call{}},
	} {
		if got := readCall([]byte(c.body)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
	}
}

// A request cut anywhere is incomplete, and whole it is read with what it needs.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("POST /generate?x=1 HTTP/1.1\r\nContent-Length: 4\r\nX-Truth: {}\r\n\r\nabcdGET"), 30)
	f.Add([]byte("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), 70)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		r, used, err := readRequest(b)
		if used < 0 || used > len(b) || err != nil && used != 0 {
			t.Fatalf("used %d of %d, %v", used, len(b), err)
		}
		_ = readCall(b)
		if used == 0 || cut < 0 || cut >= used {
			return
		}
		if _, n, err := readRequest(b[:cut]); n != 0 || err != nil {
			t.Errorf("cut at %d of %d: used %d, %v", cut, used, n, err)
		}
		if whole, n, err := readRequest(b[:used]); n != used || err != nil || !bytes.Equal(whole.body, r.body) {
			t.Errorf("without what follows: used %d of %d, %v", n, used, err)
		}
	})
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"pattern":"chunks","gap_us":5,"seed":18446744073709551615}`))
	f.Add([]byte(`{"pattern":"role","tokens":3,"empty_first":true,"reasoning":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePlan(DefaultPlan(), b)
		if err != nil {
			return
		}
		last := int64(math.MinInt64)
		for _, s := range p.Steps(Ask{Tokens: 10, Chat: true, Usage: true}, 50) {
			if s.AtNS < last {
				t.Errorf("%s: an event at %d follows one at %d", b, s.AtNS, last)
			}
			last = s.AtNS
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParsePlan(Plan{}, text); err != nil || again != p {
			t.Errorf("%s: %+v, read back %+v, %v", b, p, again, err)
		}
	})
}

func FuzzLog(f *testing.F) {
	text, err := appendLog(nil, Summary{Requests: 1}, []Request{*perfect(&Plan{FirstUS: 5, GapUS: 2}, Ask{Tokens: 3})})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{}\n{\"events\":[[9,0,0,0,0]]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum, requests, err := ReadLog(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := appendLog(nil, sum, requests)
		if err != nil {
			t.Fatal(err)
		}
		if _, r2, err := ReadLog(bytes.NewReader(again)); err != nil || len(r2) != len(requests) {
			t.Errorf("%s: read back %d of %d requests, %v", b, len(r2), len(requests), err)
		}
	})
}
