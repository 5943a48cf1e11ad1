package sweep

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate takes up room for a file without writing it.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }

// freeBytes is what can still be written below a folder.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return int64(s.Bavail) * s.Bsize, err
}
