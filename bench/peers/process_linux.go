package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sampleEvery is how often a client's processes are looked at. A look costs some 50 µs of the server's core.
const sampleEvery = 20 * time.Millisecond

// usage is what a client's processes took.
type usage struct {
	started  time.Time
	wall     time.Duration
	exit     string // "": it ended well
	cpu      time.Duration
	samples  []sample
	peakRSS  int64 // bytes, of all its processes together, shared pages included
	peakAnon int64 // bytes, private memory only
}

// sample is the CPU time of a client's processes so far.
type sample struct{ at, cpu int64 } // Unix ns, ns

// between is the CPU time from one moment to another, in ns, by straight lines between the samples.
func (u *usage) between(from, to int64) int64 {
	at := func(t int64) float64 {
		before := sample{at: u.started.UnixNano()}
		for _, s := range u.samples {
			if s.at >= t {
				if s.at == before.at {
					return float64(s.cpu)
				}
				return float64(before.cpu) + float64(s.cpu-before.cpu)*float64(t-before.at)/float64(s.at-before.at)
			}
			before = s
		}
		return float64(before.cpu)
	}
	return int64(at(to) - at(from))
}

// pin confines the calling thread, and what it starts, to one core.
func pin(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("core %d: %w", core, err)
	}
	return nil
}

// pinAll confines all threads of this process to one core.
func pinAll(core int) error {
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(core)
	for _, task := range tasks {
		id, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("core %d: %w", core, err)
		}
	}
	return nil
}

// start starts a command on a core of its own.
func start(cmd *exec.Cmd, core int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := pin(core); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), unix.SchedSetaffinity(0, &before))
}

// measure runs a client to its end, and looks at its processes meanwhile.
func measure(ctx context.Context, argv []string, dir string, core int, limit time.Duration) (*usage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TOKENIZERS_PARALLELISM=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	u := &usage{started: time.Now()}
	if err := start(cmd, core); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { u.watch(cmd.Process.Pid, ended) })
	err = cmd.Wait()
	u.wall = time.Since(u.started)
	close(ended)
	wg.Wait()
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.samples = append(u.samples, sample{at: u.started.Add(u.wall).UnixNano(), cpu: max(int64(u.cpu), u.lastCPU())})
	switch {
	case ctx.Err() != nil:
		u.exit = context.Cause(ctx).Error()
	case err != nil:
		u.exit = err.Error()
	}
	return u, nil
}

func (u *usage) lastCPU() int64 {
	if len(u.samples) == 0 {
		return 0
	}
	return u.samples[len(u.samples)-1].cpu
}

// watch samples a tree of processes until its root has ended.
func (u *usage) watch(root int, ended <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	cpu := map[int]int64{} // of each process that was ever seen
	pids := []int{root}
	for n := 0; ; n++ {
		if n%10 == 0 {
			pids = tree(root)
		}
		var rss, anon, sum int64
		now := time.Now().UnixNano()
		for _, pid := range pids {
			if ns, ok := processCPU(pid); ok {
				cpu[pid] = ns
			}
			r, a := memory(pid)
			rss, anon = rss+r, anon+a
		}
		for _, ns := range cpu {
			sum += ns
		}
		u.samples = append(u.samples, sample{now, sum})
		u.peakRSS, u.peakAnon = max(u.peakRSS, rss), max(u.peakAnon, anon)
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// tree lists a process and all that it started, directly or not.
func tree(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i])) // the pattern is well formed
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it ended
			}
			for f := range bytes.FieldsSeq(text) {
				if pid, err := strconv.Atoi(string(f)); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// processCPU is the CPU time of a process so far, in ns: its own clock, exact to the moment.
func processCPU(pid int) (int64, bool) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|scheduled, &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// memory is what of a process is resident, in bytes: all, and without what it shares with files and others.
func memory(pid int) (rss, anon int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(text)
	if len(f) < 3 {
		return 0, 0
	}
	var pages [2]int64
	for i := range pages {
		pages[i], _ = strconv.ParseInt(string(f[i+1]), 10, 64) // the kernel writes numbers
	}
	page := int64(os.Getpagesize())
	return pages[0] * page, (pages[0] - pages[1]) * page
}
