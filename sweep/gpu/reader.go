package gpu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const defaultTimeout = 15 * time.Second

// Reader asks nvidia-smi. The zero value asks the one on PATH. Use one Reader for a machine: it
// learns which fields the driver knows, and never has two calls under way. It is safe for use by
// several goroutines.
type Reader struct {
	Command []string      // argv prefix; nil is nvidia-smi, which a machine without GPUs lacks
	Timeout time.Duration // for one call; 0 is 15 s

	mu      sync.Mutex
	unknown map[string]bool // fields that this driver does not know
	split   atomic.Bool     // the last look found a GPU that is split into parts
	run     runner
}

// deviceFields are what is asked of each device. The first two are needed.
var deviceFields = []string{
	"index", "uuid", "pci.bus_id", "name", "driver_version", "memory.total", "memory.used", "memory.free",
	"utilization.gpu", "temperature.gpu", "power.draw", "clocks.sm", "clocks.mem", "pstate", "mig.mode.current",
	"compute_mode", "ecc.errors.uncorrected.volatile.total", "gpu_recovery_action", "clocks_event_reasons.active",
}

// appFields are what is asked of each process.
var appFields = []string{"gpu_uuid", "pid", "used_gpu_memory", "process_name"}

// Devices lists the devices by index; behind each that is split into parts (MIG) come its parts.
func (r *Reader) Devices(ctx context.Context) ([]Device, error) {
	text, err := r.query(ctx, "--query-gpu=", deviceFields)
	if err != nil {
		return nil, fmt.Errorf("read the GPUs: %w", err)
	}
	devices, err := parseDevices(text)
	if err != nil {
		return nil, fmt.Errorf("read the GPUs: %w", err)
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("read the GPUs: %w", ErrNone)
	}
	split := slices.ContainsFunc(devices, Device.Split)
	r.split.Store(split)
	if !split {
		return devices, nil
	}
	names, log, err := r.parts(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the parts of the GPUs: %w", err)
	}
	return withParts(devices, names, log), nil
}

// Processes lists the processes that compute on the devices. One on a part of a GPU is listed for the part as well, once
// [Reader.Devices] has found any.
func (r *Reader) Processes(ctx context.Context) ([]Process, error) {
	text, err := r.query(ctx, "--query-compute-apps=", appFields)
	if err != nil {
		return nil, fmt.Errorf("read the processes on the GPUs: %w", err)
	}
	processes, err := parseProcesses(text)
	if err != nil {
		return nil, fmt.Errorf("read the processes on the GPUs: %w", err)
	}
	if !r.split.Load() {
		return processes, nil
	}
	names, log, err := r.parts(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the processes on the parts of GPUs: %w", err)
	}
	return append(processes, log.onParts(names)...), nil
}

// unknownField is how nvidia-smi refuses a query; it names one field at a time.
var unknownField = regexp.MustCompile(`Field "([^"]+)" is not a valid field`)

// query asks for fields, without those that the driver turns out not to know.
func (r *Reader) query(ctx context.Context, option string, fields []string) (string, error) {
	for {
		known := r.known(fields)
		if len(known) == 0 {
			return "", errors.New("nvidia-smi knows none of the fields")
		}
		text, err := r.run.output(ctx, r.timeout(), r.command(option+strings.Join(known, ","), "--format=csv,nounits"))
		if m := unknownField.FindStringSubmatch(text); m != nil && slices.Contains(known, m[1]) {
			r.forget(m[1])
			continue
		}
		switch {
		case len(r.Command) == 0 && errors.Is(err, exec.ErrNotFound):
			return "", fmt.Errorf("%w: nvidia-smi is not on PATH", ErrNone)
		case err != nil && strings.Contains(text, "No devices were found"):
			return "", ErrNone
		case err != nil && text != "" && !errors.Is(err, ErrHung):
			return "", fmt.Errorf("%w: %s", err, firstLine(text))
		}
		return text, err
	}
}

func (r *Reader) timeout() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return defaultTimeout
}

func (r *Reader) known(fields []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return r.unknown[f] })
}

func (r *Reader) forget(field string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown == nil {
		r.unknown = map[string]bool{}
	}
	r.unknown[field] = true
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
