package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

// strangers keeps what processes that are not of this launch do on its devices.
type strangers struct {
	machine *machine
	devices map[string]int // index by UUID

	mu      sync.Mutex
	tree    func() ([]proc.Process, error) // the launch's own processes now; nil before the start
	own     map[int]uint64                 // start of each process of the launch that was ever seen, by pid
	names   map[string]bool                // theirs, as the kernel knows them
	pending map[int]bool                   // listed once, and not there when it was looked for
	seen    []stranger
	looked  time.Time // of the last look that the driver answered
}

// stranger is somebody else's process on one of the launch's devices.
type stranger struct {
	PID         int
	User        string // "" when it cannot be seen
	Command     string
	Device      int
	MiB         int64     // the most that it was seen to hold; −1: the driver does not say
	From, Until time.Time // of the looks that saw it
}

// strangerLeast is what a process must hold of a device to be in the way, in MiB: helpers of drivers hold less.
const strangerLeast = 256

// strangerPeriod is how often strangers are looked for while a launch goes on.
const strangerPeriod = 5 * time.Second

func newStrangers(m *machine, devices []gpu.Device) *strangers {
	s := &strangers{machine: m, devices: map[string]int{}, own: map[int]uint64{}, names: map[string]bool{}, pending: map[int]bool{}}
	for _, d := range devices {
		s.devices[d.UUID] = d.Index
	}
	if self, err := proc.Self(); err == nil {
		s.own[self.PID] = self.StartTicks
	}
	return s
}

// mine gives the launch's processes away as its own.
func (s *strangers) mine(supervisor proc.Identity, tree func() ([]proc.Process, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[supervisor.PID], s.tree = supervisor.StartTicks, tree
}

// meet notes the launch's living processes.
func (s *strangers) meet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tree == nil {
		return
	}
	list, err := s.tree()
	if err != nil {
		return
	}
	for _, p := range list {
		s.own[p.PID] = p.StartTicks
		s.names[p.Comm] = true
	}
}

// look asks the driver who computes on the devices. Where process numbers are not the machine's own, its
// answer says nothing.
func (s *strangers) look(ctx context.Context) {
	if len(s.devices) == 0 || !s.machine.simulated && !proc.HostPIDs() {
		s.meet()
		return
	}
	list, err := s.machine.gpus.Processes(ctx)
	s.meet() // after the list: who is in it and ours still lives, or has died
	if err != nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = now
	pending := map[int]bool{}
	for _, p := range list {
		device, ok := s.devices[p.UUID]
		if !ok || p.Memory != nil && *p.Memory < strangerLeast<<20 {
			continue
		}
		id, err := proc.Identify(p.PID)
		if start, known := s.own[p.PID]; known && (err != nil || id.StartTicks == start) {
			continue
		}
		if err != nil && p.Name == "" { // dead, and the driver is still giving its memory back
			continue
		}
		if err != nil && !s.pending[p.PID] { // it ends, or it is hidden from us: the next look tells
			pending[p.PID] = true
			continue
		}
		pending[p.PID] = err != nil
		s.note(p, device, now)
	}
	s.pending = pending
}

func (s *strangers) note(p gpu.Process, device int, now time.Time) {
	mib := int64(-1)
	if p.Memory != nil {
		mib = *p.Memory >> 20
	}
	for i := range s.seen {
		if one := &s.seen[i]; one.PID == p.PID && one.Device == device {
			one.MiB, one.Until = max(one.MiB, mib), now
			return
		}
	}
	one := stranger{PID: p.PID, Command: p.Name, Device: device, MiB: mib, From: now, Until: now}
	owner, command := proc.Who(p.PID)
	one.User = owner
	if command != "" && !s.machine.simulated {
		one.Command = command
	}
	s.seen = append(s.seen, one)
}

// since are those that were there at some time since a moment.
func (s *strangers) since(from time.Time) []stranger {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []stranger
	for _, one := range s.seen {
		if !one.Until.Before(from) {
			list = append(list, one)
		}
	}
	return list
}

// present are those that the last look saw.
func (s *strangers) present() []stranger {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []stranger
	for _, one := range s.seen {
		if one.Until.Equal(s.looked) {
			list = append(list, one)
		}
	}
	return list
}

// ours says whether a process that the kernel killed was of the launch: by its number, or by a name that it or
// servers have. One that lived for a moment only was not seen, and inside a container numbers are others.
func (s *strangers) ours(k sweep.OOMKill) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.own[k.PID]
	return known || s.names[k.Name] || engine.ServerName(k.Name)
}

// strangersText names them for a person.
func strangersText(list []stranger) string {
	parts := make([]string, 0, len(list))
	for _, one := range list {
		who := fmt.Sprintf("process %d", one.PID)
		var more []string
		if one.User != "" {
			more = append(more, "user "+one.User)
		}
		if one.Command != "" {
			command := []rune(one.Command)
			if len(command) > 80 {
				command = append(command[:80], '…')
			}
			more = append(more, string(command))
		}
		if len(more) > 0 {
			who += " (" + strings.Join(more, ", ") + ")"
		}
		if one.MiB >= 0 {
			who += fmt.Sprintf(" holds %d MiB", one.MiB)
		}
		parts = append(parts, fmt.Sprintf("%s on GPU %d", who, one.Device))
	}
	return sweep.Printable(strings.Join(parts, "; "))
}

// unseen finds devices with more memory in use than the processes that can be seen there account for.
// Before a launch none of it is ours. Displays and drivers take their part, so little is no sign.
func unseen(devices []gpu.Device, listed []gpu.Process) string {
	seen := map[string]int64{}
	for _, p := range listed {
		if p.Memory != nil {
			seen[p.UUID] += *p.Memory
		}
	}
	var parts []string
	for _, d := range devices {
		if d.MemoryUsed == nil {
			continue
		}
		limit := int64(2 * gib)
		if d.MemoryTotal != nil {
			limit = max(limit, *d.MemoryTotal/20)
		}
		if over := *d.MemoryUsed - seen[d.UUID]; over > limit {
			parts = append(parts, fmt.Sprintf("%d MiB of GPU %d", over>>20, d.Index))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " and ") + " are held by processes that cannot be seen from here"
}

// intruded ends a load in whose time a stranger came to the devices: its number is not the config's.
func (l *launch) intruded(ctx context.Context, since time.Time) (sweep.Ending, bool) {
	l.others.look(ctx)
	list := l.others.since(since)
	if len(list) == 0 {
		return sweep.Ending{}, false
	}
	return sweep.Ending{Outcome: sweep.BusyGPU, Phase: sweep.PhaseLoad,
		Detail: "the number is withheld: while it was measured somebody else came to the devices: " + strangersText(list)}, true
}

// foreign says whether a stranger was on the devices in the time of the launch. Where processes cannot be
// told apart it is memory that stays although nothing of the server lives.
func (l *launch) foreign(ctx context.Context, dead bool) bool {
	l.others.look(ctx)
	if len(l.others.since(time.Time{})) > 0 {
		return true
	}
	if !dead || len(l.before.Devices) == 0 || l.machine.simulated || proc.HostPIDs() {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	_, err := gpu.WaitBaseline(limited, l.machine.gpus, gpu.Used(l.before.Devices))
	return err != nil && ctx.Err() == nil
}

// lingerTime is how long a driver may take to give back a dead server's memory.
const lingerTime = 20 * time.Second
