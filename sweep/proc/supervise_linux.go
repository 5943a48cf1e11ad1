package proc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sweep/failpoint"
)

const (
	stragglerGrace = 2 * time.Second        // for the rest of the tree, after the launched process ended
	memberPeriod   = time.Second            // between two looks at the tree for the owner file
	quietAfter     = 2 * time.Second        // without output, what waits of the log is written
	lastOutput     = time.Second            // for output after the tree is gone
	killEvery      = 10 * time.Millisecond  // between two rounds of killing, at first
	killEveryMax   = 200 * time.Millisecond // and later
	deafLimit      = 10 * time.Second       // for processes that sleep in a driver to wake: then they are reported, not waited for
)

// supervisor is the state of the main loop, which alone touches it.
type supervisor struct {
	spec    Spec
	self    Identity
	root    Identity
	boot    string
	mark    string // in the environment of the tree
	group   Group
	ward    *ward         // nil: no container
	guard   *watchdog     // nil: the group limits the tree, or nothing does
	planned []string      // groups that are about to be made
	out     *json.Encoder // events
	exited  bool
	asked   map[int]bool // signals that we sent to the launched process

	killing  bool
	deadline time.Time // of killing
	deaf     time.Time // from when on what is deaf to signals is not waited for
	every    time.Duration
	killed   []Process
	noted    string // id of the container that the owner file has
	members  []Identity
	ticker   *time.Timer // of the next round of killing
	straggle *time.Timer
}

// reaped is a child that was waited for.
type reaped struct {
	pid    int
	status unix.WaitStatus
}

// Supervise is the main of a supervisor; the result is its exit code. It reads orders from stdin and
// writes events to stdout, as [Start] does and expects; the end of stdin means that the caller is
// gone, and ends the server. It must be the only thing that its process does: it waits for any child.
func Supervise(ctx context.Context, stdin io.Reader, stdout io.Writer) int {
	// The server's parent-death signal comes when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &supervisor{out: json.NewEncoder(stdout), asked: map[int]bool{}, every: killEvery}
	orders := json.NewDecoder(stdin)
	var first order
	if err := orders.Decode(&first); err != nil || first.Start == nil {
		_ = s.out.Encode(event{Failed: "a supervisor is started by sweep itself, with its orders on standard input"})
		return 2
	}
	s.spec = *first.Start
	// Caught, not ignored: what is ignored would be inherited. A broken stdout must not kill us
	// before the tree is down.
	term := make(chan os.Signal, 1)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	signal.Notify(term, syscall.SIGTERM)
	defer signal.Stop(term)
	output, err := s.start(first.Supervisor)
	if err != nil {
		_ = s.out.Encode(event{Failed: err.Error(), Command: errors.Is(err, ErrCommand)})
		return 1
	}
	s.loop(ctx, readOrders(orders), reap(), term)
	return s.end(output)
}

// readOrders passes orders on until stdin ends. Its goroutine ends with the process at the latest: a
// read from stdin cannot be called off.
func readOrders(d *json.Decoder) <-chan order {
	c := make(chan order)
	go func() {
		defer close(c)
		for {
			var o order
			if d.Decode(&o) != nil {
				return
			}
			c <- o
		}
	}()
	return c
}

// reap waits for every child, its own or fallen to us. The channel is closed when there is none
// left, which proves that the tree is gone: each orphan in it would be ours.
func reap() <-chan reaped {
	c := make(chan reaped)
	go func() {
		defer close(c)
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return
			case status.Exited() || status.Signaled():
				c <- reaped{pid, status}
			}
		}
	}()
	return c
}

