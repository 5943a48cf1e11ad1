package truth

// Expected holds the true values of one request by each definition, in ns. The zero of all is the moment when the
// request had been read completely; a client's own zero lies before it by what sending took.
//
// The events count when the write of their last byte began. A value that does not exist (no token came) is absent: the
// pointer is nil, the list empty.
type Expected struct {
	Tokens int // sent, all kinds

	FirstEvent   *int64 // first event of the stream, a role without a token included
	FirstToken   *int64 // TTFT: first event that carries a token, be its text empty
	FirstText    *int64 // first event with text, reasoning included: TTFT where empty chunks are skipped
	FirstContent *int64 // first visible text

	GapITL   []int64   // between successive events that carry tokens
	TokenITL []float64 // each of these gaps divided by the tokens of the event that ends it, once a token

	TPOT    *float64 // (E2EToken − FirstToken) ÷ (Tokens − 1)
	TPOTEnd *float64 // (E2EEnd − FirstText) ÷ (Tokens − 1): where a client's end is the end of the stream
	NTPOT   *float64 // E2EToken ÷ Tokens

	E2EToken *int64 // the last event that carries tokens
	E2EEnd   *int64 // the end of the stream: usage and end mark included

	Complete bool // the answer went out whole: a stream with its end mark, or one answer with status 200
}

// Expect derives the true values from the log of a request.
func Expect(r *Request) Expected {
	var x Expected
	var last int64 // time of the last event with tokens
	for i := range r.Events {
		e := &r.Events[i]
		at := e.Last - r.Complete
		first(&x.FirstEvent, at, e.Kind < Usage)
		first(&x.FirstText, at, e.Kind == Reasoning || e.Kind == Content)
		first(&x.FirstContent, at, e.Kind == Content)
		if e.Kind == Done || e.Kind == Whole {
			x.E2EEnd = &at
			x.Complete = r.Status == 200
		}
		if e.Tokens == 0 {
			continue
		}
		if x.Tokens > 0 {
			x.GapITL = append(x.GapITL, at-last)
			for range e.Tokens {
				x.TokenITL = append(x.TokenITL, float64(at-last)/float64(e.Tokens))
			}
		}
		first(&x.FirstToken, at, true)
		x.Tokens += int(e.Tokens)
		x.E2EToken, last = &at, at
	}
	if x.Tokens > 0 {
		x.NTPOT = ratio(*x.E2EToken, x.Tokens)
	}
	if x.Tokens > 1 {
		x.TPOT = ratio(*x.E2EToken-*x.FirstToken, x.Tokens-1)
		if x.E2EEnd != nil && x.FirstText != nil {
			x.TPOTEnd = ratio(*x.E2EEnd-*x.FirstText, x.Tokens-1)
		}
	}
	return x
}

func first(value **int64, at int64, counts bool) {
	if counts && *value == nil {
		*value = &at
	}
}

func ratio(ns int64, n int) *float64 {
	v := float64(ns) / float64(n)
	return &v
}
