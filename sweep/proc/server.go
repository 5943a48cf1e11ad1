package proc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startLimit = 30 * time.Second // for a supervisor whose start was called off to end
	killLimit  = 30 * time.Second // for SIGKILL to work
	answer     = 5 * time.Second  // for a supervisor to report, beyond that
)

// Server is a started server, seen from the process that started its supervisor. It is safe for use
// by several goroutines.
type Server struct {
	spec       Spec
	supervisor Identity
	root       Identity
	group      Group
	container  atomic.Pointer[Container] // once it runs
	stderr     *tailBuffer

	mu     sync.Mutex // orders are lines
	orders *json.Encoder
	stdin  io.Closer

	started chan error
	done    chan struct{}
	gone    chan struct{}
	exit    Exit // valid once done is closed
	end     gone // valid once gone is closed

	progress meter
}

// Start starts a supervisor, which starts the server; it returns when the server's program runs.
// ctx bounds the start only. supervisor is the argv of a command that calls [Supervise], and [Exec]
// with the arguments after "--exec", "--" when these follow. A command that cannot be executed gives an error that
// wraps [ErrCommand].
func Start(ctx context.Context, supervisor []string, spec Spec) (*Server, error) {
	if len(supervisor) == 0 {
		return nil, errors.New("start a server: no supervisor")
	}
	s := &Server{spec: spec, stderr: &tailBuffer{}, started: make(chan error, 1), done: make(chan struct{}), gone: make(chan struct{})}
	cmd := exec.Command(supervisor[0], supervisor[1:]...)
	self, err := filepath.Abs(cmd.Path) // the supervisor starts it again, from the server's directory
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	cmd.Stderr = s.stderr
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = ownSession() // a ^C at the terminal is for the caller
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	s.stdin, s.orders = stdin, json.NewEncoder(stdin)
	go s.listen(cmd, stdout) // ends with the supervisor; gone says so
	err = s.order(order{Start: &spec, Supervisor: slices.Concat([]string{self}, supervisor[1:])})
	if err == nil {
		select {
		case err = <-s.started:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		_ = stdin.Close() // the supervisor ends what it started
		select {
		case <-s.gone:
		case <-time.After(startLimit):
			_ = cmd.Process.Kill()
			<-s.gone
		}
		return nil, fmt.Errorf("start a server: %w", err)
	}
	return s, nil
}

// exit reads the exit code by which a container's client tells that a signal ended the server: 128 and its number.
func (s Spec) exit(e Exit) Exit {
	if s.Container == nil || e.Code <= 128 || e.Code > 128+64 {
		return e
	}
	e.Code, e.Signal = -1, e.Code-128
	if e.By == "server" && e.Signal == int(syscall.SIGKILL) {
		e.By = ""
	}
	return e
}

// killLimit is the time for SIGKILL to work.
func (s Spec) killLimit() time.Duration {
	if s.KillLimit > 0 {
		return s.KillLimit
	}
	return killLimit
}

// listen reads the supervisor's events until it ends.
func (s *Server) listen(cmd *exec.Cmd, stdout io.Reader) {
	defer close(s.gone)
	d := json.NewDecoder(stdout)
	started, exited, ended := false, false, false
	for {
		var e event
		if d.Decode(&e) != nil {
			break
		}
		switch {
		case e.Started != nil && e.Supervisor != nil:
			s.root, s.supervisor = *e.Started, *e.Supervisor
			if e.Group != nil {
				s.group = *e.Group
			}
			started = true
			s.started <- nil
		case e.Container != nil:
			s.container.Store(e.Container)
		case e.Failed != "" && e.Command:
			s.started <- failure{e.Failed}
		case e.Failed != "":
			s.started <- errors.New(e.Failed)
		case e.Exit != nil && !exited:
			s.exit, exited = s.spec.exit(*e.Exit), true
			close(s.done)
		case e.Gone != nil:
			s.end, ended = *e.Gone, true
		}
	}
	err := cmd.Wait()
	select { // nobody was told, if the supervisor said nothing
	case s.started <- s.unsaid(cmd, err):
	default:
	}
	switch {
	case started && !ended:
		s.lost(exited)
	case !exited: // it is stuck, or it never ran
		s.exit = Exit{Code: -1, Lost: true}
		close(s.done)
	}
}

// unsaid is the error of a supervisor that ended before it had said anything.
func (s *Server) unsaid(cmd *exec.Cmd, err error) error {
	err = fmt.Errorf("the supervisor failed: %w: %s", cmp.Or(err, errors.New("no answer")), bytes.TrimSpace(s.stderr.b))
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() < 0 {
		return fmt.Errorf("%w: %w", ErrKilled, err)
	}
	return err
}

// lost is called when the supervisor was killed. The kernel then kills the launched process; what
// else the owner file proves to be ours is ended here.
func (s *Server) lost(exited bool) {
	report, err := Reclaim(s.spec.Owner, 0)
	s.end = gone{Killed: report.Killed, Stuck: report.Stuck, LogError: "the supervisor was killed, the log may lack its end"}
	if err != nil {
		s.end.LogError += ": " + err.Error()
	}
	if !exited {
		s.exit = Exit{Code: -1, Signal: int(syscall.SIGKILL), By: "outside", Lost: true}
		close(s.done)
	}
}

// failure is the text of a start that failed on the command, as the supervisor worded it.
type failure struct{ text string }

func (f failure) Error() string { return f.text }

func (f failure) Is(target error) bool { return target == ErrCommand }

func (s *Server) order(o order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders.Encode(o)
}

// PID of the launched process.
func (s *Server) PID() int { return s.root.PID }

// Identity of the launched process.
func (s *Server) Identity() Identity { return s.root }

// Done is closed as soon as the launched process has ended; others of its tree may still live. It is
// closed too when the process was given up as stuck.
func (s *Server) Done() <-chan struct{} { return s.done }

// Gone is closed when nothing of the tree lives (or what is stuck was given up) and the log is complete.
func (s *Server) Gone() <-chan struct{} { return s.gone }

// Exit is how the launched process ended; valid once Done is closed.
func (s *Server) Exit() Exit {
	if !closed(s.done) {
		return Exit{}
	}
	return s.exit
}

// Killed are the processes that were alive when the tree was killed: after a server that ended by
// itself, those that outlived it by more than 2 s. Valid once Gone is closed.
func (s *Server) Killed() []Process {
	if !closed(s.gone) {
		return nil
	}
	return s.end.Killed
}

// LogError is why the log is not complete, such as a full disk; valid once Gone is closed.
func (s *Server) LogError() error {
	if !closed(s.gone) || s.end.LogError == "" {
		return nil
	}
	return errors.New(s.end.LogError)
}

// Signal sends a signal to the launched process alone.
func (s *Server) Signal(sig syscall.Signal) error {
	if closed(s.done) {
		return fmt.Errorf("signal the server: %w", ErrGone)
	}
	if err := s.order(order{Signal: int(sig)}); err != nil {
		return fmt.Errorf("signal the server: %w", errors.Join(ErrGone, err))
	}
	return nil
}

// Stop ends the server: SIGTERM to the launched process, up to grace for it to end, SIGKILL to the
// whole tree, and at most 30 s for that to work. With a grace of 0 there is no SIGTERM, and when ctx
// ends the tree is killed at once. It may be called again, and after the server's end: it always
// returns with the tree gone or its stuck processes named. The error says that the supervisor itself failed.
func (s *Server) Stop(ctx context.Context, grace time.Duration) (StopReport, error) {
	began := time.Now()
	r := StopReport{How: HowKill}
	switch {
	case closed(s.done):
		r.How = HowAlready
	case grace > 0:
		_ = s.Signal(syscall.SIGTERM) // an error means that it has just ended
		if await(ctx, s.done, grace) {
			r.How = HowTerm
		}
	}
	if r.How != HowKill { // the supervisor gives the rest of the tree a moment, then kills it
		await(ctx, s.gone, stragglerLimit)
	}
	if !closed(s.gone) {
		_ = s.order(order{Kill: true})
	}
	var err error
	if !await(context.WithoutCancel(ctx), s.gone, s.spec.killLimit()+answer) {
		err = errors.New("stop the server: the supervisor does not answer")
		if left, e := s.Tree(); e == nil {
			r.Stuck = left
		}
		_ = s.supervisor.Signal(syscall.SIGKILL)
	} else {
		r.Killed, r.Stuck = s.end.Killed, s.end.Stuck
	}
	r.Seconds = time.Since(began).Seconds()
	return r, err
}

// stragglerLimit is a little more than the time that a supervisor gives to what outlives the launched process.
const stragglerLimit = 3 * time.Second

// await waits for c, but not longer than limit or ctx.
func await(ctx context.Context, c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return closed(c)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct{ b []byte }

// Write implements [io.Writer].
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - 4096; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}
