package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/conformance"
)

// TestMain makes the test binary an agent or a relay when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "relay" && os.Args[2] == "--root" {
		os.Exit(relay(os.Args[3]))
	}
	if len(os.Args) == 5 && os.Args[1] == "agent" && os.Args[3] == "--out" {
		os.Exit(conformance.Agent(os.Args[2], os.Args[4]))
	}
	if len(os.Args) > 1 && os.Args[1] == "no-agent" {
		fmt.Println("this is no agent \x1b[31m")
		os.Exit(9)
	}
	if len(os.Args) == 5 && os.Args[1] == "late-agent" {
		for { // until the test lets it come up: nothing of it is there to wait on
			if _, err := os.Stat(filepath.Join(os.Args[2], "go")); err == nil {
				os.Exit(conformance.Agent(os.Args[2], os.Args[4]))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	os.Exit(m.Run())
}

// relay is the main of the process at a link's end.
func relay(root string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	r := &Relay{Root: root, Agent: []string{self, "agent"}, patience: 300 * time.Millisecond}
	if err := r.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		return 1
	}
	return 0
}

func local(t *testing.T, night, mode string) *Local {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Local{ID: "local", Night: night, Agent: []string{self, mode}, patience: 300 * time.Millisecond}
}

func TestLocalConforms(t *testing.T) {
	conformance.Run(t, conformance.Subject{
		New: func(t *testing.T, night string) sweep.Host { return local(t, night, "agent") },
		Alive: func(_ *testing.T, night string) bool {
			id, err := readIdentity(Dir(night, "local"))
			return err == nil && id.Alive()
		},
	})
}

func TestAgentThatDoesNotStart(t *testing.T) {
	t.Parallel()
	jobs := []sweep.Job{{ID: "a/repeat=1", Attempt: 1}}
	err := local(t, t.TempDir(), "no-agent").Submit(t.Context(), jobs)
	if err == nil || !strings.Contains(err.Error(), `it ended at once (exit code 9): this is no agent \x1b[31m`) {
		t.Errorf("submit: %v", err)
	}
	missing := &Local{ID: "local", Night: t.TempDir(), Agent: []string{filepath.Join(t.TempDir(), "missing")}}
	if err := missing.Submit(t.Context(), jobs); err == nil || !strings.Contains(err.Error(), "start the agent") {
		t.Errorf("submit: %v", err)
	}
}

func TestReclaimEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	night := t.TempDir()
	l := local(t, night, "agent")
	if err := l.Submit(t.Context(), []sweep.Job{{ID: "a/repeat=1", Attempt: 1, Config: sweep.Config{Key: conformance.Waits}}}); err != nil {
		t.Fatal(err)
	}
	id, err := readIdentity(l.dir())
	if err != nil || !id.Alive() {
		t.Fatalf("the agent does not live: %v", err)
	}
	var said []string
	err = Reclaim(t.Context(), night, func(host, what string) error {
		said = append(said, host+": "+what)
		return nil
	})
	if err != nil || id.Alive() {
		t.Errorf("alive: %t, %v", id.Alive(), err)
	}
	if want := fmt.Sprintf("local: agent, process %d", id.PID); len(said) != 1 || said[0] != want {
		t.Errorf("said %q, want %q", said, want)
	}
	if open, err := unfinished(filepath.Join(l.dir(), "queue")); err != nil || len(open) > 0 {
		t.Errorf("still in the queue: %v, %v", open, err)
	}
	if err := Reclaim(t.Context(), night, nil); err != nil { // nothing is left to say
		t.Error(err)
	}
}
