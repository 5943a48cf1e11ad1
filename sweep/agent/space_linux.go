package agent

import "golang.org/x/sys/unix"

// space is how many bytes can still be written below a folder, and how many it can hold in all.
func space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// writable is nil when files can be made in a folder.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
