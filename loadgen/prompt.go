package loadgen

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is one prepared request: its bytes and what it asks for.
type request struct {
	stream string // warmUp, measured or probe
	class  int
	index  int
	input  int           // prompt tokens asked; words when prompts are text
	output int           // completion tokens asked
	due    time.Duration // of an open class: when it is to go
	bytes  []byte        // the whole HTTP request
}

// record begins the record of the request.
func (r *request) record() Record {
	return Record{Stream: r.stream, Index: r.index, AskedInput: r.input, AskedOutput: r.output}
}

// Streams of requests. Their contents are disjoint.
const (
	warmUp   = "warmup"
	measured = "window"
	probing  = "probe"
)

// stream returns a random stream of its own for a purpose: streams with unlike parts are independent.
func stream(seed uint64, parts ...string) *rand.Rand {
	h := sha256.New()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	for _, p := range parts {
		binary.LittleEndian.PutUint64(b[:], uint64(len(p)))
		h.Write(b[:])
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])))
}

func (r Range) draw(rng *rand.Rand) int {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + rng.IntN(r.Max-r.Min+1)
}

// promptForm is how a route takes its prompt.
type promptForm uint8

const (
	formPrompt   promptForm = iota // OpenAI completions: "prompt" is text or ids
	formChat                       // OpenAI chat: one user message, text only
	formGenerate                   // SGLang's /generate: "input_ids" or "text", sampling_params
	formNative                     // llama.cpp's /completion: "prompt", "n_predict"
)

func formOf(route string) promptForm {
	switch {
	case strings.HasSuffix(route, "/chat/completions"):
		return formChat
	case strings.HasSuffix(route, "/generate"):
		return formGenerate
	case strings.HasSuffix(route, "/completion"):
		return formNative
	}
	return formPrompt
}

// maker prepares requests. It is a pure function of the spec, the class, the stream and the index,
// and may be used by several goroutines.
type maker struct {
	spec *Spec
	form promptForm
	ids  bool   // prompts are token ids
	head string // of the HTTP request, up to the content length
	open string // of the body, before the number of output tokens
	mid  string // between it and the prompt
	end  string // after the prompt
}

func newMaker(spec *Spec) (*maker, error) {
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, fmt.Errorf("server's URL: %w", err)
	}
	m := &maker{spec: spec, form: formOf(spec.Route)}
	m.ids = len(spec.Vocabulary) > 0 && m.form != formChat
	var h strings.Builder
	fmt.Fprintf(&h, "POST %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n", strings.TrimSuffix(u.EscapedPath(), "/")+spec.Route, u.Host)
	for _, name := range slices.Sorted(maps.Keys(spec.Header)) {
		if value := spec.Header[name]; strings.ContainsAny(name+value, "\r\n") {
			return nil, fmt.Errorf("header %q holds a line end", name)
		}
		fmt.Fprintf(&h, "%s: %s\r\n", name, spec.Header[name])
	}
	h.WriteString("Content-Length: ")
	m.head = h.String()
	return m, m.frame()
}

