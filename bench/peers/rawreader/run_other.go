//go:build !linux

package rawreader

import "errors"

// Run needs epoll.
func Run(Options) (Result, error) { return Result{}, errors.New("rawreader: needs Linux (epoll)") }
