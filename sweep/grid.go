package sweep

import (
	"cmp"
	"time"
)

// Grid is a parsed and valid grid file.
type Grid struct {
	Path   string // as the user gave it
	Source []byte // the file's bytes, kept with the night

	Name    string     // begins the names of its nights; the file's own name when the grid has none
	Engine  string     // as in package engine
	Model   string     // path or hub id; "~" is expanded
	Command []string   // argv prefix that starts the server; empty: the engine's default. A first word "sweep" means this very binary
	Workdir string     // of the server; empty: the agent's own
	Env     Params     // values may hold references ${env:NAME}, resolved only next to the server
	Hosts   []HostSpec // at least one; this machine when the grid has none

	Server       []Setting // flags of every launch
	Axes         []Axis    // server axes, in order
	Exclude      []Params
	Include      []Include
	Baseline     Params // one value for each axis, or {label: x}; empty: the first config
	Unacceptable []Unacceptable

	Workloads []Workload
	Loads     []Load // workloads in the order in which loads name them, levels ascending
	Measure   Measure
	Limits    Limits // each as the grid has it, or its default
	Repeats   int    // how often every config is launched and measured; 1 unless the grid says more
	Drift     bool   // run the baseline once more at the end of each repeat; true unless the grid says "drift: off"
}

// HostSpec names one place where launches run. Hosts other than this machine come with a later version.
type HostSpec struct {
	Name     string   // "local", or "local-2" for a second entry
	GPUs     []string // indexes or UUIDs; nil: all
	Simulate string   // name of a simulated machine's profile; empty: a real one
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
