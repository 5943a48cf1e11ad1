package main

import (
	"os"
	"os/signal"
	"sync"
)

// onSignals calls fn for each signal of these kinds, one at a time, with how many came before it. stop
// gives the signals back and waits for fn.
func onSignals(fn func(n int, sig os.Signal), kinds ...os.Signal) (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, kinds...)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case sig := <-signals:
				fn(n, sig)
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(quit)
		wg.Wait()
	}
}
