package proc

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"
)

// OOMSource says where the kernel's OOM killer is seen at work. The zero value is this machine: the
// counters of the control groups that this process is in, and the kernel's log.
type OOMSource struct {
	Events []string // a command that prints what a control group's memory.events would hold
	Kernel []string // a command that prints what dmesg would

	root string // of the file system, for tests
}

// OOMWatch sees what the kernel's OOM killer has done since a moment.
type OOMWatch struct {
	source OOMSource
	kills  int  // at that moment
	known  bool // somebody counts
	lines  int  // of Kernel's output at that moment
	log    *kernelLog
}

// oomTimeout bounds one question.
const oomTimeout = 10 * time.Second

// WatchOOM begins to watch now. What cannot be read is left out: containers often hide the kernel's log,
// and older kernels count nothing. Close gives back what it holds.
func WatchOOM(ctx context.Context, source OOMSource) *OOMWatch {
	w := &OOMWatch{source: source}
	w.kills, w.known = source.count(ctx)
	if len(source.Kernel) > 0 {
		w.lines = bytes.Count(source.print(ctx, source.Kernel), []byte("\n"))
	} else if source.root == "" {
		w.log = openKernelLog()
	}
	return w
}

// Kills is how many processes of this process's control group, servers below it included, the kernel has
// killed since; ok is false where nothing counts that. It does not say whose processes they were.
func (w *OOMWatch) Kills(ctx context.Context) (kills int, ok bool) {
	now, known := w.source.count(ctx)
	if !known || !w.known || now < w.kills {
		return 0, false
	}
	return now - w.kills, true
}

// Lines is what the kernel has logged since, in the form of dmesg; empty where it may not be read.
func (w *OOMWatch) Lines(ctx context.Context) []byte {
	if len(w.source.Kernel) > 0 {
		rest := w.source.print(ctx, w.source.Kernel)
		for range w.lines {
			_, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				return nil
			}
			rest = after
		}
		return rest
	}
	return w.log.read()
}

// Close ends the watch.
func (w *OOMWatch) Close() { w.log.close() }

func (s OOMSource) print(ctx context.Context, command []string) []byte {
	ctx, cancel := context.WithTimeout(ctx, oomTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return out
}

// count reads the number of kills. A group's counter holds those of the groups below it as well.
func (s OOMSource) count(ctx context.Context) (int, bool) {
	if len(s.Events) > 0 {
		return oomKillField(s.print(ctx, s.Events))
	}
	groups, err := os.ReadFile(s.root + "/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(groups) { // "4:memory:/a/b" in version 1, "0::/a/b" in version 2
		f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(f) != 3 {
			continue
		}
		var names []string
		group := path.Clean("/" + f[2])
		switch f[1] {
		case "":
			for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				// Inside a container the group's own path may not be mounted while its root is.
				names = append(names, path.Join(mount, group, "memory.events"), path.Join(mount, "memory.events"))
			}
		case "memory":
			names = []string{path.Join("/sys/fs/cgroup/memory", group, "memory.oom_control"), "/sys/fs/cgroup/memory/memory.oom_control"}
		}
		for _, name := range names {
			if b, err := os.ReadFile(s.root + name); err == nil {
				if n, ok := oomKillField(b); ok {
					return n, true
				}
			}
		}
	}
	return 0, false
}

// oomKillField finds "oom_kill N".
func oomKillField(b []byte) (int, bool) {
	for line := range bytes.Lines(b) {
		if value, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}
