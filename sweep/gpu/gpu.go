package gpu

import (
	"errors"
	"strconv"
	"strings"
)

// ErrNone says that this machine has no devices: there is no nvidia-smi, or it finds none.
var ErrNone = errors.New("no GPU in this machine")

// ErrHung says that nvidia-smi did not answer in time, or that an earlier call still hangs. The
// process is left behind: one that sleeps in the driver cannot be ended.
var ErrHung = errors.New("nvidia-smi hangs")

// ErrDirty says that device memory did not come back to its baseline.
var ErrDirty = errors.New("device memory is not back at its baseline")

// Device is one GPU, or one part of a split one, at one moment. Pointers are nil where the driver does not say.
type Device struct {
	Index    int    `json:"index"`              // as nvidia-smi counts
	UUID     string `json:"uuid"`               // the name to select it by
	Parent   string `json:"parent,omitempty"`   // of a part (MIG): UUID of its GPU, whose index, heat and clocks it has
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
	Throttle    string   `json:"throttle,omitempty"`        // reasons for a clock below its highest, as the driver's bits in hexadecimal
	ECCErrors   *int64   `json:"ecc_errors,omitempty"`      // uncorrected since the driver's start
}

// Bits of [Device.Throttle] that slow a device down against its user's will: hardware slowdown, thermal by software,
// thermal by hardware, power brake. An idle clock, a clock that was asked for and the power cap are everyday.
const slowed = 0x8 | 0x20 | 0x40 | 0x80

// Throttled reports whether heat or power supply hold the device back now.
func (d Device) Throttled() bool {
	bits, err := strconv.ParseUint(strings.TrimPrefix(d.Throttle, "0x"), 16, 64)
	return err == nil && bits&slowed != 0
}

// Process is one process that computes on one device. One that uses two devices is listed twice.
type Process struct {
	UUID   string `json:"uuid"` // of the device
	PID    int    `json:"pid"`  // in the host's numbering: inside a container it may be nobody
	Name   string `json:"name"`
	Memory *int64 `json:"memory,omitempty"` // bytes
}
