package simulate

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// newID is a request id as SGLang makes them.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ask is what a client wants, whichever route it took.
type ask struct {
	prompts   [][]int32
	batch     bool // the answer is a list
	maxNew    int
	ignoreEOS bool
	stream    bool
	rid       string
	model     string

	includeUsage, continuousUsage, cacheDetails bool
}

// samplingFields are the fields of a request's body that decide about the output.
type samplingFields struct {
	MaxNew    *int  `json:"max_new_tokens"`
	IgnoreEOS bool  `json:"ignore_eos"`
	N         *int  `json:"n"`
	MinNew    *int  `json:"min_new_tokens"`
	Temp      *jnum `json:"temperature"`
}

type jnum float64

// nativeBody is the body of /generate.
type nativeBody struct {
	Text     json.RawMessage `json:"text"`
	InputIDs json.RawMessage `json:"input_ids"`
	Params   samplingFields  `json:"sampling_params"`
	Stream   bool            `json:"stream"`
	RID      string          `json:"rid"`
}

// openAIBody is the body of the /v1 routes.
type openAIBody struct {
	Model         string          `json:"model"`
	Prompt        json.RawMessage `json:"prompt"`
	Messages      []message       `json:"messages"`
	MaxTokens     *int            `json:"max_tokens"`
	MaxCompletion *int            `json:"max_completion_tokens"`
	IgnoreEOS     bool            `json:"ignore_eos"`
	N             *int            `json:"n"`
	Temp          *jnum           `json:"temperature"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	CachedDetails bool   `json:"return_cached_tokens_details"`
	RID           string `json:"rid"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is a message's content: a string, or a list of parts of which the text parts count.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts) // what is neither is empty
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// readBody reads a JSON body; the /v1 routes insist on its content type.
func readBody(r *http.Request, strict bool, into any) *apiError {
	if strict {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			const text = `{'loc': ['header', 'content-type'], 'msg': "Unsupported Media Type: Only 'application/json' is allowed", 'type': 'value_error'}`
			return &apiError{http.StatusBadRequest, "1 validation error:\n  " + text + " [" + text + "]", "Bad Request"}
		}
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	if err != nil {
		return badRequest(err.Error())
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &apiError{http.StatusBadRequest, "1 validation error:\n  {'type': 'missing', 'loc': ('body',), 'msg': 'Field required', 'input': None}", "Bad Request"}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &apiError{http.StatusBadRequest, jsonProblem(err), "Bad Request"}
	}
	return nil
}

// parseIDs reads a list of token ids quickly: prompts are long. ok is false when it is anything else.
func parseIDs(raw []byte) (ids []int32, ok bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '[' || raw[len(raw)-1] != ']' {
		return nil, false
	}
	ids = make([]int32, 0, bytes.Count(raw, []byte{','})+1)
	n, digits, negative := int64(0), 0, false
	for _, c := range raw[1:] {
		switch {
		case c >= '0' && c <= '9' && digits < 10:
			n = n*10 + int64(c-'0')
			digits++
		case c == '-' && digits == 0:
			negative = true
		case c == ',' || c == ']':
			if digits == 0 {
				return nil, false
			}
			if negative {
				n = -n
			}
			ids = append(ids, int32(min(n, 1<<31-1)))
			n, digits, negative = 0, 0, false
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		default:
			return nil, false
		}
	}
	return ids, true
}

// parsePrompt reads a text, a list of texts, a list of ids, or a list of lists of ids.
func parsePrompt(raw json.RawMessage) (prompts [][]int32, batch, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return [][]int32{tokenize(text)}, false, true
	}
	if ids, ok := parseIDs(raw); ok {
		return [][]int32{ids}, false, true
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		for _, t := range texts {
			prompts = append(prompts, tokenize(t))
		}
		return prompts, true, len(prompts) > 0
	}
	var lists []json.RawMessage
	if json.Unmarshal(raw, &lists) != nil {
		return nil, false, false
	}
	for _, l := range lists {
		ids, ok := parseIDs(l)
		if !ok {
			return nil, false, false
		}
		prompts = append(prompts, ids)
	}
	return prompts, true, len(prompts) > 0
}

// isNull reports whether a field was left out.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (b *nativeBody) ask() (ask, *apiError) {
	a := ask{stream: b.Stream, rid: b.RID, maxNew: 128, ignoreEOS: b.Params.IgnoreEOS}
	raw := b.InputIDs
	if isNull(raw) {
		raw = b.Text
	}
	if isNull(raw) {
		return a, badRequest("Either text, input_ids or input_embeds should be provided.")
	}
	var ok bool
	if a.prompts, a.batch, ok = parsePrompt(raw); !ok {
		return a, badRequest("input_ids must be a list of integers or a list of lists of integers.")
	}
	if b.Params.MaxNew != nil {
		a.maxNew = *b.Params.MaxNew
	}
	return a, a.common(b.Params.N, b.Params.Temp)
}

