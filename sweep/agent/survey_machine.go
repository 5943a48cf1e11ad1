package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep/sweep"
	"sweep/sweep/gpu"
)

// lookAtMachine reads devices and host memory.
func (s *survey) lookAtMachine(ctx context.Context) {
	var job sweep.Job
	if len(s.jobs) > 0 {
		job = s.jobs[0]
	}
	m := newMachine(sweep.Executable(s.Self), job.Simulate)
	var err error
	s.view, err = m.look(ctx, job.GPUs)
	for _, j := range s.jobs {
		if s.Engine.Devices != nil {
			s.devices = max(s.devices, s.Engine.Devices(j.Config.Settings))
		}
	}
	switch {
	case err != nil:
		s.add(CheckGPUs, sweep.LevelMissing, "%v", err)
	case len(s.view.Devices) == 0:
		s.lookAtNoDevices(ctx, m)
	default:
		s.add(CheckGPUs, sweep.LevelOK, "%s", deviceText(s.view.Devices))
		if taken := (&claims{dir: lockFolder()}).busy(slices.Concat(s.view.Devices, s.view.Parts)); taken != "" && job.Simulate == "" {
			s.block(CheckGPUs, "%s", taken)
		}
		s.lookAtParts()
	}
	if v := s.view.Memory; v != nil {
		limit := ""
		if v.Limit != "" {
			limit = ", the limit of " + v.Limit
		}
		s.add(CheckHost, sweep.LevelOK, "%.1f of %.1f GB can be had%s", float64(v.Available)/1e9, float64(v.Total)/1e9, limit)
	} else {
		s.add(CheckHost, sweep.LevelWarning, "not known, so that no host cache can be held against it")
	}
}

// lookAtParts says what a user of split GPUs (MIG) must know.
func (s *survey) lookAtParts() {
	if text := manyParts(s.view.Devices); text != "" {
		s.add(CheckGPUs, sweep.LevelWarning, "%s", text)
	}
	for _, d := range s.view.Devices {
		switch {
		case d.Split():
			s.add(CheckGPUs, sweep.LevelWarning, "GPU %d is split, and as a whole nothing can use it: name a part under gpus:%s", d.Index, strings.TrimPrefix(partNames(partsOf([]gpu.Device{d}, s.view.Parts)), ", and"))
		case d.Parent != "" && d.MemoryUsed == nil:
			s.add(CheckGPUs, sweep.LevelWarning, "%s: the driver does not tell its memory, so no launch can prove that it was free", deviceName(d))
		}
	}
}

func (s *survey) lookAtNoDevices(ctx context.Context, m *machine) {
	why := "nvidia-smi is not on PATH, or finds none"
	if _, err := m.gpus.Devices(ctx); err != nil && !errors.Is(err, gpu.ErrNone) {
		why = err.Error()
	}
	switch {
	case s.devices > 1:
		s.add(CheckGPUs, sweep.LevelMissing, "%d are needed, and this machine shows none: %s", s.devices, why)
	case s.devices == 1:
		s.add(CheckGPUs, sweep.LevelWarning, "this machine shows none, which only a server made for the CPU can do without: %s", why)
	default:
		s.add(CheckGPUs, sweep.LevelOK, "none, and none is asked for: %s", why)
	}
}

// deviceText names devices: "8 × NVIDIA H200, 140.4 GiB each, 0.6 GiB in use on the fullest".
func deviceText(devices []gpu.Device) string {
	d := devices[0]
	text := fmt.Sprintf("%d × %s", len(devices), d.Name)
	if d.MemoryTotal != nil {
		text += fmt.Sprintf(", %.1f GiB each", float64(*d.MemoryTotal)/gib)
	}
	var most int64
	for _, d := range devices {
		if d.MemoryUsed != nil {
			most = max(most, *d.MemoryUsed)
		}
	}
	if most > 0 {
		text += fmt.Sprintf(", at most %.1f GiB in use", float64(most)/gib)
	}
	return text
}

// Shared memory, in bytes: what a container has unless it is told otherwise, in which NCCL fails; and what
// several ranks are comfortable with.
const (
	shmDefault = 64 << 20
	shmEnough  = 1 << 30
)

func (s *survey) lookAtShm() {
	free, total, err := space("/dev/shm")
	const more = "give it more, in a container with --shm-size 16g or --ipc=host"
	switch {
	case err != nil && s.devices <= 1:
	case err != nil:
		s.add(CheckShm, sweep.LevelWarning, "cannot be read, and %d ranks exchange data in it: %v", s.devices, err)
	case s.devices > 1 && free <= shmDefault:
		s.add(CheckShm, sweep.LevelMissing, "%d MiB are free, too little for %d ranks that exchange data in it: %s", free>>20, s.devices, more)
	case s.devices > 1 && free < shmEnough:
		s.add(CheckShm, sweep.LevelWarning, "%d of %d MiB are free for %d ranks: %s", free>>20, total>>20, s.devices, more)
	default:
		s.add(CheckShm, sweep.LevelOK, "%.1f of %.1f GB are free", float64(free)/1e9, float64(total)/1e9)
	}
}

// Space for a night, in bytes: logs and records of a night are some hundred MB at the most, and a full disk ends it.
const (
	diskLeast  = 1 << 30
	diskEnough = 5 << 30
)

func (s *survey) lookAtDisk() {
	if s.Out == "" {
		return
	}
	dir, err := filepath.Abs(s.Out)
	if err != nil {
		s.add(CheckDisk, sweep.LevelMissing, "%v", err)
		return
	}
	for { // the folder that is there
		info, statErr := os.Stat(dir)
		if err = statErr; err == nil && !info.IsDir() {
			s.add(CheckDisk, sweep.LevelMissing, "%s is no folder: choose another for nights with --output-dir", dir)
			return
		}
		if err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, total, spaceErr := space(dir)
	if spaceErr == nil && total == 0 {
		err = errors.Join(err, errors.New("its file system holds no files of ours"))
	}
	switch err := errors.Join(err, writable(dir)); {
	case err != nil:
		s.add(CheckDisk, sweep.LevelMissing, "nothing can be written to %s: %s", dir, strings.ReplaceAll(err.Error(), "\n", "; "))
	case spaceErr != nil:
		s.add(CheckDisk, sweep.LevelWarning, "free space of %s is not known: %v", dir, spaceErr)
	case free < diskLeast:
		s.add(CheckDisk, sweep.LevelMissing, "only %.2f GB are free in %s: a night needs 1 GB, make room or choose another folder with --output-dir", float64(free)/1e9, dir)
	case free < diskEnough:
		s.add(CheckDisk, sweep.LevelWarning, "%.1f GB are free in %s: enough for a night, not for many", float64(free)/1e9, dir)
	default:
		s.add(CheckDisk, sweep.LevelOK, "%.0f GB are free in %s", float64(free)/1e9, dir)
	}
}
