package proc

// temporary: signatures first, so that callers can be written
import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// Self is the identity of the calling process.
func Self() (Identity, error) { return Identity{}, errors.ErrUnsupported }

// Identify is the identity of a process that is there now.
func Identify(pid int) (Identity, error) { return Identity{}, errors.ErrUnsupported }

// Alive reports whether this very process runs; one that is dead but not waited for does not.
func (id Identity) Alive() bool { return false }

// Signal sends a signal to this very process, never to another that was given its pid since.
func (id Identity) Signal(sig syscall.Signal) error { return errors.ErrUnsupported }

// Descendants lists the living processes below a pid, without the pid itself.
func Descendants(pid int) ([]Process, error) { return nil, errors.ErrUnsupported }

// Server is a started server, seen from the process that started its supervisor.
type Server struct{}

// Start starts a supervisor, which starts the server; it returns when the server's program runs.
// ctx bounds the start only. supervisor is the argv of a command that calls [Supervise], and [Exec]
// when its first argument after that argv is "--exec".
func Start(ctx context.Context, supervisor []string, spec Spec) (*Server, error) {
	return nil, errors.ErrUnsupported
}

// PID of the launched process.
func (s *Server) PID() int { return 0 }

// Identity of the launched process.
func (s *Server) Identity() Identity { return Identity{} }

// Done is closed as soon as the launched process has ended; others of its tree may still live.
func (s *Server) Done() <-chan struct{} { return nil }

// Gone is closed when nothing of the tree lives (or what is stuck was given up) and the log is complete.
func (s *Server) Gone() <-chan struct{} { return nil }

// Exit is how the launched process ended; valid once Done is closed.
func (s *Server) Exit() Exit { return Exit{} }

// Stragglers are the processes that outlived the launched process and had to be killed; valid once Gone is closed.
func (s *Server) Stragglers() []Process { return nil }

// Signal sends a signal to the launched process alone.
func (s *Server) Signal(sig syscall.Signal) error { return errors.ErrUnsupported }

// Stop ends the server: SIGTERM to the launched process, up to grace for it to end, SIGKILL to the
// whole tree, and at most 30 s for that to work. When ctx ends the tree is killed at once. It may be
// called again, and after the server's end: it always returns with the tree gone or its stuck processes named.
func (s *Server) Stop(ctx context.Context, grace time.Duration) (StopReport, error) {
	return StopReport{}, errors.ErrUnsupported
}

// Tree lists the living processes of the server.
func (s *Server) Tree() ([]Process, error) { return nil, errors.ErrUnsupported }

// Progress samples the work done so far.
func (s *Server) Progress() (Sample, error) { return Sample{}, errors.ErrUnsupported }

// Since reports whether the tree did real work between an earlier sample and this one, and names the
// kind: "log", "reading", "memory", "compiling".
func (s Sample) Since(earlier Sample) (kind string, progressed bool) { return "", false }

// Listening reports whether the server's own tree listens on a TCP port of this machine; if somebody
// else does, holder says who, as "pid 812 (python3)". No listener: false, "".
func (s *Server) Listening(port int) (ours bool, holder string, err error) {
	return false, "", errors.ErrUnsupported
}

// Listening is [Server.Listening] for any set of processes.
func Listening(port int, pids []int) (ours bool, holder string, err error) {
	return false, "", errors.ErrUnsupported
}

// PortFree is nil when a server could listen on the port now, even one that does not set SO_REUSEADDR.
func PortFree(port int) error { return errors.ErrUnsupported }

// FreeBlock finds n free ports in a row below the range from which the kernel takes ports for
// outgoing connections. Another seed gives another place, at least 2,000 ports away where there is room.
func FreeBlock(n int, seed uint64) (port int, err error) { return 0, errors.ErrUnsupported }

// Tail follows a file that grows.
type Tail struct{}

// NewTail follows the file at path from offset; the file need not exist yet.
func NewTail(path string, offset int64) *Tail { return nil }

// Next waits for the next line. When done is closed and every byte is read it returns io.EOF, after
// a last line without an end.
func (t *Tail) Next(ctx context.Context, done <-chan struct{}) (Line, error) { return Line{}, io.EOF }

// Close closes the file.
func (t *Tail) Close() error { return nil }

// Supervise is the main of a supervisor; the result is its exit code.
func Supervise(ctx context.Context, stdin io.Reader, stdout io.Writer) int { return 1 }

// Exec is the main of `supervise --exec -- ARGV…`: it waits for the go-ahead of its supervisor and
// then becomes the server. It returns only when that failed; the result is an exit code.
func Exec(argv []string) int { return 1 }

// ReadOwner reads an owner file.
func ReadOwner(path string) (Owner, error) { return Owner{}, errors.ErrUnsupported }

// Reclaim ends the processes that an owner file proves to be ours and still alive: SIGTERM to the
// launched process, grace, SIGKILL to the rest. A missing owner file means that nothing was started.
func Reclaim(path string, grace time.Duration) (ReclaimReport, error) {
	return ReclaimReport{}, errors.ErrUnsupported
}

// MinSecret is the length in bytes from which a secret is looked for; shorter values would tear
// holes into every line.
const MinSecret = 6

// Redactor passes bytes on to a writer without the secrets in them.
type Redactor struct{}

// NewRedactor writes to w what is written to it, without the given values and without what looks
// like a credential. Close flushes what was held back; it does not close w.
func NewRedactor(w io.Writer, secrets []string) *Redactor { return nil }

// Write implements [io.Writer].
func (r *Redactor) Write(p []byte) (int, error) { return 0, nil }

// Close writes out what was held back.
func (r *Redactor) Close() error { return nil }

// Redact is a whole text without its secrets.
func Redact(text string, secrets []string) string { return "" }
