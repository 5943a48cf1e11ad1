//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

// driver is a machine with one card on which processes compute.
type driver struct{ answer string }

func newDriver(t *testing.T) (*driver, *machine) {
	t.Helper()
	dir := t.TempDir()
	d := &driver{filepath.Join(dir, "apps")}
	script := filepath.Join(dir, "nvidia-smi")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec cat '"+d.answer+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.set(t)
	return d, &machine{gpus: &gpu.Reader{Command: []string{script}}, host: &gpu.HostReader{}, simulated: true}
}

// set lists processes, each "UUID, PID, MIB, NAME".
func (d *driver) set(t *testing.T, rows ...string) {
	t.Helper()
	text := "gpu_uuid, pid, used_gpu_memory [MiB], process_name\n" + strings.Join(rows, "\n") + "\n"
	if err := os.WriteFile(d.answer, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	d, m := newDriver(t)
	s := newStrangers(m, []gpu.Device{{Index: 3, UUID: "GPU-a"}})
	parent := os.Getppid()
	row := func(pid, mib int) string { return fmt.Sprintf("GPU-a, %d, %d, python3, train.py", pid, mib) }
	look := func() []stranger {
		s.look(t.Context())
		return s.since(time.Time{})
	}
	d.set(t, row(os.Getpid(), 4000), "GPU-b, 1, 9000, on another card", row(parent, 100))
	if got := look(); len(got) > 0 {
		t.Fatalf("ourselves, another card and a little memory are strangers: %+v", got)
	}
	d.set(t, row(parent, 30000))
	got := look()
	if len(got) != 1 || got[0].PID != parent || got[0].MiB != 30000 || got[0].Device != 3 || got[0].User == "" {
		t.Fatalf("have %+v, want process %d", got, parent)
	}
	if text := strangersText(got); !strings.Contains(text, fmt.Sprintf("process %d (user %s, python3, train.py) holds 30000 MiB on GPU 3", parent, got[0].User)) {
		t.Errorf("text %q", text)
	}
	d.set(t)
	later := time.Now()
	if got := look(); len(got) != 1 || len(s.since(later)) != 0 {
		t.Errorf("gone, and have %+v, %+v since then", got, s.since(later))
	}

	const nobody = 1 << 22 // above the kernel's highest number
	d.set(t, row(nobody, 5000))
	if got := look(); len(got) != 1 {
		t.Errorf("one that ends at once is a stranger: %+v", got)
	}
	if got := look(); len(got) != 2 {
		t.Errorf("one that stays though it is hidden is none: %+v", got)
	}
}

// Of two ranks the second ran out of memory that somebody else had taken, and the first waited for it for ever: the server
// hangs, and what its log says is no result of the config.
func TestStrangerBehindAHang(t *testing.T) {
	t.Parallel()
	eng, _ := engine.Lookup("sglang")
	for _, taken := range []bool{false, true} {
		d, m := newDriver(t)
		l := &launch{engine: eng, machine: m, ready: true, rel: "launches/a", others: newStrangers(m, []gpu.Device{{Index: 1, UUID: "GPU-a"}}), book: newLogbook(eng.NewLog(), nil, func(sweep.Phase, string) {})}
		gone := make(chan struct{})
		close(gone)
		if err := l.book.follow("../engine/testdata/sglang/tp2_one_rank_oom.log", gone); err != nil {
			t.Fatal(err)
		}
		want, who := sweep.OOMPrefill, "on GPU 1"
		if taken {
			d.set(t, fmt.Sprintf("GPU-a, %d, 27270, python3, train.py", os.Getppid()))
			want, who = sweep.BusyGPU, fmt.Sprintf("process %d", os.Getppid())
		}
		e := l.examine(sweep.Autopsy{Loading: true, Hang: true})
		if e.Outcome != want || !strings.Contains(e.Detail, who) || e.Evidence == nil || e.Evidence.Line != 158 {
			t.Errorf("somebody else: %v: %+v, want %s with %q", taken, e, want, who)
		}
	}
}

// A launch's own processes are no strangers, the dead among them included.
func TestOwnProcesses(t *testing.T) {
	t.Parallel()
	d, m := newDriver(t)
	s := newStrangers(m, []gpu.Device{{UUID: "GPU-a"}})
	const dead = 1<<22 + 1
	child := proc.Process{Identity: proc.Identity{PID: dead, StartTicks: 7}, Comm: "sglang::schedul"}
	s.mine(proc.Identity{PID: os.Getppid(), StartTicks: startOf(t, os.Getppid())}, func() ([]proc.Process, error) { return []proc.Process{child}, nil })
	s.meet()
	s.tree = func() ([]proc.Process, error) { return nil, nil }
	d.set(t, fmt.Sprintf("GPU-a, %d, 9000, sglang", dead), fmt.Sprintf("GPU-a, %d, 300, sweep", os.Getppid()))
	for range 2 {
		s.look(t.Context())
	}
	if got := s.since(time.Time{}); len(got) > 0 {
		t.Errorf("own processes are strangers: %+v", got)
	}
	if !s.ours(sweep.OOMKill{PID: dead}) || s.ours(sweep.OOMKill{PID: 4711, Name: "postgres"}) {
		t.Error("whose process the kernel killed is not known")
	}
}

func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	id, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id.StartTicks
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	device := func(used int64) []gpu.Device {
		return []gpu.Device{{Index: 2, UUID: "GPU-a", MemoryUsed: new(used << 20), MemoryTotal: new(int64(80 << 30))}}
	}
	listed := []gpu.Process{{UUID: "GPU-a", Memory: new(int64(8 << 30))}, {UUID: "GPU-a"}}
	if text := unseen(device(10<<10), listed); text != "" {
		t.Errorf("a display is a stranger: %s", text)
	}
	if text := unseen(device(20<<10), listed); !strings.Contains(text, "12288 MiB of GPU 2") {
		t.Errorf("text %q", text)
	}
	if text := unseen([]gpu.Device{{UUID: "GPU-a"}}, nil); text != "" {
		t.Errorf("a device that says nothing: %s", text)
	}
}