// loop runs until no process is left or those that are left do not die.
func (s *supervisor) loop(ctx context.Context, orders <-chan order, reaps <-chan reaped, term <-chan os.Signal) {
	members := time.NewTicker(memberPeriod)
	defer members.Stop()
	s.ticker, s.straggle = stoppedTimer(), stoppedTimer()
	s.note()
	s.guard = s.newWatchdog()
	defer s.guard.stop()
	s.ward = newWard(s.spec.Container)
	over := ctx.Done()
	for {
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				s.kill()
			case o.Kill:
				s.kill()
			case o.Signal > 0:
				s.send(syscall.Signal(o.Signal))
			}
		case r, ok := <-reaps:
			if !ok {
				return
			}
			if r.pid == s.root.PID && !s.exited {
				s.rootEnded(r.status)
			}
		case <-s.straggle.C:
			s.kill()
		case <-s.ticker.C:
			if !s.round() {
				return
			}
		case c := <-s.ward.running():
			s.ward.now = c
			failpoint.Hit("container.found")
			_ = s.out.Encode(event{Container: &c}) // a caller that is gone is seen by the end of stdin
			s.note()
			failpoint.Hit("container.noted")
		case <-members.C:
			s.ward.look()
			s.note()
		case <-s.guard.tick():
			if s.guard.look(s.tree) {
				s.kill()
			}
		case <-term:
			s.kill()
		case <-over:
			over = nil
			s.kill()
		}
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// send passes a signal on to the launched process alone.
func (s *supervisor) send(sig syscall.Signal) {
	if !s.exited && s.root.Signal(sig) == nil {
		s.asked[int(sig)] = true
	}
}

// rootEnded tells the caller at once, and gives the rest of the tree a little time to end by itself.
func (s *supervisor) rootEnded(status unix.WaitStatus) {
	s.exited = true
	_ = s.out.Encode(event{Exit: new(exitOf(status, s.asked))})
	s.straggle.Reset(stragglerGrace)
}

// exitOf says how a process ended and who ended it. Linux does not tell a parent who sent a signal:
// one that we sent is ours; one that a program raises by its own fault is its own; a polite one that
// we did not send came from outside. SIGKILL can come from the kernel, from outside, and from the
// server itself (SGLang ends so after each crash), so it stays open.
func exitOf(status unix.WaitStatus, asked map[int]bool) Exit {
	stopped := asked[int(unix.SIGTERM)] || asked[int(unix.SIGINT)] || asked[int(unix.SIGQUIT)] || asked[int(unix.SIGKILL)]
	if !status.Signaled() {
		e := Exit{Code: status.ExitStatus(), By: "server"}
		if stopped {
			e.By = "sweep"
		}
		return e
	}
	sig := status.Signal()
	e := Exit{Code: -1, Signal: int(sig)}
	switch {
	case stopped || asked[int(sig)]:
		e.By = "sweep"
	case sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGHUP:
		e.By = "outside"
	case sig != unix.SIGKILL && sig != unix.SIGQUIT:
		e.By = "server"
	}
	return e
}

// kill begins to kill the whole tree.
func (s *supervisor) kill() {
	if s.killing {
		return
	}
	failpoint.Hit("tree.kill")
	s.killing = true
	s.deadline, s.deaf = time.Now().Add(s.spec.killLimit()), time.Now().Add(deafLimit)
	if !s.exited {
		s.asked[int(unix.SIGKILL)] = true
	}
	s.killed, _ = s.tree()
	s.round()
}

// tree lists what lives of the tree: all below the supervisor, and all in the control group.
func (s *supervisor) tree() ([]Process, error) {
	var inside Group
	if s.ward != nil {
		inside = s.ward.now.Group
	}
	return living(s.self.PID, s.group, inside)
}

// round kills every descendant that lives now; those that are born meanwhile meet the next round.
// It is false when it has been tried for long enough.
func (s *supervisor) round() bool {
	if time.Now().After(s.deadline) {
		return false
	}
	s.group.kill()
	all, err := s.tree()
	if err == nil {
		for _, p := range all {
			_ = p.Identity.Signal(syscall.SIGKILL) // gone already, or in the next round
		}
		if time.Now().After(s.deaf) && len(all) > 0 && !slices.ContainsFunc(all, func(p Process) bool { return !deaf(p) }) {
			return false
		}
	}
	s.ticker.Reset(s.every)
	s.every = min(2*s.every, killEveryMax)
	return true
}

