package simulate

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (w *web) completions(rw http.ResponseWriter, r *http.Request) { w.openAI(rw, r, false) }

func (w *web) chat(rw http.ResponseWriter, r *http.Request) { w.openAI(rw, r, true) }

// openAI is both /v1 routes: they differ in the shape of a choice.
func (w *web) openAI(rw http.ResponseWriter, r *http.Request, chat bool) {
	var body openAIBody
	if e := readBody(r, true, &body); e != nil {
		writeError(rw, e)
		return
	}
	a, e := body.ask(chat, w.l.set)
	if e != nil {
		writeError(rw, e)
		return
	}
	list, e := w.admitAll(a)
	if e != nil {
		writeError(rw, e)
		return
	}
	for _, q := range list {
		w.begin(q)
		defer w.finishRequest(q)
	}
	if n := w.l.faults.count("empty"); n > 0 && w.generations.Load() >= n && a.stream {
		startStream(rw).send([]byte("data: [DONE]\n\n"))
		return
	}
	if a.stream {
		w.streamOpenAI(rw, r, a, list[0], chat)
		return
	}
	w.answerOpenAI(rw, r, a, list, chat)
}

func (w *web) answerOpenAI(rw http.ResponseWriter, r *http.Request, a ask, list []*request, chat bool) {
	var choices []object
	prompt, tokens, cached := 0, 0, 0
	for i, q := range list {
		if !w.await(r, q) {
			w.clientGone(q)
			return
		}
		p := q.snapshot()
		if p.done.Type == "abort" && p.done.Status >= 400 {
			writeAbort(rw, p.done, false)
			return
		}
		prompt, tokens, cached = prompt+len(q.prompt), tokens+p.tokens, cached+p.cached
		var text strings.Builder
		for k := range p.tokens {
			text.WriteString(tokenText(q.token(k)))
		}
		var c, m object
		c.set("index", i)
		if chat {
			m.set("role", "assistant")
			m.set("content", text.String())
			m.set("reasoning_content", nil)
			m.set("tool_calls", nil)
			c.set("message", m)
		} else {
			c.set("text", text.String())
		}
		c.set("logprobs", nil)
		c.set("finish_reason", p.done.Type)
		c.set("matched_stop", nil)
		choices = append(choices, c)
	}
	var o, usage object
	usage.set("prompt_tokens", prompt)
	usage.set("total_tokens", prompt+tokens)
	usage.set("completion_tokens", tokens)
	usage.set("prompt_tokens_details", nil)
	if w.l.set.cacheReport && (cached > 0 || w.l.rel.zeroCached) {
		usage.set("prompt_tokens_details", map[string]int{"cached_tokens": cached})
	}
	usage.set("reasoning_tokens", 0)
	o.set("id", list[0].id)
	o.set("object", map[bool]string{false: "text_completion", true: "chat.completion"}[chat])
	o.set("created", time.Now().Unix())
	o.set("model", a.model)
	o.set("choices", choices)
	o.set("usage", usage)
	o.set("metadata", map[string]string{"weight_version": "default"})
	writeJSON(rw, http.StatusOK, o)
}

// chunks are the unchanging parts of one stream's events, made once.
type chunks struct {
	head   []byte // up to "choices":
	before []byte // up to the text
	after  []byte // from the text's end to the finish reason
	tail   []byte // from the finish reason's end to the choices'
	prompt int
	usage  bool // each event carries usage
	null   bool // else "usage":null, which chat leaves out
}

func newChunks(q *request, a ask, chat bool) *chunks {
	c := &chunks{prompt: len(q.prompt), usage: a.continuousUsage, null: !chat}
	kind := "text_completion"
	c.before, c.after = []byte(`[{"index":0,"text":"`), []byte(`","logprobs":null,"finish_reason":`)
	if chat {
		kind = "chat.completion.chunk"
		c.before = []byte(`[{"index":0,"delta":{"reasoning_content":null,"content":"`)
		c.after = []byte(`"},"logprobs":null,"finish_reason":`)
	}
	c.tail = []byte(`,"matched_stop":null}]`)
	model, err := json.Marshal(a.model)
	if err != nil {
		model = []byte(`""`)
	}
	c.head = append([]byte(`data: {"id":"`+q.id+`","object":"`+kind+`","created":`), strconv.AppendInt(nil, time.Now().Unix(), 10)...)
	c.head = append(append(append(c.head, `,"model":`...), model...), `,"choices":`...)
	return c
}

// event appends one event with the tokens from up to to.
func (c *chunks) event(b []byte, q *request, from, to int, cause *reason) []byte {
	b = append(append(b, c.head...), c.before...)
	for i := from; i < to; i++ {
		b = append(b, tokenTexts[q.token(i)-firstSpacePair]...)
	}
	b = append(b, c.after...)
	if cause == nil {
		b = append(b, "null"...)
	} else {
		b = append(append(append(b, '"'), cause.Type...), '"')
	}
	b = append(b, c.tail...)
	if c.usage {
		b = c.usageObject(append(b, `,"usage":`...), to, `"prompt_tokens_details":null,`)
	} else if c.null {
		b = append(b, `,"usage":null`...)
	}
	return append(b, "}\n\n"...)
}

func (c *chunks) usageObject(b []byte, tokens int, details string) []byte {
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(c.prompt), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(c.prompt+tokens), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(tokens), 10)
	return append(append(append(b, ','), details...), `"reasoning_tokens":0}`...)
}

