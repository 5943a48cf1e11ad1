package simulate

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func testAnswers(t *testing.T, s *server) {
	want := strings.Split(strings.TrimSpace(recorded(t, "nonstream.json")), "\n")
	_, text := s.do("POST", "/v1/completions", `{"model":"m","prompt":`+ids(100, 5)+`,"max_tokens":24,"ignore_eos":true}`)
	const chat = `{"model":"m","messages":[{"role":"user","content":"tell me more"}],"max_tokens":12,"ignore_eos":true}`
	s.do("POST", "/v1/chat/completions", chat)
	_, talk := s.do("POST", "/v1/chat/completions", chat)
	compare(t, "nonstream.json", []string{shapeOf(t, text), shapeOf(t, talk)}, []string{shapeOf(t, want[0]), shapeOf(t, want[1])})
	_, body := s.do("POST", "/generate", `{"input_ids":[[300,301],[302,303,304]],"sampling_params":{"max_new_tokens":3,"ignore_eos":true}}`)
	var list []struct {
		IDs  []int `json:"output_ids"`
		Meta struct {
			Prompt int `json:"prompt_tokens"`
			Tokens int `json:"completion_tokens"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 || list[1].Meta.Prompt != 3 || len(list[1].IDs) != 3 {
		t.Errorf("a batch of two: %v %s", err, body)
	}
	_, first := s.do("POST", "/generate", `{"text":"the same text","sampling_params":{"max_new_tokens":5,"ignore_eos":true}}`)
	_, again := s.do("POST", "/generate", `{"text":"the same text","sampling_params":{"max_new_tokens":5,"ignore_eos":true}}`)
	if a, b := first[:strings.Index(first, ",\"meta")], again[:strings.Index(again, ",\"meta")]; a != b {
		t.Errorf("the same prompt gave %s, then %s", a, b)
	}
}

func testRefusals(t *testing.T, s *server) {
	want := strings.Split(strings.TrimSpace(recorded(t, "errors.json")), "\n")
	plain := func() (int, string) {
		r, err := http.Post(s.url+"/v1/completions", "text/plain", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(data)
	}
	post := func(path, body string) func() (int, string) {
		return func() (int, string) { return s.do("POST", path, body) }
	}
	for i, do := range []func() (int, string){
		post("/v1/completions", completion(ids(9000, 6), 5)),
		post("/v1/completions", completion(ids(7000, 7), 4000)),
		post("/v1/completions", `{"prompt":[300],"max_tokens":-1}`),
		plain,
		post("/generate", `{"sampling_params":{}}`),
	} {
		status, body := do()
		digits := func(s string) string { return numbers.ReplaceAllString(s, "0") }
		if status != http.StatusBadRequest || digits(body) != digits(want[i]) {
			t.Errorf("refusal %d: status %d\n have %s\n want %s", i, status, body, want[i])
		}
	}
	status, body := s.do("POST", "/generate", `{"input_ids":`+ids(7999, 8)+`,"sampling_params":{"max_new_tokens":10}}`)
	if status != 400 || body != `{"error":{"message":"Input length (7999 tokens) exceeds the maximum allowed length (7994 tokens). Use a shorter input or enable --allow-auto-truncate."}}` {
		t.Errorf("longer than the pool: %d %s", status, body)
	}
	_, body = s.do("POST", "/v1/completions", `{"prompt":`+ids(7900, 9)+`,"max_tokens":250,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`)
	if list := events(body); !strings.Contains(list[len(list)-2], `"completion_tokens":98,`) {
		t.Errorf("a prompt that fits with an output that does not is cut: %s", list[len(list)-2])
	}
}

func testHostHits(t *testing.T, s *server) {
	s.do("POST", "/flush_cache?timeout=5", "")
	for i := range 4 { // 4 × 3,000 tokens through a pool of 8,000
		s.do("POST", "/v1/completions", completion(ids(3000, 20+i), 8))
	}
	_, body := s.do("POST", "/v1/completions", completion(ids(3000, 20), 8))
	got := events(body)
	compare(t, "host_hit.sse", eventShapes(t, got[len(got)-4:]), eventShapes(t, events(recorded(t, "host_hit.sse"))))
	if !strings.Contains(got[len(got)-3], `"cached_tokens_details":{"device":0,"host":2999}`) {
		t.Errorf("cache report: %s", got[len(got)-3])
	}
}
