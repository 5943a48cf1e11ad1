package proc

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const ownerSchema = 1

// containment is how a tree is held together: orphans fall to the supervisor, which kills and waits
// until it has no child.
const containment = "subreaper"

// ReadOwner reads an owner file.
func ReadOwner(path string) (Owner, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Owner{}, fmt.Errorf("read owner file: %w", err)
	}
	var o Owner
	if err := json.Unmarshal(b, &o); err != nil {
		return Owner{}, fmt.Errorf("read owner file %s: %w", path, err)
	}
	return o, nil
}

// writeOwner replaces the owner file in one step. With durable set it is on disk, name included,
// when the call returns.
func writeOwner(path string, o Owner, durable bool) (err error) {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return fmt.Errorf("write owner file: %w", err)
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write owner file: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err == nil && durable {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write owner file: %w", err)
	}
	return nil
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
