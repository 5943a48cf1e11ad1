package simulate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What comes to a simulated machine from outside of the server: other people's processes and the kernel.

// Files of a simulated machine's state folder.
const (
	eventsFile = "memory.events" // as in a control group of version 2
	kernelFile = "kernel.log"    // as dmesg prints it
	keptFile   = "kept"          // claims that no process holds, until a reset of the GPUs
	wedgedFile = "wedged"        // those that not even a reset ends
	resetsFile = "resets.log"    // one line for each reset that was asked for
)

// strike lets the outside act when a phase or a generation begins.
func (l *launch) strike(due faults) error {
	for _, f := range due {
		var err error
		switch bytes := int64(f.value * gib); f.kind {
		case "stranger":
			err = l.stranger(bytes)
		case "crowd":
			err = WriteClaims(l.p, fmt.Sprintf("crowd-%d", os.Getpid()), []Claim{{PID: 1, StartTicks: startTicks(1), Name: "postgres", HostBytes: bytes}})
		case "oom-kill":
			err = l.kernelKill()
		case "hoard":
			l.hoarded = hoard(bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stranger puts another process on the first GPU of the server. It stays when the server ends. What stands for it is
// the machine's first process: it is never one of ours.
func (l *launch) stranger(bytes int64) error {
	gpu := 0
	if len(l.gpus) > 0 {
		gpu = l.gpus[0]
	}
	claim := Claim{PID: 1, StartTicks: startTicks(1), Name: "python3 train.py", GPUBytes: map[int]int64{gpu: bytes}}
	if err := WriteClaims(l.p, fmt.Sprintf("stranger-%d", os.Getpid()), []Claim{claim}); err != nil {
		return err
	}
	if l.mem != nil {
		l.mem.others.Add(bytes)
	}
	return nil
}

// hoard takes memory of the real machine: each page of it is written to.
func hoard(bytes int64) []byte {
	b := make([]byte, bytes)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// keepMemory leaves a claim behind that nobody's death ends, as a driver that lost track of a process does. Only a reset
// of the GPU takes it away.
func (l *launch) keepMemory() error {
	for _, f := range l.faults {
		name := map[string]string{"keep-memory": keptFile, "wedge": wedgedFile}[f.kind]
		if name == "" {
			continue
		}
		held := map[int]int64{}
		for _, gpu := range l.gpus {
			held[gpu] = int64(f.value * gib)
		}
		if err := WriteClaims(l.p, name, []Claim{{GPUBytes: held}}); err != nil {
			return err
		}
	}
	return nil
}

// kernelKill ends scheduler 0 as the kernel's OOM killer does: the counter and the log first, then the process.
func (l *launch) kernelKill() error {
	kids := l.kids.schedulers()
	if len(kids) == 0 {
		return nil
	}
	if err := noteKill(l.p, kids[0].pid, "sglang::schedul", time.Since(l.began)); err != nil {
		return err
	}
	l.crashScheduler()
	return nil
}

// noteKill writes down one killing of the simulated kernel.
func noteKill(p *Profile, pid int, name string, uptime time.Duration) error {
	dir := StateDir(p)
	kills, err := oomKills(p)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("low 0\nhigh 0\nmax 0\noom %d\noom_kill %d\noom_group_kill 0\n", kills+1, kills+1)
	if err := writeAtomic(filepath.Join(dir, eventsFile), []byte(text)); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, kernelFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	at := 90_000 + uptime.Seconds()
	_, err = fmt.Fprintf(f, "[%12.6f] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=%s,pid=%d,uid=0\n"+
		"[%12.6f] Out of memory: Killed process %d (%s) total-vm:187654321kB, anon-rss:50331648kB, file-rss:71204kB, shmem-rss:0kB, UID:0 pgtables:101234kB oom_score_adj:0\n",
		at, name, pid, at+0.000_031, pid, name)
	return errors.Join(err, f.Close())
}

// oomKills is how many processes the simulated kernel has killed.
func oomKills(p *Profile) (int, error) {
	data, err := os.ReadFile(filepath.Join(StateDir(p), eventsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
			return strconv.Atoi(value)
		}
	}
	return 0, nil
}

// runState prints a file that the simulated kernel keeps; there is nothing in it while nothing has happened.
func runState(file string, args []string, stdout, stderr io.Writer) int {
	o, code, err := parseSMI(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return code
	}
	data, err := os.ReadFile(filepath.Join(StateDir(o.profile), file))
	switch {
	case errors.Is(err, fs.ErrNotExist) && file == eventsFile:
		data = []byte("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		fmt.Fprintln(stderr, err)
		return 3
	}
	_, _ = stdout.Write(data) // a reader that is gone needs nothing
	return 0
}
