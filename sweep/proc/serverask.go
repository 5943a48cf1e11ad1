package proc

import (
	"context"
	"time"
)

// Tree lists the living processes of the server, the launched one and all below it or fallen to the supervisor.
// The control group's own are among them.
func (s *Server) Tree() ([]Process, error) {
	if c := s.container.Load(); c != nil {
		return living(s.supervisor.PID, s.group, c.Group)
	}
	return living(s.supervisor.PID, s.group)
}

// Contained waits until the server's container runs, and gives it with its id and its control group. Without an id it never
// did: the server ended before, or ctx.
func (s *Server) Contained(ctx context.Context) Container {
	for {
		if c := s.container.Load(); c != nil {
			return *c
		}
		select {
		case <-s.gone:
		case <-ctx.Done():
		case <-time.After(reclaimPoll):
			continue
		}
		return Container{}
	}
}

// OOMKills is how many of the server's processes the kernel's OOM killer has ended, by the counter of their control
// group, which holds nothing else: proof. ok is false where nothing counts that, and after a supervisor that was killed.
func (s *Server) OOMKills() (n int, ok bool) {
	if !closed(s.gone) {
		return s.group.kills()
	}
	if s.end.OOMKills == nil {
		return 0, false
	}
	return *s.end.OOMKills, true
}

// Starved says why the tree's watchdog killed it; nil when it did not. Valid once Gone is closed.
func (s *Server) Starved() *Starved {
	if !closed(s.gone) {
		return nil
	}
	return s.end.Starved
}

// Left is the control group that could not be removed, and why; "" when nothing is left. Valid once Gone is closed.
func (s *Server) Left() string {
	if !closed(s.gone) {
		return ""
	}
	return s.end.Left
}

// Listening reports whether the server's own tree listens on a TCP port of this machine; if somebody
// else does, holder says who, as "pid 812 (python3)". No listener: false, "". As long as it is not known which processes are
// in the server's container, nobody is somebody else.
func (s *Server) Listening(port int) (ours bool, holder string, err error) {
	if s.spec.Container != nil && s.container.Load() == nil {
		return false, "", nil
	}
	tree, err := s.Tree()
	if err != nil {
		return false, "", err
	}
	pids := make([]int, len(tree))
	for i, p := range tree {
		pids[i] = p.PID
	}
	return Listening(port, pids)
}

// Progress samples the work done so far.
func (s *Server) Progress() (Sample, error) {
	tree, err := s.Tree()
	if err != nil {
		return Sample{}, err
	}
	return s.progress.sample(tree), nil
}
