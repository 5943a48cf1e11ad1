//go:build unix

package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep/sweep/proc"
)

// TestForkedAgentHoldsTheLock kills the starter, so to speak, right after it has forked its agent: that agent has
// not said a word yet, and all the same nobody takes it for absent and starts a second one.
func TestForkedAgentHoldsTheLock(t *testing.T) {
	t.Parallel()
	night := t.TempDir()
	l := local(t, night, "late-agent")
	l.patience = time.Minute
	if err := os.MkdirAll(l.dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := tryLock(filepath.Join(l.dir(), "lock"))
	if err != nil || lock == nil {
		t.Fatalf("lock: %v, %v", lock, err)
	}
	log, err := os.Create(filepath.Join(l.dir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	if l.child, err = startDetached(append(l.Agent, l.dir(), "--out", night), nil, log, lock); err != nil {
		t.Fatal(err)
	}
	child := l.child
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if lock, err := tryLock(filepath.Join(l.dir(), "lock")); lock != nil || err != nil {
		t.Fatalf("the lock of an agent that is coming up is free: %v", err)
	}
	found := make(chan int, 1)
	go func() {
		id, err := l.identity(t.Context())
		if err != nil {
			t.Error(err)
		}
		found <- id.PID
	}()
	if err := os.WriteFile(filepath.Join(l.dir(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// With an empty queue it ends at once: it was seen, or the lock is free by now.
	if pid := <-found; pid != child && pid != 0 {
		t.Errorf("found process %d, want %d", pid, child)
	}
	for {
		if ended, _ := l.reap(); ended {
			break
		}
		time.Sleep(5 * time.Millisecond) // a child is waited for without blocking, as a host does it
	}
	if lock, err := tryLock(filepath.Join(l.dir(), "lock")); lock == nil || err != nil {
		t.Errorf("the lock of an agent that has ended is held: %v", err)
	}
}

// TestInheritedLock: without the variable there is none, and it is taken out of the environment.
func TestInheritedLock(t *testing.T) {
	t.Setenv(proc.LockVariable, "none")
	if f := proc.InheritedLock(); f != nil {
		t.Errorf("a lock: %v", f.Name())
	}
	if v, ok := os.LookupEnv(proc.LockVariable); ok {
		t.Errorf("%s=%s is still there", proc.LockVariable, v)
	}
}
