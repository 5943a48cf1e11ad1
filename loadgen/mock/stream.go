package mock

import (
	"fmt"
	"time"
)

// Head is the head of a streamed answer, as uvicorn writes it.
const Head = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"

// Last is the end of a chunked body.
const Last = "0\r\n\r\n"

// Usage is how a server counts tokens for its client.
type Usage int

// The ways.
const (
	Continuous Usage = iota // in each event
	Total                   // in an event of its own before the end
	None
)

// Timing is the known truth of one streamed answer.
type Timing struct {
	First  time.Duration // from the request to the first token
	Gap    time.Duration // between events with tokens
	Tokens int           // 0: as many as asked
	Chunk  int           // tokens of an event; 0: 1
	Usage  Usage
	Late   time.Duration // of [DONE] after the last token
	Finish string        // "": length
}

// Frame wraps data as one event in one HTTP chunk.
func Frame(data string) string {
	return fmt.Sprintf("%x\r\ndata: %s\n\n\r\n", len(data)+8, data)
}

// Answer is a whole answer that is no stream.
func Answer(status int, body string) []Step {
	return []Step{{Bytes: fmt.Appendf(nil, "HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", status, len(body), body)}}
}

// Stream gives the steps of an OpenAI completions stream, in the form of SGLang 0.5.17.
func Stream(r Request, t Timing) []Step {
	tokens, size := t.Tokens, max(1, t.Chunk)
	if tokens == 0 {
		tokens = r.MaxTokens
	}
	finish := t.Finish
	if finish == "" {
		finish = "length"
	}
	prompt := len(r.PromptIDs)
	usage := func(n int) string {
		return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null,"reasoning_tokens":0}`, prompt, prompt+n, n)
	}
	var steps []Step
	for n := 0; n < tokens; {
		n = min(n+size, tokens)
		reason, running := "null", "null"
		if n == tokens {
			reason = `"` + finish + `"`
		}
		if t.Usage == Continuous {
			running = usage(n)
		}
		step := Step{Wait: t.Gap, Bytes: []byte(Frame(fmt.Sprintf(
			`{"id":"c0b146de6b2e49c7bbf8401c80ca9efa","object":"text_completion","created":1795959208,"model":"m","choices":[{"index":0,"text":" tok","logprobs":null,"finish_reason":%s,"matched_stop":null}],"usage":%s}`, reason, running)))}
		if len(steps) == 0 {
			step.Wait, step.Bytes = t.First, append([]byte(Head), step.Bytes...)
		}
		steps = append(steps, step)
	}
	tail := ""
	if t.Usage != None {
		tail = Frame(`{"id":"c0b146de6b2e49c7bbf8401c80ca9efa","object":"text_completion","created":1795959208,"model":"m","choices":[],"usage":` + usage(tokens) + `}`)
	}
	return append(steps, Step{Wait: t.Late, Bytes: []byte(tail + Frame("[DONE]") + Last)})
}
