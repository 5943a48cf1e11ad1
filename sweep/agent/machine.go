package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

const gib = 1 << 30

// machine is what a launch sees of its host: devices and memory, real or simulated.
type machine struct {
	gpus      *gpu.Reader
	host      *gpu.HostReader
	kernel    proc.OOMSource
	simulated bool
}

func newMachine(self, profile string) *machine {
	if profile == "" {
		return &machine{gpus: &gpu.Reader{}, host: &gpu.HostReader{}}
	}
	return &machine{
		gpus: &gpu.Reader{Command: []string{self, "simulate", "nvidia-smi", "--profile", profile}},
		host: &gpu.HostReader{Meminfo: []string{self, "simulate", "meminfo", "--profile", profile}},
		kernel: proc.OOMSource{
			Events: []string{self, "simulate", "memory-events", "--profile", profile},
			Kernel: []string{self, "simulate", "kernel-log", "--profile", profile},
		},
		simulated: true,
	}
}

// view is a machine at one moment.
type view struct {
	At      time.Time
	Memory  *gpu.Memory  // nil: not known
	Devices []gpu.Device // those of the launch
	Parts   []gpu.Device // of those of them that are split (MIG)
	Notes   []string     // what could not be read
	hung    bool         // the driver did not answer
}

// look reads the machine once. What cannot be read is left out, with a note.
func (m *machine) look(ctx context.Context, wanted []string) (view, error) {
	v := view{At: time.Now()}
	var wg sync.WaitGroup
	var memory gpu.Memory
	var memoryErr error
	wg.Go(func() { memory, memoryErr = m.host.HostMemory(ctx) })
	all, err := m.gpus.Devices(ctx)
	wg.Wait()
	if memoryErr == nil {
		v.Memory = &memory
	} else if !errors.Is(memoryErr, errors.ErrUnsupported) {
		v.Notes = append(v.Notes, "host memory not known: "+memoryErr.Error())
	}
	v.hung = errors.Is(err, gpu.ErrHung)
	switch {
	case v.hung:
		v.Notes = append(v.Notes, "devices not known: "+err.Error())
		return v, nil
	case errors.Is(err, gpu.ErrNone) && len(wanted) == 0:
		return v, nil
	case err != nil && len(wanted) == 0:
		v.Notes = append(v.Notes, "devices not known: "+err.Error())
		return v, nil
	case err != nil:
		return v, &EnvironmentError{What: fmt.Sprintf("gpus %s: the devices of this machine cannot be read", strings.Join(wanted, ", ")), Err: err}
	default:
		v.Devices, err = choose(all, wanted)
		v.Parts = partsOf(v.Devices, all)
	}
	return v, err
}

// partsOf are the parts of whole GPUs that are split.
func partsOf(devices, all []gpu.Device) []gpu.Device {
	var parts []gpu.Device
	for _, d := range all {
		if d.Parent != "" && slices.ContainsFunc(devices, func(whole gpu.Device) bool { return whole.UUID == d.Parent }) {
			parts = append(parts, d)
		}
	}
	return parts
}

// choose gives the devices with these indexes or UUIDs; without any, all GPUs. A part of a split GPU (MIG) has to be named.
func choose(all []gpu.Device, wanted []string) ([]gpu.Device, error) {
	whole := slices.DeleteFunc(slices.Clone(all), func(d gpu.Device) bool { return d.Parent != "" })
	if len(wanted) == 0 {
		return whole, nil
	}
	var chosen []gpu.Device
	for _, w := range wanted {
		found := false
		for _, d := range all {
			if d.UUID == w || d.Parent == "" && strconv.Itoa(d.Index) == w {
				chosen = append(chosen, d)
				found = true
			}
		}
		if !found {
			return nil, &EnvironmentError{What: fmt.Sprintf("gpus %s: this machine has no such device; it has %d, numbered from 0%s", w, len(whole), partNames(all))}
		}
	}
	return chosen, nil
}

