package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const ownerSchema = 1

// ErrDamaged is wrapped by the error of an owner file that cannot be understood: it proves nothing of any process.
var ErrDamaged = errors.New("it is damaged")

// ReadOwner reads an owner file.
func ReadOwner(path string) (Owner, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Owner{}, fmt.Errorf("read owner file: %w", err)
	}
	var o Owner
	if err := json.Unmarshal(b, &o); err != nil {
		return Owner{}, fmt.Errorf("read owner file %s: %w: %w", path, ErrDamaged, err)
	}
	return o, nil
}

// writeOwner replaces the owner file in one step: what stands under the name is whole, also after a
// power cut. With named set the name itself is on disk too when the call returns.
func writeOwner(path string, o Owner, named bool) error {
	if err := replaceOwner(path, o); err != nil {
		return fmt.Errorf("write owner file: %w", err)
	}
	if !named {
		return nil
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write owner file: %w", err)
	}
	return nil
}

func replaceOwner(path string, o Owner) error {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// syncDir waits until the names in a folder are on disk, where its file system can do that.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
