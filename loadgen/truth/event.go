package truth

import (
	"bytes"
	"strconv"
)

// The field with the time is the first of each event's JSON, so that it lies at a fixed place and has a fixed length:
// {"truth":"1795959208123456789 0000012", …
const (
	stampHead = `{"truth":"`
	stampSize = 19 // digits of the Unix time in ns: good for the years 2001 to 2286
	countSize = 7  // digits of the number of the event
)

// Stamp reads from the data of an event when its write began (CLOCK_REALTIME, Unix ns) and its number in the stream,
// from 0.
func Stamp(data []byte) (sentNS int64, number int, ok bool) {
	data, ok = bytes.CutPrefix(data, []byte(stampHead))
	if !ok || len(data) < stampSize+1+countSize || data[stampSize] != ' ' {
		return 0, 0, false
	}
	sentNS, err := strconv.ParseInt(string(data[:stampSize]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	number, err = strconv.Atoi(string(data[stampSize+1 : stampSize+1+countSize]))
	return sentNS, number, err == nil
}

// putDigits writes the last len(dst) decimal digits of v.
func putDigits(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
}

// api is the shape of an answer.
type api uint8

const (
	apiCompletions api = iota
	apiChat
	apiGenerate
)

// Each word is one token, and all are of one length.
var words = [...]string{" alpha", " bravo", " delta", " hotel", " india", " metro", " ocean", " paper", " quilt", " river", " sugar", " tango", " uncle", " vapor", " whale", " zebra"}

// stream is the state of an answer that its events show.
type stream struct {
	api         api
	incremental bool
	continuous  bool
	prompt      int
	sent        int // tokens
	number      int // of the next event
	text        []byte
}

// appendEvent appends one event, without its HTTP chunk: data line and empty line. The time is left as zeros, from
// len("data: ")+len(stampHead) on; an end mark has none.
func (s *stream) appendEvent(dst []byte, step Step) []byte {
	if step.Kind == Done {
		return append(dst, "data: [DONE]\n\n"...)
	}
	dst = append(dst, "data: "+stampHead+"0000000000000000000 0000000"...)
	putDigits(dst[len(dst)-countSize:], uint64(s.number))
	s.number++
	before := s.sent
	s.sent += step.Tokens
	switch {
	case s.api == apiGenerate:
		dst = s.appendGenerate(dst, step, before)
	case s.api == apiChat:
		dst = s.appendChat(dst, step, before)
	default:
		dst = s.appendCompletion(dst, step, before)
	}
	return append(dst, '\n', '\n')
}

func appendWords(dst []byte, from, n int) []byte {
	for i := range n {
		dst = append(dst, words[(from+i)%len(words)]...)
	}
	return dst
}

func (s *stream) appendCompletion(dst []byte, step Step, before int) []byte {
	dst = append(dst, `","id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1795959208,"model":"mock","choices":[`...)
	if step.Kind != Usage {
		dst = append(dst, `{"index":0,"text":"`...)
		if step.Kind != Empty {
			dst = appendWords(dst, before, step.Tokens)
		}
		dst = append(dst, `","logprobs":null,"finish_reason":`...)
		dst = appendFinish(dst, step.Finish)
		dst = append(dst, `,"stop_reason":null}`...)
	}
	return s.appendCounts(append(dst, ']'), step.Kind == Usage)
}

func (s *stream) appendChat(dst []byte, step Step, before int) []byte {
	dst = append(dst, `","id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1795959208,"model":"mock","choices":[`...)
	if step.Kind != Usage {
		dst = append(dst, `{"index":0,"delta":{`...)
		if s.number == 1 {
			dst = append(dst, `"role":"assistant",`...)
		}
		if step.Kind == Reasoning {
			dst = append(dst, `"reasoning_content":"`...)
		} else {
			dst = append(dst, `"content":"`...)
		}
		if step.Kind == Content || step.Kind == Reasoning {
			dst = appendWords(dst, before, step.Tokens)
		}
		dst = append(dst, `"},"logprobs":null,"finish_reason":`...)
		dst = appendFinish(dst, step.Finish)
		dst = append(dst, '}')
	}
	return s.appendCounts(append(dst, ']'), step.Kind == Usage)
}

func appendFinish(dst []byte, finish string) []byte {
	if finish == "" {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = append(dst, finish...)
	return append(dst, '"')
}

// appendCounts appends the usage of an OpenAI event, if there is any, and closes the object.
func (s *stream) appendCounts(dst []byte, always bool) []byte {
	if always || s.continuous {
		dst = append(dst, `,"usage":{"prompt_tokens":`...)
		dst = strconv.AppendInt(dst, int64(s.prompt), 10)
		dst = append(dst, `,"total_tokens":`...)
		dst = strconv.AppendInt(dst, int64(s.prompt+s.sent), 10)
		dst = append(dst, `,"completion_tokens":`...)
		dst = strconv.AppendInt(dst, int64(s.sent), 10)
		dst = append(dst, `,"prompt_tokens_details":null}`...)
	}
	return append(dst, '}')
}

func (s *stream) appendGenerate(dst []byte, step Step, before int) []byte {
	dst = append(dst, `","text":"`...)
	if step.Kind != Empty {
		if s.incremental {
			dst = appendWords(dst, before, step.Tokens)
		} else {
			s.text = appendWords(s.text, before, step.Tokens)
		}
	}
	dst = append(dst, s.text...)
	dst = append(dst, `","output_ids":[`...)
	for i := range step.Tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64((before+i)%len(words)), 10)
	}
	dst = append(dst, `],"meta_info":{"id":"0123456789abcdef0123456789abcdef","finish_reason":`...)
	switch step.Finish {
	case "":
		dst = append(dst, "null"...)
	case "length":
		dst = append(dst, `{"type":"length","length":`...)
		dst = strconv.AppendInt(dst, int64(s.sent), 10)
		dst = append(dst, '}')
	default:
		dst = append(dst, `{"type":"stop","matched":2}`...)
	}
	dst = append(dst, `,"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(s.prompt), 10)
	dst = append(dst, `,"weight_version":"default","completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(s.sent), 10)
	return append(dst, `,"cached_tokens":0,"e2e_latency":null}}`...)
}

// appendWhole appends the body of an answer that is no stream.
func (s *stream) appendWhole(dst []byte, step Step) []byte {
	n := int64(step.Tokens)
	switch s.api {
	case apiGenerate:
		dst = append(dst, `{"text":"`...)
		dst = appendWords(dst, 0, step.Tokens)
		dst = append(dst, `","meta_info":{"id":"0123456789abcdef0123456789abcdef","finish_reason":{"type":"length","length":`...)
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, `},"prompt_tokens":`...)
		dst = strconv.AppendInt(dst, int64(s.prompt), 10)
		dst = append(dst, `,"completion_tokens":`...)
		dst = strconv.AppendInt(dst, n, 10)
		return append(dst, `,"cached_tokens":0}}`...)
	case apiChat:
		dst = append(dst, `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1795959208,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"`...)
		dst = appendWords(dst, 0, step.Tokens)
		dst = append(dst, `"},"finish_reason":`...)
	default:
		dst = append(dst, `{"id":"cmpl-0123456789abcdef","object":"text_completion","created":1795959208,"model":"mock","choices":[{"index":0,"text":"`...)
		dst = appendWords(dst, 0, step.Tokens)
		dst = append(dst, `","finish_reason":`...)
	}
	dst = append(appendFinish(dst, step.Finish), `}]`...)
	s.sent = step.Tokens
	return s.appendCounts(dst, true)
}

// appendChunk appends data as one HTTP chunk.
func appendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, '\r', '\n')
	dst = append(dst, data...)
	return append(dst, '\r', '\n')
}
