package loadgen

import "bytes"

// finish is why a server says that a generation ended.
type finish uint8

const (
	finishNone   finish = iota // not said
	finishStop                 // an end-of-sequence token or a stop word
	finishLength               // as many tokens as were asked
	finishAbort                // cut by the engine
	finishOther                // any other word: no success
)

// word is the reason as a word: the server's own where it is none of the known ones.
func (f finish) word(own string) string {
	switch f {
	case finishNone:
		return ""
	case finishStop:
		return "stop"
	case finishLength:
		return "length"
	case finishAbort:
		return "abort"
	}
	return own
}

// unknown is a count that a server did not give.
const unknown = -1

// event is what one streamed event says, read by scanning its bytes. The slices point into the
// scanned bytes and are good only until the next read.
type event struct {
	Object     bool   // the data is a JSON object
	Done       bool   // "[DONE]", or the last event of llama.cpp's native route
	Choices    bool   // holds a choice (OpenAI routes), or is of a native route
	Text       bool   // visible text that is not empty
	Reasoning  bool   // reasoning text that is not empty
	ToolCall   bool   // part of a tool call
	Role       bool   // says who speaks
	Native     bool   // of SGLang's own route
	Raw        []byte // the visible text, inside of a JSON string
	Finish     finish
	FinishWord []byte

	Completion   int // completion tokens so far, as the server counts; unknown when not said
	Prompt       int // prompt tokens
	Cached       int // prompt tokens found in a prefix cache, all tiers
	CachedDevice int // of those, in device memory
	CachedHost   int // of those, in host memory

	Error     bool
	ErrorText []byte // message, raw JSON string contents; of no meaning without Error or an abort
	ErrorType []byte
	ErrorCode int // as in the body; 0 when not a number
}

// tokenBearing says whether the event brought output text of any kind.
func (e *event) tokenBearing() bool { return e.Text || e.Reasoning || e.ToolCall }

// kind is the one word for what the event brought.
func (e *event) kind() ChunkKind {
	switch {
	case e.Error:
		return ChunkError
	case e.Text:
		return ChunkContent
	case e.Reasoning:
		return ChunkReasoning
	case e.ToolCall:
		return ChunkTool
	case e.Done:
		return ChunkDone
	case e.Choices && e.Role:
		return ChunkRole
	case e.Choices:
		return ChunkEmpty
	case e.Completion >= 0 || e.Prompt >= 0:
		return ChunkUsage
	}
	return ChunkOther
}

var doneWord = []byte("[DONE]")

// scanEvent reads one event's data. It accepts any bytes: what is not understood is skipped.
func scanEvent(data []byte, e *event) { scanFor(data, e, nil) }

// scanFor is scanEvent that notes for a template, which may be nil, where the values lie. whole says that the data are one
// object and nothing else.
func scanFor(data []byte, e *event, learns *template) (whole bool) {
	*e = event{Completion: unknown, Prompt: unknown, Cached: unknown, CachedDevice: unknown, CachedHost: unknown}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, doneWord) {
		e.Done = true
		return false
	}
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	e.Object = true
	s := scanner{b: data, e: e, learns: learns}
	s.object(inTop)
	if !e.Error && s.flatError && !e.Choices {
		e.Error = true // {"object":"error","message":…}
	}
	if s.timedTokens >= 0 && e.Completion < 0 {
		e.Completion = s.timedTokens
	}
	if s.timedPrompt >= 0 && e.Prompt < 0 {
		e.Prompt = s.timedPrompt + s.timedCache
	}
	if s.timedPrompt >= 0 && e.Cached < 0 {
		e.Cached = s.timedCache
	}
	return s.closed && s.i == len(data)
}

// scope is the place in an event where the scanner is.
type scope uint8

