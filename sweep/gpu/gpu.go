// Package gpu reads what a machine's devices and host memory hold. It starts no driver library (the
// program is one static binary): it runs nvidia-smi, or a command that answers as nvidia-smi does,
// and survives it when that hangs. It imports nothing of ours.
//
// The steps to use it:
//
//	r := &gpu.Reader{}                                  // nvidia-smi on PATH
//	devices, err := r.Devices(ctx)                      // errors.Is(err, gpu.ErrNone): no device in this machine
//	baseline := gpu.Used(devices)                       // before anything of ours runs
//	report, err := gpu.WaitBaseline(ctx, r, baseline)   // after a stop: memory is back, three times in a row
//	memory, err := (&gpu.HostReader{}).HostMemory(ctx)
//
// A value that the driver does not give is absent (nil), never 0.
package gpu

import (
	"context"
	"errors"
	"time"
)

// ErrNone says that this machine has no devices: there is no nvidia-smi, or it finds none.
var ErrNone = errors.New("no GPU in this machine")

// ErrHung says that nvidia-smi did not answer in time, or that an earlier call still hangs. The
// process is left behind: one that sleeps in the driver cannot be ended.
var ErrHung = errors.New("nvidia-smi hangs")

// ErrDirty says that device memory did not come back to its baseline.
var ErrDirty = errors.New("device memory is not back at its baseline")

// Device is one GPU at one moment. Pointers are nil where the driver does not say.
type Device struct {
	Index    int    `json:"index"`              // as nvidia-smi counts
	UUID     string `json:"uuid"`               // the name to select it by
	BusID    string `json:"bus_id,omitempty"`   // on PCI
	Name     string `json:"name"`               // as the driver names it: "NVIDIA H200"
	Driver   string `json:"driver,omitempty"`   // version
	PState   string `json:"pstate,omitempty"`   // P0 is fastest
	MIG      string `json:"mig,omitempty"`      // Enabled, Disabled
	Compute  string `json:"compute,omitempty"`  // compute mode: Default, Exclusive_Process, …
	Recovery string `json:"recovery,omitempty"` // what the driver asks for: None, Reset, Reboot, …

	MemoryTotal *int64   `json:"memory_total,omitempty"`    // bytes
	MemoryUsed  *int64   `json:"memory_used,omitempty"`     // bytes
	MemoryFree  *int64   `json:"memory_free,omitempty"`     // bytes
	Utilization *float64 `json:"utilization_pct,omitempty"` // percent of time with a kernel running; to show, never to decide
	Temperature *float64 `json:"temperature_c,omitempty"`   // °C
	Power       *float64 `json:"power_w,omitempty"`         // W
	ClockSM     *float64 `json:"clock_sm_mhz,omitempty"`    // MHz
	ClockMemory *float64 `json:"clock_mem_mhz,omitempty"`   // MHz
	ECCErrors   *int64   `json:"ecc_errors,omitempty"`      // uncorrected since the driver's start
}

// Process is one process that computes on one device. One that uses two devices is listed twice.
type Process struct {
	UUID   string `json:"uuid"` // of the device
	PID    int    `json:"pid"`  // in the host's numbering: inside a container it may be nobody
	Name   string `json:"name"`
	Memory *int64 `json:"memory,omitempty"` // bytes
}

// Reader asks nvidia-smi. The zero value asks the one on PATH. Use one Reader for a machine: it
// learns which fields the driver knows, and never has two calls under way. It is safe for use by
// several goroutines.
type Reader struct {
	Command []string      // argv prefix; nil is nvidia-smi
	Timeout time.Duration // for one call; 0 is 15 s
}

// Devices lists the devices by index.
func (r *Reader) Devices(ctx context.Context) ([]Device, error) { return nil, ErrNone }

// Processes lists the processes that compute on the devices.
func (r *Reader) Processes(ctx context.Context) ([]Process, error) { return nil, ErrNone }

// Memory is the host's memory in bytes. Swap is not counted.
type Memory struct {
	Total     int64  `json:"total"`           // of the machine, or the limit that this process runs under where that is less
	Available int64  `json:"available"`       // that can be had without swapping
	Limit     string `json:"limit,omitempty"` // the control group that limits it, "" is the machine itself
}

// HostReader reads the host's memory. The zero value reads /proc/meminfo and the limits of the
// control groups that this process is in.
type HostReader struct {
	Meminfo []string      // a command that prints what /proc/meminfo would hold; no other limit is looked at then
	Timeout time.Duration // for that command; 0 is 15 s
}

// HostMemory is the memory that the host has and what can be had of it now.
func (h *HostReader) HostMemory(ctx context.Context) (Memory, error) {
	return Memory{}, errors.ErrUnsupported
}

// Baseline is the memory in use on each device, in bytes by UUID, while nothing of ours runs.
// Devices that do not say are not in it.
type Baseline map[string]int64

// Used is the memory in use on these devices now.
func Used(devices []Device) Baseline { return nil }

// Lister is the part of a [Reader] that [WaitBaseline] needs.
type Lister interface {
	Devices(ctx context.Context) ([]Device, error)
}

// BaselineReport is what a wait for the baseline saw.
type BaselineReport struct {
	Seconds float64          `json:"seconds"`        // until the first of the clean polls, or until it was given up
	Polls   int              `json:"polls"`          //
	Over    map[string]int64 `json:"over,omitempty"` // bytes above the baseline at the last poll, by UUID, of devices that are not clean
}

// WaitBaseline waits until each device of the baseline uses at most max(256 MiB, 1 % of its memory)
// more than then, at three polls a second apart. ctx bounds the wait; when it ends the error wraps
// [ErrDirty] and the report says which devices are how far off.
func WaitBaseline(ctx context.Context, devices Lister, baseline Baseline) (BaselineReport, error) {
	return BaselineReport{}, errors.ErrUnsupported
}
