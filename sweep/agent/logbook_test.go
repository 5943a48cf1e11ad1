//go:build linux

package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// Lines that our own questions cause are no sign of the server's work, or a hung start would never be one.
func TestOwnProbesAreNoProgress(t *testing.T) {
	b := newLogbook(&fakeLog{}, []string{"/health", "/v1/models", ""}, func(sweep.Phase, string) {})
	work := func(text string) bool {
		_, before := b.state()
		b.feed([]byte(text))
		_, after := b.state()
		return after > before
	}
	for text, want := range map[string]bool{
		"INFO: 127.0.0.1:1 - \"GET /health HTTP/1.1\" 503\n": false,
		"request: GET /v1/models 127.0.0.1 200\n":            false,
		"\n \r\n":                        false,
		"Loading shards: 3%\r":           true,
		"[TP0] Load weight begin.\n":     true,
		"INFO: GET /health_other but so": true, // unfinished; no more is known of it
	} {
		if got := work(text); got != want {
			t.Errorf("%q counts as work: %v, want %v", text, got, want)
		}
	}
}

func TestLogbookFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	var told []string
	b := newLogbook(&fakeLog{}, nil, func(p sweep.Phase, text string) { told = append(told, string(p)) })
	gone, read := make(chan struct{}), make(chan error, 1)
	go func() { read <- b.follow(path, gone) }()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const text = "one\nphase weights\nprogress 1\nphase weights\nphase kv\nsign oom.kv no room\nlast line, without an end"
	for i := range len(text) {
		if _, err := f.WriteString(text[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	close(gone)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	a := b.autopsy()
	if a.Phase != sweep.PhaseKV || len(a.Signs) != 1 || a.Signs[0].Line != 6 || len(told) != 3 {
		t.Errorf("autopsy %+v, told %v", a, told)
	}
	if a.Last == nil || a.Last.Line != 7 || a.Last.Text != "last line, without an end" || text[a.Last.Offset:] != a.Last.Text {
		t.Errorf("last line %+v", a.Last)
	}
}

// The client's silence is that of the window alone, whatever came before.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := loadgen.Counters{Since: time.Now()}
		s := newSampler(nil, &c, nil, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.run(ctx); close(ended) }()
		byteNow := func() { c.LastByte.Store(int64(max(1, time.Since(c.Since)))) }
		byteNow()
		time.Sleep(30 * time.Second)
		s.window(true)
		time.Sleep(4 * time.Second)
		byteNow()
		time.Sleep(7 * time.Second)
		byteNow()
		s.window(false)
		time.Sleep(20 * time.Second)
		cancel()
		<-ended
		if got := s.signals()["client_max_silence_s"]; got < 6.85 || got > 7 {
			t.Errorf("longest silence %v s, want 7 to the watch's 0.1", got)
		}
	})
}
