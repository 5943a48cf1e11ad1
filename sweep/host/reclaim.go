package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sweep/sweep/proc"
)

// reclaimGrace is how long a server that a crash left behind may take to end by itself.
const reclaimGrace = 5 * time.Second

// Reclaim ends whatever of a night is proved to be ours and still alive: agents first, each of which
// may stop its server cleanly, then the servers that have lost their agent. say is told before each
// thing is ended. It returns when nothing is left, or an error says what is.
func Reclaim(ctx context.Context, night string, say func(host, what string) error) error {
	entries, err := os.ReadDir(filepath.Join(night, "agents"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		l := &Local{ID: e.Name(), Night: night}
		id, err := l.identity(ctx)
		if err != nil {
			return fmt.Errorf("agent of host %s: %w", e.Name(), err)
		}
		if id.Alive() {
			if err := say(e.Name(), fmt.Sprintf("agent, process %d", id.PID)); err != nil {
				return err
			}
			if err := l.stopAgent(ctx, id); err != nil {
				return err
			}
		}
		if err := supersede(filepath.Join(l.dir(), "queue")); err != nil {
			return err
		}
	}
	return reclaimLaunches(ctx, night, "", say)
}

// ReclaimOrphans ends the servers of a night that have lost their agent. Agents at work are left at work.
func ReclaimOrphans(ctx context.Context, night string, say func(host, what string) error) error {
	entries, err := os.ReadDir(filepath.Join(night, "agents"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		l := &Local{ID: e.Name(), Night: night}
		id, err := l.identity(ctx)
		if err != nil {
			return fmt.Errorf("agent of host %s: %w", e.Name(), err)
		}
		if id.Alive() {
			continue
		}
		if err := supersede(filepath.Join(l.dir(), "queue")); err != nil {
			return err
		}
		if err := reclaimLaunches(ctx, night, e.Name(), say); err != nil {
			return err
		}
	}
	return nil
}

// stopTime is how long an agent may take to stop its server cleanly before it is told to kill.
const stopTime = 30 * time.Second

func (l *Local) stopAgent(ctx context.Context, id proc.Identity) error {
	if err := id.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, proc.ErrGone) {
		return err
	}
	clean, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if l.await(clean, id, false) == nil {
		return nil
	}
	if err := l.signal(id, true); err != nil {
		return err
	}
	return l.await(ctx, id, true)
}

// reclaimLaunches ends the servers whose owner files prove them to be ours. name limits it to the launches of one host.
func reclaimLaunches(ctx context.Context, night, name string, say func(host, what string) error) error {
	var stuck []string
	err := filepath.WalkDir(filepath.Join(night, "launches"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && strings.HasPrefix(d.Name(), "load="):
			return fs.SkipDir
		case d.IsDir() || d.Name() != "owner.json":
			return nil
		}
		left, err := reclaimOwner(path, night, name, say)
		stuck = append(stuck, left...)
		return err
	})
	if err == nil && len(stuck) > 0 {
		err = fmt.Errorf("these processes outlived SIGKILL, so the machine needs attention: %s", strings.Join(stuck, ", "))
	}
	return err
}

func reclaimOwner(path, night, name string, say func(host, what string) error) (stuck []string, err error) {
	if name != "" && jobHost(filepath.Dir(path)) != name {
		return nil, nil
	}
	owner, err := proc.ReadOwner(path)
	if errors.Is(err, proc.ErrDamaged) { // it proves nothing; a server without its agent is ended by its supervisor
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if say != nil {
		if owner.Server.Alive() || owner.Supervisor.Alive() {
			rel, _ := filepath.Rel(night, filepath.Dir(path))
			if err := say(jobHost(filepath.Dir(path)), fmt.Sprintf("server of %s, process %d", rel, owner.Server.PID)); err != nil {
				return nil, err
			}
		}
	}
	report, err := proc.Reclaim(path, reclaimGrace)
	if err != nil {
		return nil, fmt.Errorf("end what %s names: %w", path, err)
	}
	for _, p := range report.Stuck {
		stuck = append(stuck, fmt.Sprintf("%d (%s)", p.PID, p.Comm))
	}
	return stuck, nil
}
