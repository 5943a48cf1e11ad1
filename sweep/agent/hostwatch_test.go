package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sweep/sweep/gpu"
)

// Two pools of 8 GB and what the processes of two ranks hold themselves; under load 3 GiB more for a while.
func TestHostWatch(t *testing.T) {
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	w := &hostWatch{host: &gpu.HostReader{Meminfo: []string{"cat", meminfo}}, before: &gpu.Memory{Total: 252 * gib, Available: 245 * gib}}
	if v := w.peak(); len(v) != 0 {
		t.Errorf("%v before the first look", v)
	}
	for _, c := range []struct {
		available   int64 // GiB
		taken, peak float64
		known       bool // taken is
	}{{245, 0, 0, true}, {229, 16, 16, true}, {226, 19, 19, true}, {229, 16, 19, true}, {246, 0, 19, false}} {
		if err := os.WriteFile(meminfo, fmt.Appendf(nil, "MemTotal: %d kB\nMemAvailable: %d kB\n", 252<<20, c.available<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		got, known := w.taken(t.Context())["host_taken_gib"]
		if got != c.taken || known != c.known {
			t.Errorf("%d GiB can be had: took %v (known: %v), want %v", c.available, got, known, c.taken)
		}
		if most, known := w.peak()["host_ram_peak_gib"]; most != c.peak || !known {
			t.Errorf("%d GiB can be had: the most so far is %v (known: %v), want %v", c.available, most, known, c.peak)
		}
	}
	w.before = nil
	if v, most := w.taken(t.Context()), w.peak(); len(v)+len(most) != 0 {
		t.Errorf("%v and %v, and nothing is known of before", v, most)
	}
	if v, most := (*hostWatch)(nil).taken(t.Context()), (*hostWatch)(nil).peak(); len(v)+len(most) != 0 {
		t.Errorf("%v and %v of a host that is not ours", v, most)
	}
}

// More can be had than before: somebody gave memory back, and what the launch took is not known.
func TestHostWatchGivenBack(t *testing.T) {
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(meminfo, []byte("MemTotal: 1000 kB\nMemAvailable: 900 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &hostWatch{host: &gpu.HostReader{Meminfo: []string{"cat", meminfo}}, before: &gpu.Memory{Total: 1000 << 10, Available: 800 << 10}}
	if v, most := w.taken(t.Context()), w.peak(); len(v)+len(most) != 0 {
		t.Errorf("%v and %v", v, most)
	}
}

// The watch of a real host looks at once, so that a launch that dies within its first second has a number too.
func TestHostWatchRuns(t *testing.T) {
	reader := &gpu.HostReader{}
	now, err := reader.HostMemory(t.Context())
	if err != nil {
		t.Skipf("this machine does not tell its memory: %v", err)
	}
	now.Available = now.Total // before the launch nothing was in use
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w := &hostWatch{host: reader, before: &now}
	w.run(ctx)
	if most, known := w.peak()["host_ram_peak_gib"]; !known || most <= 0 {
		t.Errorf("%v (known: %v)", most, known)
	}
}
