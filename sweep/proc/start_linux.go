package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sweep/failpoint"
)

// outputPipe is the size asked for the pipe between server and supervisor, in bytes: room for a
// server that logs while the disk is slow.
const outputPipe = 1 << 20

// start opens the log, starts the shim, writes the owner file and lets the shim become the server.
func (s *supervisor) start(argv []string) (_ *output, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of orphans: %w", err)
	}
	if s.self, err = Self(); err != nil {
		return nil, err
	}
	s.boot, s.mark = s.self.BootID, markVariable+"="+groupName(s.self)+"-"+s.self.BootID
	groups := newGrouper(s.self, s.spec.MemoryMax)
	if !s.spec.NoGroup {
		s.planned = groups.candidates()
		if err := writeOwner(s.spec.Owner, s.owner(nil), true); err != nil {
			return nil, err
		}
		groups.sweepGroups(s.boot)
	}
	log, err := os.OpenFile(s.spec.Log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	sh, err := startShim(argv, s.spec, s.mark)
	if err != nil {
		log.Close()
		return nil, err
	}
	failpoint.Hit("shim.forked")
	s.contain(groups, sh.pid)
	out := &output{pipe: sh.output, file: log, log: newCapLog(log, s.spec.LogHead, s.spec.LogTail)}
	out.done.Go(func() { out.copy(s.spec.Secrets) })
	if err := s.release(sh); err != nil {
		sh.abandon()
		_ = s.group.remove(removeLimit) // if it stays, a later supervisor sweeps it away
		_ = out.finish()
		return nil, err
	}
	_ = s.out.Encode(event{Started: &s.root, Supervisor: &s.self, Group: &s.group}) // a caller that is gone is seen by the end of stdin
	return out, nil
}

// oomScore is added to the kernel's reckoning of which process to end when memory runs out: rather the server than us.
const oomScore = "500"

// contain puts the shim, which is going to be the server, into the best control group that can be had. Without one the
// tree is held all the same: see [HeldSubreaper].
func (s *supervisor) contain(groups grouper, pid int) {
	_ = os.WriteFile(procPath(pid, "oom_score_adj"), []byte(oomScore), 0) // a wish
	s.planned = nil
	if s.spec.NoGroup {
		return
	}
	made := groups.build()
	failpoint.Hit("group.made")
	if len(made.folders()) > 0 && made.hold(pid) == nil {
		s.group = made
		failpoint.Hit("group.held")
		return
	}
	_ = made.remove(0) // nothing is in it
	if made, err := groups.scope(context.Background(), pid); err == nil {
		s.group = made
	}
}

// release writes the owner file and waits until the server's program runs.
func (s *supervisor) release(sh *shim) (err error) {
	defer sh.goAhead.Close()
	defer sh.status.Close()
	if s.root, err = Identify(sh.pid); err != nil {
		return err
	}
	failpoint.Hit("server.forked")
	if err := writeOwner(s.spec.Owner, s.owner([]Identity{s.root}), true); err != nil {
		return err
	}
	failpoint.Hit("server.owned")
	s.members = []Identity{s.root}
	if _, err := sh.goAhead.Write([]byte{1}); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	text, err := io.ReadAll(sh.status)
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	failpoint.Hit("server.execed")
	if len(text) > 0 {
		return fmt.Errorf("%w: %s", ErrCommand, strings.TrimPrefix(string(text), "exec: "))
	}
	return nil
}

// shim is the process that becomes the server.
type shim struct {
	pid     int
	output  *os.File // read end of its stdout and stderr
	goAhead *os.File // write end
	status  *os.File // read end
}

// abandon ends a shim that did not become a server.
func (sh *shim) abandon() {
	_ = unix.Kill(sh.pid, unix.SIGKILL) // our own child, not waited for yet: the pid is its own
	_, _ = unix.Wait4(sh.pid, nil, 0, nil)
}

func startShim(argv []string, spec Spec, mark string) (_ *shim, err error) {
	if len(argv) == 0 || len(spec.Argv) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrCommand)
	}
	var parent, child []*os.File
	defer func() {
		for _, f := range child {
			f.Close()
		}
		if err != nil {
			for _, f := range parent {
				f.Close()
			}
		}
	}()
	pipe := func(childReads bool) error {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if childReads {
			r, w = w, r
		}
		parent, child = append(parent, r), append(child, w)
		return nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	child = append(child, null)
	if err := errors.Join(pipe(false), pipe(true), pipe(false)); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if c, err := parent[0].SyscallConn(); err == nil { // Fd would make it block, and reads have deadlines
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, outputPipe) })
	}
	files := []uintptr{null.Fd(), child[1].Fd(), child[1].Fd(), child[2].Fd(), child[3].Fd()}
	pid, err := syscall.ForkExec(argv[0], slices.Concat(argv, []string{"--exec", "--"}, spec.Argv), &syscall.ProcAttr{
		Dir: spec.Dir, Env: append(slices.Clip(spec.Env), mark), Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		if spec.Dir != "" {
			if _, e := os.Stat(spec.Dir); e != nil {
				return nil, fmt.Errorf("%w: working directory: %w", ErrCommand, e)
			}
		}
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return &shim{pid: pid, output: parent[0], goAhead: parent[1], status: parent[2]}, nil
}
