package loadgen

import "time"

// reply gathers what one streamed answer says. It is used again for the next request of its slot.
type reply struct {
	resp   response
	now    time.Duration // stamp of the read being parsed
	late   bool          // that stamp is the client's own, although the connection has kernel stamps
	shape  *template     // of its events, which replies of one thread may share; a reset leaves it
	track  track         // of all events
	header time.Duration // stamp of the read that completed the head; −1: it has not come

	reads      int
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
	continuous bool  // the server counts tokens as they come
	wants      bool  // the text is to be kept; a reset leaves it
	asked      int   // tokens of output at most, which bound the stream; 0: no bound; a reset leaves it
	taken      int64 // bytes of the stream
	said       []byte
	fresh      int  // tokens that the last feed brought, by the server's running count
	texts      int  // token-bearing events that the last feed brought
	arrived    int  // events of any kind that the last feed brought
	moved      bool // the last feed brought more than keep-alive comments
}

func (r *reply) reset() {
	resp, track, said := r.resp, r.track, r.said[:0]
	resp.reset()
	track.reset()
	*r = reply{resp: resp, track: track, said: said, shape: r.shape, wants: r.wants, asked: r.asked, header: never, completion: unknown, prompt: unknown, cached: unknown, device: unknown, host: unknown}
}

// untouched says whether no byte of an answer has come.
func (r *reply) untouched() bool {
	return r.resp.state == stateHead && !r.resp.inField && len(r.resp.line) == 0
}

// feed parses the bytes of one read, all stamped with the same time.
func (r *reply) feed(b []byte, now time.Duration) (int, error) {
	r.now, r.fresh, r.texts = now, 0, 0
	r.reads++
	count, events, done, head := r.track.count, r.events, r.done, r.resp.headDone()
	n, err := r.resp.feed(b, r)
	if r.taken += int64(n); err == nil {
		err = r.endless()
	}
	if !head && r.resp.headDone() {
		r.header = now
	}
	line := r.resp.sse.line // a part of a long event is a sign of life too
	if r.arrived = r.track.count - count; r.arrived > 0 && len(line) == 0 && !r.resp.sse.has && len(r.resp.line) == 0 {
		r.track.exact()
	}
	r.moved = r.events > events || r.done != done || !head || !r.resp.events || len(line) > 0 && line[0] != ':'
	return n, err
}

func (r *reply) onData(data []byte) {
	if r.shape == nil {
		r.shape = new(template)
	}
	e := r.shape.scan(data)
	if e.Object {
		r.events++
	}
	r.take(e, len(data))
}

func (r *reply) onComment(line []byte) {
	r.track.add(Chunk{At: r.now, Bytes: len(line), Kind: ChunkComment, User: r.late})
}

func (r *reply) onError(data []byte) {
	var e event
	scanEvent(data, &e)
	if !e.Object {
		e.ErrorText = data
	}
	e.Error = true
	r.take(&e, len(data))
}

func (r *reply) take(e *event, size int) {
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
	if r.wants {
		r.keep(e)
	}
	r.track.add(Chunk{At: r.now, Bytes: size, Tokens: r.takeTokens(e), Kind: e.kind(), User: r.late})
}

// takeTokens says how many tokens an event brought: −1 when it brought text and the server does not count. An event
// bears tokens when it brought text or when the server's running count grew: a first token may have no text of its own (a part of a
// UTF-8 sequence), and a usage-only event at the end repeats a count.
func (r *reply) takeTokens(e *event) int {
	grown := 0
	if e.Completion > max(0, r.completion) {
		grown = min(e.Completion-max(0, r.completion), 1<<40)
	}
	if e.Completion >= 0 {
		r.completion = max(r.completion, e.Completion)
	}
	switch {
	case !e.Choices: // usage only: a total, not an arrival
		if r.continuous && r.track.bearing > 0 { // tokens that had no event of their own
			r.fresh += grown
			return grown
		}
	case e.Completion >= 0:
		if grown > 0 && (r.continuous || r.track.bearing == 0) {
			r.continuous = true
			r.fresh += grown
			r.texts++
			return grown
		}
	case e.tokenBearing():
		r.texts++
		return unknown
	}
	return 0
}

// record puts what the answer said into a record, without its chunks.
func (r *reply) record(rec *Record) {
	rec.Header = r.header
	if r.header == never {
		rec.Header = -1
	}
	rec.Status, rec.Finish = r.resp.status, r.finish.word(r.finishWord)
	if !r.resp.headDone() {
		rec.Status = 0
	}
	rec.PromptTokens, rec.OutputTokens = r.prompt, r.completion
	rec.CachedTokens, rec.CachedDevice, rec.CachedHost = r.cached, r.device, r.host
	rec.Counted, rec.Reads = r.continuous, r.reads
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
