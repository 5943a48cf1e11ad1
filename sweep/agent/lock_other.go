//go:build !unix

package agent

import "os"

const noFollow = 0

// tryClaim does nothing: agents run on Linux.
func tryClaim(*os.File) (bool, error) { return true, nil }

// lock only makes the file: agents run on Linux.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fullDisk(err)
	}
	return func() { f.Close() }, nil
}
