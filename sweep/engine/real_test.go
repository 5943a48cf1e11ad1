package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sweep/sweep"
)

// unpacked is a recorded log.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whole logs of SGLang 0.5.17 on an H200, and of SGLang 0.5.23, vLLM 0.32.0 and llama-server b11434 on a CPU: once from
// the log alone, and once with the exit status of the process that was launched.
func TestRealLogs(t *testing.T) {
	data, err := os.ReadFile("testdata/real/labels.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(data) {
		var l struct {
			logLabel
			Exit     *int
			WithExit *struct {
				Outcome sweep.Outcome
				Cause   string
				Phase   sweep.Phase
			} `json:"with_exit"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		n++
		t.Run(l.File, func(t *testing.T) {
			log := unpacked(t, filepath.Join("testdata/real", l.File))
			e, err := Explain(bytes.NewReader(log), Question{})
			if err != nil {
				t.Fatal(err)
			}
			if e.Engine != l.Engine {
				t.Errorf("engine %s, want %s", e.Engine, l.Engine)
			}
			l.check(t, e)
			if l.Exit == nil {
				return
			}
			exit := sweep.Exit{Code: *l.Exit}
			if *l.Exit < 0 || *l.Exit > 128 {
				exit = sweep.Exit{Code: -1, Signal: max(-*l.Exit, *l.Exit-128)}
			}
			if e, err = Explain(bytes.NewReader(log), Question{Exit: &exit}); err != nil {
				t.Fatal(err)
			}
			want := l.WithExit
			if e.Outcome == nil || *e.Outcome != want.Outcome || e.Cause != want.Cause || e.Phase != want.Phase {
				t.Errorf("with exit %d: %s in %s (%s), want %s in %s (%s)", *l.Exit, word(e.Outcome), e.Phase, e.Cause, want.Outcome, want.Phase, want.Cause)
			}
		})
	}
	if n < 100 {
		t.Errorf("only %d logs", n)
	}
}
