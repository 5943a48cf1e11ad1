package proc

import (
	"errors"
	"time"
)

// ErrCommand is wrapped by the error of [Start] when the server's command could not be executed: no
// such file, not executable, no such directory.
var ErrCommand = errors.New("the command cannot be executed")

// ErrKilled is wrapped by the error of [Start] when a signal ended the supervisor before the server ran, or before
// that was said: what the owner file proves to be ours is then for [Reclaim] to end.
var ErrKilled = errors.New("the supervisor was killed")

// ErrGone is wrapped by errors of calls that need a living process.
var ErrGone = errors.New("the process is gone")

// LockVariable is the environment variable that tells an agent the number of a descriptor which holds its folder's
// lock. It is taken before the agent is forked and ends with it, so no moment is without either.
const LockVariable = "SWEEP_AGENT_LOCK"

// Identity names one process for as long as the machine is up. A pid alone is used again by the
// kernel, so the time of its start goes with it.
type Identity struct {
	BootID     string `json:"boot_id"`     // of the machine's present start
	PID        int    `json:"pid"`         //
	StartTicks uint64 `json:"start_ticks"` // clock ticks from boot to the start of the process
}

// Process is one process as the kernel shows it.
type Process struct {
	Identity
	PPID    int           `json:"ppid"`          // parent
	Session int           `json:"session"`       // pid of the process that opened its session
	Comm    string        `json:"comm"`          // name, cut to 15 bytes by the kernel
	State   string        `json:"state"`         // R running, S sleeping, D in the kernel and deaf to signals, Z dead but not waited for, T stopped
	CPU     time.Duration `json:"cpu_ns"`        // user and system time so far
	RSS     int64         `json:"rss,omitempty"` // bytes of resident memory, shared pages included
}

// Spec is all that a supervisor needs to start one server. It travels on the supervisor's stdin, so
// its secrets are in no argv and no file.
type Spec struct {
	Argv []string `json:"argv"`          // of the server; no shell sees it
	Env  []string `json:"env"`           // the server's whole environment, KEY=VALUE
	Dir  string   `json:"dir,omitempty"` // the server's working directory; "" is the caller's

	Log     string   `json:"log"`                // file for stdout and stderr; it must not exist
	LogHead int64    `json:"log_head,omitempty"` // bytes kept from the start; 0 is 64 MiB
	LogTail int64    `json:"log_tail,omitempty"` // bytes kept from the end; 0 is 16 MiB
	Secrets []string `json:"secrets,omitempty"`  // values that may not reach the log; those shorter than [MinSecret] are left alone

	KillLimit time.Duration `json:"kill_limit_ns,omitempty"` // for SIGKILL to work, before what still lives is given up as stuck; 0 is 30 s

	MemoryMax   int64      `json:"memory_max,omitempty"`   // bytes of host memory that the tree may hold, swap excluded, where a control group can be made; 0: no limit
	MemoryFloor int64      `json:"memory_floor,omitempty"` // where none can limit it: the tree is killed when the machine has less available, in bytes; 0: never
	Container   *Container `json:"container,omitempty"`    // nil: the server's processes are our own descendants
	NoGroup     bool       `json:"no_group,omitempty"`     // make no control group, as where none can be made

	Owner     string         `json:"owner"`                // the owner file to write
	OwnerInfo map[string]any `json:"owner_info,omitempty"` // what the caller wants to find in it again
}

// Exit is how the launched process ended.
type Exit struct {
	Code   int    `json:"code"`             // exit code, or -1 when a signal ended it
	Signal int    `json:"signal,omitempty"` // number of that signal
	By     string `json:"by,omitempty"`     // who ended it: "sweep", "server" (it ended itself), "outside", or "" when not known: SIGKILL that we did not send may be the kernel, a person or the server itself
	Lost   bool   `json:"lost,omitempty"`   // how the server ended was not seen: the supervisor was killed, or the server is stuck and was given up
}

// Ways in which a server ended, for [StopReport].
const (
	HowAlready = "already" // it had ended before Stop was called
	HowTerm    = "term"    // SIGTERM to the launched process was enough
	HowKill    = "kill"    // the tree was killed
)

// StopReport is what a stop did. No process is left unless Stuck names it.
type StopReport struct {
	How     string    `json:"how"`
	Seconds float64   `json:"seconds"`          // from the call until nothing was left, or until it was given up
	Killed  []Process `json:"killed,omitempty"` // those that were alive when the tree was killed
	Stuck   []Process `json:"stuck,omitempty"`  // those that outlived SIGKILL and were not waited for longer
}

// Owner is the owner file: which processes are ours, written before the server's exec and renewed
// while it runs.
type Owner struct {
	Schema      int            `json:"schema"`
	BootID      string         `json:"boot_id"`
	Supervisor  Identity       `json:"supervisor"`
	Server      Identity       `json:"server"`
	Containment string         `json:"containment"`            // how the tree is held: [HeldCgroup] and its like
	Group       Group          `json:"group,omitzero"`         // the control group that holds it
	Container   *Container     `json:"container,omitempty"`    // whose processes a container runtime's daemon may own
	Planned     []string       `json:"planned,omitempty"`      // before the server's exec: folders of groups that may have been made
	MemoryGuard string         `json:"memory_guard,omitempty"` // what keeps the tree from taking all of the host's memory: [GuardCgroup], [GuardWatchdog] or nothing
	Mark        string         `json:"mark,omitempty"`         // NAME=VALUE in the environment of each process of the tree that did not change its own
	Members     []Identity     `json:"members,omitempty"`      // the tree as last seen, at most about a second old
	Info        map[string]any `json:"info,omitempty"`
}

// What keeps a tree from taking all of the host's memory.
const (
	GuardCgroup   = "cgroup"   // the limit of its control group
	GuardWatchdog = "watchdog" // the supervisor, which kills the tree when the machine runs short
)

// Starved says why a tree was killed by its watchdog, in bytes.
type Starved struct {
	Available int64 `json:"available"` // of the machine's memory, when it was killed
	Floor     int64 `json:"floor"`     // under which it may not fall
	Fell      int64 `json:"fell"`      // by how much it had fallen since the tree's start
	Tree      int64 `json:"tree"`      // what the tree's processes held: memory of their own, and shared memory counted in each
}

// ReclaimReport is what a reclaim found and did.
type ReclaimReport struct {
	Found   []Process `json:"found,omitempty"`  // ours and alive when it began
	Killed  []Process `json:"killed,omitempty"` // those that needed SIGKILL
	Stuck   []Process `json:"stuck,omitempty"`  // those that outlived it
	Seconds float64   `json:"seconds"`
}

// Sample is the work that a tree of processes has done so far, for telling a slow start from a hang.
// Every number only grows while the same [Server] is asked. CPU time is not among them: processes
// that wait for each other in a hung collective spin.
type Sample struct {
	BytesRead     int64  `json:"bytes_read"`     // by read calls or from disk, whichever is more, of all processes living and dead
	MemoryPeak    int64  `json:"memory_peak"`    // highest sum of resident bytes seen, shared pages counted in each process
	CompilerTicks uint64 `json:"compiler_ticks"` // CPU ticks of compilers and linkers in the tree, living and dead
}
