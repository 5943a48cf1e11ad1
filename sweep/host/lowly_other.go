//go:build !linux

package host

// lowly does nothing here: launches run on Linux only.
func lowly() {}
