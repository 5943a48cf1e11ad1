package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"sweep/failpoint"
)

// WriteFile makes the file at path hold data, whole or not at all: both are on disk, the bytes and the
// name, when it returns. The new bytes stand in PATH.part meanwhile, so one process at a time may write a file.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	failpoint.At("file.part", path)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	failpoint.At("file.renamed", path)
	return SyncDir(filepath.Dir(path))
}

// SyncDir waits until the names in a folder are on disk, where the system can do that.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission) {
		err = nil // some file systems and Windows cannot sync a folder
	}
	return errors.Join(err, f.Close())
}
