package gpu

import (
	"context"
	"fmt"
	"time"
)

// What counts as back at the baseline.
const (
	leastTolerance = 256 * mib              // bytes
	tolerancePart  = 100                    // 1/100 of a device's memory
	cleanPolls     = 3                      // in a row
	pollEvery      = 500 * time.Millisecond // between them
)

// Baseline is the memory in use on each device, in bytes by UUID, while nothing of ours runs.
// Devices that do not say are not in it.
type Baseline map[string]int64

// Used is the memory in use on these devices now.
func Used(devices []Device) Baseline {
	b := Baseline{}
	for _, d := range devices {
		if d.MemoryUsed != nil {
			b[d.UUID] = *d.MemoryUsed
		}
	}
	return b
}

// Over is how far each device is above the baseline and its tolerance of max(256 MiB, 1 % of its
// memory), in bytes above the baseline by UUID. A device that does not say is not in it; one of the
// baseline that is not listed is there with -1: it fell off the bus.
func (b Baseline) Over(devices []Device) map[string]int64 {
	over := map[string]int64{}
	for uuid := range b {
		over[uuid] = -1
	}
	for _, d := range devices {
		base, ok := b[d.UUID]
		if !ok {
			continue
		}
		delete(over, d.UUID)
		tolerance := int64(leastTolerance)
		if d.MemoryTotal != nil {
			tolerance = max(tolerance, *d.MemoryTotal/tolerancePart)
		}
		if d.MemoryUsed != nil && *d.MemoryUsed > base+tolerance {
			over[d.UUID] = *d.MemoryUsed - base
		}
	}
	return over
}

// Lister is the part of a [Reader] that [WaitBaseline] needs.
type Lister interface {
	Devices(ctx context.Context) ([]Device, error)
}

// BaselineReport is what a wait for the baseline saw.
type BaselineReport struct {
	Seconds float64          `json:"seconds"`        // until the first of the clean polls, or until it was given up
	Polls   int              `json:"polls"`          //
	Over    map[string]int64 `json:"over,omitempty"` // see [Baseline.Over], at the last poll
}

// WaitBaseline waits until each device of the baseline is back at it, at three polls in a row, half a second apart.
// An empty baseline (a machine without devices) is clean at once. ctx bounds the wait; when it ends
// the error wraps [ErrDirty] and the report says which devices are how far off, or, if no poll
// succeeded, it wraps the poll's error.
func WaitBaseline(ctx context.Context, devices Lister, baseline Baseline) (BaselineReport, error) {
	var r BaselineReport
	if len(baseline) == 0 {
		return r, nil
	}
	began := time.Now()
	clean, since := 0, began
	var failed error
	for {
		now := time.Now()
		list, err := devices.Devices(ctx)
		if ctx.Err() == nil || err == nil {
			r.Polls++
			failed = err
		}
		switch {
		case err != nil:
			clean = 0
		default:
			r.Over = baseline.Over(list)
			if len(r.Over) > 0 {
				clean = 0
				break
			}
			if clean++; clean == 1 {
				since = now
			}
			if clean == cleanPolls {
				r.Seconds, r.Over = since.Sub(began).Seconds(), nil
				return r, nil
			}
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			r.Seconds = time.Since(began).Seconds()
			if failed != nil {
				return r, fmt.Errorf("wait for the GPUs' memory: %w", failed)
			}
			return r, fmt.Errorf("wait for the GPUs' memory: %w after %.0f s", ErrDirty, r.Seconds)
		}
	}
}
