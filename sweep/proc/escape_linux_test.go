package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep/proc/proctest"
)

// means are the ways to hold a tree that this machine and user allow: with control groups, without, and as an ordinary user.
var means = []string{"best", "no group", "nobody"}

// nobody is the user without rights.
const nobody = "65534"

// forEachMeans runs a test for each way to hold a tree.
func forEachMeans(t *testing.T, test func(t *testing.T, w *world, spec func(role string, args ...string) Spec)) {
	for _, how := range means {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			if how == "nobody" {
				w.becomeNobody()
			}
			test(t, w, func(role string, args ...string) Spec {
				s := w.spec(role, args...)
				s.NoGroup = how == "no group"
				return s
			})
		})
	}
}

// becomeNobody makes the test's supervisors, and so their servers, run as an ordinary user.
func (w *world) becomeNobody() {
	w.t.Helper()
	if os.Getuid() != 0 {
		w.t.Skip("this user is an ordinary one: the other cases are about it")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		w.t.Fatal("setpriv is not there: it comes with util-linux")
	}
	// The supervisor starts its own argv again, then already without the right to change its user.
	script := "#!/bin/sh\nif [ \"$(id -u)\" = 0 ]; then exec " + setpriv + " --reuid=" + nobody + " --regid=" + nobody + " --clear-groups -- \"$@\"; fi\nexec \"$@\"\n"
	w.as = []string{w.path("as-nobody")}
	if err := os.WriteFile(w.as[0], []byte(script), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for dir := w.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			w.t.Fatal(err)
		}
	}
	program, err := os.ReadFile(w.self)
	if err != nil {
		w.t.Fatal(err)
	}
	w.self = w.path("program") // the test's own is in a folder that only its user can read
	if err := os.WriteFile(w.self, program, 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// Whatever a server's children do (a session of their own, a double fork, another name and environment, deafness, a parent
// that is killed first), soon after the stop none of them lives, and no group is left.
func TestEscapes(t *testing.T) {
	forEachMeans(t, func(t *testing.T, w *world, spec func(string, ...string) Spec) {
		s := w.start(spec("tree", "deaf"))
		w.ready(s, 2)
		w.settled(s.supervisor.PID, s.PID())
		w.checkHeld(t)
		stop := stopNow()
		r, err := s.Stop(t.Context(), 100*time.Millisecond)
		w.checkGone(t, stop)
		if err != nil || len(r.Stuck) > 0 || s.Left() != "" {
			t.Errorf("stop %+v, %v, left %q", r, err, s.Left())
		}
	})
}

func TestEscapesOfKilledParent(t *testing.T) {
	forEachMeans(t, func(t *testing.T, w *world, spec func(string, ...string) Spec) {
		s := w.start(spec("tree"))
		w.ready(s, 2)
		w.settled(s.supervisor.PID, s.PID())
		if err := s.Identity().Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.await(s.Done(), "the parent's end")
		stop := stopNow()
		if _, err := s.Stop(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		w.checkGone(t, stop)
	})
}

// A killed supervisor's tree is found by what the owner file proves, also what changed its environment and lost its parent.
func TestEscapesOfKilledSupervisor(t *testing.T) {
	forEachMeans(t, func(t *testing.T, w *world, spec func(string, ...string) Spec) {
		s := w.start(spec("tree", "deaf"))
		w.ready(s, 2)
		w.settled(s.supervisor.PID, s.PID())
		stop := stopNow()
		if err := s.supervisor.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.await(s.Gone(), "the end of everything") // the caller reclaims
		w.checkGone(t, stop)
	})
}

// A process that nobody has seen yet, in a session of its own, without a parent, is known by its mark or its group.
func TestReclaimUnseen(t *testing.T) {
	forEachMeans(t, func(t *testing.T, w *world, spec func(string, ...string) Spec) {
		agent, server, supervisor := w.agent(spec("tree", "deaf"))
		w.settled(supervisor.PID, server.PID)
		_ = supervisor.Signal(syscall.SIGSTOP) // it cannot notice that the agent is gone
		_ = agent.Process.Kill()
		_ = supervisor.Signal(syscall.SIGKILL)
		waitFor(5*time.Second, func() bool { return !server.Alive() })
		o, err := ReadOwner(w.path("owner.json"))
		if err != nil {
			t.Fatal(err)
		}
		o.Members = nil // as if the tree had been made since the last look
		if err := writeOwner(w.path("owner.json"), o, true); err != nil {
			t.Fatal(err)
		}
		stop := stopNow()
		r, err := Reclaim(w.path("owner.json"), 0)
		if err != nil || len(r.Stuck) > 0 || len(r.Found) == 0 {
			t.Errorf("reclaim %+v, %v", r, err)
		}
		_ = agent.Wait()
		if o.Group == (Group{}) {
			// What has neither group, mark nor a known ancestor cannot be proved, and is left alone.
			for _, p := range w.processes(0, 0) {
				if p.Comm != "sglang::schedu)" {
					t.Errorf("left: %+v", p)
				}
				_ = p.Signal(syscall.SIGKILL)
			}
		}
		w.checkGone(t, stop)
	})
}

// canGroup reports whether this user may make a control group here.
func canGroup() bool {
	self, err := Self()
	if err != nil {
		return false
	}
	made := newGrouper(Identity{BootID: self.BootID, PID: self.PID, StartTicks: 2}, 0).build() // nobody alive has this name
	return len(made.folders()) > 0 && made.remove(removeLimit) == nil
}

// checkHeld looks whether the owner file says how the tree is held.
func (w *world) checkHeld(t *testing.T) {
	t.Helper()
	o, err := ReadOwner(w.path("owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	if o.Containment != o.Group.held() || len(o.Planned) > 0 {
		t.Errorf("held by %q, group %+v", o.Containment, o.Group)
	}
	want := filepath.Base(t.Name()) == means[0] && canGroup()
	if grouped := o.Containment != HeldSubreaper; grouped != want {
		t.Errorf("held by %s, in a group: want %v", o.Containment, want)
	}
	t.Logf("held by %s", o.Containment)
	for _, folder := range o.Group.folders() {
		if !ownedBy(folder, o.Supervisor) {
			t.Errorf("group %s is not named after its supervisor %+v", folder, o.Supervisor)
		}
	}
}

// stopLimit is from a stop until nothing of a tree lives, whatever its processes do, on a machine that lets everybody run.
const stopLimit = 5 * time.Second

// stopping is a stop under way.
type stopping struct {
	began time.Time
	late  *proctest.Lateness
}

func stopNow() stopping { return stopping{time.Now(), proctest.Measure()} }

func (w *world) checkGone(t *testing.T, stop stopping) {
	t.Helper()
	left := w.processes(stopLimit, 0)
	took, late := time.Since(stop.began), stop.late.Stop()
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if took > stopLimit+late {
		t.Errorf("all was gone after %s, %s of them because this machine was busy", took, late)
	}
	t.Logf("all was gone after %s, %s of them because this machine was busy", took, late)
	o, err := ReadOwner(w.path("owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range o.Group.folders() {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s is still there", folder)
		}
	}
}

// The kernel kills a server that goes over its group's limit, and the group's own counter proves it.
func TestMemoryLimit(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("eat")
	spec.MemoryMax = 96 << 20
	spec.MemoryFloor = 1 // never reached
	s := w.start(spec)
	o, err := ReadOwner(spec.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if o.Group.Max == 0 {
		_, _ = s.Stop(t.Context(), 0)
		if o.MemoryGuard != GuardWatchdog {
			t.Errorf("guard %q", o.MemoryGuard)
		}
		t.Skipf("no control group with a memory limit can be made here: %s", o.Containment)
	}
	w.await(s.Gone(), "the kernel's kill")
	if n, ok := s.OOMKills(); n != 1 || !ok {
		t.Errorf("%d kills counted (%v), log %q", n, ok, w.log())
	}
	if e := s.Exit(); e.Signal != 9 || e.By != "" {
		t.Errorf("exit %+v", e)
	}
	if o.MemoryGuard != GuardCgroup || o.Group.Max != spec.MemoryMax || s.Starved() != nil {
		t.Errorf("owner %+v", o)
	}
}

func TestWatchdog(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("tree", "deaf")
	spec.NoGroup, spec.MemoryFloor = true, 1<<60 // more than any machine has
	s := w.start(spec)
	w.await(s.Gone(), "the watchdog's kill")
	got := s.Starved()
	if got == nil || got.Available <= 0 || got.Floor != 1<<60 || got.Tree < 0 {
		t.Fatalf("starved %+v", got)
	}
	if e := s.Exit(); e.Signal != 9 || e.By != "sweep" {
		t.Errorf("exit %+v", e)
	}
	if o, err := ReadOwner(spec.Owner); err != nil || o.MemoryGuard != GuardWatchdog || o.Containment != HeldSubreaper {
		t.Errorf("owner %+v, %v", o, err)
	}
	if n, ok := s.OOMKills(); ok {
		t.Errorf("%d kills counted without a group", n)
	}
}

// A group that a killed supervisor left empty goes with the next start.
func TestGroupsSwept(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	g := newGrouper(Identity{BootID: self.BootID, PID: self.PID, StartTicks: 1}, 0) // nobody alive has this name
	made := g.build()
	if len(made.folders()) == 0 {
		t.Skip("no control group can be made here")
	}
	w := newWorld(t)
	s := w.start(w.spec("sleep"))
	for _, folder := range made.folders() {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s is still there", folder)
		}
	}
	if _, err := s.Stop(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if strings.Contains(s.Left(), "sweep-") {
		t.Errorf("left: %s", s.Left())
	}
}
