package loadgen

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// Session makes conversations of a closed class: a slot is a user who reads the answer, thinks, and asks again, and
// each request carries all that was said before. What the server answered is in it word for word where prompts are text; where
// they are token ids, which no OpenAI route tells of its answers, drawn ids stand for them, so that only the user's
// part up to the first answer can be found in a prefix cache.
type Session struct {
	Turns Range         // requests of a conversation
	Input Range         // tokens of each later question
	Think time.Duration // mean of the exponential time between an answer's end and the next question
}

// talk is a conversation under way.
type talk struct {
	turns int
	past  []byte   // all that was said, as JSON: messages, the inside of a string, or the inside of a list of ids
	later []string // what a user's own prompt goes on to ask
}

// begin starts a conversation with the request that was just made; prompt is its prompt as JSON.
func (m *maker) begin(r *request, c *Class, key string, prompt []byte, later []string) {
	if c.Session == nil {
		return
	}
	t := &talk{turns: c.Session.Turns.draw(stream(m.spec.Seed, "turns", c.Name, r.stream, key)), later: later}
	if len(later) > 0 || len(m.owned[r.class]) > 0 {
		t.turns = 1 + len(later)
	}
	t.past = bytes.Clone(m.inside(prompt))
	r.talk = t
}

// inside strips what encloses a prompt, so that it can be gone on with.
func (m *maker) inside(prompt []byte) []byte {
	if m.form == formChat {
		if len(prompt) > 0 && prompt[0] == '[' { // a list of messages
			return prompt[1 : len(prompt)-1]
		}
		return append(append([]byte(`{"role":"user","content":`), prompt...), '}')
	}
	return prompt[1 : len(prompt)-1]
}

// goesOn says whether a request that ended well has a next turn.
func (r *request) goesOn(v verdict) bool {
	return r.talk != nil && v.outcome == OK && r.turn+1 < r.talk.turns
}

// follow makes the next turn of a conversation. said is the answer's text, as the inside of a JSON string; tokens is its length.
func (m *maker) follow(r *request, said []byte, tokens int, buf []byte) request {
	c := &m.spec.Classes[r.class]
	key := strconv.Itoa(r.index)
	turn := strconv.Itoa(r.turn + 1)
	next := *r
	next.turn, next.bytes = r.turn+1, nil
	rng := stream(m.spec.Seed, "turn", c.Name, r.stream, key, turn)
	question := c.Session.Input.draw(rng)
	next.output = c.Output.draw(rng)
	next.think = time.Duration(rng.ExpFloat64() * float64(c.Session.Think))
	content := stream(m.spec.Seed, "content", m.spec.Salt, c.Name, r.stream, key, turn)
	t := r.talk
	var own []byte
	if r.turn < len(t.later) {
		own, _ = json.Marshal(t.later[r.turn]) // a string always has a JSON form
		own = own[1 : len(own)-1]
	} else if !r.exact {
		own = m.tokens(nil, 0, question, content)
	}
	switch {
	case r.exact:
		t.past = m.more(t.past, tokens, content)
		t.past = m.more(t.past, question, content)
		next.input = r.input + tokens + question
	case m.form == formChat:
		t.past = append(append(append(t.past, `,{"role":"assistant","content":"`...), said...), `"},{"role":"user","content":"`...)
		t.past = append(append(t.past, own...), `"}`...)
		next.input = len(bytes.Fields(t.past))
	default:
		t.past = append(append(append(t.past, said...), ' '), own...)
		next.input = len(bytes.Fields(t.past))
	}
	frame, open, shut := m.frames[r.class], byte('"'), byte('"')
	if list := m.owned[r.class]; len(list) > 0 {
		frame = list[turnOf(r.stream, r.index, len(list))].frame
	}
	if r.exact {
		open, shut = '[', ']'
	}
	if m.form == formChat {
		frame.mid, frame.end, open, shut = `,"messages":`, "}", '[', ']'
	}
	m.build(&next, &frame, c, key, buf, func(b []byte) []byte { return append(append(append(b, open), t.past...), shut) })
	return next
}

// more goes on with a list of ids.
func (m *maker) more(list []byte, n int, rng interface{ IntN(int) int }) []byte {
	for range n {
		list = append(list, ',')
		list = strconv.AppendInt(list, int64(m.spec.Vocabulary[rng.IntN(len(m.spec.Vocabulary))]), 10)
	}
	return list
}

// keep gathers an answer's visible text, as the inside of a JSON string. SGLang's native route may repeat all of it in
// each event.
func (r *reply) keep(e *event) {
	switch {
	case len(e.Raw) == 0:
	case e.Native && len(e.Raw) >= len(r.said) && bytes.HasPrefix(e.Raw, r.said):
		r.said = append(r.said[:0], e.Raw...)
	default:
		r.said = append(r.said, e.Raw...)
	}
}

// builder makes the next turns of conversations, so that no thread that keeps time does.
type builder struct {
	maker *maker
	jobs  chan followJob // with room for one job of each slot: nobody waits
}

// followJob is a request that ended and goes on.
type followJob struct {
	req     request
	said    []byte
	tokens  int
	deliver func(request)
}

func newBuilder(m *maker, slots int) *builder {
	return &builder{maker: m, jobs: make(chan followJob, slots)}
}

// loop works until jobs is closed.
func (b *builder) loop() {
	for j := range b.jobs {
		j.deliver(b.maker.follow(&j.req, j.said, j.tokens, nil))
	}
}
