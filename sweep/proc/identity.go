package proc

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// Self is the identity of the calling process.
func Self() (Identity, error) { return Identify(os.Getpid()) }

// Identify is the identity of a process that is there now, living or not yet waited for.
func Identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	s, err := readStat(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Identity{BootID: boot, PID: pid, StartTicks: s.start}, nil
}

// Alive reports whether this very process runs; one that is dead but not waited for does not.
func (id Identity) Alive() bool {
	boot, err := bootID()
	if err != nil || boot != id.BootID || id.PID <= 0 {
		return false
	}
	s, err := readStat(id.PID)
	return err == nil && s.start == id.StartTicks && s.alive()
}

// Signal sends a signal to this very process, never to another that was given its pid since. A
// process that is gone gives an error that wraps [ErrGone].
func (id Identity) Signal(sig syscall.Signal) error {
	if id.PID <= 0 {
		return fmt.Errorf("signal process %d: %w", id.PID, ErrGone)
	}
	if err := signalExactly(id, sig); err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

// Descendants lists the living processes below a pid, without the pid itself.
func Descendants(pid int) ([]Process, error) {
	all, err := allStats()
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, s := range below(all, pid) {
		if s.alive() {
			out = append(out, s.process(boot))
		}
	}
	return out, nil
}

// living lists the living processes below a pid and those of groups, each once.
func living(pid int, groups ...Group) ([]Process, error) {
	out, err := Descendants(pid)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		for _, p := range group.processes() {
			if !slices.ContainsFunc(out, func(q Process) bool { return q.PID == p.PID }) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// below is the part of all that descends from the given pids, parents before children.
func below(all []stat, pids ...int) []stat {
	children := map[int][]stat{}
	for _, s := range all {
		children[s.ppid] = append(children[s.ppid], s)
	}
	var out []stat
	seen := map[int]bool{}
	for queue := slices.Clone(pids); len(queue) > 0; queue = queue[1:] {
		for _, s := range children[queue[0]] {
			if !seen[s.pid] {
				seen[s.pid] = true
				out = append(out, s)
				queue = append(queue, s.pid)
			}
		}
	}
	return out
}

func (s stat) process(boot string) Process {
	return Process{
		Identity: Identity{BootID: boot, PID: s.pid, StartTicks: s.start},
		PPID:     s.ppid,
		Session:  s.session,
		Comm:     s.comm,
		State:    string(rune(s.state)),
		CPU:      time.Duration(s.ticks) * tick,
		RSS:      s.rssPages * int64(os.Getpagesize()),
	}
}
