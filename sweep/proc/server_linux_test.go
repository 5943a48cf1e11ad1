package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// treeSize is the number of processes of the role "tree": the root, a child, one in its own session,
// an orphan in its own session, one that renames itself, one that ignores SIGTERM.
const treeSize = 6

func TestExit(t *testing.T) {
	tests := []struct {
		role string
		args []string
		want Exit
	}{
		{"exit", []string{"0"}, Exit{By: "server"}},
		{"exit", []string{"42"}, Exit{Code: 42, By: "server"}},
		{"kill9", nil, Exit{Code: -1, Signal: 9}},
	}
	for _, tt := range tests {
		t.Run(tt.role+strings.Join(tt.args, ""), func(t *testing.T) {
			w := newWorld(t)
			s := w.start(w.spec(tt.role, tt.args...))
			w.await(s.Gone(), "the end")
			if s.Exit() != tt.want {
				t.Errorf("exit %+v, want %+v", s.Exit(), tt.want)
			}
			if len(s.Killed()) > 0 {
				t.Errorf("killed %v", s.Killed())
			}
			if r, err := s.Stop(t.Context(), time.Second); err != nil || r.How != HowAlready {
				t.Errorf("stop after the end: %+v, %v", r, err)
			}
			if err := s.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

func TestExitOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status syscall.WaitStatus
		asked  int
		by     string
	}{
		{0x0000, 0, "server"}, {0x2a00, 0, "server"}, {0x0000, 15, "sweep"},
		{9, 0, ""}, {9, 9, "sweep"}, {9, 15, "sweep"}, // SGLang answers SIGTERM by killing itself
		{15, 0, "outside"}, {15, 15, "sweep"}, {1, 0, "outside"},
		{11, 0, "server"}, {6, 0, "server"}, {0x80 | 6, 0, "server"}, {3, 0, ""},
	}
	for _, tt := range tests {
		asked := map[int]bool{tt.asked: tt.asked > 0}
		if got := exitOf(unixStatus(tt.status), asked); got.By != tt.by {
			t.Errorf("status %#x after signal %d: %+v, want by %q", tt.status, tt.asked, got, tt.by)
		}
	}
}

func TestOutsideSignal(t *testing.T) {
	w := newWorld(t)
	s := w.start(w.spec("sleep"))
	if err := s.Identity().Signal(syscall.SIGTERM); err != nil { // not through the supervisor
		t.Fatal(err)
	}
	w.await(s.Done(), "the end")
	if want := (Exit{Code: -1, Signal: 15, By: "outside"}); s.Exit() != want {
		t.Errorf("exit %+v, want %+v", s.Exit(), want)
	}
}

func TestServerSurroundings(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("env")
	spec.Dir = t.TempDir()
	spec.Env = append(spec.Env, "X=a b'c")
	spec.OwnerInfo = map[string]any{"port": 8}
	s := w.start(spec)
	w.await(s.Gone(), "the end")
	if want := fmt.Sprintf("dir=%s x=a b'c in=0\n", spec.Dir); w.log() != want {
		t.Errorf("log %q, want %q", w.log(), want)
	}
	o, err := ReadOwner(spec.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if o.Server != s.Identity() || o.Supervisor != s.supervisor || o.BootID == "" || o.Containment != o.Group.held() || o.Mark == "" || o.Info["port"] != 8.0 {
		t.Errorf("owner %+v", o)
	}
	if info, _ := os.Stat(spec.Log); info.Mode().Perm() != 0o600 {
		t.Errorf("log mode %v", info.Mode())
	}
	if s.Identity().Alive() {
		t.Error("a server that ended is alive")
	}
}

func TestStartFails(t *testing.T) {
	notExecutable := t.TempDir() + "/plain"
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		change  func(*Spec)
		command bool
		text    string
	}{
		{"no file", func(s *Spec) { s.Argv[0] = "/no/such/server" }, true, "/no/such/server"},
		{"not on PATH", func(s *Spec) { s.Argv[0] = "no-such-server" }, true, "no-such-server"},
		{"not executable", func(s *Spec) { s.Argv[0] = notExecutable }, true, "permission denied"},
		{"empty", func(s *Spec) { s.Argv = nil }, true, "empty"},
		{"no directory", func(s *Spec) { s.Dir = "/no/such/dir" }, true, "/no/such/dir"},
		{"log exists", func(s *Spec) { s.Log = notExecutable }, false, "log"},
		{"owner unwritable", func(s *Spec) { s.Owner = "/no/such/dir/owner.json" }, false, "owner"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			spec := w.spec("sleep")
			tt.change(&spec)
			s, err := Start(t.Context(), w.supervisor(), spec)
			if err == nil {
				_, _ = s.Stop(t.Context(), 0)
				t.Fatal("started")
			}
			if errors.Is(err, ErrCommand) != tt.command || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q", err)
			}
		})
	}
	t.Run("no supervisor", func(t *testing.T) {
		w := newWorld(t)
		if _, err := Start(t.Context(), []string{"/bin/echo"}, w.spec("sleep")); err == nil {
			t.Error("echo is no supervisor")
		}
	})
}

