//go:build !linux

package agent

import "errors"

// space is how many bytes can still be written below a folder, and how many it can hold in all.
func space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

// writable is nil when files can be made in a folder.
func writable(string) error { return nil }
