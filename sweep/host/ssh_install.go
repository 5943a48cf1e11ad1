package host

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

// Binary is this program for hosts' systems, all of them Linux.
type Binary struct {
	Sums map[string]string                                          // SHA-256 in hex, by Go's name of the processor: "amd64"
	Open func(arch string) (r io.ReadCloser, size int64, err error) // its bytes
}

// trapError is a host on which sweep cannot work as it is. It is final; its text is one sentence that says what to do.
type trapError struct{ text string }

func (e *trapError) Error() string { return e.text }

func trap(format string, args ...any) error { return &trapError{fmt.Sprintf(format, args...)} }

// machines are uname's words for the processors that we know.
var machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

// Folders are where this program and the nights are on a host over SSH; dir is what its grid says, or empty.
func Folders(dir string) (bin, root string) {
	if dir == "" {
		return "~/.cache/sweep/bin", "~/.sweep"
	}
	return dir + "/bin", dir + "/nights"
}

// folders are those of [Folders] as a shell on the host takes them in double quotes. Dir was checked to hold nothing that
// a shell would change.
func (s *SSH) folders() (bin, root string) {
	home := func(path string) string {
		if rest, ok := strings.CutPrefix(path, "~"); ok {
			return "$HOME" + rest
		}
		return path
	}
	bin, root = Folders(s.Dir)
	return home(bin), home(root)
}

// shell is a command that does not depend on the login shell, which may be any: one word in single quotes, in which no
// shell changes anything, without a line break or an exclamation mark.
func shell(script string) string { return "sh -c '" + script + "'" }

// relayCommand starts our program on the host, by the sum of its processor's.
func (s *SSH) relayCommand() string {
	bin, root := s.folders()
	var cases strings.Builder
	for _, machine := range slices.Sorted(maps.Keys(machines)) {
		if sum := s.Binary.Sums[machines[machine]]; sum != "" {
			fmt.Fprintf(&cases, "%s) h=%s;; ", machine, sum)
		}
	}
	return shell(fmt.Sprintf(`h=none; case $(uname -m) in %sesac; exec "%s/sweep-$h" relay --root "%s"`, cases.String(), bin, root))
}

