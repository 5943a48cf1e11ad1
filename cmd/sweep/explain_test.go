package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every labelled stream and log is explained by the command as its label says; both kinds with just the keys that are promised.
func TestExplainLabels(t *testing.T) {
	t.Parallel()
	for line := range bytes.Lines(read(t, "../../loadgen/testdata/cases/labels.jsonl")) {
		var l struct {
			File, API string
			Requested *int `json:"requested_tokens"`
			OK        bool
			AlsoOK    []bool   `json:"also_ok"`
			Words     []string `json:"reason_words"`
		}
		var counts struct {
			Output *int `json:"output_tokens"`
			Prompt *int `json:"prompt_tokens"`
			Cached *int `json:"cached_tokens"`
		}
		decode(t, line, &l)
		decode(t, line, &counts)
		path := filepath.Join("../../loadgen/testdata/cases", l.File)
		if _, err := os.Stat(path); err != nil {
			path += ".gz"
		}
		args := []string{"explain", "stream", path, "--api", l.API, "--format", "json"}
		if l.Requested != nil {
			args = append(args, "--requested", string(must(json.Marshal(*l.Requested))))
		}
		code, out, stderr := runSweep(t, args...)
		var got map[string]any
		if decode(t, []byte(out), &got); code != exitOK || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", l.File, code, stderr)
		}
		ok, _ := got["ok"].(bool)
		reason, _ := got["reason"].(string)
		if len(got) != 5 || ok != l.OK && !slices.Contains(l.AlsoOK, ok) {
			t.Errorf("%s: %s", l.File, out)
		}
		for _, w := range l.Words {
			if !strings.Contains(strings.ToLower(reason), strings.ToLower(w)) {
				t.Errorf("%s: reason %q lacks %q", l.File, reason, w)
			}
		}
		for key, want := range map[string]*int{"output_tokens": counts.Output, "prompt_tokens": counts.Prompt, "cached_tokens": counts.Cached} {
			n, given := got[key].(float64)
			if given != (want != nil) || given && int(n) != *want {
				t.Errorf("%s: %s is %v", l.File, key, got[key])
			}
		}
	}
	for line := range bytes.Lines(read(t, "../../sweep/engine/testdata/cases/labels.jsonl")) {
		var l struct {
			File    string
			Outcome *string
			AlsoOK  []string `json:"also_ok"`
		}
		decode(t, line, &l)
		args := []string{"explain", "log", filepath.Join("../../sweep/engine/testdata/cases", l.File), "--format", "json"}
		if l.File == "C16.log" {
			args = append(args, "--kernel-log", "../../sweep/engine/testdata/cases/C16.kernel.log")
		}
		code, out, stderr := runSweep(t, args...)
		var got struct {
			Outcome  *string
			Phase    string
			Notes    []string
			Facts    map[string]any
			Evidence *struct {
				File   string
				Line   int
				Offset *int
			}
		}
		decode(t, []byte(out), &got)
		if code != exitOK || stderr != "" || got.Phase == "" || got.Notes == nil || got.Facts == nil {
			t.Errorf("%s: exit code %d, %s, %s", l.File, code, out, stderr)
		}
		same := got.Outcome == nil && l.Outcome == nil || got.Outcome != nil && (l.Outcome != nil && *got.Outcome == *l.Outcome || slices.Contains(l.AlsoOK, *got.Outcome))
		if !same {
			t.Errorf("%s: %s", l.File, out)
		}
		if e := got.Evidence; e != nil && (e.File == "" || e.Line == 0 || e.Offset == nil) {
			t.Errorf("%s: evidence %+v", l.File, e)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %.300s", err, data)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
