package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sweep/loadgen/mock"
)

func TestReadPrompts(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"vLLM", `{"prompt": "Tell me", "output_tokens": 12}`, `Tell me/[]/0/12/[]/map[]`},
		{"ids", "{\"prompt\": [1, 2]}\n\n{\"input_ids\": [3], \"sampling_params\": {\"max_new_tokens\": 4}}\n", `/[1 2]/0/0/[]/map[] | /[3]/0/4/[]/map[]`},
		{"generate", `{"text": "Hi", "sampling_params": {"temperature": 0}}`, `Hi/[]/0/0/[]/map[]`},
		{"ShareGPT", `[{"id": "x", "conversations": [{"from": "system", "value": "Be kind"}, {"from": "human", "value": "A?"}, {"from": "gpt", "value": "B."}, {"from": "human", "value": "C?"}]}]`, `A?/[]/0/0/[C?]/map[]`},
		{"SGLang custom", `{"conversation": [{"content": "A?"}, {"content": "B."}, {"content": "C?"}]}`, `A?/[]/0/0/[C?]/map[]`},
		{"chat", `{"model": "m", "messages": [{"role": "user", "content": "A?"}], "max_tokens": 7, "temperature": 0.5, "stream": false}`, `/[]/1/7/[]/map[temperature:0.5]`},
		{"batch", `{"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "A?"}]}], "max_completion_tokens": 9, "tools": [1]}}`, `/[]/1/9/[]/map[tools:[1]]`},
		{"byte-order mark", "\ufeff" + `{"prompt": "x"}`, `x/[]/0/0/[]/map[]`},
	} {
		list, err := ReadPrompts(strings.NewReader(c.file))
		var got []string
		for _, p := range list {
			fields := map[string]string{}
			for k, v := range p.Fields {
				fields[k] = string(v)
			}
			got = append(got, fmt.Sprintf("%s/%v/%d/%d/%v/%v", p.Text, p.IDs, len(p.Messages), p.Output, p.Turns, fields))
		}
		if s := strings.Join(got, " | "); s != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.name, s, err, c.want)
		}
	}
	for file, want := range map[string]string{
		"": "empty", "  \n": "empty", "[]": "holds none", "{\"prompt\": \"x\"}\nhello": "line 2", `{"question": 1}`: "but question",
		`{"messages": []}`: "no list of messages", `{"messages": [{"content": "x"}]}`: "message 1 has no role", `[{"conversations": [{"from": "gpt", "value": "x"}]}]`: "element 1: nobody asks",
		`{"prompt": 7}`: "neither text nor", `{"prompt": "x", "max_tokens": "many"}`: `tokens "many" is no`, `{"conversations": [{"from": "human"}]}`: "turn 1 has neither",
	} {
		if _, err := ReadPrompts(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func FuzzReadPrompts(f *testing.F) {
	f.Add(`{"prompt": [1, 2]}`)
	f.Add(`[{"conversations": [{"from": "human", "value": "A?"}]}]`)
	f.Add(`{"custom_id": "r1", "body": {"messages": [{"role": "user", "content": "A?"}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ReadPrompts(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, p := range list {
			if p.Text == "" && len(p.IDs) == 0 && len(p.Messages) == 0 {
				t.Errorf("an empty prompt from %q", s)
			}
		}
	})
}

// A prompt of a user reaches the server as it is, with its own fields, and no prompt comes twice before all have come.
func TestOwnPrompts(t *testing.T) {
	prompts := []Prompt{
		{Text: `say "a" <b>`, Output: 3}, {Messages: []json.RawMessage{json.RawMessage(`{"role":"user","content":"x y"}`)}, Fields: map[string]json.RawMessage{"temperature": json.RawMessage("0.5")}},
		{Text: "c"}, {Text: "d"},
	}
	make := func(route string, list []Prompt, change func(*Spec)) *maker {
		return testMaker(t, func(s *Spec) {
			s.Route, s.Body = route, map[string]any{"temperature": 1, "ignore_eos": true}
			s.Classes[0].Prompts, s.Classes[0].Output = list, Range{9, 9}
			if change != nil {
				change(s)
			}
		})
	}
	m := make("/v1/chat/completions", prompts, nil)
	seen := map[string]int{}
	for i := range 4 {
		b := body(t, m.make(0, measured, i, nil))
		text, _ := json.Marshal([]any{b["messages"], b["max_tokens"], b["temperature"], b["ignore_eos"]})
		seen[string(text)]++
		warm := body(t, m.make(0, warmUp, 3-i, nil))
		if text2, _ := json.Marshal(warm["messages"]); !strings.HasPrefix(string(text), "["+string(text2)) {
			t.Errorf("the warm-up does not go from the back: %s", text2)
		}
	}
	for _, want := range []string{
		`[[{"content":"say \"a\" \u003cb\u003e","role":"user"}],3,1,true]`, `[[{"content":"x y","role":"user"}],9,0.5,true]`,
		`[[{"content":"c","role":"user"}],9,1,true]`, `[[{"content":"d","role":"user"}],9,1,true]`,
	} {
		if seen[want] != 1 {
			t.Errorf("%s came %d times; %v", want, seen[want], seen)
		}
	}
	m = make("/generate", []Prompt{{IDs: []int{5, 6}}}, func(s *Spec) {
		s.Body = map[string]any{"sampling_params": map[string]any{"ignore_eos": true, "temperature": 0}}
		s.Classes[0].Natural = true
	})
	r := m.make(0, measured, 0, nil)
	if got, _ := json.Marshal(body(t, r)); string(got) != `{"input_ids":[5,6],"sampling_params":{"max_new_tokens":9,"temperature":0},"stream":true}` || !r.exact || r.input != 2 {
		t.Errorf("%s, %+v", got, r)
	}
	for route, list := range map[string][]Prompt{"/v1/completions": prompts, "/v1/chat/completions": {{IDs: []int{1}}}, "/generate": {{}}} {
		spec := Spec{URL: "http://h:1", Route: route, Classes: []Class{{Name: "a", Prompts: list}}}
		if _, err := newMaker(&spec); err == nil {
			t.Errorf("%s takes %v", route, list)
		}
	}
}

// A natural answer may stop early, never late; a forced one may do neither.
func TestNaturalOutput(t *testing.T) {
	for _, c := range []struct {
		natural bool
		timing  mock.Timing
		want    string
	}{
		{true, mock.Timing{Tokens: 2, Finish: "stop"}, ""}, {true, mock.Timing{}, ""}, {true, mock.Timing{Tokens: 9}, KindLong},
		{false, mock.Timing{Tokens: 2, Finish: "stop"}, KindEarlyStop}, {false, mock.Timing{}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.timing.First, c.timing.Gap = 50*msec, 10*msec
			server := &mock.Server{Answer: steady(c.timing)}
			spec := testSpec(server, 1)
			spec.Warmup, spec.Classes[0].Natural = Warmup{}, c.natural
			spec.Window = Window{Max: 20 * second, Requests: map[string]int{"short": 3}, Exactly: true}
			res, err := Run(t.Context(), spec)
			server.Close()
			if err != nil || c.want == "" && res.Completed != 3 || c.want != "" && res.Failures[c.want] != 3 {
				t.Errorf("natural %v, %d tokens: %d completed, %v, %v", c.natural, c.timing.Tokens, res.Completed, res.Failures, err)
			}
		})
	}
}

// A server that counts other prompt tokens than were sent is noted, or ends the run.
func TestPromptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
			r.PromptIDs = append(r.PromptIDs, 1) // a token of its own at the beginning
			return mock.Stream(r, mock.Timing{First: 50 * msec, Gap: 10 * msec})
		}}
		spec := testSpec(server, 2)
		res, err := Run(t.Context(), spec)
		if err != nil || !slices.ContainsFunc(res.Notes, func(n string) bool { return strings.Contains(n, "8 ids, 9 tokens") }) {
			t.Errorf("%v, notes %q", err, res.Notes)
		}
		spec.Exact = true
		spec.Warmup = Warmup{Time: 20 * msec} // the first answer comes later: the window waits for it
		if res, err := Run(t.Context(), spec); !errors.Is(err, ErrPrompts) || res.Complete || !res.Opened.IsZero() {
			t.Errorf("%v, complete %v, opened %v", err, res.Complete, res.Opened)
		}
		server.Close()
	})
}