func TestStop(t *testing.T) {
	tests := []struct {
		args   []string
		grace  time.Duration
		how    string
		signal int
	}{
		{nil, 10 * time.Second, HowTerm, 15},
		{[]string{"deaf"}, 300 * time.Millisecond, HowKill, 9},
		{nil, 0, HowKill, 9},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.how, tt.grace), func(t *testing.T) {
			w := newWorld(t)
			s := w.start(w.spec("tree", tt.args...))
			w.ready(s, 2) // the root and the deaf child
			if got := w.processes(5*time.Second, treeSize+1); len(got) != treeSize+1 {
				t.Fatalf("%d processes: %v", len(got), got)
			}
			w.settled(s.supervisor.PID, s.PID())
			if tree, err := s.Tree(); err != nil || len(tree) != treeSize {
				t.Errorf("tree %v, %v", tree, err)
			}
			r, err := s.Stop(t.Context(), tt.grace)
			if err != nil || r.How != tt.how || len(r.Stuck) > 0 || len(r.Killed) == 0 || r.Seconds > 10 {
				t.Errorf("report %+v, %v", r, err)
			}
			if e := s.Exit(); e.Signal != tt.signal || e.By != "sweep" {
				t.Errorf("exit %+v", e)
			}
			if left := w.processes(0, 0); len(left) > 0 {
				t.Errorf("left at once after Stop: %v", left)
			}
		})
	}
}

