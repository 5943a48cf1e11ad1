package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sweep/sweep"
)

// pipeConn is a host in this process: each command is served by a function.
type pipeConn struct {
	serve func(in io.Reader, out io.WriteCloser)
}

func (c *pipeConn) exec(context.Context, string) (*channel, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serve(inR, outW)
		outW.Close()
		inR.Close()
	}()
	return &channel{
		in: inW, out: outR, errOut: &tailBuffer{},
		wait:  func() (int, error) { <-done; return 0, nil },
		close: func() { inW.Close(); outR.Close() },
	}, nil
}

func (c *pipeConn) close() {}

// answers is a host that answers each request as its function says.
func answers(reply func(q request, send func([]byte)) (any, error)) func(io.Reader, io.WriteCloser) {
	return func(in io.Reader, out io.WriteCloser) {
		if _, err := io.WriteString(out, preamble); err != nil {
			return
		}
		w := &frameWriter{w: out}
		for {
			f, err := readFrame(in)
			if err != nil {
				return
			}
			if f.kind != frameRequest {
				continue
			}
			var q request
			if json.Unmarshal(f.payload, &q) != nil {
				return
			}
			var a answer
			v, err := any(helloReply{Time: time.Now().UnixNano()}), error(nil)
			if q.Op != "hello" {
				v, err = reply(q, func(data []byte) { _ = w.write(frame{f.id, frameData, data}) })
			}
			if err != nil {
				a.Error = err.Error()
			} else if a.Reply, err = json.Marshal(v); err != nil {
				return
			}
			if w.writeJSON(f.id, frameAnswer, a) != nil {
				return
			}
		}
	}
}

// inProcess is a night on a host in this process.
func inProcess(t *testing.T, serve func(io.Reader, io.WriteCloser)) *SSH {
	h := &SSH{ID: "gpu1", Night: t.TempDir(), Target: "gpu1", timing: timing{backoff: time.Millisecond, backoffMax: 5 * time.Millisecond, idle: 30 * time.Second, poll: 50 * time.Millisecond}}
	h.dial = func(context.Context) (conn, error) { return &pipeConn{serve}, nil }
	t.Cleanup(h.Close)
	return h
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

const attempt = "launches/a=1/repeat=1/attempt=1"

// outside lists what stands in a folder but for the host's own.
func outside(t *testing.T, h *SSH) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(h.Night, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, h.dir()) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestHostileLists(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0", 64)
	many := make([]fileInfo, maxFiles+1)
	for i := range many {
		many[i] = fileInfo{Path: fmt.Sprintf("f%d", i), SHA256: sum}
	}
	for name, files := range map[string][]fileInfo{
		"up":         {{Path: "../../../../x", Size: 1, SHA256: sum}},
		"absolute":   {{Path: "/etc/passwd", Size: 1, SHA256: sum}},
		"dot":        {{Path: "load=a/./x", Size: 1, SHA256: sum}},
		"backslash":  {{Path: `load=a\..\x`, Size: 1, SHA256: sum}},
		"drive":      {{Path: "C:x", Size: 1, SHA256: sum}},
		"escape":     {{Path: "a\x1b]52;c;aGk=\a", Size: 1, SHA256: sum}},
		"newline":    {{Path: "a\nb", Size: 1, SHA256: sum}},
		"nul":        {{Path: "a\x00b", Size: 1, SHA256: sum}},
		"empty":      {{Path: "", Size: 1, SHA256: sum}},
		"deep":       {{Path: "a/b/c/d/e", Size: 1, SHA256: sum}},
		"long":       {{Path: strings.Repeat("x", 300), Size: 1, SHA256: sum}},
		"twice":      {{Path: "x", SHA256: sum}, {Path: "x", SHA256: sum}},
		"negative":   {{Path: "x", Size: -1, SHA256: sum}},
		"huge":       {{Path: "x", Size: maxFile + 1, SHA256: sum}},
		"huge whole": {{Path: "a", Size: maxFile, SHA256: sum}, {Path: "b", Size: maxFile, SHA256: sum}, {Path: "c", Size: maxFile, SHA256: sum}, {Path: "d", Size: maxFile, SHA256: sum}, {Path: "e", Size: 1, SHA256: sum}},
		"no sum":     {{Path: "x", Size: 1}},
		"many":       many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := inProcess(t, answers(func(q request, _ func([]byte)) (any, error) {
				if q.Op == "list" {
					return listReply{Ended: true, Files: files}, nil
				}
				return nil, errors.New("nothing else was to be asked: " + q.Op)
			}))
			err := h.Fetch(t.Context(), attempt)
			if err == nil || !Final(err) || !strings.Contains(err.Error(), "no agent of ours makes") || sweep.Printable(err.Error()) != err.Error() {
				t.Errorf("fetch: %v", err)
			}
			if left := outside(t, h); len(left) > 0 {
				t.Errorf("it wrote %q", left)
			}
		})
	}
	h := inProcess(t, answers(func(q request, _ func([]byte)) (any, error) {
		return attemptsReply{Dirs: []string{"../../" + attempt}}, nil
	}))
	if err := h.CatchUp(t.Context()); err == nil || !Final(err) {
		t.Errorf("a folder outside: %v", err)
	}
}

