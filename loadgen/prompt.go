package loadgen

import (
	"crypto/sha256"
	"encoding/binary"
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

	turn  int           // of a conversation, from 0
	talk  *talk         // nil: it is none
	think time.Duration // of a later turn: after the answer before it

	natural bool   // output is the most that is allowed: the model may stop before
	exact   bool   // the prompt is token ids, so that the server must count as many
	bytes   []byte // the whole HTTP request
}

// record begins the record of the request.
func (r *request) record() Record {
	return Record{Stream: r.stream, Index: r.index, Turn: r.turn, AskedInput: r.input, AskedOutput: r.output}
}

// judge says how the request's answer ended.
func (r *request) judge(reply *reply, err error) verdict {
	if !r.natural {
		return reply.judge(r.output, err)
	}
	v := reply.judge(0, err)
	switch n := reply.completion; {
	case v.outcome != OK:
	case n > r.output:
		return verdict{Failed, KindLong, fmt.Sprintf("%d tokens, at most %d were allowed", n, r.output)}
	case n <= 0 && reply.track.bearing == 0:
		return verdict{Failed, KindShort, "no output came"}
	}
	return v
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
	spec   *Spec
	form   promptForm
	ids    bool          // drawn prompts are token ids
	head   string        // of the HTTP request, up to the content length
	frames []bodyFrame   // of drawn prompts, by class
	owned  [][]ownPrompt // by class, in the order of their use
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
	for i := range max(1, len(spec.Classes)) {
		c := &Class{}
		if i < len(spec.Classes) {
			c = &spec.Classes[i]
		}
		f, err := m.frame(c, nil, m.ids, false)
		if err != nil {
			return nil, err
		}
		m.frames = append(m.frames, f)
		list, err := m.own(c)
		if err != nil {
			return nil, err
		}
		m.owned = append(m.owned, list)
	}
	return m, nil
}

// sizeOf is about how many bytes a request of a class takes.
func (m *maker) sizeOf(class int) int {
	size := 8 * max(m.spec.Classes[class].Input.Max, 1)
	for i := range m.owned[class] {
		size = max(size, len(m.owned[class][i].value))
	}
	if c := &m.spec.Classes[class]; c.traced() {
		for i := range c.Arrivals.Requests {
			size = max(size, 8*c.Arrivals.Requests[i].Input)
		}
	}
	return len(m.head) + len(m.frames[class].open) + size
}

// make prepares request index of a class in a stream. The lengths depend on seed, class and index; the
// content on the salt too. buf is used again when it is large enough.
func (m *maker) make(class int, name string, index int, buf []byte) request {
	c := &m.spec.Classes[class]
	key := strconv.Itoa(index)
	lengths := stream(m.spec.Seed, "lengths", c.Name, name, key)
	r := request{stream: name, class: class, index: index, natural: c.Natural}
	r.input, r.output = c.Input.draw(lengths), c.Output.draw(lengths)
	if list := m.owned[class]; len(list) > 0 {
		m.buildOwn(&r, c, &list[turnOf(name, index, len(list))], key, buf)
		return r
	}
	r.exact = m.ids
	var blocks *TraceRequest
	if c.Arrivals != nil && c.Arrivals.Law == Trace {
		blocks = &c.Arrivals.Requests[index%len(c.Arrivals.Requests)]
		if blocks.Input > 0 {
			r.input = blocks.Input
		}
		if blocks.Output > 0 {
			r.output = blocks.Output
		}
	}
	m.build(&r, &m.frames[class], c, key, buf, func(b []byte) []byte {
		start := len(b)
		b = m.prompt(b, &r, c, key, blocks)
		m.begin(&r, c, key, b[start:], nil)
		return b
	})
	return r
}

// lengthRoom is what a content length and the end of the head can take; they are known last.
const lengthRoom = len("12345678901\r\n\r\n")

const tagName = "\r\nX-Request-Id: "

// build writes the request into buf, or into a new one; prompt appends the prompt as JSON.
func (m *maker) build(r *request, f *bodyFrame, c *Class, key string, buf []byte, prompt func([]byte) []byte) {
	tag := ""
	if m.spec.Tagged {
		rec := r.record()
		rec.Class = c.Name
		tag = tagName + rec.ID()
	}
	room := len(m.head) + lengthRoom + len(tag)
	b := buf[:0]
	if cap(b) < room {
		b = make([]byte, 0, room+len(f.open)+len(f.mid)+8*r.input+64)
	}
	b = append(b[:room], f.open...)
	b = strconv.AppendInt(b, int64(r.output), 10)
	b = append(b, f.mid...)
	b = prompt(b)
	b = append(b, f.end...)

	var tail [lengthRoom]byte
	t := append(append(strconv.AppendInt(tail[:0], int64(len(b)-room), 10), tag...), "\r\n\r\n"...)
	start := lengthRoom + len(tag) - len(t)
	copy(b[start:], m.head)
	copy(b[start+len(m.head):], t)
	r.bytes = b[start:]
}

// prompt appends a drawn prompt as JSON: the group's common prefix, when the class has one, then content of
// the request's own. The prefixes are the same in warm-up and window, as they would be in a
// server that has run for long; the rest never is.
func (m *maker) prompt(b []byte, r *request, c *Class, key string, trace *TraceRequest) []byte {
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
	if trace != nil {
		for _, block := range trace.Blocks {
			n := min(trace.BlockTokens, own)
			own -= n
			b = m.tokens(b, start, n, stream(m.spec.Seed, "block", m.spec.Salt, c.Name, strconv.FormatInt(block, 10)))
		}
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