// startRelay starts our program on the host. When it is not there yet, or does not run, the host is looked at, and the
// program is copied.
func (s *SSH) startRelay(ctx context.Context) (*link, error) {
	l, code, err := s.tryRelay(ctx)
	if err == nil {
		return l, nil
	}
	const cannotRun, notFound = 126, 127
	if code != notFound && code != cannotRun && !errors.Is(err, errNoPreamble) {
		return nil, err
	}
	if errors.Is(err, errNoPreamble) && code > 0 && code != notFound && code != cannotRun {
		return nil, fmt.Errorf("sweep's own program on %s ended at once: %w", s.Target, err)
	}
	p, err := s.probe(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.upload(ctx, p); err != nil {
		return nil, err
	}
	l, _, err = s.tryRelay(ctx)
	if err != nil {
		err = fmt.Errorf("sweep was copied to %s and does not start there: %w", s.Target, err)
	}
	return l, err
}

// tryRelay starts the relay once. code is its exit code when it ended, else -1.
func (s *SSH) tryRelay(ctx context.Context) (*link, int, error) {
	ch, err := s.exec(ctx, s.relayCommand())
	if err != nil {
		return nil, -1, err
	}
	t := s.timing.withDefaults()
	stop := context.AfterFunc(ctx, ch.close)
	defer stop()
	l, err := newLink(ch, t.preamble, t.idle)
	if err == nil {
		return l, 0, nil
	}
	if ctx.Err() != nil {
		return nil, -1, ctx.Err()
	}
	code, waitErr := waitChannel(ch)
	if waitErr != nil {
		if Final(waitErr) {
			return nil, -1, waitErr
		}
		code = -1
	}
	if said := strings.TrimSpace(ch.errOut.String()); said != "" {
		err = fmt.Errorf("%w%s", err, quoteEnd([]byte(said)))
	}
	return nil, code, err
}

// exec starts a command on the host. A session that was closed a moment ago may still count on a host that allows one.
func (s *SSH) exec(ctx context.Context, command string) (*channel, error) {
	const tries = 10
	for try := 1; ; try++ {
		ch, err := s.conn.exec(ctx, command)
		if err == nil || try == tries || !strings.Contains(err.Error(), "open failed") && !strings.Contains(err.Error(), "rejected") {
			return ch, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// endTime is for a command whose output has ended to end itself.
const endTime = 5 * time.Second

// waitChannel waits for a command's exit code, and closes the channel when it does not come.
func waitChannel(ch *channel) (code int, err error) {
	timer := time.AfterFunc(endTime, ch.close)
	defer timer.Stop()
	defer ch.close()
	return ch.wait()
}

// probed is what a host says of itself.
type probed struct {
	arch  string
	gzip  bool
	bytes int64 // free
}

// probeMark comes before what the probe says: noise of a login is before it.
const probeMark = "sweep-probe-1"

// probeScript is read by sh from its input, so that no login shell sees it.
func (s *SSH) probeScript() string {
	bin, root := s.folders()
	return fmt.Sprintf(`echo; echo %s
echo "system=$(uname -s)"
echo "machine=$(uname -m)"
[ -t 0 ] && echo terminal=yes
for d in "%s" "%s"; do
  why=$( (umask 077; mkdir -p "$d" && : > "$d/.probe.$$") 2>&1) || echo "write=$d: $why"
  rm -f "$d/.probe.$$" 2>/dev/null
done
d="%s"
echo "bin=$d"
if (umask 077; printf '#!/bin/sh\necho runs\n' > "$d/.probe.$$" && chmod 700 "$d/.probe.$$") 2>/dev/null; then
  why=$("$d/.probe.$$" 2>&1); [ "$why" = runs ] || echo "exec=$why"
fi
rm -f "$d/.probe.$$" 2>/dev/null
command -v gzip >/dev/null 2>&1 && echo gzip=yes
command -v sha256sum >/dev/null 2>&1 && echo sum=yes
echo "free=$(df -Pk "$d" 2>/dev/null | tail -n 1)"
echo end=yes
`, probeMark, bin, root, bin)
}

// probe looks at a host that does not run our program, and says in one sentence why it cannot, if so.
func (s *SSH) probe(ctx context.Context) (probed, error) {
	ch, err := s.exec(ctx, "sh")
	if err != nil {
		return probed{}, err
	}
	stop := context.AfterFunc(ctx, ch.close)
	defer stop()
	timer := time.AfterFunc(s.timing.withDefaults().preamble, ch.close)
	defer timer.Stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.WriteString(ch.in, s.probeScript()) // a host that reads nothing says nothing either
		_ = ch.in.Close()
	})
	out, readErr := io.ReadAll(io.LimitReader(bufio.NewReader(ch.out), maxNoise))
	_, err = waitChannel(ch)
	wg.Wait()
	_, said, found := bytes.Cut(out, []byte("\n"+probeMark+"\n"))
	values := map[string]string{}
	for line := range strings.Lines(string(said)) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok && values[key] == "" {
			values[key] = sweep.Printable(value)
		}
	}
	if values["end"] == "" {
		quiet := len(out) == 0 && ch.errOut.String() == ""
		switch {
		case Final(err):
			return probed{}, err
		case found || quiet || s.opened: // it ran commands before: now the link is bad
			return probed{}, fmt.Errorf("%s did not answer a command: %w", s.Target, cmp.Or(err, readErr, io.ErrUnexpectedEOF))
		}
		return probed{}, trap("%s lets you in but runs no commands, as a proxy for terminals only or a forced command does%s; sweep needs a login that runs commands",
			s.Target, quoteEnd(append(out, ch.errOut.String()...)))
	}
	return s.judgeProbe(values)
}

// judgeProbe names what is in the way.
func (s *SSH) judgeProbe(values map[string]string) (probed, error) {
	p := probed{arch: machines[values["machine"]], gzip: values["gzip"] == "yes"}
	const elsewhere = `; name a folder that does with dir: in the grid`
	switch {
	case values["terminal"] == "yes":
		return p, trap("%s gives every command a terminal, which changes the bytes that go through it; sweep needs a login without one", s.Target)
	case values["system"] != "Linux":
		return p, trap("%s runs %s: launches run on Linux only", s.Target, values["system"])
	case p.arch == "" || s.Binary.Sums[p.arch] == "":
		have := strings.Join(slices.Sorted(maps.Keys(s.Binary.Sums)), ", ")
		return p, trap("%s is a Linux on %s, and this build of sweep holds a program for %s only: a release build holds amd64 and arm64", s.Target, values["machine"], cmp.Or(have, "no Linux"))
	case values["write"] != "":
		return p, trap("%s does not let you write into %s%s", s.Target, values["write"], elsewhere)
	case values["exec"] != "":
		return p, trap("%s runs no programs from %s (%s), as a file system mounted noexec does not%s", s.Target, values["bin"], values["exec"], elsewhere)
	case values["sum"] == "":
		return p, trap("%s has no sha256sum, with which the copy of sweep is checked: install coreutils there", s.Target)
	}
	if fields := strings.Fields(values["free"]); len(fields) >= 4 {
		if kib, err := strconv.ParseInt(fields[3], 10, 64); err == nil {
			p.bytes = kib << 10
		}
	}
	return p, nil
}

// The upload's own exit codes.
const (
	uploadWrite = 91 // the bytes cannot be written
	uploadSum   = 92 // what arrived is not what was sent
)

// upload copies the program: into a hidden file, checked, and then by one rename to the name that says what it is.
func (s *SSH) upload(ctx context.Context, p probed) error {
	program, size, err := s.Binary.Open(p.arch)
	if err != nil {
		return err
	}
	defer program.Close()
	bin, _ := s.folders()
	if p.bytes > 0 && p.bytes < size+size/4 {
		return trap("%s has %d MiB free in %s, and the copy of sweep takes %d MiB: make room, or name another folder with dir: in the grid", s.Target, p.bytes>>20, bin, size>>20)
	}
	s.say("copying sweep to the host, once (%d MiB)", size>>20)
	unpack := "cat"
	if p.gzip {
		unpack = "gzip -dc"
	}
	sum := s.Binary.Sums[p.arch]
	ch, err := s.exec(ctx, shell(fmt.Sprintf(`umask 077; d="%s"; t="$d/.sweep-%s.$$"; trap "rm -f \"$t\"" EXIT; %s > "$t" || exit %d; `+
		`test "$(sha256sum < "$t" | cut -c 1-64)" = %s || exit %d; chmod 700 "$t"; sync "$t" 2>/dev/null; mv "$t" "$d/sweep-%s" || exit %d`,
		bin, sum[:12], unpack, uploadWrite, sum, uploadSum, sum, uploadWrite)))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, ch.close)
	defer stop()
	sendErr := s.send(ch, program, p.gzip)
	code, err := waitChannel(ch)
	switch said := strings.TrimSpace(ch.errOut.String()); {
	case ctx.Err() != nil:
		return ctx.Err()
	case code == uploadWrite:
		return trap("%s cannot keep the copy of sweep in %s%s", s.Target, bin, quoteEnd([]byte(said)))
	case code == uploadSum:
		return fmt.Errorf("the copy of sweep arrived damaged on %s", s.Target)
	case err != nil || sendErr != nil:
		return fmt.Errorf("the link broke while sweep was copied to %s: %w", s.Target, errors.Join(err, sendErr))
	case code != 0:
		return trap("%s could not take the copy of sweep (exit code %d)%s", s.Target, code, quoteEnd([]byte(said)))
	}
	return nil
}

// send writes the program to a command, and gives up when nothing goes through for too long.
func (s *SSH) send(ch *channel, program io.Reader, compress bool) error {
	idle := s.timing.withDefaults().idle
	watchdog := time.AfterFunc(idle, ch.close)
	defer watchdog.Stop()
	var w io.Writer = writerFunc(func(p []byte) (int, error) {
		n, err := ch.in.Write(p)
		watchdog.Reset(idle)
		return n, err
	})
	finish := func() error { return nil }
	if compress {
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		w, finish = z, z.Close
	}
	_, err := io.CopyBuffer(w, struct{ io.Reader }{program}, make([]byte, 64<<10))
	return errors.Join(err, finish(), ch.in.Close())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
