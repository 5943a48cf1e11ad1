package loadgen

import "bytes"

// member reads the value of a key in a scope. Names come from SGLang 0.5 (OpenAI routes and
// /generate), vLLM 0.32 and llama.cpp b11434.
func (s *scanner) member(in scope, key []byte) {
	switch in {
	case inTop:
		s.topMember(key)
	case inChoice:
		s.choiceMember(key)
	case inDelta:
		s.deltaMember(key)
	case inUsage:
		s.usageMember(key)
	case inDetails:
		if string(key) == "cached_tokens" {
			s.e.Cached = s.number()
			return
		}
		s.skip()
	case inSglext:
		if string(key) == "cached_tokens_details" {
			s.into(inTiers)
			return
		}
		s.skip()
	case inTiers:
		switch string(key) {
		case "device":
			s.e.CachedDevice = s.number()
		case "host":
			s.e.CachedHost = s.number()
		default:
			s.skip()
		}
	case inFinish:
		switch string(key) {
		case "type":
			if word, ok := s.text(); ok {
				s.finish(word)
			}
		case "message", "status_code":
			s.errorMember(key)
		default:
			s.skip()
		}
	case inError:
		s.errorMember(key)
	case inTimings:
		switch string(key) {
		case "predicted_n":
			s.timedTokens = s.number()
		case "prompt_n":
			s.timedPrompt = s.number()
		case "cache_n":
			s.timedCache = max(0, s.number())
		default:
			s.skip()
		}
	}
}

func (s *scanner) topMember(key []byte) {
	e := s.e
	switch string(key) {
	case "choices":
		s.choices()
	case "usage":
		s.into(inUsage)
	case "meta_info":
		e.Choices, e.Native = true, true
		s.into(inUsage)
	case "timings":
		s.into(inTimings)
	case "sglext":
		s.into(inSglext)
	case "error":
		switch s.peek() {
		case '{':
			e.Error = true
			s.object(inError)
		case '"':
			e.Error = true
			e.ErrorText = s.str()
		default:
			at := s.i
			s.skip()
			v := bytes.TrimSpace(s.b[at:s.i])
			e.Error = e.Error || string(v) != "null" && string(v) != "false" && len(v) > 0
		}
	case "object":
		if word, ok := s.text(); ok && string(word) == "error" {
			s.flatError = true
		}
	case "message", "type", "code":
		s.errorMember(key)
	case "text", "content": // /generate; llama.cpp's native route
		if raw, ok := s.text(); ok {
			e.Choices = true
			s.shown(raw)
		}
	case "stop": // llama.cpp's native route
		e.Done = s.peek() == 't'
		s.skip()
	case "stop_type":
		if word, ok := s.text(); ok && string(word) != "none" {
			s.finish(word)
		}
	case "tokens_predicted":
		e.Completion = s.number()
	case "tokens_evaluated":
		e.Prompt = s.number()
	default:
		s.skip()
	}
}

// shown takes visible text.
func (s *scanner) shown(raw []byte) {
	if len(raw) > 0 {
		s.e.Text, s.e.Raw = true, raw
	}
	s.noteText(raw, holeText)
}

// choices reads the array of choices; only the first is asked for and read.
func (s *scanner) choices() {
	if s.peek() != '[' {
		s.skip()
		return
	}
	s.i++
	for {
		switch s.peek() {
		case '{':
			s.e.Choices = true
			s.object(inChoice)
		case ',':
			s.i++
		case ']':
			s.i++
			return
		case 0:
			s.i = len(s.b)
			return
		default:
			at := s.i
			s.skip()
			if s.i == at {
				s.i = len(s.b)
				return
			}
		}
	}
}

func (s *scanner) choiceMember(key []byte) {
	switch string(key) {
	case "text":
		if raw, ok := s.text(); ok {
			s.shown(raw)
		}
	case "delta", "message":
		s.into(inDelta)
	case "finish_reason":
		s.finishValue()
	default:
		s.skip()
	}
}

func (s *scanner) deltaMember(key []byte) {
	switch string(key) {
	case "content":
		if raw, ok := s.text(); ok {
			s.shown(raw)
		}
	case "reasoning_content", "reasoning":
		if raw, ok := s.text(); ok {
			s.e.Reasoning = s.e.Reasoning || len(raw) > 0
			s.noteText(raw, holeReasoning)
		}
	case "role":
		s.e.Role = true
		s.skip()
	case "tool_calls":
		if s.peek() == '[' {
			at := s.i
			s.skip()
			s.e.ToolCall = s.e.ToolCall || bytes.IndexByte(s.b[at:s.i], '{') >= 0
			return
		}
		s.skip()
	default:
		s.skip()
	}
}

// usageMember reads a key of usage or of meta_info; their names do not collide.
func (s *scanner) usageMember(key []byte) {
	switch string(key) {
	case "completion_tokens":
		s.space()
		from := s.i
		if s.e.Completion = s.number(); s.e.Completion >= 0 {
			s.note(from, s.i, holeCompletion)
		}
	case "prompt_tokens":
		s.e.Prompt = s.number()
	case "cached_tokens":
		s.e.Cached = s.number()
	case "prompt_tokens_details":
		s.into(inDetails)
	case "cached_tokens_details":
		s.into(inTiers)
	case "finish_reason":
		s.finishValue()
	default:
		s.skip()
	}
}

func (s *scanner) finishValue() {
	switch s.peek() {
	case '"':
		s.finish(s.str())
	case '{':
		s.object(inFinish)
	default:
		s.skip()
	}
}

func (s *scanner) finish(word []byte) {
	s.e.FinishWord = word
	switch string(word) {
	case "stop", "eos", "word", "tool_calls":
		s.e.Finish = finishStop
	case "length", "limit":
		s.e.Finish = finishLength
	case "abort":
		s.e.Finish = finishAbort
	default:
		s.e.Finish = finishOther
	}
}

func (s *scanner) errorMember(key []byte) {
	e := s.e
	switch string(key) {
	case "message":
		if raw, ok := s.text(); ok {
			e.ErrorText = raw
		}
	case "type":
		if raw, ok := s.text(); ok {
			e.ErrorType = raw
		}
	case "code", "status_code":
		if s.peek() == '"' { // OpenAI's own errors have words here
			if raw := s.str(); len(e.ErrorType) == 0 {
				e.ErrorType = raw
			}
			return
		}
		e.ErrorCode = max(0, s.number())
	default:
		s.skip()
	}
}