func TestHostileStreams(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	good := listReply{Ended: true, Files: []fileInfo{{Path: "launch.json", Size: int64(len(content)), SHA256: sumOf(content)}}}
	t.Run("more than asked", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
			if q.Op == "read" {
				for range 100 {
					send(make([]byte, 64<<10))
				}
				return readReply{}, nil
			}
			return good, nil
		}))
		if err := h.Fetch(t.Context(), attempt); err == nil || !strings.Contains(err.Error(), "more of launch.json than was asked for") {
			t.Errorf("fetch: %v", err)
		}
	})
	t.Run("other bytes", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
			if q.Op == "read" {
				send([]byte("CONTENT"))
				return readReply{}, nil
			}
			return good, nil
		}))
		if err := h.Fetch(t.Context(), attempt); !errors.Is(err, errChanged) {
			t.Errorf("fetch: %v", err)
		}
		if left := outside(t, h); len(left) > 0 {
			t.Errorf("it kept %q", left)
		}
	})
	t.Run("events without end", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
			for range 100 {
				send(bytes.Repeat([]byte("x"), 64<<10))
			}
			return eventsReply{Size: 1 << 40, Alive: true}, nil
		}))
		err := h.Follow(t.Context(), 0, func(sweep.Event, int64) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "more events than were asked for") {
			t.Errorf("follow: %v", err)
		}
	})
	t.Run("a huge frame", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, func(in io.Reader, out io.WriteCloser) {
			_, _ = io.WriteString(out, preamble+"\xff\xff\xff\xff\x00\x00\x00\x01d")
			_, _ = io.Copy(io.Discard, in)
		})
		if err := h.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "announces a frame of 4294967295 bytes") {
			t.Errorf("open: %v", err)
		}
	})
	t.Run("noise without end", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, func(_ io.Reader, out io.WriteCloser) {
			for {
				if _, err := out.Write(bytes.Repeat([]byte("\x1b]0;owned\a"), 1000)); err != nil {
					return
				}
			}
		})
		if err := h.Open(t.Context()); err == nil || sweep.Printable(err.Error()) != err.Error() {
			t.Errorf("open: %v", err)
		}
	})
	t.Run("escapes in answers and events", func(t *testing.T) {
		t.Parallel()
		h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
			if q.Op == "events" {
				send([]byte(`{"kind":"phase","text":"\u001b]52;c;aGk=\u0007"}` + "\n"))
				return eventsReply{Size: 100}, nil
			}
			return nil, errors.New("\x1b[2J")
		}))
		seen := false
		stop := errors.New("stop")
		err := h.Follow(t.Context(), 0, func(e sweep.Event, _ int64) error {
			seen = true
			if sweep.Printable(e.Text) != e.Text {
				t.Errorf("text %q", e.Text)
			}
			return stop
		})
		if !errors.Is(err, stop) || !seen {
			t.Errorf("follow: %v", err)
		}
		if err := h.Submit(t.Context(), []sweep.Job{{ID: "a=1/repeat=1"}}); err == nil || sweep.Printable(err.Error()) != err.Error() {
			t.Errorf("submit: %v", err)
		}
	})
}

// TestSilence: a link over which nothing comes is given up, and what was asked is asked again over the next one.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in virtual time, no answer that comes is too late
		var asked atomic.Int32
		over := make(chan struct{})
		h := inProcess(t, answers(func(request, func([]byte)) (any, error) {
			if asked.Add(1) == 1 {
				<-over
			}
			return workingReply{}, nil
		}))
		began := time.Now()
		if jobs, err := h.Working(t.Context()); err != nil || len(jobs) > 0 || asked.Load() != 2 {
			t.Errorf("working: %v, %v; asked %d times", jobs, err, asked.Load())
		}
		if took := time.Since(began); took < h.timing.idle || took > h.timing.idle+time.Second {
			t.Errorf("it was given up after %v, want %v", took, h.timing.idle)
		}
		close(over)
	})
}

// TestLinkInTheWay: a link that is placed where a file belongs is not followed.
func TestLinkInTheWay(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
		switch q.Op {
		case "read":
			send(content)
			return readReply{}, nil
		case "list":
			return listReply{Files: []fileInfo{{Path: "job.json", Size: int64(len(content)), SHA256: sumOf(content)}}}, nil
		}
		return nil, nil
	}))
	victim := filepath.Join(t.TempDir(), "victim")
	target := filepath.Join(h.Night, filepath.FromSlash(attempt))
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(target, "job.json")); err != nil {
		t.Fatal(err)
	}
	if err := h.Fetch(t.Context(), attempt); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
		t.Errorf("the link's end holds %q, %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(target, "job.json")); err != nil || !bytes.Equal(data, content) {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// TestFetchGoesOn: bytes that a broken link had brought are not asked for again.
func TestFetchGoesOn(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	asked := []int64{}
	h := inProcess(t, nil)
	h.dial = func(context.Context) (conn, error) {
		return &pipeConn{func(in io.Reader, out io.WriteCloser) {
			answers(func(q request, send func([]byte)) (any, error) {
				switch q.Op {
				case "list":
					return listReply{Ended: true, Files: []fileInfo{{Path: "launch.json", Size: int64(len(content)), SHA256: sumOf(content)}}}, nil
				case "read":
					var a readArgs
					if err := json.Unmarshal(q.Args, &a); err != nil {
						return nil, err
					}
					asked = append(asked, a.From)
					for at := a.From; at < a.From+a.Max; at += 10_000 {
						if len(asked) == 1 && at >= 200_000 {
							out.Close()
							return nil, errors.New("cut")
						}
						send(content[at:min(at+10_000, a.From+a.Max)])
					}
				}
				return readReply{}, nil
			})(in, out)
		}}, nil
	}
	if err := h.Fetch(t.Context(), attempt); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(h.Night, filepath.FromSlash(attempt), "launch.json"))
	if err != nil || !bytes.Equal(data, content) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if len(asked) < 2 || !h.acked[attempt] {
		t.Errorf("asked from %v, acknowledged: %v", asked, h.acked)
	}
}