// tokenTexts are the output tokens' texts as bytes.
var tokenTexts = func() [][]byte {
	list := make([][]byte, len(outputTokens))
	for i, id := range outputTokens {
		list[i] = []byte(tokenText(id))
	}
	return list
}()

// streamOpenAI sends what is new since the last event; SGLang pulls the first before it answers, so a refusal can have its status.
func (w *web) streamOpenAI(rw http.ResponseWriter, r *http.Request, a ask, q *request, chat bool) {
	c := newChunks(q, a, chat)
	var out *stream
	var b []byte
	sent := 0
	limit := w.failAfter()
	var comments <-chan time.Time
	if w.l.faults.count("keep-alive") > 0 {
		t := time.NewTicker(time.Duration(float64(time.Second) / w.l.speed))
		defer t.Stop()
		comments = t.C
	}
	for {
		p := q.snapshot()
		if p.tokens > sent || p.done != nil {
			if p.done != nil && p.done.Status == http.StatusBadRequest && sent == 0 {
				writeAbort(rw, p.done, false)
				return
			}
			b = b[:0]
			if out == nil {
				out = startStream(rw)
				if chat {
					b = append(append(b, c.head...), `[{"index":0,"delta":{"reasoning_content":null,"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"matched_stop":null}]}`...)
					b = append(b, "\n\n"...)
				}
			}
			switch {
			case limit:
				b = append(b, "data: "+streamErrorText+"\n\ndata: [DONE]\n\n"...)
				out.send(b)
				return
			case p.done != nil && p.done.Status >= 500:
				b = c.refusal(b, p.done, a.includeUsage)
			case p.done != nil:
				b = w.closing(c.last(b, q, sent, p, chat), c, p, a)
			default:
				b = c.event(b, q, sent, p.tokens, nil)
			}
			sent = p.tokens
			if !out.send(b) || p.done != nil {
				return
			}
		}
		select {
		case <-q.notify:
		case <-comments:
			if out == nil {
				out = startStream(rw)
			}
			if !out.send([]byte(": keep-alive\n\n")) {
				return
			}
		case <-r.Context().Done():
			w.clientGone(q)
			return
		}
	}
}

// last appends the event that carries the finish reason: completions put it on the last token, chat on an empty delta.
func (c *chunks) last(b []byte, q *request, sent int, p progress, chat bool) []byte {
	if !chat {
		return c.event(b, q, sent, p.tokens, p.done)
	}
	if p.tokens > sent {
		b = c.event(b, q, sent, p.tokens, nil)
	}
	b = append(append(b, c.head...), `[{"index":0,"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":"`...)
	b = append(append(b, p.done.Type...), `","matched_stop":null}]`...)
	if c.usage {
		b = c.usageObject(append(b, `,"usage":`...), p.tokens, `"prompt_tokens_details":null,`)
	}
	return append(b, "}\n\n"...)
}

// closing appends what follows the last token: the cache report, the usage, the end.
func (w *web) closing(b []byte, c *chunks, p progress, a ask) []byte {
	if (w.l.set.cacheReport || a.cacheDetails) && p.cached > 0 {
		b = append(append(b, c.head...), `[],"usage":null,"sglext":{"cached_tokens_details":{"device":`...)
		b = strconv.AppendInt(b, int64(p.cached-p.cachedHost), 10)
		b = strconv.AppendInt(append(b, `,"host":`...), int64(p.cachedHost), 10)
		b = append(b, "}}}\n\n"...)
	}
	if a.includeUsage {
		details := ""
		if w.l.set.cacheReport && (p.cached > 0 || w.l.rel.zeroCached) {
			details = `"prompt_tokens_details":{"cached_tokens":` + strconv.Itoa(p.cached) + `},`
		}
		b = c.usageObject(append(append(b, c.head...), `[],"usage":`...), p.tokens, details)
		b = append(b, "}\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// refusal appends the error event of a request that the scheduler turned away.
func (c *chunks) refusal(b []byte, cause *reason, usage bool) []byte {
	kind := "SERVICE_UNAVAILABLE"
	if cause.Status != http.StatusServiceUnavailable {
		kind = "INTERNAL_SERVER_ERROR"
	}
	text, err := json.Marshal(cause.Message)
	if err != nil {
		text = []byte(`""`)
	}
	b = append(b, `data: {"error": {"object": "error", "message": `...)
	b = append(append(b, text...), `, "type": "`+kind+`", "param": null, "code": `...)
	b = append(strconv.AppendInt(b, int64(cause.Status), 10), "}}\n\n"...)
	if usage {
		b = append(append(b, c.head...), `[],"usage":{"prompt_tokens":0,"total_tokens":0,"completion_tokens":0,"reasoning_tokens":0}}`...)
		b = append(b, "\n\n"...)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// streamErrorText is the event of the fault stream-error.
const streamErrorText = `{"error": {"object": "error", "message": "simulated stream error", "type": "INTERNAL_SERVER_ERROR", "param": null, "code": 500}}`

// failAfter reports whether the stream that begins now is to end in an error.
func (w *web) failAfter() bool {
	n := w.l.faults.count("stream-error")
	return n > 0 && w.generations.Load() == n
}

// stream sends events as they come.
type stream struct {
	rw http.ResponseWriter
	rc *http.ResponseController
}

func startStream(rw http.ResponseWriter) *stream {
	rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	rw.WriteHeader(http.StatusOK)
	return &stream{rw, http.NewResponseController(rw)}
}

// send writes and flushes; false: the client is gone.
func (s *stream) send(b []byte) bool {
	if _, err := s.rw.Write(b); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
