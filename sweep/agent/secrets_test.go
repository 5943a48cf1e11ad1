//go:build linux

package agent

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep/sweep"
)

// What a server says over HTTP of its secrets reaches no file and no log, although no supervisor stands between.
func TestSecretsOfAnswers(t *testing.T) {
	t.Parallel()
	const secret = "do-not-tell-anybody"
	n := newNight(t)
	var log bytes.Buffer
	n.opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n.opt.Environ = append(os.Environ(), "SECRET_OF_TEST="+secret)
	job := n.job("leaks", "a@2")
	job.Env = sweep.Params{{Name: "TOKEN", Value: "${env:SECRET_OF_TEST}"}}
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := endings(n.launches(job)), "a@2=load.failed… | a@2=load.failed"; got != want {
		t.Fatalf("endings %s, want %s", got, want)
	}
	texts := map[string]string{"the log": log.String()}
	err := filepath.WalkDir(n.opt.Out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for where, text := range texts {
		for _, needle := range []string{secret, "abcdef0123456789"} {
			if i := strings.Index(text, needle); i >= 0 {
				t.Errorf("%s: %s", where, text[max(0, i-60):min(len(text), i+40)])
			}
		}
		told += strings.Count(text, "key [redacted] is wrong")
	}
	if told < 4 { // requests.jsonl, run.json, launch.json, events.jsonl
		t.Errorf("the server's words are in %d places", told)
	}
}

func TestCleanHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &launch{env: environment{Secrets: []string{"secret-value"}}}
	log := slog.New(cleanHandler{slog.NewTextHandler(&out, nil), l.clean}).With("who", "secret-value")
	log.Warn("it is secret-value", "err", os.ErrNotExist, "path", "/x/secret-value", "n", 7)
	if text := out.String(); strings.Contains(text, "secret-value") || !strings.Contains(text, "n=7") || !strings.Contains(text, "file does not exist") {
		t.Errorf("%s", text)
	}
}
