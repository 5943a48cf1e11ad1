package proc

import (
	"time"
)

// watchPeriod is between two looks at the machine's memory. A server that fills it asks for it in large pieces, at some GB a second.
const watchPeriod = 200 * time.Millisecond

// watchdog kills a tree that no control group limits before it takes all of the machine's memory. nil watches nothing.
type watchdog struct {
	meminfo string // file, for tests
	floor   int64  // bytes that must stay available
	first   int64  // available at the start
	ticker  *time.Ticker
	found   *Starved
}

// newWatchdog is nil where the control group limits the tree, or no floor is asked for.
func (s *supervisor) newWatchdog() *watchdog {
	if s.group.Max > 0 || s.spec.MemoryFloor <= 0 {
		return nil
	}
	w := &watchdog{meminfo: "/proc/meminfo", floor: s.spec.MemoryFloor, ticker: time.NewTicker(watchPeriod)}
	w.first, _ = w.available()
	return w
}

func (w *watchdog) available() (int64, bool) {
	values, err := readFields(w.meminfo)
	kb, ok := values["MemAvailable"]
	return kb << 10, err == nil && ok
}

// look reports whether the tree is to be killed now.
func (w *watchdog) look(tree func() ([]Process, error)) bool {
	now, ok := w.available()
	if !ok || now >= w.floor || w.found != nil {
		return false
	}
	w.found = &Starved{Available: now, Floor: w.floor, Fell: w.first - now}
	all, _ := tree() // without it the tree's part is not known, and it is killed all the same
	for _, p := range all {
		w.found.Tree += ownMemory(p)
	}
	return true
}

// ownMemory is what a process holds without the files that it has mapped, which the kernel can drop.
func ownMemory(p Process) int64 {
	values, err := readFields(procPath(p.PID, "status"))
	if err != nil {
		return 0
	}
	return (values["RssAnon"] + values["RssShmem"]) << 10
}

func (w *watchdog) tick() <-chan time.Time {
	if w == nil {
		return nil
	}
	return w.ticker.C
}

func (w *watchdog) stop() {
	if w != nil {
		w.ticker.Stop()
	}
}

func (w *watchdog) report() *Starved {
	if w == nil {
		return nil
	}
	return w.found
}
