//go:build !linux

package sweep

import (
	"errors"
	"os"
)

// allocate is for Linux only: elsewhere a night keeps no reserve.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
