package sweep

import (
	"cmp"
	"time"
)

// Grid is a parsed and valid grid file.
type Grid struct {
	Path   string // as the user gave it
	Source []byte // the file's bytes, kept with the night

	Name    string   // begins the names of its nights; the file's own name when the grid has none
	Engine  string   // as in package engine
	Model   string   // path or hub id; "~" is expanded
	Command []string // argv prefix that starts the server; empty: the engine's default. A first word "sweep" means this very binary
	// Attach is the URL of a server that somebody else runs, in place of launches: it is never started, stopped or signalled, and its
	// prefix cache is emptied between loads only where Flush says so.
	Attach    string
	AttachKey string // environment variable, next to whoever measures, that holds its API key; empty: it asks for none
	Flush     bool

	Container *Container // nil: servers are programs of the host; else Command and Workdir are those inside the container
	Workdir   string     // of the server; empty: the agent's own
	Env       Params     // values may hold references ${env:NAME}, resolved only next to the server
	Hosts     []HostSpec // at least one; this machine when the grid has none

	Server       []Setting // flags of every launch
	Axes         []Axis    // server axes, in order
	Exclude      []Params
	Include      []Include
	Baseline     Params // one value for each axis, or {label: x}; empty: the first config
	Unacceptable []Unacceptable

	Workloads []Workload
	Loads     []Load // workloads in the order in which loads name them, levels ascending
	Measure   Measure
	Limits    Limits        // each as the grid has it, or its default
	Repeats   int           // how often every config is launched and measured; 1 unless the grid says more
	Until     string        // time of day by which the night ends, as "07:30"; empty: nothing bounds it
	Budget    time.Duration // how long a run or a resume of the night may take; 0: as long as it takes
	Drift     bool          // run the baseline once more at the end of each repeat; true unless the grid says "drift: off"

	// What a grid for confirming another's result has.
	Only    []string // keys of the configs that are run; nil: all
	Prompts string   // draws other prompts than a grid without it, or with another text

	// What only a report uses.
	PricePerHour float64 // of one host with its GPUs, in dollars; 0: not given
	AcceptEdge   bool    // a config that died at a higher load may be named best
}

// HostSpec names one place where launches run.
type HostSpec struct {
	Name     string   // "local", or "local-2" for a second entry; over SSH the machine's name
	GPUs     []string // indexes or UUIDs; nil: all
	Simulate string   // name of a simulated machine's profile; empty: a real one
	SSH      *SSHSpec `json:",omitempty"` // nil: this machine

	Strangers Strangers `json:",omitempty"` // what to do while somebody else is on the GPUs
	Recover   Recover   `json:",omitzero"`
}

// machine tells the hosts of one machine from others; this machine is "".
func (h HostSpec) machine() string {
	if h.SSH == nil {
		return ""
	}
	return h.SSH.Target
}

// Strangers is what a launch does while somebody else's process is on its GPUs.
type Strangers string

// The policies. Each names the process, its user and its memory in the result.
const (
	StrangersFail Strangers = ""     // the launch ends as busy.gpu, and is tried again as often as that outcome allows
	StrangersWait Strangers = "wait" // it waits for them to leave, up to half an hour, before that
	StrangersSkip Strangers = "skip" // it ends as busy.gpu, and the night goes on with the next one
)

// Recover says what a host's agent may do, besides waiting and ending our own processes, to get back GPUs whose memory does
// not come back. The zero value allows nothing.
type Recover struct {
	Reset bool     `json:"gpu_reset,omitempty"` // reset them by nvidia-smi
	Hook  []string `json:"hook,omitempty"`      // argv of the user's own command
}

// Axis is one server axis.
type Axis struct {
	Name   string
	Values []AxisValue
}

// AxisValue is one value to try: its label everywhere, and the settings that it brings. For a plain
// axis the label is the value's literal text and the only setting is the axis itself.
type AxisValue struct {
	Label    string
	Settings []Setting
}

// Include is one config beside the product of the axes.
type Include struct {
	Label    string
	Settings []Setting
}

// Unacceptable marks configs that have all of Match's values: measured if asked for, never named best.
type Unacceptable struct {
	Match  Params
	Reason string
}

// Limits bound the waits of a launch. Zero means the default named beside each.
type Limits struct {
	Start     time.Duration `json:"start"`      // hard limit from exec to ready, progress or not: 45m
	Stall     time.Duration `json:"stall"`      // without progress of any kind before ready; an engine may ask for more in a phase: 10m
	LoadStall time.Duration `json:"load_stall"` // without a byte on any stream while requests are open: 60s
	Stop      time.Duration `json:"stop"`       // from SIGTERM to SIGKILL: 20s
}

// WithDefaults replaces each limit that is zero by its default.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Start:     cmp.Or(l.Start, 45*time.Minute),
		Stall:     cmp.Or(l.Stall, 10*time.Minute),
		LoadStall: cmp.Or(l.LoadStall, time.Minute),
		Stop:      cmp.Or(l.Stop, 20*time.Second),
	}
}

// Config is one value for each server axis: one server command line.
type Config struct {
	Key          string    `json:"key"`             // "mem-fraction-static=0.88,hicache-size=48", or the label of an included config; safe as a folder's name
	Axes         Params    `json:"axes"`            // axis name → label; an included config has its settings here
	Label        string    `json:"label,omitempty"` // of an included config
	Settings     []Setting `json:"settings"`        // all flags in order: those of every launch, then the axes'
	Baseline     bool      `json:"baseline,omitempty"`
	Unacceptable string    `json:"unacceptable,omitempty"` // the reason
}

// Role says what a launch's numbers are for.
type Role string

// The roles.
const (
	RoleMeasure Role = "measure"
	RoleDrift   Role = "drift" // the baseline once more at the end of a repeat; never ranked
)

// Launch is one start of a server as planned: a config in one repeat with the loads that it is to hold.
type Launch struct {
	Config Config
	Repeat int // from 1
	Role   Role
	Loads  []Load
}

// ID names the launch in a night and is its folder below launches/: "CONFIG/repeat=1", "CONFIG@drift/repeat=1".
func (l Launch) ID() string { return launchID(l.Config.Key, l.Repeat, l.Role) }

// CellKey names the cell of this launch at one load: "CONFIG/LOAD", with "@drift" at the end in that role.
// Key and repeat together name one record.
func (l Launch) CellKey(load Load) string {
	key := l.Config.Key + "/" + load.String()
	if l.Role == RoleDrift {
		key += "@drift"
	}
	return key
}

// Plan is a grid expanded: what runs, in order.
type Plan struct {
	Grid     *Grid
	Configs  []Config // baseline first
	Launches []Launch // repeats outermost; in each the baseline first and, as a drift check, last
}