// frame builds the constant parts of the body.
func (m *maker) frame() error {
	fields := maps.Clone(m.spec.Body)
	if fields == nil {
		fields = map[string]any{}
	}
	fields["stream"] = true
	for _, own := range []string{"prompt", "messages", "input_ids", "text", "max_tokens", "n_predict"} {
		if _, ok := fields[own]; ok {
			return fmt.Errorf("body field %q is the load generator's own", own)
		}
	}
	if m.form == formPrompt || m.form == formChat {
		if m.spec.Model != "" {
			fields["model"] = m.spec.Model
		}
		if _, ok := fields["stream_options"]; !ok { // the only true count of tokens
			fields["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
		}
	}
	sampling, _ := fields["sampling_params"].(map[string]any)
	if m.form == formGenerate {
		delete(fields, "sampling_params")
	}
	common, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	m.open = string(common[:len(common)-1])
	m.end = "}"
	switch m.form {
	case formPrompt:
		m.open, m.mid = m.open+`,"max_tokens":`, `,"prompt":`
	case formChat:
		m.open, m.mid, m.end = m.open+`,"max_tokens":`, `,"messages":[{"role":"user","content":`, "}]}"
	case formNative:
		m.open, m.mid = m.open+`,"n_predict":`, `,"prompt":`
	case formGenerate:
		inner := ""
		if len(sampling) > 0 {
			params, err := json.Marshal(sampling)
			if err != nil {
				return fmt.Errorf("body: sampling_params: %w", err)
			}
			inner = string(params[1:len(params)-1]) + ","
		}
		m.open, m.mid = m.open+`,"sampling_params":{`+inner+`"max_new_tokens":`, `},"text":`
		if m.ids {
			m.mid = `},"input_ids":`
		}
	}
	return nil
}

// make prepares request index of a class in a stream. The lengths depend on seed, class and index; the
// content on the salt too. buf is used again when it is large enough.
func (m *maker) make(class int, name string, index int, buf []byte) request {
	c := m.spec.Classes[class]
	key := strconv.Itoa(index)
	lengths := stream(m.spec.Seed, "lengths", c.Name, name, key)
	r := request{stream: name, class: class, index: index}
	r.input, r.output = c.Input.draw(lengths), c.Output.draw(lengths)
	m.build(&r, c, key, buf)
	return r
}

// lengthRoom is what a content length and the end of the head can take; they are known last.
const lengthRoom = len("12345678901\r\n\r\n")

const tagName = "\r\nX-Request-Id: "

func (m *maker) build(r *request, c Class, key string, buf []byte) {
	tag := ""
	if m.spec.Tagged {
		tag = tagName + c.Name + "/" + r.stream + "/" + key
	}
	room := len(m.head) + lengthRoom + len(tag)
	b := buf[:0]
	if cap(b) < room {
		b = make([]byte, 0, room+len(m.open)+len(m.mid)+8*r.input+64)
	}
	b = append(b[:room], m.open...)
	b = strconv.AppendInt(b, int64(r.output), 10)
	b = append(b, m.mid...)
	b = m.prompt(b, r, c, key)
	b = append(b, m.end...)

	var tail [lengthRoom]byte
	t := append(append(strconv.AppendInt(tail[:0], int64(len(b)-room), 10), tag...), "\r\n\r\n"...)
	start := lengthRoom + len(tag) - len(t)
	copy(b[start:], m.head)
	copy(b[start+len(m.head):], t)
	r.bytes = b[start:]
}

// prompt appends the prompt as JSON: the group's common prefix, when the class has one, then content of
// the request's own. The prefixes are the same in warm-up and window, as they would be in a
// server that has run for long; the rest never is.
func (m *maker) prompt(b []byte, r *request, c Class, key string) []byte {
	content := stream(m.spec.Seed, "content", m.spec.Salt, c.Name, r.stream, key)
	own := r.input
	open, shut := byte('"'), byte('"')
	if m.ids {
		open, shut = '[', ']'
	}
	b = append(b, open)
	start := len(b)
	if c.Prefix != nil && c.Prefix.Groups > 0 {
		group := stream(m.spec.Seed, "group", c.Name, r.stream, key).IntN(c.Prefix.Groups)
		n := min(c.Prefix.Tokens, r.input)
		own -= n
		b = m.tokens(b, start, n, stream(m.spec.Seed, "prefix", m.spec.Salt, c.Name, strconv.Itoa(group)))
	}
	b = m.tokens(b, start, own, content)
	return append(b, shut)
}

func (m *maker) tokens(b []byte, start, n int, rng *rand.Rand) []byte {
	for range n {
		if m.ids {
			if len(b) > start {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(m.spec.Vocabulary[rng.IntN(len(m.spec.Vocabulary))]), 10)
			continue
		}
		if len(b) > start {
			b = append(b, ' ')
		}
		b = append(b, words[rng.IntN(len(words))]...)
	}
	return b
}
