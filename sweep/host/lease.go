package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sweep/sweep"
)

// leaseFile says, in an agent's folder, until when the agent may work without hearing of its workstation.
const leaseFile = "lease.json"

// lease is the content of that file. An agent without one works as long as it takes.
type lease struct {
	Until time.Time `json:"until"` // by the host's clock
}

// writeLease renews an agent's lease. It is not synced: one that is lost ends earlier, which is safe.
func writeLease(dir string, d time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(lease{time.Now().Add(d)})
	if err != nil {
		return err
	}
	return sweep.WriteFile(filepath.Join(dir, leaseFile), append(data, '\n'), 0o600)
}

// ErrLeaseOver says that an agent stops because its workstation has not been heard of for too long.
var ErrLeaseOver = errors.New("the workstation has not been heard of for as long as its lease allows")

// leaseEvery is how often an agent looks at its lease, at most so long after its end it stops.
const leaseEvery = 2 * time.Second

// leaseGrace is for a clean stop after the end of a lease; then everything is killed.
const leaseGrace = 2 * time.Minute

// Leased returns a context that ends, with [ErrLeaseOver] as its cause, when the lease of the agent in dir is over,
// and a channel that is closed when everything has to be killed at once: with now, or when the clean stop takes too long.
func Leased(ctx context.Context, dir string, now <-chan struct{}) (leased context.Context, kill <-chan struct{}, stop func()) {
	leased, cancel := context.WithCancelCause(ctx)
	both := make(chan struct{})
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(leaseEvery)
		defer tick.Stop()
		var over time.Time
		for {
			select {
			case <-quit:
				return
			case <-now:
				close(both)
				return
			case <-tick.C:
			}
			until, ok, err := readLease(dir)
			switch {
			case err != nil || !ok || time.Now().Before(until):
			case over.IsZero():
				over = time.Now()
				cancel(fmt.Errorf("%w: it ended at %s", ErrLeaseOver, until.Format(time.DateTime)))
			case time.Since(over) > leaseGrace:
				close(both)
				return
			}
		}
	})
	return leased, both, func() {
		close(quit)
		wg.Wait()
		cancel(nil)
	}
}

// readLease reads the lease of an agent's folder. ok is false where there is none.
func readLease(dir string) (until time.Time, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, leaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, false, nil
	}
	var l lease
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	return l.Until, err == nil, err
}
