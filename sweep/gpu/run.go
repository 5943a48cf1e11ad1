package gpu

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// runner runs one command at a time, and gives up on one that hangs: it kills it and does not wait,
// because a process that sleeps in a driver does not die. Until it does, no other is started.
type runner struct {
	once sync.Once
	turn chan struct{} // holds a token while a command runs
}

// maxOutput is far more than a machine full of devices prints, in bytes.
const maxOutput = 4 << 20

// result is what a command printed, stdout before stderr.
type result struct {
	text string
	err  error
}

// output runs argv and gives what it printed, also with an error.
func (r *runner) output(ctx context.Context, limit time.Duration, argv []string) (string, error) {
	r.once.Do(func() { r.turn = make(chan struct{}, 1) })
	turn := r.turn
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-timer.C:
		return "", fmt.Errorf("%w: an earlier call has not ended yet", ErrHung)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		<-turn
		return "", err
	}
	done := make(chan result, 1)
	go func() { // outlives this call when the command hangs, by design
		err := cmd.Wait()
		<-turn
		done <- result{stdout.String() + stderr.String(), err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		return "", context.Cause(ctx)
	case <-timer.C:
		_ = cmd.Process.Kill()
		return "", fmt.Errorf("%w: no answer in %v", ErrHung, limit)
	}
}

// limited keeps the first bytes written to it.
type limited struct{ bytes.Buffer }

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, maxOutput-l.Len()))])
	return len(p), nil
}
