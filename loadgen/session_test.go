package loadgen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

// chatAnswer streams words in chat chunks.
func chatAnswer(words ...string) []mock.Step {
	steps := []mock.Step{{Wait: 10 * msec, Bytes: []byte(mock.Head)}}
	for i, w := range words {
		text, _ := json.Marshal(w)
		steps = append(steps, mock.Step{Wait: 10 * msec, Bytes: []byte(mock.Frame(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":%d}}`, text, i+1)))})
	}
	return append(steps, mock.Step{Bytes: []byte(mock.Frame(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`) + mock.Frame("[DONE]") + mock.Last)})
}

// Each turn of a conversation carries all that was said before, word for word, after a time to think.
func TestConversations(t *testing.T) {
	for _, client := range []string{ClientConn, ClientEpoll} {
		t.Run(client, func(t *testing.T) {
			var mu sync.Mutex
			var bodies []map[string]any
			server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
				mu.Lock()
				defer mu.Unlock()
				var b map[string]any
				_ = json.Unmarshal(r.Body, &b)
				bodies = append(bodies, b)
				return chatAnswer(`"Hé`, "\n", `<b>"`)
			}}
			run := func(t *testing.T, spec Spec) {
				spec.Route, spec.Client, spec.Warmup = "/v1/chat/completions", client, Warmup{}
				spec.Classes[0].Output = Range{3, 3}
				spec.Classes[0].Session = &Session{Turns: Range{3, 3}, Input: Range{4, 4}, Think: 20 * msec}
				spec.Window = Window{Max: time.Minute, Requests: map[string]int{"short": 2}, Exactly: true}
				res, err := Run(t.Context(), spec)
				server.Close()
				if err != nil || res.Completed != 6 || len(bodies) != 6 {
					t.Fatalf("%d completed (%s), %d came, %v", res.Completed, res.FirstFailure, len(bodies), err)
				}
				if client == ClientConn && res.Values["max_ttft_ms"] != 20 {
					t.Errorf("TTFT %v", res.Values["max_ttft_ms"])
				}
			}
			if client == ClientConn {
				synctest.Test(t, func(t *testing.T) { run(t, testSpec(server, 1)) })
			} else if newShardPath(nil, "") == nil {
				t.Skip("no epoll here")
			} else {
				url, err := server.Listen()
				if err != nil {
					t.Fatal(err)
				}
				spec := testSpec(server, 1)
				spec.URL, spec.Dial = url, nil
				run(t, spec)
			}
			for i, b := range bodies {
				checkMessages(t, i, b, bodies)
			}
			if a, b := fmt.Sprint(bodies[0]["messages"]), fmt.Sprint(bodies[3]["messages"]); a == b {
				t.Error("two conversations begin alike")
			}
		})
	}
}

func checkMessages(t *testing.T, i int, b map[string]any, all []map[string]any) {
	t.Helper()
	messages := b["messages"].([]any)
	if want := 1 + 2*(i%3); len(messages) != want {
		t.Fatalf("request %d has %d messages, want %d", i, len(messages), want)
	}
	for j, m := range messages {
		m := m.(map[string]any)
		role, words := "user", 8
		if j%2 == 1 {
			role = "assistant"
		}
		if j > 0 {
			words = 4
		}
		text := m["content"].(string)
		if m["role"] != role || role == "assistant" && text != "\"Hé\n<b>\"" || role == "user" && len(strings.Fields(text)) != words {
			t.Errorf("request %d, message %d: %v", i, j, m)
		}
		if i%3 > 0 && j < len(messages)-2 {
			if before := all[i-1]["messages"].([]any)[j].(map[string]any); before["content"] != text {
				t.Errorf("request %d, message %d: %q, before it was %q", i, j, text, before["content"])
			}
		}
	}
}

// Where prompts are ids the turns are of exact length, each the beginning of the next; a prompt of a user goes on with his
// own questions; cumulative text is not taken twice.
func TestTurns(t *testing.T) {
	m := testMaker(t, func(s *Spec) {
		s.Classes[0].Session = &Session{Turns: Range{2, 5}, Input: Range{6, 6}, Think: time.Second}
	})
	r := m.make(0, measured, 3, nil)
	first := ids(t, r, "prompt")
	next := m.follow(&r, []byte("text"), 7, nil)
	second := ids(t, next, "prompt")
	if len(second) != len(first)+7+6 || next.input != len(second) || !slices.Equal(second[:len(first)], first) || next.turn != 1 || next.think <= 0 {
		t.Errorf("turns of %d and %d ids, %+v", len(first), len(second), next)
	}
	again := m.make(0, measured, 3, nil)
	if other := m.follow(&again, []byte("text"), 7, nil); string(other.bytes) != string(next.bytes) || other.think != next.think {
		t.Error("the same turn is made otherwise")
	}
	m = testMaker(t, func(s *Spec) {
		s.Route = "/generate"
		s.Classes[0].Prompts = []Prompt{{Text: "A?", Turns: []string{`"C"?`}}}
		s.Classes[0].Session = &Session{Turns: Range{9, 9}, Input: Range{6, 6}}
	})
	r = m.make(0, measured, 0, nil)
	var reply reply
	reply.wants = true
	reply.reset()
	for _, text := range []string{"B", "B\\n", "B\\nb", "B\\nbb"} {
		reply.onData(fmt.Appendf(nil, `{"text":"%s","meta_info":{"completion_tokens":1}}`, text))
	}
	next = m.follow(&r, reply.said, 3, nil)
	if got := body(t, next)["text"]; got != "A?B\nbb \"C\"?" || next.goesOn(verdict{outcome: OK}) || !r.goesOn(verdict{outcome: OK}) || r.goesOn(verdict{outcome: Failed}) {
		t.Errorf("second turn %q", got)
	}
}