const (
	inTop     scope = iota // the event itself
	inChoice               // an element of choices
	inDelta                // delta or message of a choice
	inUsage                // usage, or SGLang's meta_info
	inDetails              // usage.prompt_tokens_details
	inTiers                // cached_tokens_details
	inSglext               // SGLang's extension of the OpenAI chunk
	inFinish               // SGLang's finish_reason object
	inError                // error
	inTimings              // llama.cpp's timings
)

// scanner walks a JSON object without building anything. It goes into the few objects that matter,
// at most six deep, and skips all others.
type scanner struct {
	b []byte
	i int
	e *event

	flatError                            bool
	timedTokens, timedPrompt, timedCache int
	started, closed                      bool

	learns *template // nil: where the values lie is not asked
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// object reads the object at the cursor. It stops at the first byte that does not fit.
func (s *scanner) object(in scope) {
	if !s.started {
		s.started = true
		s.timedTokens, s.timedPrompt = unknown, unknown
	}
	s.i++ // the brace
	for {
		switch s.peek() {
		case '"':
		case ',':
			s.i++
			continue
		case '}':
			s.i++
			s.closed = in == inTop
			return
		default:
			s.i = len(s.b)
			return
		}
		key := s.str()
		if s.peek() != ':' {
			s.i = len(s.b)
			return
		}
		s.i++
		s.space()
		s.member(in, key)
	}
}

// str reads the string at the cursor and returns its raw contents.
func (s *scanner) str() []byte {
	s.i++
	start := s.i
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.i = len(s.b)
			return s.b[start:]
		}
		s.i += n
		escapes := 0
		for j := s.i - 1; j >= start && s.b[j] == '\\'; j-- {
			escapes++
		}
		s.i++
		if escapes%2 == 0 {
			return s.b[start : s.i-1]
		}
	}
}

// skip passes over the value at the cursor.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		raw := s.str()
		s.noteText(raw, holeString)
	case '{', '[':
		s.nested()
	default:
		from := s.i
		s.scalar()
		if s.learns != nil && s.allNumeric(from) {
			s.note(from, s.i, holeNumber)
		}
	}
}

// allNumeric says whether the bytes from there to the cursor are those of a number.
func (s *scanner) allNumeric(from int) bool {
	for _, c := range s.b[from:s.i] {
		if !isNumeric(c) {
			return false
		}
	}
	return s.i > from && s.i < len(s.b) && !isNumeric(s.b[s.i])
}

// scalar passes over a number or a word.
func (s *scanner) scalar() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', '"', '{', '[':
			return
		}
		s.i++
	}
}

// nested passes over an object or array.
func (s *scanner) nested() {
	if s.b[s.i] == '[' { // an array of numbers can be long: SGLang repeats all output ids in each event
		if n := bytes.IndexByte(s.b[s.i:], ']'); n > 0 {
			inner := s.b[s.i+1 : s.i+n]
			if bytes.IndexByte(inner, '"') < 0 && bytes.IndexByte(inner, '[') < 0 && bytes.IndexByte(inner, '{') < 0 {
				s.i += n + 1
				return
			}
		}
	}
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
}

// number reads a whole number that is not negative; unknown for anything else.
func (s *scanner) number() int {
	s.space()
	start, v := s.i, 0
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && v < 1<<40 {
		v = v*10 + int(s.b[s.i]-'0')
		s.i++
	}
	end := s.i
	if end == start {
		s.skip() // a value of another kind
		return unknown
	}
	s.scalar() // a fraction or an exponent
	if s.i > end {
		return unknown
	}
	return v
}

// text reads a string value; ok is false, and the value is passed over, when it is of another kind.
func (s *scanner) text() (raw []byte, ok bool) {
	if s.peek() != '"' {
		s.skip()
		return nil, false
	}
	return s.str(), true
}

// into reads the value as an object in a scope, or passes over it.
func (s *scanner) into(in scope) bool {
	if s.peek() != '{' {
		s.skip()
		return false
	}
	s.object(in)
	return true
}
