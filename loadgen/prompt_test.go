package loadgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func testMaker(t testing.TB, change func(*Spec)) *maker {
	t.Helper()
	s := &Spec{
		URL: "http://127.0.0.1:30000", Route: "/v1/completions", Model: "m", Seed: 7, Salt: "run 1",
		Classes: []Class{
			{Name: "short", Concurrency: 1, Input: Range{50, 90}, Output: Range{20, 60}, Prefix: &Prefix{Groups: 4, Tokens: 40}},
			{Name: "long", Concurrency: 1, Input: Range{500, 900}, Output: Range{3, 3}},
		},
	}
	for i := range 5000 {
		s.Vocabulary = append(s.Vocabulary, 100+3*i)
	}
	if change != nil {
		change(s)
	}
	m, err := newMaker(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// body parses a prepared request as an HTTP server would.
func body(t *testing.T, r request) map[string]any {
	t.Helper()
	hr, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.bytes)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(hr.Body)
	if err != nil || int64(len(b)) != hr.ContentLength {
		t.Fatalf("%d bytes of %d: %v", len(b), hr.ContentLength, err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

func ids(t *testing.T, r request, key string) []int {
	t.Helper()
	list, ok := body(t, r)[key].([]any)
	if !ok {
		t.Fatalf("no list %q in %.300s", key, r.bytes)
	}
	var got []int
	for _, x := range list {
		got = append(got, int(x.(float64)))
	}
	return got
}

func TestPromptsAreExactAndRepeatable(t *testing.T) {
	m, again := testMaker(t, nil), testMaker(t, nil)
	other := testMaker(t, func(s *Spec) { s.Salt = "run 2" })
	for i := range 50 {
		a, b, c := m.make(0, measured, i, nil), again.make(0, measured, i, make([]byte, 0, 4096)), other.make(0, measured, i, nil)
		if !bytes.Equal(a.bytes, b.bytes) {
			t.Fatal("the same seed and salt gave other bytes")
		}
		if a.input != c.input || a.output != c.output {
			t.Fatal("another salt gave other lengths")
		}
		p := ids(t, a, "prompt")
		if len(p) != a.input || a.input < 50 || a.input > 90 || a.output < 20 || a.output > 60 {
			t.Fatalf("%d ids, input %d, output %d", len(p), a.input, a.output)
		}
		if got := body(t, a)["max_tokens"]; got != float64(a.output) {
			t.Fatalf("max_tokens %v, want %d", got, a.output)
		}
		for _, id := range p {
			if !slices.Contains(m.spec.Vocabulary, id) {
				t.Fatalf("id %d is not of the vocabulary", id)
			}
		}
		if slices.Equal(p[:8], ids(t, c, "prompt")[:8]) {
			t.Fatal("two salts share a prefix")
		}
	}
}

func TestPrefixGroups(t *testing.T) {
	m := testMaker(t, nil)
	prefixes, rests := map[string]int{}, map[string]bool{}
	for _, name := range []string{warmUp, measured} {
		for i := range 100 {
			p := ids(t, m.make(0, name, i, nil), "prompt")
			prefixes[fmt.Sprint(p[:40])]++
			rests[fmt.Sprint(p[40:50])] = true
		}
	}
	if len(prefixes) != 4 || len(rests) != 200 {
		t.Errorf("%d prefixes, want 4; %d unlike rests of 200 prompts", len(prefixes), len(rests))
	}
	for _, n := range prefixes {
		if n < 25 {
			t.Errorf("a group has %d of 200 requests", n)
		}
	}
	short := testMaker(t, func(s *Spec) { s.Classes[0].Input = Range{10, 10} })
	if p := ids(t, short.make(0, measured, 3, nil), "prompt"); len(p) != 10 {
		t.Errorf("%d ids where the input is shorter than the prefix, want 10", len(p))
	}
}

// Streams, classes and indices share nothing.
func TestStreamsAreDisjoint(t *testing.T) {
	m := testMaker(t, func(s *Spec) { s.Classes[0].Prefix = nil })
	seen := map[string]string{}
	for _, name := range []string{warmUp, measured, probing} {
		for class := range 2 {
			for i := range 40 {
				key, who := fmt.Sprint(ids(t, m.make(class, name, i, nil), "prompt")[:6]), fmt.Sprint(name, class, i)
				if other, ok := seen[key]; ok {
					t.Fatalf("%s begins as %s", who, other)
				}
				seen[key] = who
			}
		}
	}
}

func TestLengthsAreUniform(t *testing.T) {
	m := testMaker(t, func(s *Spec) { s.Classes[0].Input, s.Classes[0].Output = Range{1, 10}, Range{1, 4} })
	var in [11]int
	var out [5]int
	for i := range 4000 {
		r := m.make(0, measured, i, nil)
		in[r.input]++
		out[r.output]++
	}
	for n := 1; n <= 10; n++ {
		if in[n] < 320 || in[n] > 480 { // 400 expected, standard deviation 19
			t.Errorf("length %d came %d times of 4000", n, in[n])
		}
	}
	if out[4] < 850 || out[1] < 850 {
		t.Errorf("output lengths %v", out[1:])
	}
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		route string
		body  map[string]any
		text  bool
		want  string // the body without the prompt
	}{
		{"/v1/completions", map[string]any{"ignore_eos": true}, false, `{"ignore_eos":true,"max_tokens":3,"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		{"/v1/completions", map[string]any{"stream_options": map[string]any{"include_usage": true}}, true, `{"max_tokens":3,"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{"/v1/chat/completions", nil, true, `{"max_tokens":3,"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		{"/generate", map[string]any{"sampling_params": map[string]any{"temperature": 0}}, false, `{"sampling_params":{"max_new_tokens":3,"temperature":0},"stream":true}`},
		{"/generate", nil, true, `{"sampling_params":{"max_new_tokens":3},"stream":true}`},
		{"/completion", map[string]any{"cache_prompt": false}, false, `{"cache_prompt":false,"n_predict":3,"stream":true}`},
	} {
		m := testMaker(t, func(s *Spec) {
			s.Route, s.Body = c.route, c.body
			s.Header = map[string]string{"Authorization": "Bearer x"}
			if c.text {
				s.Vocabulary = nil
			}
		})
		r := m.make(1, measured, 0, nil)
		if !bytes.Contains(r.bytes, []byte("\r\nAuthorization: Bearer x\r\n")) || !bytes.HasPrefix(r.bytes, []byte("POST "+c.route+" HTTP/1.1\r\nHost: 127.0.0.1:30000\r\n")) {
			t.Errorf("%s: head %.120q", c.route, r.bytes)
		}
		b := body(t, r)
		n := -1
		for _, key := range []string{"prompt", "text", "input_ids", "messages"} {
			switch v := b[key].(type) {
			case string:
				n = len(strings.Fields(v))
			case []any:
				n = len(v)
				if key == "messages" {
					n = len(strings.Fields(v[0].(map[string]any)["content"].(string)))
				}
			}
			delete(b, key)
		}
		if n != r.input {
			t.Errorf("%s: prompt of %d, want %d", c.route, n, r.input)
		}
		if got, _ := json.Marshal(b); string(got) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.route, got, c.want)
		}
	}
	for name, change := range map[string]func(*Spec){
		"own field":   func(s *Spec) { s.Body = map[string]any{"max_tokens": 3} },
		"line end":    func(s *Spec) { s.Header = map[string]string{"X": "a\r\nb"} },
		"no JSON":     func(s *Spec) { s.Body = map[string]any{"f": func() {}} },
		"broken host": func(s *Spec) { s.URL = "http://a b" },
	} {
		s := Spec{URL: "http://h:1", Route: "/v1/completions"}
		change(&s)
		if _, err := newMaker(&s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
