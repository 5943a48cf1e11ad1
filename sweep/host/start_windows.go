package host

import (
	"errors"
	"os"
)

func startDetached(_, _ []string, _, _ *os.File) (int, error) {
	return 0, errors.New("launches run on Linux only; on Windows sweep plans, validates and reports")
}

func (l *Local) reap() (ended bool, how string) { return false, "" }

func (l *Local) kill() {}

func tryLock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
