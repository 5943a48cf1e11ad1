package loadgen

import "time"

// chunk is one token-bearing event of a stream: when it came and how many tokens it brought.
type chunk struct {
	at     time.Duration // since the start of the run
	tokens int32         // by the server's running count; unknown when it gives none
}

// reply gathers what one streamed answer says. It is used again for the next request of its slot.
type reply struct {
	resp   response
	now    time.Duration // stamp of the read being parsed
	ev     event
	chunks []chunk

	events     int  // JSON objects
	done       bool // the stream's own end was seen
	finish     finish
	finishWord string
	completion int // last count that the server gave
	prompt     int
	cached     int
	device     int // cached tokens found in device memory
	host       int // in host memory

	failed     bool // an error object, or an event named error
	errText    string
	errType    string
	errCode    int
	continuous bool // the server counts tokens as they come
	fresh      int  // tokens that the last feed brought, by the server's running count
	texts      int  // token-bearing events that the last feed brought
	moved      bool // the last feed brought more than keep-alive comments
}

func (r *reply) reset() {
	resp, chunks := r.resp, r.chunks[:0]
	resp.reset()
	*r = reply{resp: resp, chunks: chunks, completion: unknown, prompt: unknown, cached: unknown, device: unknown, host: unknown}
}

// untouched says whether no byte of an answer has come.
func (r *reply) untouched() bool {
	return r.resp.state == stateHead && !r.resp.inField && len(r.resp.line) == 0
}

// feed parses the bytes of one read, all stamped with the same time.
func (r *reply) feed(b []byte, now time.Duration) (int, error) {
	r.now, r.fresh, r.texts = now, 0, 0
	events, done, head := r.events, r.done, r.resp.headDone()
	n, err := r.resp.feed(b, r)
	line := r.resp.sse.line // a part of a long event is a sign of life too
	r.moved = r.events > events || r.done != done || !head || !r.resp.events || len(line) > 0 && line[0] != ':'
	return n, err
}

func (r *reply) onData(data []byte) {
	scanEvent(data, &r.ev)
	if r.ev.Object {
		r.events++
	}
	r.take(&r.ev)
}

func (r *reply) onError(data []byte) {
	scanEvent(data, &r.ev)
	if !r.ev.Object {
		r.ev.ErrorText = data
	}
	r.ev.Error = true
	r.take(&r.ev)
}

func (r *reply) take(e *event) {
	r.done = r.done || e.Done
	if e.Error || e.Finish == finishAbort {
		r.takeError(e)
	}
	if e.Finish != finishNone && r.finish != finishAbort {
		r.finish = e.Finish
		if e.Finish > finishLength {
			r.finishWord = string(e.FinishWord)
		}
	}
	if e.Prompt >= 0 {
		r.prompt = e.Prompt
	}
	if e.Cached >= 0 {
		r.cached = e.Cached
	}
	if e.CachedDevice >= 0 {
		r.device = e.CachedDevice
	}
	if e.CachedHost >= 0 {
		r.host = e.CachedHost
	}
	r.takeTokens(e)
}

// takeTokens notes a chunk. A chunk counts when it brought text or when the server's running count grew:
// a first token may have no text of its own (a part of a UTF-8 sequence), and a usage-only event at the
// end repeats a count.
func (r *reply) takeTokens(e *event) {
	grown := 0
	if e.Completion > max(0, r.completion) {
		grown = e.Completion - max(0, r.completion)
	}
	if e.Completion >= 0 {
		r.completion = max(r.completion, e.Completion)
	}
	switch {
	case !e.Choices: // usage only: a total, not an arrival
		if n := len(r.chunks); grown > 0 && r.continuous && n > 0 { // tokens that had no event of their own
			r.chunks[n-1].tokens += int32(min(grown, 1<<30))
			r.fresh += grown
		}
	case e.Completion >= 0:
		if grown > 0 && (r.continuous || len(r.chunks) == 0) {
			r.continuous = true
			r.chunks = append(r.chunks, chunk{r.now, int32(min(grown, 1<<30))})
			r.fresh += grown
			r.texts++
		}
	case e.tokenBearing():
		r.chunks = append(r.chunks, chunk{r.now, unknown})
		r.texts++
	}
}

func (r *reply) takeError(e *event) {
	if e.Error {
		r.failed = true
	}
	if r.errText == "" {
		r.errText = unescape(e.ErrorText)
	}
	if r.errType == "" {
		r.errType = unescape(e.ErrorType)
	}
	if r.errCode == 0 {
		r.errCode = e.ErrorCode
	}
}
