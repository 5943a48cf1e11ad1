//go:build linux

package agent

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// TestServerThatCountsNonsense: a server that prints NaN and infinities is measured like any other; what is
// no number is absent.
func TestServerThatCountsNonsense(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	count := n.engine.Sample
	n.engine.Sample = func(ctx context.Context, get sweep.Getter) (sweep.Values, error) {
		v, err := count(ctx, get)
		if v != nil {
			v[sweep.SignalTokenUsage], v[sweep.SignalQueued], v[sweep.SignalRetractions] = math.NaN(), math.Inf(1), math.Inf(-1)
		}
		return v, err
	}
	job := n.job("ready", "w@1")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := endings(n.launches(job)), job.Loads[0].Cell+"=ok"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	var r sweep.LoadResult
	if err := readJSON(n.opt.Out+"/"+job.Dir(1)+"/"+job.Loads[0].Dir()+"/run.json", &r); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Values["running"]; !ok {
		t.Error("what the server counts well is lost as well")
	}
	for _, name := range []string{"token_usage", "queued", "retractions"} {
		if v, ok := r.Values[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// TestNeverProvedSaysWhy: a server that is never proved ready ends with what was missing for the proof.
func TestNeverProvedSaysWhy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, how string
		bend      func(*sweep.Engine)
		want      string
	}{
		{"silent", "hangs", nil, "when last asked, it does not listen on its port "},
		{"unhealthy", "ready", func(e *sweep.Engine) { e.Health = "/no-such" }, "when last asked, GET /no-such answered 404"},
		{"no list", "ready", func(e *sweep.Engine) { e.Models = "/no-such" }, "when last asked, GET /no-such did not answer with a list of models"},
		{"mute", "ready", func(e *sweep.Engine) { e.Generate = "/no-such" }, "when last asked, a generation by POST /no-such failed: http_404: "},
		{"wordless", "ready", func(e *sweep.Engine) {
			e.Vocabulary = func(context.Context, sweep.Getter, string) ([]int, error) {
				return nil, errors.New("no tokenizer \x1b[1m")
			}
		}, `when last asked, its vocabulary cannot be read: no tokenizer \x1b[1m`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			if tt.bend != nil {
				tt.bend(n.engine)
			}
			job := n.job(tt.how, "w@1")
			job.Limits.Stall = 3 * time.Second // its server has to come up within it
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := n.launches(job)[0]
			if r.Outcome != sweep.HangStart || !strings.Contains(r.Detail, tt.want) {
				t.Errorf("%s: %s\nwant %q", r.Outcome, r.Detail, tt.want)
			}
		})
	}
}

// TestShutButAlive: a server that lives on but answers nobody is not said to stall.
func TestShutButAlive(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.DyingTime = 1500 * time.Millisecond
	job := n.job("shuts", "w@1")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := n.launches(job)[0].Loads[0]
	if l.Outcome != sweep.HangLoad || !strings.Contains(l.Detail, "requests failed; the first: ") ||
		!strings.HasSuffix(l.Detail, "; its process lives, but for 1.5s it did not answer GET /health") {
		t.Errorf("%s: %s", l.Outcome, l.Detail)
	}
}

// TestDamagedMemory: what an agent remembers between nights, and what an attempt left, may be damaged; it goes on.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "null", "[1]", "{\x00", `{"a":"b"}`} {
		n := newNight(t)
		job := n.job("dies", "w@1")
		n.submit(job)
		left := filepath.Join(n.opt.Out, job.Dir(1))
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{filepath.Join(n.opt.Dir, "warmed.json"), filepath.Join(left, "owner.json"), filepath.Join(left, sweep.ReadyFile)} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.run(t.Context()); err != nil {
			t.Errorf("%q: %v", content, err)
		}
		if got, want := endings(n.launches(job)), "w@1=… | w@1=oom.graph"; got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
		if w, err := readWarmed(filepath.Join(n.opt.Dir, "warmed.json")); err != nil || w.add("key") != nil || !w.has("key") {
			t.Errorf("%q: it remembers nothing, %v", content, err)
		}
		if err := os.Remove(filepath.Join(left, "owner.json")); err != nil { // the check at the end reads all of them
			t.Error(err)
		}
	}
}

// TestSupervisorIsKilled: a server that ends because its supervisor was killed has not crashed; another attempt
// is made.
func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "w@1", "w@2")
	job.Loads[0].Measure.WindowMin, job.Loads[0].Measure.WindowMax = time.Second, 3*time.Second
	n.submit(job)
	ended := make(chan error, 1)
	go func() { ended <- n.run(t.Context()) }()
	underWay := filepath.Join(n.opt.Out, job.Dir(1), job.Loads[0].Dir()+partSuffix)
	for _, err := os.Stat(underWay); err != nil; _, err = os.Stat(underWay) {
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	owner, err := proc.ReadOwner(filepath.Join(n.opt.Out, job.Dir(1), "owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Supervisor.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results), "w@1=infra.lost… w@2=… | w@1=ok w@2=ok"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if r := results[0]; !strings.HasPrefix(r.Detail, "the supervisor, ") || r.Phase != sweep.PhaseLoad || r.Exit == nil {
		t.Errorf("%+v", r.Ending)
	}
}

// TestCommandThatIsNoProgram: the kernel's word for it is no help.
func TestCommandThatIsNoProgram(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "w@1")
	job.Command = []string{filepath.Join(n.opt.Out, "server")}
	if err := os.WriteFile(job.Command[0], []byte("echo no first line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.submit(job)
	err := n.run(t.Context())
	if _, ok := errors.AsType[*EnvironmentError](err); !ok || !strings.Contains(err.Error(), "server is no program of this machine, and as a script it lacks a first line such as #!/bin/sh") {
		t.Errorf("error %v", err)
	}
}
