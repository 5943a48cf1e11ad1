package agent

import (
	"maps"
	"sync"

	"sweep/sweep/gpu"
)

// baselineFile keeps, in an agent's folder, the device memory that was in use before anything of ours ran. An agent that is
// started again must not take what a dead server still holds for nothing.
const baselineFile = "baseline.json"

// baselines are the devices' baselines of one start of a machine, by simulated profile; "" is the real machine.
type baselines struct {
	path string
	mu   sync.Mutex
	kept keptBaselines
}

// keptBaselines is baseline.json.
type keptBaselines struct {
	BootID   string                  `json:"boot_id"` // what was in use before the machine's restart says nothing
	Machines map[string]gpu.Baseline `json:"machines"`
}

// readBaselines reads what is kept of this start of the machine. A file that is missing or damaged holds nothing.
func readBaselines(path, bootID string) *baselines {
	b := &baselines{path: path}
	if err := readJSON(path, &b.kept); err != nil || b.kept.BootID != bootID {
		b.kept = keptBaselines{}
	}
	b.kept.BootID = bootID
	if b.kept.Machines == nil {
		b.kept.Machines = map[string]gpu.Baseline{}
	}
	return b
}

// of is the baseline of these devices. One that was not seen before has what it holds now, when nothing of ours runs and
// no stranger was found.
func (b *baselines) of(profile string, devices []gpu.Device) (gpu.Baseline, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, grown := b.kept.Machines[profile], false
	if known == nil {
		known = gpu.Baseline{}
		b.kept.Machines[profile] = known
	}
	base := gpu.Baseline{}
	for uuid, used := range gpu.Used(devices) {
		if _, ok := known[uuid]; !ok {
			known[uuid], grown = used, true
		}
		base[uuid] = known[uuid]
	}
	if !grown {
		return base, nil
	}
	return base, writeJSON(b.path, b.kept)
}

// known reports whether it is known what each of these devices holds without us.
func (b *baselines) known(profile string, devices []gpu.Device) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uuid := range gpu.Used(devices) {
		if _, ok := b.kept.Machines[profile][uuid]; !ok {
			return false
		}
	}
	return true
}

// all is the baseline of every device that was seen.
func (b *baselines) all(profile string) gpu.Baseline {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.kept.Machines[profile])
}