// TestStopStuck kills a process that does not die: frozen, it is as deaf as one that sleeps in a driver.
func TestStopStuck(t *testing.T) {
	group := fmt.Sprintf("/sys/fs/cgroup/freezer/sweep-test-%d", os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("needs a writable freezer control group: ", err)
	}
	w := newWorld(t)
	t.Cleanup(func() { waitFor(5*time.Second, func() bool { return os.Remove(group) == nil }) })
	write := func(name, text string) {
		if err := os.WriteFile(group+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := w.spec("sleep")
	spec.KillLimit = 500 * time.Millisecond
	s := w.start(spec)
	write("cgroup.procs", fmt.Sprint(s.PID()))
	write("freezer.state", "FROZEN")
	defer write("freezer.state", "THAWED")
	waitFor(5*time.Second, func() bool { b, _ := os.ReadFile(group + "/freezer.state"); return string(b) == "FROZEN\n" })
	r, err := s.Stop(t.Context(), 50*time.Millisecond)
	if err != nil || r.How != HowKill || r.Seconds > 10 {
		t.Errorf("%+v, %v", r, err)
	}
	if len(r.Stuck) != 1 || r.Stuck[0].Identity != s.Identity() || r.Stuck[0].State != "D" {
		t.Errorf("stuck %+v", r.Stuck)
	}
	if !s.Identity().Alive() {
		t.Error("a stuck process is said to be dead")
	}
	if want := (Exit{Code: -1, Lost: true}); !closed(s.Done()) || s.Exit() != want {
		t.Errorf("exit %+v", s.Exit())
	}
}

func TestStartCalledOff(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("second thoughts")
	cancel(why)
	if s, err := Start(ctx, w.supervisor(), w.spec("tree", "deaf")); err == nil { // it may have been quicker
		_, _ = s.Stop(t.Context(), 0)
	} else if !errors.Is(err, why) {
		t.Error(err)
	}
	if left := w.processes(time.Second, 0); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// settled waits until the tree is complete, its orphan has fallen to the supervisor, and the owner
// file lists it.
func (w *world) settled(supervisor, root int) {
	w.t.Helper()
	ok := waitFor(15*time.Second, func() bool {
		tree, _ := Descendants(supervisor)
		var ids []Identity
		fallen := false
		for _, p := range tree {
			ids = append(ids, p.Identity)
			fallen = fallen || p.PPID == supervisor && p.PID != root
		}
		slices.SortFunc(ids, func(a, b Identity) int { return a.PID - b.PID })
		o, _ := ReadOwner(w.path("owner.json"))
		return fallen && len(ids) == treeSize && slices.Equal(ids, o.Members)
	})
	if !ok {
		w.t.Fatal("the tree is not complete after 15 s")
	}
}

func TestStragglers(t *testing.T) {
	w := newWorld(t)
	s := w.start(w.spec("leave"))
	w.await(s.Done(), "the end of the root")
	if s.Exit().Code != 3 || s.Exit().By != "server" {
		t.Errorf("exit %+v", s.Exit())
	}
	w.await(s.Gone(), "the end of the rest")
	if k := s.Killed(); len(k) != 1 {
		t.Errorf("killed %v", k)
	}
}

func TestSupervisorKilled(t *testing.T) {
	w := newWorld(t)
	s := w.start(w.spec("tree"))
	w.ready(s, 2)
	w.settled(s.supervisor.PID, s.PID())
	if err := s.supervisor.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(s.Gone(), "the end of everything")
	if e := s.Exit(); !e.Lost || e.By != "outside" {
		t.Errorf("exit %+v", e)
	}
	if s.LogError() == nil {
		t.Error("the log is said to be complete")
	}
	if r, err := s.Stop(t.Context(), time.Second); err != nil || r.How != HowAlready {
		t.Errorf("stop %+v, %v", r, err)
	}
}

// agent starts another process that starts a server, and waits until the tree is up.
func (w *world) agent(spec Spec) (agent *exec.Cmd, server, supervisor Identity) {
	w.t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	argv := append(slices.Clone(w.as), w.self, string(text))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), roleKey+"=agent", w.cookie)
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	var root, sup int
	if _, err := fmt.Sscan(line, &root, &sup); err != nil {
		w.t.Fatalf("%q: %v", line, err)
	}
	server, _ = Identify(root)
	supervisor, _ = Identify(sup)
	return cmd, server, supervisor
}

func TestAgentKilled(t *testing.T) {
	w := newWorld(t)
	agent, server, supervisor := w.agent(w.spec("tree", "deaf"))
	if got := w.processes(10*time.Second, treeSize+2); len(got) != treeSize+2 {
		t.Fatalf("%d processes", len(got))
	}
	_ = agent.Process.Kill()
	_ = agent.Wait()
	waitFor(10*time.Second, func() bool { return !server.Alive() && !supervisor.Alive() })
	if left := w.processes(10*time.Second, 0); len(left) > 0 || server.Alive() || supervisor.Alive() {
		t.Errorf("left: %v, server %v, supervisor %v", left, server.Alive(), supervisor.Alive())
	}
}

func TestReclaim(t *testing.T) {
	for _, dead := range []string{"everything", "nothing"} {
		t.Run(dead+" was killed", func(t *testing.T) {
			w := newWorld(t)
			owner := w.path("owner.json")
			agent, server, supervisor := w.agent(w.spec("tree"))
			w.settled(supervisor.PID, server.PID)
			if dead == "everything" {
				// Stopped, the supervisor cannot notice that the agent is gone.
				_ = supervisor.Signal(syscall.SIGSTOP)
				_ = agent.Process.Kill()
				_ = supervisor.Signal(syscall.SIGKILL)
				waitFor(5*time.Second, func() bool { return !server.Alive() })
				if server.Alive() {
					t.Error("the server outlived its supervisor")
				}
				if left := w.processes(0, 0); len(left) < 3 {
					t.Errorf("nothing to reclaim: %v", left)
				}
			}
			r, err := Reclaim(owner, 5*time.Second)
			if err != nil || len(r.Stuck) > 0 || len(r.Found) == 0 {
				t.Errorf("report %+v, %v", r, err)
			}
			if left := w.processes(time.Second, 0); len(left) > 0 && dead == "everything" {
				t.Errorf("left: %v", left)
			}
			_ = agent.Wait()
			again, err := Reclaim(owner, 0)
			if err != nil || len(again.Found) > 0 {
				t.Errorf("second report %+v, %v", again, err)
			}
		})
	}
}

func TestReclaimLeavesOthers(t *testing.T) {
	w := newWorld(t)
	s := w.start(w.spec("sleep"))
	o, err := ReadOwner(w.path("owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Owner){
		"another boot":       func(o *Owner) { o.BootID = "00000000-0000-0000-0000-000000000000" },
		"another start time": func(o *Owner) { o.Server.StartTicks++; o.Supervisor.StartTicks++; o.Members = nil },
		"pid 1":              func(o *Owner) { *o = Owner{BootID: o.BootID, Server: Identity{o.BootID, 1, 0}} },
	}
	for name, change := range tests {
		changed := o
		change(&changed)
		path := w.path(name)
		if err := writeOwner(path, changed, true); err != nil {
			t.Fatal(err)
		}
		r, err := Reclaim(path, 0)
		if err != nil || len(r.Found) > 0 {
			t.Errorf("%s: report %+v, %v", name, r, err)
		}
	}
	if !s.Identity().Alive() {
		t.Error("a process was ended that the file does not prove")
	}
	if r, err := Reclaim(w.path("none"), 0); err != nil || len(r.Found) > 0 {
		t.Errorf("no file: %+v, %v", r, err)
	}
	if err := os.WriteFile(w.path("torn"), []byte(`{"schema":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Reclaim(w.path("torn"), 0); err == nil {
		t.Error("a torn file gives no error")
	}
}

func TestLogCapped(t *testing.T) {
	w := newWorld(t)
	spec := w.spec("flood", "20000", "stay")
	spec.LogHead, spec.LogTail = 10_000, 5_000
	s := w.start(spec)
	// The server stays, so the end of its output must come without its end.
	w.said(s, func(log string) bool { return strings.HasSuffix(log, "\nthe last line\n") })
	early := w.log()
	if _, err := s.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	log := w.log()
	if !strings.HasPrefix(log, early) {
		t.Error("what was written has moved")
	}
	m := regexp.MustCompile(`\n\[sweep: (\d+) bytes of output are cut here\]\n`).FindStringSubmatch(log)
	if m == nil || !strings.HasPrefix(log, "000000 x") || len(log) > 10_000+2*5_000+200 {
		t.Fatalf("%d bytes of log, mark %q", len(log), m)
	}
	var cut int
	_, _ = fmt.Sscan(m[1], &cut)
	total := 20000*107 + len("the last line\n")
	kept := len(strings.Replace(log, strings.TrimPrefix(m[0], "\n"), "", 1))
	if d := cut + kept - total; d < 0 || d > 1 { // one line end was added before the mark
		t.Errorf("cut %d and kept %d of %d bytes", cut, kept, total)
	}
}

func TestSecretsInPieces(t *testing.T) {
	w := newWorld(t)
	secret := "S3cr3t-canary-value"
	var args []string
	for i := 1; i < len(secret); i++ {
		args = append(args, "a "+secret[:i], secret[i:]+" b\n")
	}
	spec := w.spec("say", args...)
	spec.Secrets = []string{secret}
	s := w.start(spec)
	w.await(s.Gone(), "the end")
	if want := strings.Repeat("a [redacted] b\n", len(secret)-1); w.log() != want {
		t.Errorf("log %q", w.log())
	}
	owner, _ := os.ReadFile(w.path("owner.json"))
	if strings.Contains(string(owner), secret) {
		t.Error("the owner file holds the secret")
	}
}

func TestAliveness(t *testing.T) {
	t.Run("zombie", func(t *testing.T) {
		w := newWorld(t)
		s := w.start(w.spec("zombie"))
		w.ready(s, 1)
		var dead stat
		waitFor(5*time.Second, func() bool {
			all, _ := allStats()
			for _, b := range below(all, s.PID()) {
				if b.state == 'Z' && !b.alive() { // its further threads may take a moment
					dead = b
				}
			}
			return dead.pid != 0
		})
		if dead.pid == 0 {
			t.Fatal("no zombie")
		}
		id, err := Identify(dead.pid)
		if err != nil || id.Alive() {
			t.Errorf("a zombie is alive: %v, %v", id, err)
		}
		if err := id.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
			t.Errorf("signal a zombie: %v", err)
		}
	})
	t.Run("first thread dead", func(t *testing.T) {
		w := newWorld(t)
		s := w.start(w.spec("first-thread-dead"))
		w.ready(s, 1)
		waitFor(5*time.Second, func() bool { st, _ := readStat(s.PID()); return st.state == 'Z' })
		if st, _ := readStat(s.PID()); st.state != 'Z' || !s.Identity().Alive() {
			t.Errorf("state %c, alive %v", st.state, s.Identity().Alive())
		}
		if state, ok := threadState(s.PID()); !ok || state != "S" {
			t.Errorf("thread state %q", state)
		}
		if r, err := s.Stop(t.Context(), 0); err != nil || len(r.Stuck) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("self", func(t *testing.T) {
		id, err := Self()
		if err != nil || !id.Alive() {
			t.Errorf("%v, %v", id, err)
		}
		id.StartTicks--
		if id.Alive() || !errors.Is(id.Signal(0), ErrGone) {
			t.Error("another start time is alive")
		}
	})
}

func unixStatus(s syscall.WaitStatus) unix.WaitStatus { return unix.WaitStatus(s) }
