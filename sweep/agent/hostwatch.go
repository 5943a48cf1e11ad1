package agent

import (
	"context"
	"sync"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
)

// hostWatch keeps how far the host's memory that can be had fell during a launch: MemAvailable, or what the limit of a control group
// leaves where that is less. A control group's own peak would not do: it counts the page cache, which a model's weights fill once
// they are read, and which the kernel gives away first. Without a reading before the launch it knows nothing.
type hostWatch struct {
	host   *gpu.HostReader
	before *gpu.Memory

	mu    sync.Mutex
	least int64 // that could be had, in bytes
	seen  bool
}

// look reads the memory now.
func (w *hostWatch) look(ctx context.Context) (gpu.Memory, error) {
	now, err := w.host.HostMemory(ctx)
	if err != nil {
		return now, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.seen || now.Available < w.least {
		w.least, w.seen = now.Available, true
	}
	return now, nil
}

// run reads each second until ctx ends; what cannot be read is left out.
func (w *hostWatch) run(ctx context.Context) {
	every(ctx, time.Second, func() { _, _ = w.look(ctx) })
}

// taken is how much less of the host's memory can be had now than before the launch, in GiB: what its processes and
// the pools of all ranks take. It is absent when more can be had, as then somebody else gave some back.
func (w *hostWatch) taken(ctx context.Context) sweep.Values {
	if w == nil || w.before == nil {
		return nil
	}
	now, err := w.look(ctx)
	if err != nil || now.Available > w.before.Available {
		return nil
	}
	return sweep.Values{"host_taken_gib": float64(w.before.Available-now.Available) / gib}
}

// peak is the most that was taken so far, in GiB; absent as for taken.
func (w *hostWatch) peak() sweep.Values {
	if w == nil || w.before == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.seen || w.least > w.before.Available {
		return nil
	}
	return sweep.Values{"host_ram_peak_gib": float64(w.before.Available-w.least) / gib}
}
