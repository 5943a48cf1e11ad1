package proc

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMeterKeepsTheDead(t *testing.T) {
	t.Parallel()
	var m meter
	ptxas := Process{Identity: Identity{"b", 1 << 30, 7}, Comm: "ptxas", CPU: 30 * tick, RSS: 100}
	spinner := Process{Identity: Identity{"b", 1<<30 + 1, 8}, Comm: "sglang::schedul", CPU: 500 * tick, RSS: 50}
	first := m.sample([]Process{ptxas, spinner})
	second := m.sample([]Process{spinner})
	if first.CompilerTicks != 30 || second.CompilerTicks != 30 || second.MemoryPeak != 150 {
		t.Errorf("%+v then %+v", first, second)
	}
	again := ptxas
	again.StartTicks++ // another compiler with the same pid
	if third := m.sample([]Process{again}); third.CompilerTicks != 60 {
		t.Errorf("%+v", third)
	}
}

func TestProgressOfARealTree(t *testing.T) {
	w := newWorld(t)
	data := w.path("weights")
	if err := os.WriteFile(data, []byte(strings.Repeat("w", 3<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.start(w.spec("tree"))
	w.ready(s, 2)
	before, err := s.Progress()
	if err != nil || before.BytesRead == 0 || before.MemoryPeak == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	after, err := s.Progress()
	if after.CompilerTicks != before.CompilerTicks || after.BytesRead-before.BytesRead > 1<<20 || err != nil {
		t.Errorf("an idle tree makes progress: %+v, then %+v, %v", before, after, err)
	}
	cat := exec.Command("sh", "-c", "cat "+data+" >/dev/null; exec sleep 20")
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cat.Process.Kill(); _ = cat.Wait() }()
	var m meter
	waitFor(5*time.Second, func() bool {
		n, _ := bytesRead(cat.Process.Pid)
		return n > 3<<20 // the shell counts its children that ended
	})
	id, err := Identify(cat.Process.Pid)
	if got := m.sample([]Process{{Identity: id}}); err != nil || got.BytesRead < 3<<20 {
		t.Errorf("%+v, %v", got, err)
	}
}
