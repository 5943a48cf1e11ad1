package loadgen

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each labelled stream is judged right from its body alone and from its single reads.
func TestJudgeStream(t *testing.T) {
	for line := range bytes.Lines(readTestFile(t, "testdata/cases/labels.jsonl")) {
		var l struct {
			label
			API    string
			AlsoOK []bool `json:"also_ok"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		t.Run(l.File, func(t *testing.T) {
			b := readTestFile(t, filepath.Join("testdata/cases", l.File))
			reads := [][]byte{b}
			if strings.HasSuffix(l.File, ".chunks.json") {
				var file struct{ Chunks [][]byte }
				if err := json.Unmarshal(b, &file); err != nil {
					t.Fatal(err)
				}
				reads = file.Chunks
			}
			asked := 0
			if l.Requested != nil {
				asked = *l.Requested
			}
			api := l.API
			if api == "" {
				api = "other"
			}
			for name, reads := range map[string][][]byte{"as captured": reads, "byte by byte": slices.Collect(slices.Chunk(bytes.Join(reads, nil), 1))} {
				j, err := JudgeStream(api, reads, asked)
				if err != nil {
					t.Fatal(err)
				}
				if j.OK != l.OK && !slices.Contains(l.AlsoOK, j.OK) {
					t.Errorf("%s: ok is %v (%s), want %v: %s", name, j.OK, j.Reason, l.OK, l.Why)
				}
				for _, w := range l.Words {
					if !strings.Contains(strings.ToLower(j.Reason), strings.ToLower(w)) {
						t.Errorf("%s: reason %q lacks %q", name, j.Reason, w)
					}
				}
				for what, pair := range map[string]struct {
					got  int
					want *int
				}{"output": {j.OutputTokens, l.Output}, "prompt": {j.PromptTokens, l.Prompt}, "cached": {j.CachedTokens, l.Cached}} {
					if want := number(pair.want); pair.got != want {
						t.Errorf("%s: %s tokens %d, want %d", name, what, pair.got, want)
					}
				}
			}
		})
	}
	if _, err := JudgeStream("openai", nil, 0); err == nil {
		t.Error("an unknown API is accepted")
	}
	if j, _ := JudgeStream("other", nil, 0); j.OK || !strings.HasPrefix(j.Reason, KindEmpty) {
		t.Errorf("nothing at all: %+v", j)
	}
	empty := []byte("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	if j, _ := JudgeStream("openai-chat", [][]byte{empty}, 0); j.OK {
		t.Errorf("a stream without output is a success: %+v", j)
	}
}

func number(n *int) int {
	if n == nil {
		return unknown
	}
	return *n
}
