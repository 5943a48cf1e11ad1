package loadgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Prompt is one request that a user brings along.
type Prompt struct {
	Text     string            // of one user
	IDs      []int             // the same as token ids
	Messages []json.RawMessage // OpenAI's messages, for the chat route
	Output   int               // tokens of its answer, at most; 0: the class says
	Turns    []string          // what the user says later on, in a conversation
	// Fields of the body that are its own: tools, temperature, top_p, …
	Fields map[string]json.RawMessage
}

// own are the fields of an OpenAI request that the load generator sets itself.
var own = []string{"model", "messages", "prompt", "max_tokens", "max_completion_tokens", "stream", "stream_options", "n"}

// ReadPrompts reads prompts in any of the forms that are in use, one JSON object a line, or one array of objects:
//
//	{"prompt": "text or [ids]", "output_tokens": 128}                      vLLM's custom data set
//	{"text": "…"} or {"input_ids": […]}, "sampling_params": {"max_new_tokens": 128}   SGLang's /generate
//	{"conversations": [{"from": "human", "value": "…"}, …]}                ShareGPT, SGLang's custom data set ("conversation", "content" too)
//	{"messages": [{"role": "user", "content": "…"}, …], "max_tokens": 128, …}   OpenAI's chat; other fields are passed on
//	{"custom_id": "…", "method": "POST", "url": "…", "body": {…}}          OpenAI's batch file
func ReadPrompts(from io.Reader) ([]Prompt, error) {
	in := bufio.NewReaderSize(from, 1<<20)
	var list []Prompt
	first, err := firstByte(in)
	if err != nil {
		return nil, err
	}
	if first == '[' {
		var all []json.RawMessage
		if err := json.NewDecoder(in).Decode(&all); err != nil {
			return nil, fmt.Errorf("prompts: %w", err)
		}
		for i, raw := range all {
			p, err := parsePrompt(raw)
			if err != nil {
				return nil, fmt.Errorf("prompts: element %d: %w", i+1, err)
			}
			list = append(list, p)
		}
		return nonEmpty(list)
	}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p, perr := parsePrompt(line)
			if perr != nil {
				return nil, fmt.Errorf("prompts: line %d: %w", n, perr)
			}
			list = append(list, p)
		}
		if err == io.EOF {
			return nonEmpty(list)
		}
		if err != nil {
			return nil, fmt.Errorf("prompts: %w", err)
		}
	}
}

func nonEmpty(list []Prompt) ([]Prompt, error) {
	if len(list) == 0 {
		return nil, errors.New("prompts: the file holds none")
	}
	return list, nil
}

// firstByte looks at the first byte that is no space.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err == io.EOF {
			return 0, errors.New("prompts: the file is empty")
		}
		if err != nil {
			return 0, fmt.Errorf("prompts: %w", err)
		}
		if !strings.ContainsRune(" \t\r\n\ufeff", rune(b)) && b < 0x80 {
			return b, in.UnreadByte()
		}
	}
}

// said is one turn of a conversation, in any of the spellings.
type said struct {
	From    string          `json:"from"`
	Role    string          `json:"role"`
	Value   *string         `json:"value"`
	Content json.RawMessage `json:"content"`
}

func (s *said) text() (string, bool) {
	if s.Value != nil {
		return *s.Value, true
	}
	var text string
	err := json.Unmarshal(s.Content, &text)
	return text, err == nil
}

