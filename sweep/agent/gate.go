package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

// gateTime is how long a launch waits for device memory that an earlier one held.
const gateTime = 2 * time.Minute

// strangerWait is how long a launch waits for somebody else to leave its devices, where the grid asks for that.
const strangerWait = 30 * time.Minute

// leastDisk is what must be free for a launch's own files, in bytes.
const leastDisk = 256 << 20

// hot is from which temperature on a device is noted at the gate, in °C: it may throttle.
const hot = 80

// devicesFree says why the devices are not free for a launch; nil when they are.
func (l *launch) devicesFree(ctx context.Context) (*sweep.Ending, error) {
	if free, _, err := space(l.dir); err == nil && free < leastDisk {
		return &sweep.Ending{Outcome: sweep.InfraDisk, Phase: sweep.PhaseGate, Detail: fmt.Sprintf(
			"the night's folder has %d MiB left, and a launch needs at least %d: free space, then sweep resume", free>>20, int64(leastDisk)>>20)}, nil
	}
	l.noteDevices()
	if e, err := l.alone(ctx); e != nil || err != nil {
		return e, err
	}
	return l.cleanDevices(ctx)
}

// noteDevices notes what of the devices a reader of the numbers must know.
func (l *launch) noteDevices() {
	if l.before.hung {
		return
	}
	if len(l.before.Devices) == 0 {
		l.note("no GPU is watched: nothing proves that its memory was free")
		return
	}
	for _, d := range l.before.Devices {
		if d.MemoryUsed == nil {
			l.note(deviceName(d) + ": the driver does not tell its memory, so only processes and host memory prove that it was free")
		}
		if d.Temperature != nil && *d.Temperature >= hot {
			l.note(fmt.Sprintf("GPU %d was at %.0f °C before the start", d.Index, *d.Temperature))
		}
		if d.Throttled() {
			l.note(fmt.Sprintf("GPU %d was throttled before the start: %s", d.Index, d.Throttle))
		}
		if d.Split() {
			l.note(fmt.Sprintf("GPU %d is split into parts (MIG): its memory is that of all parts", d.Index))
		}
	}
	if text := manyParts(l.before.Devices); text != "" {
		l.note(text)
	}
}

// manyParts says what is wrong with more than one part for one server; "" when there is not.
func manyParts(devices []gpu.Device) string {
	parts := 0
	for _, d := range devices {
		if d.Parent != "" {
			parts++
		}
	}
	if parts < 2 {
		return ""
	}
	return fmt.Sprintf("%d parts (MIG) are given to one server, and CUDA shows a process only one of them: give each its own entry under hosts:", parts)
}

// alone says who else is on the devices; nil when nobody is. By the grid's policy it waits for them to leave.
func (l *launch) alone(ctx context.Context) (*sweep.Ending, error) {
	text := l.othersThere(ctx)
	if text == "" {
		return nil, nil
	}
	if l.job.Strangers == sweep.StrangersWait {
		if err := l.emit(sweep.Event{Kind: sweep.EventPhase, Phase: sweep.PhaseGate, Text: "waiting for somebody else to leave: " + text}); err != nil {
			return nil, fullDisk(err)
		}
		began := time.Now()
		waiting, cancel := context.WithTimeout(ctx, l.agent.opt.StrangerWait)
		for text != "" && waiting.Err() == nil {
			sleep(waiting, strangerPeriod)
			if v, err := l.machine.look(waiting, l.job.GPUs); err == nil {
				l.before.Devices = v.Devices
			}
			text = l.othersThere(waiting)
		}
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if text == "" {
			l.note(fmt.Sprintf("somebody else was on the devices for %.0f s of the gate and left", time.Since(began).Seconds()))
			return nil, nil
		}
	}
	l.final = l.job.Strangers == sweep.StrangersSkip
	return &sweep.Ending{Outcome: sweep.BusyGPU, Phase: sweep.PhaseGate, Detail: "somebody else is on the devices: " + text}, nil
}

// othersThere names who is on the devices now. Memory that nobody seems to hold is somebody's who cannot be seen only
// until it is known what the devices hold without us: after that it may be what a dead server of ours left.
func (l *launch) othersThere(ctx context.Context) string {
	l.others.look(ctx)
	if text := strangersText(l.others.present()); text != "" {
		return text
	}
	if l.agent.bases.known(l.job.Simulate, l.before.Devices) {
		return ""
	}
	var listed []gpu.Process
	if l.machine.simulated || proc.HostPIDs() {
		listed, _ = l.machine.gpus.Processes(ctx) // a driver that does not list them: all memory is unseen
	}
	return unseen(l.before.Devices, listed)
}

// cleanDevices holds device memory against what it was before anything of ours ran, and climbs the recovery ladder when
// it does not come back.
func (l *launch) cleanDevices(ctx context.Context) (*sweep.Ending, error) {
	if l.before.hung {
		e, err := l.climb(ctx, l.agent.bases.all(l.job.Simulate), "the driver does not answer: "+gpu.ErrHung.Error())
		if e == nil && err == nil { // which devices there are was not known when the launch was made ready
			e = &sweep.Ending{Outcome: sweep.InfraGPU, Phase: sweep.PhaseGate, Detail: "the driver did not answer, and does again"}
		}
		return e, err
	}
	baseline, err := l.agent.bases.of(l.job.Simulate, l.before.Devices)
	if err != nil {
		return nil, fullDisk(err)
	}
	if len(l.job.GPUs) == 0 { // all of them, also one that is not listed any more
		baseline = l.agent.bases.all(l.job.Simulate)
	}
	over := baseline.Over(l.before.Devices)
	if len(over) == 0 {
		if l.agent.recovery.Lost != "" {
			l.note("the devices came back after they had been given up")
			return nil, fullDisk(l.agent.recovery.giveUp(""))
		}
		return nil, nil
	}
	return l.climb(ctx, baseline, dirtyText(over))
}

func dirtyText(over map[string]int64) string {
	var parts []string
	for _, uuid := range slices.Sorted(maps.Keys(over)) {
		if over[uuid] < 0 {
			parts = append(parts, uuid+" is not listed any more")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.1f GiB over", uuid, float64(over[uuid])/gib))
	}
	return "device memory did not come back to what it was before the night: " + strings.Join(parts, ", ") + "; see nvidia-smi for who holds it"
}
