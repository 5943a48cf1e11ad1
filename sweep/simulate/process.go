package simulate

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

// childVariable names the kind of child that a process is to be. It also keeps a child from starting servers of its own.
const childVariable = "SWEEP_SIMULATE_CHILD"

// leftoverLife ends a left-behind process after all, so that a test that forgets it leaves nothing for ever.
const leftoverLife = 5 * time.Minute

// child is a process of the simulated server's tree.
type child struct {
	kind    string // scheduler, detokenizer, leftover
	rank    int
	pid     int
	process *os.Process // to signal it by: not another that was given its pid in the moment of its end
	pipe    *os.File    // its stdin: closed by our end, however we end
}

func (c child) name() string {
	if c.kind == "scheduler" {
		return fmt.Sprintf("scheduler_%d", c.rank)
	}
	return c.kind
}

// family is the tree of processes below the launched one.
type family struct {
	events  chan familyEvent
	mu      sync.Mutex
	members []child
	gone    map[int]bool
	silent  bool // we end them ourselves: their deaths are no news
	start   chan func()
}

// familyEvent is something that happened to a child.
type familyEvent struct {
	child child
	what  childEvent
	code  int
}

// newFamily readies the thread that starts children: they die with that thread, so it must live as long as the process.
func newFamily() *family {
	f := &family{events: make(chan familyEvent, 64), gone: map[int]bool{}, start: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for job := range f.start {
			job()
		}
	}()
	return f
}

// spawn starts a child of this very program.
func (f *family) spawn(kind string, rank int, stdout, stderr io.Writer) (child, error) {
	self, err := os.Executable()
	if err != nil {
		return child{}, fmt.Errorf("start %s: %w", kind, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return child{}, fmt.Errorf("start %s: %w", kind, err)
	}
	defer r.Close()
	attr := &os.ProcAttr{
		Env:   append(os.Environ(), childVariable+"="+kind, "GOMAXPROCS=1"),
		Files: []*os.File{r, fileOf(stdout), fileOf(stderr)},
		Sys:   childAttr(bondOf(kind)),
	}
	var process *os.Process
	done := make(chan struct{})
	f.start <- func() {
		process, err = os.StartProcess(sweep.Executable(self), []string{os.Args[0], "simulate", "child", kind}, attr)
		close(done)
	}
	<-done
	if err != nil {
		w.Close()
		return child{}, fmt.Errorf("start %s: %w", kind, err)
	}
	c := child{kind, rank, process.Pid, process, w} // waited for by its pid, which also tells when it is stopped
	f.mu.Lock()
	f.members = append(f.members, c)
	f.mu.Unlock()
	go f.watch(c)
	return c, nil
}

// fileOf is the file behind a writer; nil where there is none: the child then has no such file.
func fileOf(w io.Writer) *os.File {
	f, _ := w.(*os.File)
	return f
}

func (f *family) watch(c child) {
	for {
		what, code := waitChild(c.pid)
		f.mu.Lock()
		f.gone[c.pid] = what == childExited
		silent := f.silent
		f.mu.Unlock()
		if !silent {
			f.events <- familyEvent{c, what, code}
		}
		if what == childExited {
			return
		}
	}
}

// kill ends all children but those meant to be left behind.
func (f *family) kill(kinds ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = true
	for _, c := range f.members {
		if c.stray() || f.gone[c.pid] || len(kinds) > 0 && !slices.Contains(kinds, c.kind) {
			continue
		}
		_ = c.process.Kill() // one that is gone needs none
	}
}

func (f *family) schedulers() []child {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []child
	for _, c := range f.members {
		if c.kind == "scheduler" {
			list = append(list, c)
		}
	}
	return list
}

// RunChild is the life of a process that a simulated server started: it reports whether this process is
// one, and then the exit code. Programs that may become one call it first.
func RunChild() (code int, is bool) {
	kind := os.Getenv(childVariable)
	if kind == "" || len(os.Args) < 4 || os.Args[1] != "simulate" || os.Args[2] != "child" {
		return 0, false
	}
	setComm(strings.TrimSpace(("sglang::" + kind)[:min(15, len("sglang::"+kind))]))
	if way, stray := strings.CutPrefix(kind, escapePrefix); stray {
		return runEscape(way), true
	}
	if kind == "leftover" {
		time.Sleep(leftoverLife)
		return 0, true
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the launched process ends
	return 0, true
}
