package proc

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"sweep/failpoint"
)

// containerGroup is where a container's processes are counted: the control groups of its first process, as far as their
// names hold the container's id, which proves that nothing else is in them.
func containerGroup(pid int, id string) Group {
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	cgroup, err := os.ReadFile(procPath(pid, "cgroup"))
	if err != nil {
		return Group{}
	}
	two, memory := parseHierarchies(mountinfo, cgroup)
	var g Group
	if folder := upTo(two.own, id); folder != "" {
		g.Process = folder
		if hasFile(folder, "memory.events") {
			g.Memory = folder
		}
	}
	if folder := upTo(memory.own, id); folder != "" && g.Memory == "" {
		g.Memory = folder
	}
	return g
}

// upTo is the part of a path up to the first name that holds id; "" when none does.
func upTo(path, id string) string {
	at := strings.Index(path, id)
	if at < 0 {
		return ""
	}
	if slash := strings.IndexByte(path[at:], '/'); slash >= 0 {
		return path[:at+slash]
	}
	return path
}

// ward follows the container of a supervisor's server.
type ward struct {
	spec   Container
	found  chan Container // one value, when it runs
	cancel context.CancelFunc
	wg     sync.WaitGroup

	now     Container
	kills   int // highest count seen of the kernel's kills in it
	counted bool
}

// newWard is nil for a server without a container.
func newWard(spec *Container) *ward {
	if spec == nil {
		return nil
	}
	w := &ward{spec: *spec, now: *spec, found: make(chan Container, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.wg.Go(func() {
		if c, err := w.spec.find(ctx); err == nil {
			w.found <- c
		}
	})
	return w
}

// running gives the container once, when it runs.
func (w *ward) running() <-chan Container {
	if w == nil {
		return nil
	}
	return w.found
}

// look reads the counters of the container's group, which go with it.
func (w *ward) look() {
	if w == nil {
		return
	}
	if n, ok := w.now.Group.kills(); ok {
		w.kills, w.counted = max(w.kills, n), true
	}
}

// finish has the runtime end the container, which outlives a client that was killed, and waits until it is gone. It says
// what is left of it. It comes when no child of ours is left: until then a runtime's command would be killed with the tree.
func (w *ward) finish() (left []Process, err error) {
	if w == nil {
		return nil, nil
	}
	w.look()
	w.cancel()
	w.wg.Wait()
	failpoint.Hit("container.due")
	oom, err := w.now.end(context.Background())
	failpoint.Hit("container.ended")
	if oom && w.kills == 0 {
		w.kills, w.counted = 1, true
	}
	waitFor(removeLimit, func() bool {
		left = w.now.Group.processes()
		return len(left) == 0
	})
	return left, err
}

// endOwned ends the container that an owner file names.
func endOwned(c *Container) error {
	if c == nil || c.Runtime == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*containerTime)
	defer cancel()
	_, err := c.end(ctx)
	if errors.Is(err, ErrForeign) {
		return nil
	}
	if err == nil && c.Group != (Group{}) {
		waitFor(time.Second, func() bool { return len(c.Group.processes()) == 0 })
	}
	return err
}
