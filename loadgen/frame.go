package loadgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// bodyFrame is what of a request's body is the same for all requests of a class.
type bodyFrame struct {
	open string // before the number of output tokens
	mid  string // between it and the prompt
	end  string // after the prompt
}

// forced are the fields that force a length: a natural output must not carry them.
var forced = []string{"ignore_eos", "min_tokens", "min_new_tokens", "min_length"}

// frame builds the constant parts of a body. extra are fields of one prompt; ids says that the prompt is token ids, messages
// that it is a whole list of messages.
func (m *maker) frame(c *Class, extra map[string]json.RawMessage, ids, messages bool) (f bodyFrame, err error) {
	fields := map[string]any{}
	maps.Copy(fields, m.spec.Body)
	maps.Copy(fields, c.Body)
	for name, v := range extra {
		fields[name] = v
	}
	fields["stream"] = true
	for _, name := range []string{"prompt", "messages", "input_ids", "text", "max_tokens", "max_completion_tokens", "n_predict"} {
		if _, ok := fields[name]; ok {
			return f, fmt.Errorf("body field %q is the load generator's own", name)
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
	var sampling map[string]any
	if m.form == formGenerate {
		if sampling, err = objectOf(fields["sampling_params"]); err != nil {
			return f, fmt.Errorf("body: sampling_params: %w", err)
		}
		delete(fields, "sampling_params")
		delete(sampling, "max_new_tokens")
	}
	if c.Natural {
		for _, name := range forced {
			delete(fields, name)
			delete(sampling, name)
		}
	}
	common, err := json.Marshal(fields)
	if err != nil {
		return f, fmt.Errorf("body: %w", err)
	}
	f.open, f.end = string(common[:len(common)-1]), "}"
	return f, m.place(&f, sampling, ids, messages)
}

// place completes the frame with the places of the output's length and of the prompt.
func (m *maker) place(f *bodyFrame, sampling map[string]any, ids, messages bool) error {
	switch m.form {
	case formPrompt:
		f.open, f.mid = f.open+`,"max_tokens":`, `,"prompt":`
	case formChat:
		f.open, f.mid, f.end = f.open+`,"max_tokens":`, `,"messages":[{"role":"user","content":`, "}]}"
		if messages {
			f.mid, f.end = `,"messages":`, "}"
		}
	case formNative:
		f.open, f.mid = f.open+`,"n_predict":`, `,"prompt":`
	case formGenerate:
		inner := ""
		if len(sampling) > 0 {
			params, err := json.Marshal(sampling)
			if err != nil {
				return fmt.Errorf("body: sampling_params: %w", err)
			}
			inner = string(params[1:len(params)-1]) + ","
		}
		f.open, f.mid = f.open+`,"sampling_params":{`+inner+`"max_new_tokens":`, `},"text":`
		if ids {
			f.mid = `},"input_ids":`
		}
	}
	return nil
}

// objectOf is a value as a JSON object of its own.
func objectOf(v any) (map[string]any, error) {
	if v == nil {
		return map[string]any{}, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, err
	}
	return o, nil
}

// ownPrompt is a prompt of a user, ready to be put into a body.
type ownPrompt struct {
	frame  bodyFrame
	value  []byte // the prompt as JSON
	input  int    // its length: tokens of ids, words of text
	output int    // 0: the class says
	ids    bool
	turns  []string // later questions
}

// own prepares the prompts that a class brings along, in the order of their use: drawn by the seed.
func (m *maker) own(c *Class) ([]ownPrompt, error) {
	if len(c.Prompts) == 0 {
		return nil, nil
	}
	order := stream(m.spec.Seed, "order", c.Name).Perm(len(c.Prompts))
	list := make([]ownPrompt, len(order))
	frames := map[[2]bool]bodyFrame{} // of prompts without fields of their own
	for at, i := range order {
		p := &c.Prompts[i]
		o, messages, err := m.render(p)
		if err != nil {
			return nil, fmt.Errorf("class %q: prompt %d: %w", c.Name, i+1, err)
		}
		kind := [2]bool{o.ids, messages}
		f, ok := frames[kind]
		if !ok || len(p.Fields) > 0 {
			if f, err = m.frame(c, p.Fields, o.ids, messages); err != nil {
				return nil, fmt.Errorf("class %q: prompt %d: %w", c.Name, i+1, err)
			}
			if len(p.Fields) == 0 {
				frames[kind] = f
			}
		}
		o.frame = f
		list[at] = o
	}
	return list, nil
}

// render writes a prompt as JSON for the run's route.
func (m *maker) render(p *Prompt) (o ownPrompt, messages bool, err error) {
	o.output, o.turns = p.Output, p.Turns
	switch {
	case len(p.Messages) > 0 && m.form != formChat:
		return o, false, fmt.Errorf("messages need the chat route, not %s", m.spec.Route)
	case len(p.IDs) > 0 && m.form == formChat:
		return o, false, fmt.Errorf("the chat route takes no token ids")
	case len(p.Messages) > 0:
		o.value, err = json.Marshal(p.Messages)
		for _, raw := range p.Messages {
			o.input += len(strings.Fields(string(raw)))
		}
		return o, true, err
	case len(p.IDs) > 0:
		o.ids, o.input = true, len(p.IDs)
		o.value = append(o.value, '[')
		for i, id := range p.IDs {
			if i > 0 {
				o.value = append(o.value, ',')
			}
			o.value = strconv.AppendInt(o.value, int64(id), 10)
		}
		o.value = append(o.value, ']')
		return o, false, nil
	case p.Text == "":
		return o, false, fmt.Errorf("it is empty")
	}
	o.input = len(strings.Fields(p.Text))
	o.value, err = json.Marshal(p.Text)
	return o, false, err
}

// turnOf is which of n prompts a request takes: the measured ones from the front, the warm-up from the back, so that
// they meet only when there are too few.
func turnOf(name string, index, n int) int {
	if name == warmUp {
		return n - 1 - index%n
	}
	return index % n
}

func (m *maker) buildOwn(r *request, c *Class, o *ownPrompt, key string, buf []byte) {
	r.input, r.exact = o.input, o.ids
	if o.output > 0 {
		r.output = o.output
	}
	m.build(r, &o.frame, c, key, buf, func(b []byte) []byte { return append(b, o.value...) })
	m.begin(r, c, key, o.value, o.turns)
}
