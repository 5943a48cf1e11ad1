package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadTrace(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"Mooncake", "{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 8]}\n{\"timestamp\": 4000, \"input_length\": 3, \"output_length\": 0, \"hash_ids\": []}\n{\"timestamp\": 1001, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": [7]}", "[{0s 600 5 [7 8] 512} {1ms 9 1 [7] 512}]"},
		{"BurstGPT 1", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,10,0,10,x\n46.5,GPT-4,12,1,13,x\n", "[{0s 472 18 [] 0} {41.5s 12 1 [] 0}]"},
		{"BurstGPT 2", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,1,3,GPT-4,472,18,490,x\n", "[{0s 472 18 [] 0}]"},
		{"Azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n", "[{0s 374 44 [] 0} {4.314579s 396 109 [] 0}]"},
	} {
		list, err := ReadTrace(strings.NewReader(c.file))
		if got := fmt.Sprint(list); got != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	for file, want := range map[string]string{
		"": "empty", "a,b\n1,2\n": "no column timestamp", "{\"timestamp\": 1}": "line 1: needs", "{\n": "line 1",
		"Timestamp,Request tokens,Response tokens\n1,x,2\n": "line 2", "Timestamp,Request tokens,Response tokens\n1,2\n": "too few", "Timestamp,Request tokens,Response tokens\n1,2,0\n": "no request with output",
	} {
		if _, err := ReadTrace(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add("{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 5}")
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ReadTrace(strings.NewReader(s))
		if err != nil {
			return
		}
		a := Arrivals{Law: Trace, Requests: SpreadTrace(list, second, 1)}
		if err := a.check(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// The prompts of a trace have its lengths and share what its blocks share; the salt changes all of it.
func TestTracePrompts(t *testing.T) {
	trace := []TraceRequest{{Input: 25, Output: 3, Blocks: []int64{7, 8, 9}, BlockTokens: 10}, {Input: 32, Output: 4, Blocks: []int64{7, 8, 5, 4}, BlockTokens: 10}}
	m := func(salt string) *maker {
		return testMaker(t, func(s *Spec) {
			s.Salt = salt
			s.Classes[0] = Class{Name: "t", Arrivals: &Arrivals{Law: Trace, Requests: trace}}
		})
	}
	a, b := m("x").make(0, measured, 0, nil), m("x").make(0, measured, 1, nil)
	p, q := ids(t, a, "prompt"), ids(t, b, "prompt")
	if len(p) != 25 || len(q) != 32 || a.output != 3 || b.output != 4 {
		t.Fatalf("%d and %d tokens, outputs %d and %d", len(p), len(q), a.output, b.output)
	}
	if !slices.Equal(p[:20], q[:20]) || slices.Equal(p[20:25], q[20:25]) {
		t.Errorf("shared blocks: %v and %v", p, q)
	}
	if other := ids(t, m("y").make(0, measured, 0, nil), "prompt"); slices.Equal(p[:10], other[:10]) {
		t.Error("two salts share a block")
	}
}
