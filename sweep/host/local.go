package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/proc"
)

// pollEvery is how often a local agent's events and life are looked at.
const pollEvery = 50 * time.Millisecond

// startTime bounds the start of an agent: until it has said who it is.
const startTime = 20 * time.Second

// Local runs launches on this machine. Its agent is a process of its own session: it outlives the
// caller, and nothing but its files connects the two.
type Local struct {
	ID    string   // name in the night: "local", "local-2"
	Night string   // the night's folder
	Agent []string // argv prefix that starts an agent: this program and "agent"; DIR, --out and NIGHT follow
	Env   []string // added to the agent's environment, KEY=VALUE

	patience time.Duration // instead of nowTime, in tests

	mu    sync.Mutex // guards child: a relay asks in several goroutines
	child int        // pid of the agent that this process started, to be waited for; 0: none
}

// Dir is the agent's folder in a night.
func Dir(night, name string) string { return filepath.Join(night, "agents", name) }

// Name implements [sweep.Host].
func (l *Local) Name() string { return l.ID }

func (l *Local) dir() string { return Dir(l.Night, l.ID) }

// Submit implements [sweep.Host]. Jobs that an earlier agent left unfinished are taken out of the
// queue, unless that agent is still at work: then the new ones are put behind them.
func (l *Local) Submit(ctx context.Context, jobs []sweep.Job) error {
	queue := filepath.Join(l.dir(), "queue")
	if err := os.MkdirAll(queue, 0o755); err != nil {
		return err
	}
	// The lock is taken here and handed to the agent: between its fork and its first own step nobody takes it
	// for absent, however this process ends.
	lock, err := l.takeLock(ctx)
	if err != nil {
		return err
	}
	working := lock == nil
	if !working {
		defer lock.Close()
		if err := supersede(queue); err != nil {
			return err
		}
	}
	next, err := nextNumber(queue)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		data, err := json.MarshalIndent(j, "", "  ")
		if err != nil {
			return err
		}
		if err := sweep.WriteFile(filepath.Join(queue, fmt.Sprintf("%04d.json", next+i)), append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	if working {
		return nil
	}
	return l.start(ctx, lock)
}

// takeLock takes the lock of the agent's folder; nil: an agent is at work, and has said who it is.
func (l *Local) takeLock(ctx context.Context) (*os.File, error) {
	l.reap()
	path := filepath.Join(l.dir(), "lock")
	for end := time.Now().Add(cmp.Or(l.patience, comesUp)); ; {
		lock, err := tryLock(path)
		if lock != nil || err != nil {
			return lock, err
		}
		if l.alive() {
			return nil, nil
		}
		if time.Now().After(end) {
			return nil, nameless(path)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// nameless is the error of a lock that is held by nobody knows whom.
func nameless(lock string) error {
	return fmt.Errorf("an agent is at work, but agent.json does not say which process it is: end the one that holds %s, as fuser shows it", lock)
}

// start starts the agent, gives it the lock, and waits until its file says who it is.
func (l *Local) start(ctx context.Context, lock *os.File) error {
	dir := l.dir()
	if err := os.Remove(filepath.Join(dir, "agent.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "agent.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	failpoint.Hit("agent.due")
	defer log.Close()
	said, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	child, err := startDetached(append(sweep.Startable(l.Agent), dir, "--out", l.Night), l.Env, log, lock)
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	l.mu.Lock()
	l.child = child
	l.mu.Unlock()
	failpoint.Hit("agent.forked")
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		_, err := readIdentity(dir)
		if err == nil {
			return nil
		}
		if ended, how := l.reap(); ended {
			if done, err := unfinished(filepath.Join(dir, "queue")); err == nil && len(done) == 0 {
				return nil // so short a queue that it was done before we looked
			}
			err := fmt.Errorf("start the agent: it ended at once (%s)%s", how, tail(log.Name(), said))
			if strings.HasPrefix(how, "signal ") { // somebody killed it, which another one may be spared
				err = fmt.Errorf("%w: %w", sweep.ErrAgentLost, err)
			}
			return err
		}
		if err := pause(ctx); err != nil {
			l.kill()
			return fmt.Errorf("start the agent: it did not come up: %w%s", err, tail(log.Name(), said))
		}
	}
}

// pause waits for the next look, or for the end of ctx.
func pause(ctx context.Context) error {
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// tail is the end of what an agent's log says from an offset on, as part of a message.
func tail(path string, from int64) string {
	data, err := os.ReadFile(path)
	if err != nil || int64(len(data)) <= from {
		return ""
	}
	data = bytes.TrimSpace(data[from:])
	if len(data) > 2000 {
		data = data[len(data)-2000:]
	}
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		lines[i] = sweep.Printable(line)
	}
	return ": " + strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// readIdentity reads who the agent of a folder is.
func readIdentity(dir string) (proc.Identity, error) {
	var id proc.Identity
	data, err := os.ReadFile(filepath.Join(dir, "agent.json"))
	if err != nil {
		return id, err
	}
	err = json.Unmarshal(data, &id)
	return id, err
}

// comesUp bounds the wait for an agent that has taken its lock to say who it is.
const comesUp = 10 * time.Second

// identity is who the agent of the folder is or was. When agent.json names no living one, the folder's lock, which
// ends with its process, must prove that none is at work: the file may be damaged, or not written yet.
func (l *Local) identity(ctx context.Context) (proc.Identity, error) {
	lock := filepath.Join(l.dir(), "lock")
	for end := time.Now().Add(cmp.Or(l.patience, comesUp)); ; {
		id, err := readIdentity(l.dir())
		if err == nil && id.Alive() {
			return id, nil
		}
		if _, err := os.Stat(lock); errors.Is(err, fs.ErrNotExist) {
			return proc.Identity{}, nil
		}
		switch free, lockErr := tryLock(lock); {
		case lockErr != nil:
			return id, lockErr
		case free != nil:
			return proc.Identity{}, free.Close()
		case time.Now().After(end):
			return id, nameless(lock)
		}
		if err := pause(ctx); err != nil {
			return id, err
		}
	}
}

// alive reports whether an agent is at work in the folder.
func (l *Local) alive() bool {
	l.reap()
	id, err := readIdentity(l.dir())
	return err == nil && id.Alive()
}

// Follow implements [sweep.Host].
func (l *Local) Follow(ctx context.Context, from int64, fn func(e sweep.Event, next int64) error) error {
	path := filepath.Join(l.dir(), "events.jsonl")
	for {
		alive := l.alive() // asked before the read: what it wrote until then is read below
		var err error
		if from, err = readEvents(path, from, fn); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !alive {
			open, err := unfinished(filepath.Join(l.dir(), "queue"))
			if err != nil {
				return err
			}
			if len(open) > 0 {
				return fmt.Errorf("%w: %d jobs left", sweep.ErrAgentLost, len(open))
			}
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// readEvents calls fn for the whole lines behind from and returns where the next one begins. A line
// that is no event is a crash's stump that a later agent has ended; it is passed over.
func readEvents(path string, from int64, fn func(e sweep.Event, next int64) error) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, from, 1<<62))
	if err != nil {
		return from, err
	}
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			break
		}
		from += int64(len(line))
		var e sweep.Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if err := fn(e, from); err != nil {
			return from, err
		}
	}
	return from, nil
}

// CatchUp implements [sweep.Outliving]: the agent writes into the night itself.
func (l *Local) CatchUp(ctx context.Context) error { return ctx.Err() }

// Working implements [sweep.Outliving].
func (l *Local) Working(context.Context) ([]sweep.Job, error) {
	reply, err := l.working()
	if err != nil || !reply.Alive {
		return nil, err
	}
	return reply.Jobs, nil
}

// Fetch implements [sweep.Host]: the agent writes into the night itself.
func (l *Local) Fetch(ctx context.Context, _ string) error { return ctx.Err() }

// Cancel implements [sweep.Host].
func (l *Local) Cancel(ctx context.Context, now bool) error {
	id, err := l.identity(ctx)
	if err != nil {
		return err
	}
	if id.Alive() {
		if err := l.signal(id, now); err != nil {
			return err
		}
		if err := l.await(ctx, id, now); err != nil {
			return err
		}
	}
	l.reap()
	if err := supersede(filepath.Join(l.dir(), "queue")); err != nil {
		return err
	}
	return reclaimLaunches(ctx, l.Night, l.ID, nil)
}

// signal asks an agent to stop. The second signal, which means at once, is of another kind: two of one kind
// that are pending together are one.
func (l *Local) signal(id proc.Identity, now bool) error {
	signals := []syscall.Signal{syscall.SIGTERM}
	if now {
		signals = append(signals, syscall.SIGINT)
	}
	for _, s := range signals {
		if err := id.Signal(s); err != nil && !errors.Is(err, proc.ErrGone) {
			return fmt.Errorf("stop the agent: %w", err)
		}
	}
	return nil
}

// nowTime is how long an agent may take to kill everything when asked to stop at once.
const nowTime = 10 * time.Second

// await waits until the agent is gone; one that does not obey the order to stop at once is killed, and its
// supervisors then end their servers.
func (l *Local) await(ctx context.Context, id proc.Identity, now bool) error {
	deadline := time.Now().Add(cmp.Or(l.patience, nowTime))
	for id.Alive() {
		if now && time.Now().After(deadline) {
			if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, proc.ErrGone) {
				return fmt.Errorf("kill the agent: %w", err)
			}
		}
		l.reap()
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the agent (process %d) is still there: %w", id.PID, err)
		}
	}
	return nil
}

// jobHost is the host's name in the job file of an attempt's folder; "" when that is not known.
func jobHost(attempt string) string {
	var job sweep.Job
	data, err := os.ReadFile(filepath.Join(attempt, "job.json"))
	if err != nil || json.Unmarshal(data, &job) != nil {
		return ""
	}
	return job.Host
}
