package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// onTerminal starts sweep as the leader of a terminal's session. Whoever closes the terminal has it hang up.
func (b *bed) onTerminal(args ...string) (*exec.Cmd, *os.File) {
	b.t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = terminal.Close() }) // by then it is, unless the test failed
	raw, err := terminal.SyscallConn()
	if err != nil {
		b.t.Fatal(err)
	}
	var number int
	var numberErr error
	if err := raw.Control(func(fd uintptr) {
		if numberErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); numberErr == nil {
			number, numberErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || numberErr != nil {
		b.t.Fatal(err, numberErr)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	defer screen.Close()
	cmd, _ := b.sweep(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { // a screen that nobody reads from would be full some time
		buf := make([]byte, 4096)
		for {
			if _, err := terminal.Read(buf); err != nil {
				return
			}
		}
	}()
	return cmd, terminal
}

// heardWriter keeps what is written, and says when the first of it came.
type heardWriter struct {
	first chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  bytes.Buffer
}

// Write implements io.Writer.
func (w *heardWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.first) })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String is all that was written so far.
func (w *heardWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestTerminalCloses: a night goes on when its terminal is closed, whether it was detached or not; attach watches it, says
// how to come back, and a closed terminal is no matter for that either.
func TestTerminalCloses(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nights")
	}
	t.Parallel()
	for _, args := range [][]string{{"run", "grid.yaml"}, {"run", "grid.yaml", "--detach"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			cmd, terminal := b.onTerminal(args...)
			b.await("agents/local/events.jsonl", `"kind":"load"`)
			if len(args) > 2 {
				if code := exitCode(cmd); code != exitOK {
					t.Errorf("it was not detached: exit code %d", code)
				}
			}
			watch, _ := b.sweep("attach", "results")
			said := &heardWriter{first: make(chan struct{})}
			watch.Stderr = said
			if err := watch.Start(); err != nil {
				t.Fatal(err)
			}
			owner, err := sweep.NightOwner(b.night())
			if err != nil || owner == nil {
				t.Fatalf("nobody has the night: %v", err)
			}
			controller, err := proc.Identify(owner.PID)
			if err != nil {
				t.Fatal(err)
			}
			if err := terminal.Close(); err != nil { // which sends SIGHUP, and ends every write
				t.Fatal(err)
			}
			select {
			case <-said.first: // it watches, and signals are heard
			case <-time.After(time.Minute):
				t.Fatal("attach says nothing")
			}
			if err := watch.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			back := "come back: sweep attach results/tiny-"
			if code := exitCode(watch); code != exitOK || !strings.Contains(said.String(), back) || !strings.Contains(said.String(), "stop it: sweep cancel results/tiny-") {
				t.Errorf("exit code %d: %s", code, said)
			}
			if !controller.Alive() {
				t.Error("the night's process ended with its terminal")
			}
			if code, said := b.run("attach", "results"); code != exitOK || !strings.Contains(said, "report: results/tiny-") {
				t.Errorf("exit code %d: %s", code, said)
			}
			if len(args) == 2 {
				_ = cmd.Wait() // its last words went nowhere
			}
			for end := time.Now().Add(time.Minute); controller.Alive() && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond) // it writes its report, and is nobody's child here
			}
			if cells := b.cells(); len(cells) != 6 {
				t.Errorf("cells %q", cells)
			}
			if _, err := os.Stat(filepath.Join(b.night(), "report", "index.html")); err != nil {
				t.Error(err)
			}
			b.nothingLeft()
		})
	}
}