// partNames ends a sentence with the parts (MIG) that a machine has; empty without any.
func partNames(all []gpu.Device) string {
	var names []string
	for _, d := range all {
		if d.Parent != "" {
			names = append(names, d.UUID)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", and parts (MIG) " + strings.Join(names, ", ")
}

// deviceName names a device for a person: "GPU 0", or "part MIG-… of GPU 0".
func deviceName(d gpu.Device) string {
	if d.Parent != "" {
		return fmt.Sprintf("part %s of GPU %d", d.UUID, d.Index)
	}
	return fmt.Sprintf("GPU %d", d.Index)
}

// describe is the view as launch.json keeps it.
func (v view) describe() map[string]any {
	d := map[string]any{"at": v.At}
	if v.Memory != nil {
		d["host_memory_total"] = v.Memory.Total
		d["host_memory_available"] = v.Memory.Available
		if v.Memory.Limit != "" {
			d["host_memory_limit"] = v.Memory.Limit
		}
	}
	if len(v.Devices) > 0 {
		d["gpus"] = v.Devices
	}
	return d
}

// forPreflight is the view as an engine's arithmetic takes it.
func (v view) forPreflight(host string) sweep.Machine {
	m := sweep.Machine{Name: host, GPUCount: len(v.Devices)}
	if v.Memory != nil {
		m.MemAvailableBytes, m.MemTotalBytes = v.Memory.Available, v.Memory.Total
	}
	known := false
	for _, d := range v.Devices {
		m.GPUName = d.Name
		if d.MemoryTotal != nil {
			if !known || *d.MemoryTotal < m.GPUMemoryBytes {
				m.GPUMemoryBytes = *d.MemoryTotal
			}
			known = true
		}
	}
	m.UnifiedGPUHostPool = len(v.Devices) > 0 && !known
	return m
}

// uuids names the devices for CUDA_VISIBLE_DEVICES: an index may mean another device to CUDA.
func (v view) uuids() string {
	ids := make([]string, len(v.Devices))
	for i, d := range v.Devices {
		ids[i] = d.UUID
	}
	return strings.Join(ids, ",")
}

// usage is the devices' memory at one moment, summed and at its tightest.
type usage struct {
	used  int64 // bytes on all devices
	free  int64 // bytes on the fullest device
	known bool  // free is
}

func usageOf(devices []gpu.Device) usage {
	var u usage
	for _, d := range devices {
		if d.MemoryUsed == nil {
			continue
		}
		u.used += *d.MemoryUsed
		free, ok := deviceFree(d)
		if ok && (!u.known || free < u.free) {
			u.free, u.known = free, true
		}
	}
	return u
}

func deviceFree(d gpu.Device) (int64, bool) {
	switch {
	case d.MemoryFree != nil:
		return *d.MemoryFree, true
	case d.MemoryTotal != nil && d.MemoryUsed != nil:
		return *d.MemoryTotal - *d.MemoryUsed, true
	}
	return 0, false
}

// gpuWatch reads device memory about once a second while a launch goes on. One that has no devices does nothing.
type gpuWatch struct {
	machine *machine
	wanted  []string
	out     *lines

	mu     sync.Mutex
	last   usage
	lowest *int64 // free bytes on the fullest device since the last call of reset
	floor  int64  // memory in use below this is that of a server that has just died: half of what it used before the load
}

// run reads until ctx ends. A slow driver is asked less often: never twice at a time.
func (w *gpuWatch) run(ctx context.Context) {
	every(ctx, time.Second, func() {
		all, err := w.machine.gpus.Devices(ctx)
		if err != nil {
			return
		}
		devices, err := choose(all, w.wanted)
		if err != nil {
			return
		}
		u := usageOf(devices)
		w.mu.Lock()
		w.last = u
		if u.known && u.used >= w.floor && (w.lowest == nil || u.free < *w.lowest) {
			w.lowest = &u.free
		}
		w.mu.Unlock()
		_ = w.out.add(gpuLine(devices), false) // the first error stays in out
	})
}

func gpuLine(devices []gpu.Device) map[string]any {
	type one struct {
		UUID string   `json:"uuid"`
		Used *int64   `json:"used_bytes,omitempty"`
		Free *int64   `json:"free_bytes,omitempty"`
		Util *float64 `json:"utilization_pct,omitempty"`
		Temp *float64 `json:"temperature_c,omitempty"`
		Watt *float64 `json:"power_w,omitempty"`
		MHz  *float64 `json:"clock_sm_mhz,omitempty"`
	}
	list := make([]one, len(devices))
	for i, d := range devices {
		list[i] = one{d.UUID, d.MemoryUsed, d.MemoryFree, d.Utilization, d.Temperature, d.Power, d.ClockSM}
	}
	return map[string]any{"t": unixSeconds(time.Now()), "gpus": list}
}

// used is the devices' memory in use, as last read.
func (w *gpuWatch) used() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.used
}

// reset begins a new stretch for lowestFree.
func (w *gpuWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lowest, w.floor = nil, w.last.used/2
}

// lowestFree is the least free memory of the fullest device since reset, in GiB; ok is false when it was never read.
func (w *gpuWatch) lowestFree() (free float64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lowest == nil {
		return 0, false
	}
	return float64(*w.lowest) / gib, true
}

// every calls fn at once and then each period until ctx ends; a call that takes longer delays the next.
func every(ctx context.Context, period time.Duration, fn func()) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		fn()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// unixSeconds is a time as metrics files have it, to the millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
