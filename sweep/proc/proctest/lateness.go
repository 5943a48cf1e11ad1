package proctest

import (
	"sync"
	"time"
)

// Lateness measures by how much this machine keeps a process waiting that is due to run. On a busy one everything is late by
// that much, whatever the code under test does: a limit in seconds holds with it added.
type Lateness struct {
	quit chan struct{}
	wg   sync.WaitGroup
	sum  time.Duration
}

// A nap of the measurement, and what of its lateness is usual.
const (
	nap   = 10 * time.Millisecond
	usual = 5 * time.Millisecond
)

// Measure begins to measure.
func Measure() *Lateness {
	l := &Lateness{quit: make(chan struct{})}
	l.wg.Go(func() {
		for {
			began := time.Now()
			select {
			case <-l.quit:
				return
			case <-time.After(nap):
			}
			if late := time.Since(began) - nap; late > usual {
				l.sum += late
			}
		}
	})
	return l
}

// Stop ends the measurement and gives the sum.
func (l *Lateness) Stop() time.Duration {
	close(l.quit)
	l.wg.Wait()
	return l.sum
}
