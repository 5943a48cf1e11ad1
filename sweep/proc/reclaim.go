package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sweep/failpoint"
)

const (
	supervisorLimit = 5 * time.Second // for a living supervisor to end its tree
	reclaimPoll     = 20 * time.Millisecond
)

// Reclaim ends the processes that an owner file proves to be ours and still alive: SIGTERM to the
// launched process, grace, SIGKILL to the rest. A missing owner file means that nothing was started.
//
// Proved are: the recorded processes (by boot, pid and start time), what descends from them, the
// sessions that they opened, as long as a proved process is in the session, all that is in the control group that bears
// the supervisor's name, and what has the launch's mark in its environment.
func Reclaim(path string, grace time.Duration) (ReclaimReport, error) {
	began := time.Now()
	var report ReclaimReport
	owner, err := ReadOwner(path)
	if errors.Is(err, os.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("reclaim: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return report, fmt.Errorf("reclaim: %w", err)
	}
	if owner.BootID != boot {
		return report, endOwned(owner.Container) // no process outlives the machine's restart, but a dead container lies there
	}
	c := newClaim(owner)
	if report.Found, err = c.living(); err != nil {
		return report, fmt.Errorf("reclaim: %w", err)
	}
	failpoint.Hit("reclaim.found")
	if grace > 0 && owner.Server.Alive() && owner.Server.Signal(syscall.SIGTERM) == nil {
		waitFor(grace, func() bool { return !owner.Server.Alive() })
	}
	if owner.Supervisor.Alive() && owner.Supervisor.Signal(syscall.SIGTERM) == nil {
		waitFor(supervisorLimit, func() bool { return !owner.Supervisor.Alive() })
	}
	containerErr := endOwned(owner.Container)
	err = errors.Join(containerErr, c.killAll(&report))
	failpoint.Hit("reclaim.killed")
	if len(report.Stuck) == 0 {
		err = errors.Join(err, c.group.remove(removeLimit))
	}
	report.Seconds = time.Since(began).Seconds()
	return report, err
}

// killAll kills until none is left or the limit has passed.
func (c *claim) killAll(report *ReclaimReport) error {
	var failed error
	killed := map[Identity]bool{}
	done := waitFor(reclaimLimit, func() bool {
		c.group.kill()
		all, err := c.living()
		if err != nil {
			failed = err
			return true
		}
		for _, p := range all {
			if p.Identity.Signal(syscall.SIGKILL) == nil && !killed[p.Identity] {
				killed[p.Identity] = true
				report.Killed = append(report.Killed, p)
			}
		}
		report.Stuck = all
		return len(all) == 0
	})
	if done && failed == nil {
		report.Stuck = nil
	}
	if failed != nil {
		return fmt.Errorf("reclaim: %w", failed)
	}
	return nil
}

// reclaimLimit is for SIGKILL to work.
const reclaimLimit = 30 * time.Second

// waitFor polls until ok, but not longer than limit. The processes are not our children, so there is
// nothing to wait on.
func waitFor(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(reclaimPoll) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// markVariable is in the environment of each server. A process that left the tree and lost its parent is known by it.
const markVariable = "SWEEP_LAUNCH_MARK"

// claim finds the processes of one owner file.
type claim struct {
	boot     string
	proved   map[int]Identity
	sessions []int // pids that may have opened a session of ours
	group    Group
	mark     string
	since    uint64 // start of the supervisor: nothing older is its
}

func newClaim(o Owner) *claim {
	c := &claim{boot: o.BootID, proved: map[int]Identity{}, group: provedGroup(o), since: o.Supervisor.StartTicks}
	if o.Supervisor.PID > 1 && strings.HasPrefix(o.Mark, markVariable+"="+groupName(o.Supervisor)+"-") {
		c.mark = o.Mark
	}
	for _, id := range slices.Concat([]Identity{o.Supervisor, o.Server}, o.Members) {
		if id.PID <= 1 || id.BootID != o.BootID {
			continue
		}
		c.proved[id.PID] = id
		if id != o.Supervisor {
			c.sessions = append(c.sessions, id.PID)
		}
	}
	return c
}

// provedGroup is the part of an owner file's control group that bears its supervisor's name. Of folders that are only
// planned some may be there: which version they belong to does not matter for killing.
func provedGroup(o Owner) Group {
	g := o.Group
	for _, folder := range o.Planned {
		if hasFile(folder, "cgroup.kill") {
			g.Process = folder
		} else if hasFile(folder, "cgroup.procs") {
			g.Memory = folder
		}
	}
	if !ownedBy(g.Process, o.Supervisor) {
		g.Process = ""
	}
	if !ownedBy(g.Memory, o.Supervisor) {
		g.Memory = ""
	}
	return g
}

func hasFile(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

// living lists the proved processes that live now. What is found is proved from then on.
func (c *claim) living() ([]Process, error) {
	all, err := allStats()
	if err != nil {
		return nil, err
	}
	for _, pid := range c.group.pids() {
		if s, err := readStat(pid); err == nil && pid > 1 && pid != os.Getpid() {
			c.proved[pid] = s.process(c.boot).Identity
		}
	}
	var out []Process
	for _, s := range c.match(all) {
		p := s.process(c.boot)
		c.proved[s.pid] = p.Identity
		if s.alive() {
			out = append(out, p)
		}
	}
	return out, nil
}

// marked reports whether a process bears the launch's mark. One that changed its own environment does not.
func (c *claim) marked(s stat) bool {
	if c.mark == "" || s.start < c.since || s.pid == os.Getpid() {
		return false
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+c.mark+"\x00"))
}

// match is the part of all that is proved to be ours.
func (c *claim) match(all []stat) []stat {
	ours := map[int]stat{}
	for _, s := range all {
		if id, ok := c.proved[s.pid]; ok && id.StartTicks == s.start || c.marked(s) {
			ours[s.pid] = s
		}
	}
	for found := -1; found != len(ours); {
		found = len(ours)
		pids := make([]int, 0, len(ours))
		open := map[int]bool{} // sessions with a proved process in them: their numbers cannot have been given away
		for pid, s := range ours {
			pids = append(pids, pid)
			if slices.Contains(c.sessions, s.session) {
				open[s.session] = true
			}
		}
		for _, s := range below(all, pids...) {
			ours[s.pid] = s
		}
		for _, s := range all {
			if open[s.session] {
				ours[s.pid] = s
			}
		}
	}
	out := make([]stat, 0, len(ours))
	for _, s := range ours {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b stat) int { return a.pid - b.pid })
	return out
}