func parsePrompt(raw []byte) (Prompt, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(raw, &f); err != nil {
		return Prompt{}, fmt.Errorf("no JSON object: %w", err)
	}
	if body, ok := f["body"]; ok && f["custom_id"] != nil {
		f = nil
		if err := json.Unmarshal(body, &f); err != nil {
			return Prompt{}, fmt.Errorf("body: %w", err)
		}
	}
	var p Prompt
	var err error
	switch {
	case f["messages"] != nil:
		err = p.takeMessages(f)
	case f["conversations"] != nil:
		err = p.takeConversation(f["conversations"])
	case f["conversation"] != nil:
		err = p.takeConversation(f["conversation"])
	case f["prompt"] != nil:
		err = p.takePrompt(f["prompt"])
		p.Fields = passedOn(f)
	case f["text"] != nil:
		err = p.takePrompt(f["text"])
	case f["input_ids"] != nil:
		err = p.takePrompt(f["input_ids"])
	default:
		return p, fmt.Errorf("none of the keys messages, conversations, conversation, prompt, text, input_ids is there, but %s", strings.Join(slices.Sorted(maps.Keys(f)), ", "))
	}
	if err != nil {
		return p, err
	}
	return p, p.takeOutput(f)
}

func (p *Prompt) takePrompt(raw json.RawMessage) error {
	if json.Unmarshal(raw, &p.Text) == nil && p.Text != "" {
		return nil
	}
	if json.Unmarshal(raw, &p.IDs) == nil && len(p.IDs) > 0 {
		return nil
	}
	return errors.New("the prompt is neither text nor a list of token ids")
}

func (p *Prompt) takeMessages(f map[string]json.RawMessage) error {
	if err := json.Unmarshal(f["messages"], &p.Messages); err != nil || len(p.Messages) == 0 {
		return errors.New("messages is no list of messages")
	}
	for i, m := range p.Messages {
		var s said
		if json.Unmarshal(m, &s) != nil || s.Role == "" {
			return fmt.Errorf("message %d has no role", i+1)
		}
	}
	p.Fields = passedOn(f)
	return nil
}

// passedOn are the fields of a body that are not the load generator's own.
func passedOn(f map[string]json.RawMessage) map[string]json.RawMessage {
	f = maps.Clone(f)
	for _, name := range append([]string{"output_tokens", "custom_id"}, own...) {
		delete(f, name)
	}
	if len(f) == 0 {
		return nil
	}
	return f
}

// takeConversation takes what the user says. The first answer serves only to know that there is one: its length in tokens
// is not known without the model's tokenizer.
func (p *Prompt) takeConversation(raw json.RawMessage) error {
	var turns []said
	if err := json.Unmarshal(raw, &turns); err != nil {
		return fmt.Errorf("conversation: %w", err)
	}
	for i := range turns {
		s := &turns[i]
		if s.From == "system" || s.Role == "system" {
			continue
		}
		text, ok := s.text()
		if !ok {
			return fmt.Errorf("turn %d has neither value nor content", i+1)
		}
		answer := s.From == "gpt" || s.From == "assistant" || s.Role == "assistant" || s.From+s.Role == "" && i%2 == 1
		switch {
		case answer || text == "":
		case p.Text == "":
			p.Text = text
		default:
			p.Turns = append(p.Turns, text)
		}
	}
	if p.Text == "" {
		return errors.New("nobody asks anything in the conversation")
	}
	return nil
}

func (p *Prompt) takeOutput(f map[string]json.RawMessage) error {
	raw := f["output_tokens"]
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		if raw == nil {
			raw = f[name]
		}
	}
	if raw == nil && f["sampling_params"] != nil {
		var s struct {
			Max json.RawMessage `json:"max_new_tokens"`
		}
		if err := json.Unmarshal(f["sampling_params"], &s); err != nil {
			return fmt.Errorf("sampling_params: %w", err)
		}
		raw = s.Max
	}
	if raw == nil || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, &p.Output); err != nil || p.Output < 1 {
		return fmt.Errorf("the number of output tokens %s is no whole number above zero", raw)
	}
	return nil
}

// routes are the names of the APIs of a workload.
var routes = map[string]string{"completions": "/v1/completions", "chat": "/v1/chat/completions", "generate": "/generate"}

// Route is the route of an API by its short name: completions, chat, or SGLang's own generate.
func Route(api string) (string, error) {
	if r, ok := routes[api]; ok {
		return r, nil
	}
	return "", fmt.Errorf("no API %q: %s are known", api, strings.Join(slices.Sorted(maps.Keys(routes)), ", "))
}