// note keeps the owner file's list of the tree, by which a later start finds processes that left
// the server's session and lost their parent.
func (s *supervisor) note() {
	tree, err := s.tree()
	if err != nil {
		return
	}
	ids := make([]Identity, len(tree))
	for i, p := range tree {
		ids[i] = p.Identity
	}
	slices.SortFunc(ids, func(a, b Identity) int { return a.PID - b.PID })
	if slices.Equal(ids, s.members) && (s.ward == nil || s.ward.now.ID == s.noted) {
		return
	}
	if writeOwner(s.spec.Owner, s.owner(ids), false) == nil {
		s.members = ids
		if s.ward != nil {
			s.noted = s.ward.now.ID
		}
	}
}

func (s *supervisor) owner(members []Identity) Owner {
	o := Owner{
		Schema: ownerSchema, BootID: s.boot, Supervisor: s.self, Server: s.root, Containment: s.group.held(), Group: s.group,
		Container: s.spec.Container, Planned: s.planned, Mark: s.mark, Members: members, Info: s.spec.OwnerInfo,
	}
	if s.ward != nil {
		o.Container = &s.ward.now
	}
	switch {
	case s.group.Max > 0:
		o.MemoryGuard = GuardCgroup
	case s.spec.MemoryFloor > 0:
		o.MemoryGuard = GuardWatchdog
	}
	return o
}

// end completes the log and reports.
func (s *supervisor) end(output *output) int {
	failpoint.Hit("tree.gone")
	g := gone{Killed: s.killed, Starved: s.guard.report()}
	inside, err := s.ward.finish()
	if err != nil {
		g.Left = "the container was not ended: " + err.Error()
	}
	g.Stuck = append(leftovers(s.self.PID), inside...)
	if n, ok := s.group.kills(); ok {
		g.OOMKills = &n
	}
	if s.ward != nil && s.ward.counted { // the container's memory is not our group's
		n := s.ward.kills
		if g.OOMKills != nil {
			n += *g.OOMKills
		}
		g.OOMKills = &n
	}
	if len(g.Stuck) == 0 {
		if err := s.group.remove(removeLimit); err != nil {
			g.Left = err.Error()
		}
		failpoint.Hit("group.removed")
	}
	if err := output.finish(); err != nil {
		g.LogError = err.Error()
	}
	_ = s.out.Encode(event{Gone: &g})
	if len(g.Stuck) > 0 {
		return 1
	}
	return 0
}

// leftovers lists what is left below a pid after killing: also processes whose first thread is dead
// while another one sleeps in a driver, which look like zombies.
func leftovers(pid int) []Process {
	all, err := allStats()
	if err != nil {
		return nil
	}
	boot, _ := bootID()
	var out []Process
	for _, s := range below(all, pid) {
		p := s.process(boot)
		if state, ok := threadState(s.pid); ok {
			p.State = state
		}
		out = append(out, p)
	}
	return out
}

// deaf reports whether a process sleeps in the kernel, where no signal reaches it.
func deaf(p Process) bool {
	state, ok := threadState(p.PID)
	return ok && state == "D"
}

// threadState is the state of a thread that keeps its process from going away.
func threadState(pid int) (string, bool) {
	tasks, err := os.ReadDir(procPath(pid, "task"))
	if err != nil {
		return "", false
	}
	found := ""
	for _, task := range tasks {
		b, err := os.ReadFile(procPath(pid, "task/"+task.Name()+"/stat"))
		if err != nil {
			continue
		}
		if s, err := parseStat(b); err == nil && s.state != 'Z' && s.state != 'X' && found != "D" {
			found = string(rune(s.state))
		}
	}
	return found, found != ""
}
