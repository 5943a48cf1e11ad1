//go:build unix

package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sweep/sweep/proc"
)

// TestReclaimOfDamagedFiles: files that name no process any more keep nobody from going on, unless a lock
// proves that an agent is at work.
func TestReclaimOfDamagedFiles(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", "\x00\x00", "{}", "[1]", `{"boot_id":"x","pid":-7,"start_ticks":1}`} {
		night := t.TempDir()
		dir := Dir(night, "local")
		attempt := filepath.Join(night, "launches", "a", "repeat=1", "attempt=1")
		for _, d := range []string{dir, attempt} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{filepath.Join(dir, "agent.json"), filepath.Join(attempt, "owner.json"), filepath.Join(attempt, "job.json")} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		say := func(host, what string) error {
			t.Errorf("%q: said %s: %s", content, host, what)
			return nil
		}
		if err := Reclaim(t.Context(), night, say); err != nil {
			t.Errorf("%q: %v", content, err)
		}
		l := &Local{ID: "local", Night: night}
		if err := l.Cancel(t.Context(), true); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestReclaimSeesTheLock(t *testing.T) {
	t.Parallel()
	night := t.TempDir()
	dir := Dir(night, "local")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	err = Reclaim(t.Context(), night, nil)
	if err == nil || !strings.Contains(err.Error(), "an agent is at work, but agent.json does not say which process it is") || !strings.Contains(err.Error(), lock.Name()) {
		t.Errorf("a lock without a name: %v", err)
	}

	// One that is just coming up says so a moment later.
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(100*time.Millisecond, func() { _ = os.WriteFile(filepath.Join(dir, "agent.json"), data, 0o600) })
	defer timer.Stop()
	l := &Local{ID: "local", Night: night}
	if id, err := l.identity(t.Context()); err != nil || id != self {
		t.Errorf("identity %+v, %v; want %+v", id, err, self)
	}
}
