package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of shared memory only what is new, ours and nobody's goes.
func TestRemoveShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	since := time.Now()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"psm_before", "sgl_shm_mm_7_0", "nccl-open", "sem.mp-mapped", "psm_anothers", "dataset.bin"} {
		if err := os.WriteFile(path(name), make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", path("psm_link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("psm_folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	stay := []string{"psm_before", "nccl-open", "sem.mp-mapped", "psm_link", "psm_folder", "dataset.bin"}
	if os.Getuid() == 0 {
		if err := os.Chown(path("psm_anothers"), 65534, -1); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, "psm_anothers")
	}
	open, err := os.Open(path("nccl-open"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	f, err := os.Open(path("sem.mp-mapped"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	removed, err := removeShared(dir, []string{"psm_before"}, since)
	if err != nil {
		t.Fatal(err)
	}
	left := sharedIn(dir)
	slices.Sort(stay)
	if !slices.Equal(left, stay) {
		t.Errorf("left %v, want %v; removed %v", left, stay, removed)
	}
	if later, err := removeShared(dir, nil, time.Now().Add(time.Hour)); err != nil || len(later) > 0 {
		t.Errorf("what is older than the launch goes: %v, %v", later, err)
	}
}
