package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sweep/sweep/proc/proctest"
)

// The test binary plays every process of these tests: the supervisor, the shim, servers with all the
// bad habits of real ones, and an agent that can be killed.
const (
	roleKey   = "PROC_TEST_ROLE"
	cookieKey = "PROC_TEST_COOKIE" // in the environment of each process that a test starts, however far down
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		if len(os.Args) > 3 && os.Args[2] == "--exec" {
			os.Exit(Exec(os.Args[4:]))
		}
		os.Exit(Supervise(context.Background(), os.Stdin, os.Stdout))
	}
	if code, is := proctest.Client(); is {
		os.Exit(code)
	}
	if role := os.Getenv(roleKey); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func play(role string, args []string) int {
	switch role {
	case "agent":
		return playAgent(args[0])
	case "exit":
		fmt.Println("leaving")
		code, _ := strconv.Atoi(args[0])
		return code
	case "say":
		for _, a := range args {
			_, _ = io.WriteString(os.Stdout, a)
			time.Sleep(2 * time.Millisecond) // so that the reader sees each piece by itself
		}
		return 0
	case "env":
		fmt.Printf("dir=%s x=%s in=%d\n", cwd(), os.Getenv("X"), readAll(os.Stdin))
		return 0
	case "flood":
		line := strings.Repeat("x", 99)
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			fmt.Printf("%06d %s\n", i, line)
		}
		fmt.Println("the last line")
		if len(args) > 1 {
			select {}
		}
		return 0
	case "abort":
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		signal.Reset(syscall.SIGABRT)
		_ = unix.Kill(os.Getpid(), unix.SIGSEGV)
		select {}
	case "eat": // takes memory until it is killed
		var held [][]byte
		for range 4096 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		fmt.Println("ready", len(held))
		select {}
	case "kill9":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
		if err != nil {
			return 1
		}
		defer l.Close()
		fmt.Println("ready")
		select {}
	case "first-thread-dead":
		fmt.Println("ready")
		go func() { select {} }()
		go func() { time.Sleep(time.Hour) }()
		runtime.LockOSThread()
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		select {}
	}
	return playTree(role, args)
}

func cwd() string { d, _ := os.Getwd(); return d }

func readAll(r io.Reader) int { b, _ := io.ReadAll(r); return len(b) }

func init() {
	if os.Getenv(roleKey) == "first-thread-dead" {
		runtime.LockOSThread() // main then runs on the first thread
	}
}

// playTree plays the processes of a server that spreads.
func playTree(role string, args []string) int {
	switch role {
	case "zombie":
		child(false, "exit", "0")
		fmt.Println("ready")
		select {}
	case "leave": // ends and leaves a child behind
		child(true, "sleep")
		fmt.Println("ready")
		return 3
	case "double": // the child is an orphan in a session of its own
		child(true, "sleep")
		return 0
	case "rename": // a new name, and an environment without our mark
		if os.Getenv("SHELL") != "" || os.Getenv(markVariable) != "" {
			err := syscall.Exec("/proc/self/exe", os.Args[:1], []string{roleKey + "=rename", cookieKey + "=" + os.Getenv(cookieKey)})
			fmt.Println("rename:", err)
			return 1
		}
		name := append([]byte("sglang::schedu) R 1 ("), 0)
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
		select {}
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("ready")
		select {}
	case "tree":
		signal.Ignore(syscall.SIGHUP)
		child(false, "sleep")
		child(true, "sleep")
		child(true, "double")
		child(false, "rename")
		child(true, "deaf")
		fmt.Println("ready")
		if len(args) > 0 && args[0] == "deaf" {
			signal.Ignore(syscall.SIGTERM)
		}
		select {}
	case "sleep":
		select {}
	}
	fmt.Println("no such role", role)
	return 99
}

// child starts one more process; nobody waits for it.
func child(session bool, role string, args ...string) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleKey+"="+role)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		fmt.Println("child:", err)
	}
}

// playAgent starts a server and waits to be killed.
func playAgent(text string) int {
	var spec Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Println(err)
		return 1
	}
	supervisor := []string{os.Args[0], "supervise"}
	s, err := Start(context.Background(), supervisor, spec)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.PID(), s.supervisor.PID)
	<-s.Gone()
	return 0
}

// world is what one test starts.
type world struct {
	t      *testing.T
	self   string
	dir    string
	cookie string
	as     []string // before each supervisor: who it runs as
}

// newWorld checks at the test's end that no process of it is left.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, self: self, dir: t.TempDir()}
	w.cookie = fmt.Sprintf("%s=%d-%s", cookieKey, os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() {
		if left := w.processes(5*time.Second, 0); len(left) > 0 {
			t.Errorf("processes left: %v", left)
			for _, p := range left {
				_ = p.Signal(syscall.SIGKILL) // started by this test: it bears its cookie
			}
		}
	})
	return w
}

// processes are the living processes with the test's cookie, polled until there are as many as wanted.
func (w *world) processes(limit time.Duration, want int) []Process {
	w.t.Helper()
	boot, err := bootID()
	if err != nil {
		w.t.Fatal(err)
	}
	var out []Process
	waitFor(limit, func() bool {
		out = nil
		all, err := allStats()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range all {
			env, _ := os.ReadFile(procPath(s.pid, "environ"))
			if s.alive() && strings.Contains("\x00"+string(env), "\x00"+w.cookie+"\x00") {
				out = append(out, s.process(boot))
			}
		}
		return len(out) == want
	})
	return out
}

func (w *world) path(name string) string { return w.dir + "/" + name }

func (w *world) spec(role string, args ...string) Spec {
	return Spec{
		Argv:  append([]string{w.self}, args...),
		Env:   append(os.Environ(), roleKey+"="+role, w.cookie),
		Log:   w.path("server.log"),
		Owner: w.path("owner.json"),
	}
}

func (w *world) supervisor() []string {
	return append(slices.Clone(w.as), "/usr/bin/env", w.cookie, w.self, "supervise")
}

func (w *world) start(spec Spec) *Server {
	w.t.Helper()
	s, err := Start(w.t.Context(), w.supervisor(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if !closed(s.Gone()) {
			_, _ = s.Stop(context.Background(), 0)
		}
	})
	return s
}

// ready waits for n lines "ready" in the server's log.
func (w *world) ready(s *Server, n int) {
	w.t.Helper()
	w.said(s, func(log string) bool { return strings.Count("\n"+log, "\nready") >= n })
}

// said waits until the server's log is as ok wants it; the server must live until then.
func (w *world) said(s *Server, ok func(log string) bool) {
	w.t.Helper()
	if !waitFor(20*time.Second, func() bool { return ok(w.log()) || closed(s.Gone()) }) || !ok(w.log()) {
		w.t.Fatalf("the log never came to what was awaited: %.200q", w.log())
	}
}

func (w *world) log() string {
	w.t.Helper()
	b, err := os.ReadFile(w.path("server.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) await(c <-chan struct{}, what string) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		w.t.Fatal("not in 20 s: " + what)
	}
}