// common checks and applies what all routes share.
func (a *ask) common(n *int, temperature *jnum) *apiError {
	if a.maxNew < 0 {
		return badRequest(fmt.Sprintf("max_new_tokens must be at least 0, got %d.", a.maxNew))
	}
	if temperature != nil && *temperature < 0 {
		return badRequest(fmt.Sprintf("temperature must be a non-negative finite number, got %s.", pyFloat(float64(*temperature))))
	}
	if n != nil && *n == 0 {
		return &apiError{http.StatusBadRequest, "range() arg 3 must not be zero", "BadRequest"}
	}
	if n != nil && *n > 1 {
		single := a.prompts
		a.prompts, a.batch = nil, true
		for _, p := range single {
			for range *n {
				a.prompts = append(a.prompts, p)
			}
		}
	}
	for _, p := range a.prompts {
		if len(p) == 0 {
			return badRequest("input_ids cannot be empty.")
		}
	}
	return nil
}

func (b *openAIBody) ask(chat bool, s settings) (ask, *apiError) {
	a := ask{stream: b.Stream, rid: b.RID, model: b.Model, maxNew: 16, ignoreEOS: b.IgnoreEOS, cacheDetails: b.CachedDetails, includeUsage: s.includeUsage}
	if o := b.StreamOptions; o != nil {
		a.includeUsage, a.continuousUsage = o.IncludeUsage, o.ContinuousUsage
	}
	if chat {
		if b.Messages == nil {
			return a, &apiError{http.StatusBadRequest, "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {'model': " + pyString(b.Model) + ", 'tool_choice': 'none'}}", "Bad Request"}
		}
		// The simulated template: a marker and a newline around each message.
		ids := []int32{0}
		for _, m := range b.Messages {
			ids = append(ids, tokenize("<|"+m.Role+"|>\n"+m.text()+"\n")...)
		}
		a.prompts = [][]int32{append(ids, tokenize("<|assistant|>\n")...)}
		a.maxNew = s.contextLength
		if b.MaxTokens == nil && b.MaxCompletion == nil {
			a.maxNew = max(1, s.contextLength-len(a.prompts[0])-1)
		}
	} else {
		var ok bool
		if a.prompts, a.batch, ok = parsePrompt(b.Prompt); !ok {
			return a, &apiError{http.StatusBadRequest, "1 validation error:\n  {'type': 'string_type', 'loc': ('body', 'prompt', 'str'), 'msg': 'Input should be a valid string', 'input': " + string(b.Prompt) + "}", "Bad Request"}
		}
	}
	for _, n := range []*int{b.MaxTokens, b.MaxCompletion} {
		if n != nil {
			a.maxNew = *n
		}
	}
	return a, a.common(b.N, b.Temp)
}

// admitAll makes a request of each prompt, or gives the first refusal.
func (w *web) admitAll(a ask) ([]*request, *apiError) {
	var list []*request
	for _, prompt := range a.prompts {
		q, e := w.admit(a, prompt)
		if e != nil {
			return nil, e
		}
		list = append(list, q)
	}
	return list, nil
}

// admit checks the lengths of a prompt and makes a request of it.
func (w *web) admit(a ask, prompt []int32) (*request, *apiError) {
	context := w.l.set.contextLength
	if len(prompt) >= context {
		return nil, badRequest(fmt.Sprintf("The input (%d tokens) is longer than the model's context length (%d tokens).", len(prompt), context))
	}
	if len(prompt)+a.maxNew > context {
		return nil, badRequest(fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			context, len(prompt)+a.maxNew, len(prompt), a.maxNew))
	}
	id := a.rid
	if id == "" || len(a.prompts) > 1 {
		id = newID()
	}
	r := newRequest(id, prompt, max(1, min(a.maxNew, w.maxLength()-len(prompt)-1)))
	r.one = w.l.faults.has("garbage")
	if w.l.faults.has("babble") {
		r.seed ^= 0xbabb1e
	}
	r.stream = a.stream
	r.interval = max(1, w.l.set.streamInterval)
	r.ignoreEOS = a.ignoreEOS
	if !a.ignoreEOS { // weights are dummies: where the model ends is noise
		r.stopAt = 1 + int(r.seed>>16%uint64(2*r.maxNew))
	}
	return r, nil
}

// begin hands a request to the scheduler, which refuses a prompt that the pool can never hold.
func (w *web) begin(r *request) {
	n := w.generations.Add(1)
	w.mu.Lock()
	w.open[r.id] = r
	w.mu.Unlock()
	if n == w.l.faults.count("crash") {
		w.l.crashScheduler()
	}
	if err := w.l.strike(w.l.faults.due("", n)); err != nil {
		w.l.log.main("sweep simulate sglang: %v", err)
	}
	if len(r.prompt) >= w.maxInput() {
		r.publish(r.received, &reason{Type: "abort", Status: http.StatusBadRequest, Message: fmt.Sprintf("Input length (%d tokens) exceeds the maximum allowed length (%d tokens). Use a shorter input or enable --allow-auto-truncate.", len(r.prompt), w.maxInput())})
		return
	}
	w.sched.submit(r)
}

// finishRequest forgets a request; one that has not ended is aborted, its client being gone.
func (w *web) finishRequest(r *request) {
	w.mu.Lock()
	delete(w.open, r.id)
	w.mu.Unlock()
	p := r.snapshot()
	if p.done == nil {
		w.sched.abort(r.id)
	}
	w.tally.finished(r, p)
}

// await blocks until a request has ended; false: the client is gone.
func (w *web) await(ctx *http.Request, r *request) bool {
	for r.snapshot().done == nil {
		select {
		case <-r.notify:
		case <-ctx.Context().Done():
			return false
		}
	}
	return true
}
