//go:build !linux

package selftest

import (
	"fmt"
	"runtime"
)

func processCPU() int64 { return 0 }

func machine() string {
	return fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}
