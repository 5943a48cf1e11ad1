//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// card makes the agent's machine one card whose memory in use is what the returned function last set.
func (n *night) card() (use func(mib int)) {
	n.t.Helper()
	dir := n.t.TempDir()
	answer, script := filepath.Join(dir, "answer"), filepath.Join(dir, "machine")
	use = func(mib int) {
		text := fmt.Sprintf("index, uuid, name, memory.total [MiB], memory.used [MiB]\n0, GPU-0, Card, 24000, %d\n", mib)
		if err := os.WriteFile(answer+".new", []byte(text), 0o600); err != nil {
			n.t.Error(err)
		}
		if err := os.Rename(answer+".new", answer); err != nil {
			n.t.Error(err)
		}
	}
	use(0)
	program := "#!/bin/sh\n[ \"$2\" = nvidia-smi ] && exec cat '" + answer + "'\necho 'MemTotal: 1000 kB'; echo 'MemAvailable: 900 kB'\n"
	if err := os.WriteFile(script, []byte(program), 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.opt.Supervisor = []string{n.opt.Self, "supervise"}
	n.opt.Self = script
	return use
}

// eventually waits until ok, and fails the test when that takes too long.
func (n *night) eventually(what string, ok func() bool) {
	n.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("it never came to this: %s", what)
		}
	}
}

// Memory that does not come back after a stop is waited for, and an order to stop at once ends that wait.
func TestStopAtOnceWhileMemoryIsAwaited(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	job := n.job("ready", "a@1")
	job.Simulate = "a card"
	use := n.card()
	n.engine = fakeEngine(func(sweep.ServerSpec) { use(9000) })
	now := make(chan struct{})
	n.opt.Now = now
	n.submit(job)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	n.eventually("the load is measured", func() bool {
		_, err := os.Stat(filepath.Join(n.opt.Out, job.Dir(1), job.Loads[0].Dir()))
		return err == nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for the memory: %v", err)
	case <-time.After(2 * time.Second):
	}
	began := time.Now()
	cancel()
	close(now)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	results := n.launches(job)
	if got, want := endings(results), "a@1=ok"; got != want {
		t.Errorf("endings %s, want %s", got, want)
	}
	if notes := strings.Join(results[0].Notes, "; "); strings.Contains(notes, "did not") {
		t.Errorf("notes %q", notes)
	}
}
