//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"
)

// look is what a process sees of itself at one moment.
type look struct {
	Seconds     float64 `json:"t_s"` // since it began to look
	HeapBytes   uint64  `json:"heap_bytes"`
	Goroutines  int     `json:"goroutines"`
	Descriptors int     `json:"descriptors"`
}

// watch writes a look into a file every two seconds until stop is called.
func watch(path string) (stop func() error) {
	f, err := os.Create(path)
	if err != nil {
		return func() error { return err }
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	began := time.Now()
	wg.Go(func() {
		t := time.NewTicker(2 * time.Second)
		defer t.Stop()
		out := json.NewEncoder(f)
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				if failed = out.Encode(lookNow(began)); failed != nil {
					return
				}
			}
		}
	})
	return func() error {
		close(quit)
		wg.Wait()
		return errors.Join(failed, f.Close())
	}
}

func lookNow(began time.Time) look {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, _ := os.ReadDir("/proc/self/fd")
	return look{Seconds: time.Since(began).Seconds(), HeapBytes: m.HeapAlloc, Goroutines: runtime.NumGoroutine(), Descriptors: len(fds)}
}
