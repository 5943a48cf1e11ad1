package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ballastFile takes up room in a night's folder that is given back when the disk is full: what then has to be written
// for the night to be closed well, its last records and the reason, fits.
const ballastFile = "ballast"

// Room that is kept, in bytes: at most so much, and at most this part of what is free.
const (
	ballastMost  = 64 << 20
	ballastShare = 16
	ballastLeast = 4 << 10
)

// ballast is that file; nil holds nothing.
type ballast struct{ path string }

// loadBallast makes the file anew. Where no room can be reserved there is none, which is no reason to stop.
func loadBallast(dir string) *ballast {
	b := &ballast{path: filepath.Join(dir, ballastFile)}
	free, err := freeBytes(dir)
	size := min(ballastMost, free/ballastShare)
	if err == nil && size >= ballastLeast {
		err = reserve(b.path, size)
	}
	if err != nil || size < ballastLeast {
		_ = os.Remove(b.path)
		return nil
	}
	return b
}

// reserve makes a file that takes up so many bytes on the disk.
func reserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, size), f.Close())
}

// drop gives the room back, and reports whether there was any.
func (b *ballast) drop() bool {
	return b != nil && os.Remove(b.path) == nil
}

// diskFull reports errors of a disk without room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// errBallast says that the reserve of the night has been used up.
var errBallast = errors.New("the disk is full; the room that the night kept for its end is in use now")

// withBallast calls write again once when the disk was full and room could be made. The night is then to end: its last
// words fit, new measurements do not, so that the error is given to whoever would go on.
func (n *Night) withBallast(write func() error) error {
	err := write()
	if err == nil || !diskFull(err) || !n.ballast.drop() {
		return err
	}
	if again := write(); again != nil {
		return again
	}
	n.full = fmt.Errorf("%w: %w", errBallast, err)
	return nil
}
