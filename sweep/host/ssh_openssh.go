package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

// opensshConn runs the user's own ssh for each command: it knows Kerberos, hardware keys and ProxyCommands.
type opensshConn struct {
	program string
	args    []string
	asked   string
}

// dialOpenSSH prepares the user's own ssh. It never asks anybody: a night has nobody to ask.
func (s *SSH) dialOpenSSH() (*opensshConn, error) {
	program, err := exec.LookPath(s.program())
	if err != nil {
		return nil, &configError{"transport: openssh needs an ssh client on PATH"}
	}
	user, host, port := splitTarget(s.Target)
	if strings.HasPrefix(host, "-") || strings.HasPrefix(user, "-") {
		return nil, &configError{fmt.Sprintf("ssh %q is no host", s.Target)}
	}
	tm := s.timing.withDefaults()
	seconds := func(d time.Duration) string { return fmt.Sprint(max(1, int(d.Seconds()))) }
	args := []string{"-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + seconds(tm.dial), "-o", "ServerAliveInterval=" + seconds(tm.keepalive),
		"-o", "ServerAliveCountMax=3", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"}
	if s.AcceptNew {
		args = append(args, "-o", "StrictHostKeyChecking=accept-new")
	}
	if s.Config != "" {
		args = append(args, "-F", s.Config)
	}
	if user != "" {
		args = append(args, "-l", user)
	}
	if port != "" {
		args = append(args, "-p", port)
	}
	return &opensshConn{program: program, args: append(args, "--", host), asked: s.Target}, nil
}

// exec implements conn.
func (c *opensshConn) exec(ctx context.Context, command string) (*channel, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, c.program, append(c.args[:len(c.args):len(c.args)], command)...)
	cmd.WaitDelay = 2 * time.Second
	errOut := &tailBuffer{}
	cmd.Stderr = errOut
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	var wg sync.WaitGroup
	var code int
	var waitErr error
	wg.Go(func() {
		err := cmd.Wait()
		code, waitErr = c.ended(err, errOut.String())
		_ = writer.CloseWithError(io.EOF) // its only error is nil
	})
	ch := &channel{in: in, out: reader, errOut: errOut}
	ch.wait = func() (int, error) {
		wg.Wait()
		cancel()
		return code, waitErr
	}
	ch.close = func() {
		cancel()
		_ = reader.Close()
	}
	return ch, nil
}

// ended tells ssh's own failures, which all have exit code 255, from those of the command.
func (c *opensshConn) ended(err error, said string) (int, error) {
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, err
	case exit.ExitCode() != 255:
		return exit.ExitCode(), nil
	}
	text := "ssh " + c.asked + ": " + sweep.Printable(strings.TrimSpace(said))
	switch {
	case strings.Contains(said, "Permission denied"), strings.Contains(said, "Too many authentication failures"):
		return 0, &authError{text}
	case strings.Contains(said, "Host key verification failed"), strings.Contains(said, "IDENTIFICATION HAS CHANGED"):
		return 0, &hostKeyError{text}
	}
	return 0, errors.New(text)
}

func (c *opensshConn) close() {}
