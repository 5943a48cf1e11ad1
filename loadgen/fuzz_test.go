package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func addSeeds(f *testing.F, add func(b []byte)) {
	files, err := filepath.Glob("testdata/*/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 8<<10 {
			continue
		}
		if b := readTestFile(f, file); len(b) < 16<<10 {
			if strings.Contains(file, ".sse") {
				b = append([]byte(plainHead), b...)
			}
			add(b)
		}
	}
}

// FuzzResponse cuts any bytes in three: the answer is the same as in one piece, and nothing panics.
func FuzzResponse(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b, uint16(len(b)/3), uint16(len(b)/2)) })
	f.Fuzz(func(t *testing.T, b []byte, x, y uint16) {
		i := min(int(x), len(b))
		j := min(max(i, int(y)), len(b))
		want := fmt.Sprintf("%+v", parseReads([][]byte{b}, 4))
		if got := fmt.Sprintf("%+v", parseReads([][]byte{b[:i], b[i:j], b[j:]}, 4)); got != want {
			t.Errorf("cut at %d and %d:\ngot  %s\nwant %s", i, j, got, want)
		}
	})
}

// FuzzEvent compares what the scanner says of a JSON event with what a JSON decoder says.
func FuzzEvent(f *testing.F) {
	addSeeds(f, func(b []byte) {
		for line := range bytes.Lines(b) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				f.Add(data)
			}
		}
	})
	f.Add([]byte(`{"error":"\"","usage":{"completion_tokens":1e3,"prompt_tokens":7.0},"choices":[[],{"text":"\\"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e event
		scanEvent(data, &e)
		var d struct {
			Choices []struct {
				Text  *string `json:"text"`
				Delta struct {
					Content *string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Usage *struct {
				Completion *int `json:"completion_tokens"`
				Prompt     *int `json:"prompt_tokens"`
			} `json:"usage"`
		}
		if !exactKeys(data) || json.Unmarshal(data, &d) != nil || d.Usage == nil {
			return
		}
		if c := d.Usage.Completion; c != nil && *c >= 0 && *c < 1<<40 && e.Completion != *c {
			t.Errorf("completion tokens %d, want %d in %q", e.Completion, *c, data)
		}
		text := false
		for _, c := range d.Choices {
			text = text || c.Text != nil && *c.Text != "" || c.Delta.Content != nil && *c.Delta.Content != ""
		}
		if text && !e.Text {
			t.Errorf("text not seen in %q", data)
		}
	})
}

// exactKeys says whether the keys that matter occur once and as they are written: encoding/json also
// takes other cases, escapes and repetitions, which no server writes.
func exactKeys(data []byte) bool {
	if bytes.ContainsRune(data, '\\') {
		return false
	}
	lower := bytes.ToLower(data)
	for _, key := range []string{"choices", "text", "delta", "content", "usage", "completion_tokens", "prompt_tokens"} {
		n := bytes.Count(lower, []byte(key))
		if n > 1 && key != "content" && key != "text" || n != bytes.Count(data, []byte(key)) || bytes.Count(data, []byte(`"`+key+`"`)) != n {
			return false
		}
	}
	return bytes.Count(data, []byte(`"tokens_predicted"`)) == 0
}

// FuzzTemplate: whatever events came before, an event says what a scan of it alone says.
func FuzzTemplate(f *testing.F) {
	var last []byte
	addSeeds(f, func(b []byte) {
		for line := range bytes.Lines(b) {
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok {
				f.Add(last, data, data)
				f.Add(data, last, data)
				last = data
			}
		}
	})
	one := []byte(`{"a":"x","n":1.5,"choices":[{"text":" a","finish_reason":null}],"usage":{"completion_tokens":7,"total_tokens":9}}`)
	for _, other := range []string{
		`{"a":"xy","n":-2e7,"choices":[{"text":"","finish_reason":null}],"usage":{"completion_tokens":8,"total_tokens":10}}`,
		`{"a":"\"","n":1,"choices":[{"text":"\\","finish_reason":null}],"usage":{"completion_tokens":08,"total_tokens":1}}`,
		`{"a":"x","n":1,"choices":[{"text":"b","finish_reason":"stop"}],"usage":{"completion_tokens":8.0,"total_tokens":1}}`,
		`{"a":"x","n":1,"choices":[{"text":"b","finish_reason":null}],"usage":{"completion_tokens":12345678901234,"total_tokens":1}}`,
		`{"a":"}`, `{"reasoning":"","choices":[{"delta":{"reasoning":"x","content":null}}]}`,
	} {
		f.Add(one, []byte(other), one)
		f.Add([]byte(other), one, []byte(other))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var shape template
		for i, data := range [][]byte{a, b, c, b, a, c, c} {
			var want event
			got := shape.scan(data)
			scanEvent(data, &want)
			if g, w := fmt.Sprintf("%+v", *got), fmt.Sprintf("%+v", want); g != w {
				t.Fatalf("event %d of %q, %q, %q:\ngot  %s\nwant %s", i, a, b, c, g, w)
			}
		}
	})
}
