package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"sweep/sweep/proc/proctest"
)

// newDaemon needs control groups, in which daemons hold their containers.
func newDaemon(t *testing.T) *proctest.Daemon {
	t.Helper()
	d, err := proctest.NewDaemon(t.TempDir())
	if errors.Is(err, proctest.ErrNoGroup) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// boxed is a spec whose server runs in a container of the daemon.
func (w *world) boxed(d *proctest.Daemon, role string, args ...string) Spec {
	w.t.Helper()
	runtime := w.path("docker")
	if err := d.WriteRuntime(runtime, w.self); err != nil {
		w.t.Fatal(err)
	}
	c := &Container{Runtime: runtime, IDFile: w.path("container.id"), Label: "sweep.launch=" + filepath.Base(w.dir) + "x"}
	s := w.spec(role)
	s.Argv = append([]string{runtime, "run", "--cidfile", c.IDFile, "--label", c.Label, "--entrypoint", w.self, "IMAGE"}, args...)
	s.Container = c
	return s
}

func (w *world) boxID() string {
	b, _ := os.ReadFile(w.path("container.id"))
	return string(b)
}

// contained waits until the supervisor knows the container.
func (w *world) contained(s *Server) Owner {
	w.t.Helper()
	var o Owner
	if !waitFor(15*time.Second, func() bool {
		o, _ = ReadOwner(w.path("owner.json"))
		return o.Container != nil && o.Container.ID != ""
	}) {
		w.t.Fatalf("the container is not known after 15 s: %+v", o.Container)
	}
	return o
}

// A server in a container is found by the container's id, seen with its processes, stopped and removed by the id.
func TestContainer(t *testing.T) {
	w, d := newWorld(t), newDaemon(t)
	s := w.start(w.boxed(d, "tree"))
	o := w.contained(s)
	w.ready(s, 2)
	if c := s.Contained(t.Context()); c.ID != o.Container.ID {
		t.Errorf("the caller knows %+v", c)
	}
	if o.Container.ID != w.boxID() || o.Container.Group == (Group{}) {
		t.Errorf("container %+v, id file %q", o.Container, w.boxID())
	}
	tree, err := s.Tree()
	pid := d.PID(w.boxID())
	if err != nil || !slices.ContainsFunc(tree, func(p Process) bool { return p.PID == pid }) {
		t.Errorf("process %d of the container is not in the tree %v: %v", pid, tree, err)
	}
	r, err := s.Stop(t.Context(), 0)
	if err != nil || len(r.Stuck) > 0 || s.Left() != "" {
		t.Errorf("stop %+v, %v, left %q", r, err, s.Left())
	}
	if left := d.Containers(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
}

func TestContainerExit(t *testing.T) {
	for _, c := range []struct {
		role string
		args []string
		want Exit
	}{{"exit", []string{"42"}, Exit{Code: 42, By: "server"}}, {"kill9", nil, Exit{Code: -1, Signal: 9}}} {
		t.Run(c.role, func(t *testing.T) {
			w, d := newWorld(t), newDaemon(t)
			s := w.start(w.boxed(d, c.role, c.args...))
			w.await(s.Gone(), "the end")
			if s.Exit() != c.want || s.Left() != "" {
				t.Errorf("exit %+v, want %+v; left %q", s.Exit(), c.want, s.Left())
			}
			if left := d.Containers(); len(left) > 0 {
				t.Errorf("containers are left: %v", left)
			}
		})
	}
}

// A client that is killed leaves the daemon's container running: the supervisor, or a later reclaim, ends it.
func TestContainerOutlivesClient(t *testing.T) {
	for _, who := range []string{"client", "supervisor"} {
		t.Run(who, func(t *testing.T) {
			w, d := newWorld(t), newDaemon(t)
			s := w.start(w.boxed(d, "tree", "deaf"))
			w.contained(s)
			w.ready(s, 2)
			victim := s.Identity()
			if who == "supervisor" {
				victim = s.supervisor
			}
			if err := victim.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			w.await(s.Gone(), "the end of everything")
			if left := d.Containers(); len(left) > 0 {
				t.Errorf("containers are left: %v: %q", left, s.Left())
			}
		})
	}
}

// A client that dies between making its container and writing its id leaves one that only its label tells.
func TestContainerWithoutID(t *testing.T) {
	w, d := newWorld(t), newDaemon(t)
	spec := w.boxed(d, "sleep")
	spec.Env = append(spec.Env, proctest.DieVariable+"=1")
	s := w.start(spec)
	w.await(s.Gone(), "the end")
	if e := s.Exit(); e.Signal != 9 || s.Left() != "" {
		t.Errorf("exit %+v, left %q", e, s.Left())
	}
	if left := d.Containers(); len(left) > 0 || d.Made() != 1 {
		t.Errorf("%d made, left %v", d.Made(), left)
	}
}

// Whoever cleans up after a killed supervisor finds a running container by its label when its id was never written.
func TestReclaimContainerByLabel(t *testing.T) {
	w, d := newWorld(t), newDaemon(t)
	s := w.start(w.boxed(d, "tree", "deaf"))
	o := w.contained(s)
	w.ready(s, 2)
	lost := Container{Runtime: o.Container.Runtime, Label: o.Container.Label, IDFile: w.path("never written")}
	other := lost
	other.Label += "y"
	if err := endOwned(&other); err != nil || len(d.Containers()) != 1 {
		t.Errorf("another label: %v, %v", err, d.Containers())
	}
	if err := endOwned(&lost); err != nil || len(d.Containers()) != 0 {
		t.Errorf("its label: %v, left %v", err, d.Containers())
	}
	w.await(s.Gone(), "the end")
}

// Two may end one container, as its supervisor and whoever reclaims it do: it is ended for both of them.
func TestContainerEndedTwice(t *testing.T) {
	for name, first := range map[string]string{
		"removed before it is killed":  "kill",
		"removed after it was killed":  "kill",
		"removed before it is removed": "rm",
	} {
		t.Run(name, func(t *testing.T) {
			w, d := newWorld(t), newDaemon(t)
			s := w.start(w.boxed(d, "sleep"))
			c := *w.contained(s).Container
			real := c.Runtime
			c.Runtime = w.path("other")
			script := fmt.Sprintf("#!/bin/sh\nfor id; do :; done\n[ $1 != %[2]s ] || '%[1]s' rm --force $id >&2\nexec '%[1]s' \"$@\"\n", real, first)
			if name == "removed after it was killed" {
				script = fmt.Sprintf("#!/bin/sh\n'%[1]s' \"$@\"\ncode=$?\n[ $1 != kill ] || '%[1]s' rm --force \"$2\" >&2\nexit $code\n", real)
			}
			if err := os.WriteFile(c.Runtime, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := c.end(t.Context()); err != nil || len(d.Containers()) != 0 {
				t.Errorf("%v, left %v", err, d.Containers())
			}
			w.await(s.Gone(), "the end")
			if s.Left() != "" {
				t.Errorf("left %q", s.Left())
			}
		})
	}
}

// A container without our label is never touched, whatever an id file says.
func TestForeignContainer(t *testing.T) {
	w, d := newWorld(t), newDaemon(t)
	s := w.start(w.boxed(d, "sleep"))
	o := w.contained(s)
	other := *o.Container
	other.Label = "sweep.launch=another"
	if _, err := other.end(context.Background()); !errors.Is(err, ErrForeign) {
		t.Errorf("ending another's container: %v", err)
	}
	if err := endOwned(&other); err != nil || len(d.Containers()) != 1 {
		t.Errorf("reclaim of another's container: %v, %v left", err, d.Containers())
	}
	if closed(s.Done()) {
		t.Error("another's container was ended")
	}
	if err := os.WriteFile(w.path("bad.id"), []byte("--help"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Container{IDFile: w.path("bad.id")}).readID(); err == nil {
		t.Error("an id that is a flag")
	}
}

func TestContainerGroups(t *testing.T) {
	t.Parallel()
	const id = "0123456789ab"
	for path, want := range map[string]string{
		"/sys/fs/cgroup/docker/0123456789ab":                         "/sys/fs/cgroup/docker/0123456789ab",
		"/sys/fs/cgroup/system.slice/docker-0123456789ab.scope/init": "/sys/fs/cgroup/system.slice/docker-0123456789ab.scope",
		"/sys/fs/cgroup/machine.slice/libpod-0123456789ab.scope/a/b": "/sys/fs/cgroup/machine.slice/libpod-0123456789ab.scope",
		"/sys/fs/cgroup/user.slice/session-1.scope":                  "",
	} {
		if got := upTo(path, id); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
