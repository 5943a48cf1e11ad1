package simulate

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"sweep/sweep"
)

// bond says what becomes of a child when its parent ends.
type bond int

const (
	withParent bond = iota // it is killed with it
	ownSession             // it lives on, in a session of its own
	none                   // it lives on
)

// escapePrefix begins the kinds of children that try to outlive the server; the way follows.
const escapePrefix = "escape-"

// grandchild is the kind of the child of a child that is gone.
const grandchild = "grandchild"

// bondOf is how a kind of child hangs on its parent.
func bondOf(kind string) bond {
	switch kind {
	case "leftover", escapePrefix + "setsid":
		return ownSession
	case escapePrefix + "fork", escapePrefix + "rename", escapePrefix + "deaf", escapePrefix + "orphan":
		return none
	}
	return withParent
}

// stray reports whether a child's death is no news to the server, and the server leaves it behind.
func (c child) stray() bool { return c.kind == "leftover" || strings.HasPrefix(c.kind, escapePrefix) }

// escapes reports whether a way of escaping was asked for.
func (fs faults) escapes(way string) bool {
	return slices.ContainsFunc(fs, func(f fault) bool { return f.kind == "escape" && f.flag == way })
}

// bootEscapes starts the children that try to outlive the server.
func (l *launch) bootEscapes() error {
	for _, f := range l.faults {
		if f.kind != "escape" {
			continue
		}
		if _, err := l.kids.spawn(escapePrefix+f.flag, 0, l.stdout, l.log.w); err != nil {
			return err
		}
	}
	return nil
}

// runEscape is the life of a child that tries to outlive the server.
func runEscape(way string) int {
	switch way {
	case "fork":
		if err := forkAway(); err != nil {
			fmt.Fprintln(os.Stderr, "escape:", err)
			return 1
		}
		return 0
	case "rename":
		if os.Getenv(renamedVariable) == "" {
			err := become([]string{"python3) S 1 (", "simulate", "child", "-"}, []string{childVariable + "=" + escapePrefix + "rename", renamedVariable + "=1"})
			fmt.Fprintln(os.Stderr, "escape:", err)
			return 1
		}
		setComm("pt_main) S 1 (")
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	time.Sleep(leftoverLife)
	return 0
}

// renamedVariable is set in a child that has its new name.
const renamedVariable = "SWEEP_SIMULATE_RENAMED"

// forkAway starts a child in a session of its own and does not wait for it.
func forkAway() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := os.StartProcess(sweep.Executable(self), []string{os.Args[0], "simulate", "child", grandchild}, &os.ProcAttr{
		Env: append(os.Environ(), childVariable+"="+escapePrefix+grandchild), Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: childAttr(ownSession),
	})
	if err != nil {
		return err
	}
	return p.Release()
}
