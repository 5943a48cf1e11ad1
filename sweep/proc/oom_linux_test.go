package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// Counters of both versions of control groups, of a group's own path or of the root that a container sees.
func TestOOMWatchCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ cgroup, file, before, after string }{
		"version 2":            {"0::/user.slice/job\n", "/sys/fs/cgroup/user.slice/job/memory.events", "low 0\noom 3\noom_kill 3\noom_group_kill 0\n", "oom 5\noom_kill 5\n"},
		"version 2, container": {"0::/../job\n", "/sys/fs/cgroup/memory.events", "oom_kill 0\n", "oom_kill 2\n"},
		"version 1":            {"9:name=systemd:/\n4:memory:/a/b\n0::/\n", "/sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill 9\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write := func(path, text string) {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("/proc/self/cgroup", c.cgroup)
			write(c.file, c.before)
			w := WatchOOM(t.Context(), OOMSource{root: root})
			defer w.Close()
			if n, ok := w.Kills(t.Context()); n != 0 || !ok {
				t.Errorf("at first: %d %v", n, ok)
			}
			write(c.file, c.after)
			if n, ok := w.Kills(t.Context()); n != 2 || !ok {
				t.Errorf("later: %d %v, want 2", n, ok)
			}
		})
	}
}

func TestOOMWatchOfNothing(t *testing.T) {
	t.Parallel()
	w := WatchOOM(t.Context(), OOMSource{root: t.TempDir()})
	defer w.Close()
	if n, ok := w.Kills(t.Context()); n != 0 || ok {
		t.Errorf("%d %v where nobody counts", n, ok)
	}
	if lines := w.Lines(t.Context()); len(lines) > 0 {
		t.Errorf("lines %q", lines)
	}
}

// What commands print counts from the moment of the watch on.
func TestOOMWatchOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events, kernel := filepath.Join(dir, "events"), filepath.Join(dir, "kernel")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(events, "oom_kill 1\n")
	write(kernel, "[1.0] old\n")
	w := WatchOOM(t.Context(), OOMSource{Events: []string{"cat", events}, Kernel: []string{"cat", kernel}})
	defer w.Close()
	write(events, "oom_kill 2\n")
	write(kernel, "[1.0] old\n[2.0] new\n")
	if n, ok := w.Kills(t.Context()); n != 1 || !ok {
		t.Errorf("%d %v, want 1", n, ok)
	}
	if lines := string(w.Lines(t.Context())); lines != "[2.0] new\n" {
		t.Errorf("lines %q", lines)
	}
}

func TestKernelLine(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]string{
		"6,1234,90123456,-;Out of memory: Killed process 5 (x)\n SUBSYSTEM=a\n": "[   90.123456] Out of memory: Killed process 5 (x)\n",
		"no record":     "",
		"6,1,x,-;words": "",
	} {
		if got, _ := kernelLine(record); got != want {
			t.Errorf("%q: %q, want %q", record, got, want)
		}
	}
}
