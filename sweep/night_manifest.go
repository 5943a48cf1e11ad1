package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Manifest is manifest.json: all that a night is to do, as it was decided at its start.
type Manifest struct {
	Schema   int       `json:"schema"`
	Night    string    `json:"night"`   // the folder's name
	Name     string    `json:"name"`    // of the grid
	Version  string    `json:"version"` // of sweep
	Created  time.Time `json:"created_at"`
	Grid     string    `json:"grid"` // the grid file that the user gave, as an absolute path
	Repeats  int       `json:"repeats"`
	Override bool      `json:"repeats_override,omitempty"` // Repeats was asked for on the command line instead of the grid's
	Imply    bool      `json:"imply"`                      // a load that dies on memory implies the higher levels of its workload
	// SkipHeadroomGiB: launches whose forecast leaves less headroom are skipped. nil: none are.
	SkipHeadroomGiB *float64      `json:"skip_headroom_gib,omitempty"`
	NoFlagCheck     bool          `json:"no_flag_check,omitempty"` // flags are not held against the server's own help
	Engine          string        `json:"engine"`
	Model           string        `json:"model"`
	Hosts           []HostSpec    `json:"hosts"`
	Price           float64       `json:"price_per_hour,omitempty"` // of one host, in dollars
	Edge            bool          `json:"accept_edge,omitempty"`    // a config that died at a higher load may be named best
	Baseline        string        `json:"baseline"`                 // Config.Key
	Configs         []Config      `json:"configs"`                  // in the order of the plan
	Loads           []Load        `json:"loads"`
	Workloads       []Workload    `json:"workloads"`
	Cells           []PlannedCell `json:"cells"` // in the order of the plan; Cell and Repeat together are unique
}

// PlannedCell is one cell in one repeat: what will be one record.
type PlannedCell struct {
	Cell       string `json:"cell"`
	Repeat     int    `json:"repeat"`
	ContentKey string `json:"content_key"` // hash of all that decides the measurement
	Launch     string `json:"launch"`      // Launch.ID
	Host       string `json:"host"`
	Config     string `json:"config"` // Config.Key
	Role       Role   `json:"role"`
	Load       Load   `json:"load"`
	Seed       uint64 `json:"seed"` // the same for a load in every config of a repeat; below 2^53, so that every reader of JSON keeps it
}

// cellID names one record.
type cellID struct {
	cell   string
	repeat int
}

func (c PlannedCell) id() cellID { return cellID{c.Cell, c.Repeat} }

// newManifest lists what a plan's night is to do. engine may be nil when its arguments are not known.
func newManifest(plan *Plan, engine *Engine) Manifest {
	g := plan.Grid
	m := Manifest{
		Schema: Schema, Name: g.Name, Engine: g.Engine, Model: g.Model,
		Hosts: slices.Clone(g.Hosts), Configs: plan.Configs, Loads: g.Loads, Workloads: g.Workloads,
		Price: g.PricePerHour, Edge: g.AcceptEdge,
	}
	if len(m.Hosts) == 0 {
		m.Hosts = []HostSpec{{Name: "local"}}
	}
	for _, c := range plan.Configs {
		if c.Baseline {
			m.Baseline = c.Key
		}
	}
	hosts := shareOut(plan, m.Hosts)
	for i, l := range plan.Launches {
		m.Repeats = max(m.Repeats, l.Repeat)
		for _, load := range l.Loads {
			seed := loadSeed(g.Prompts, load, l.Repeat)
			m.Cells = append(m.Cells, PlannedCell{
				Cell: l.CellKey(load), Repeat: l.Repeat, ContentKey: contentKey(g, engine, l.Config, hosts[i], load, seed),
				Launch: l.ID(), Host: hosts[i].Name, Config: l.Config.Key, Role: l.Role, Load: load, Seed: seed,
			})
		}
	}
	return m
}

// shareOut gives each launch of a plan its host: the one with the fewest loads so far. A drift check
// runs where its baseline ran, or it would compare two machines.
func shareOut(plan *Plan, hosts []HostSpec) []HostSpec {
	loads := make([]int, len(hosts))
	baseline := map[int]int{} // repeat → host
	out := make([]HostSpec, len(plan.Launches))
	for i, l := range plan.Launches {
		h, known := baseline[l.Repeat]
		if l.Role != RoleDrift || !known {
			h = slices.Index(loads, slices.Min(loads))
		}
		if l.Config.Baseline && !known {
			baseline[l.Repeat] = h
		}
		loads[h] += len(l.Loads)
		out[i] = hosts[h]
	}
	return out
}

// HostOf gives each launch of the plan the host on which it is to run, in order.
func (p *Plan) HostOf() []HostSpec {
	hosts := p.Grid.Hosts
	if len(hosts) == 0 {
		hosts = []HostSpec{{Name: "local"}}
	}
	return shareOut(p, hosts)
}

// loadSeed depends on the load and the repeat alone, and on what the grid asks for, so that every config meets the same requests.
func loadSeed(prompts string, load Load, repeat int) uint64 {
	text := fmt.Appendf(nil, "%s repeat=%d", load, repeat)
	if prompts != "" {
		text = fmt.Appendf(text, " prompts=%s", prompts)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:8]) >> 11
}

// contentKey is the hash of what decides a measurement. Ports, names of servers, hosts and folders are
// not part of it; an environment variable given by reference counts with its reference, never its value.
func contentKey(g *Grid, engine *Engine, c Config, host HostSpec, load Load, seed uint64) string {
	w := g.workload(load.Workload)
	what := struct {
		Schema    int
		Engine    string
		Model     string
		Command   []string
		Argv      []string
		Settings  []Setting
		Environ   []string
		Env       Params
		Workload  Workload
		Pools     []Pool
		Arrivals  *Arrivals `json:",omitempty"`
		Attach    string    `json:",omitempty"`
		Measure   Measure
		Seed      uint64
		GPUs      []string
		Simulate  string
		Container *Container `json:",omitempty"`
	}{
		Schema: Schema, Engine: g.Engine, Model: g.Model, Command: g.Command, Settings: c.Settings,
		Env: slices.Clone(g.Env), Workload: w.nameless(), Pools: load.Pools, Arrivals: load.Arrivals.nameless(), Attach: g.Attach, Measure: g.Measure.Of(w), Seed: seed,
		GPUs: host.GPUs, Simulate: host.Simulate, Container: g.Container,
	}
	slices.SortFunc(what.Env, func(a, b Param) int { return cmp.Compare(a.Name, b.Name) })
	if engine != nil {
		if len(what.Command) == 0 {
			what.Command = engine.Command
		}
		what.Environ = engine.Environ
		what.Argv = engine.Argv(ServerSpec{Model: g.Model, Settings: c.Settings})
	}
	data, err := json.Marshal(what)
	if err != nil {
		panic(err) // plain strings and numbers
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// nameless is a workload whose files count by their content alone.
func (w Workload) nameless() Workload {
	w.Classes = slices.Clone(w.Classes)
	for i := range w.Classes {
		w.Classes[i].Prompts = w.Classes[i].Prompts.nameless()
	}
	return w
}

func (a *Arrivals) nameless() *Arrivals {
	if a == nil || a.Trace == nil {
		return a
	}
	b := *a
	b.Trace = a.Trace.nameless()
	return &b
}

func (f *File) nameless() *File {
	if f == nil {
		return nil
	}
	return &File{SHA256: f.SHA256}
}

func (g *Grid) workload(name string) Workload {
	for _, w := range g.Workloads {
		if w.Name == name {
			return w
		}
	}
	return Workload{Name: name}
}

// ReadManifest reads the manifest of the night in dir.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, manifestFile), err)
	}
	if m.Schema != Schema {
		return m, fmt.Errorf("%s has schema %d; this version of sweep reads %d", filepath.Join(dir, manifestFile), m.Schema, Schema)
	}
	return m, nil
}

func (m Manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, manifestFile), append(data, '\n'), 0o644)
}

// Change says how one cell of a night differs between two grids.
type Change struct {
	Kind   string // "new", "gone" or "changed"
	Cell   string
	Repeat int
}

// String is the change as a person reads it.
func (c Change) String() string { return fmt.Sprintf("%s: %s, repeat %d", c.Kind, c.Cell, c.Repeat) }

// Changes lists how the cells of next differ from those of m: new and changed ones in the order of
// next, then those that are gone.
func (m Manifest) Changes(next Manifest) []Change {
	was := map[cellID]string{}
	for _, c := range m.Cells {
		was[c.id()] = c.ContentKey
	}
	var changes []Change
	for _, c := range next.Cells {
		key, ok := was[c.id()]
		switch {
		case !ok:
			changes = append(changes, Change{"new", c.Cell, c.Repeat})
		case key != c.ContentKey:
			changes = append(changes, Change{"changed", c.Cell, c.Repeat})
		}
		delete(was, c.id())
	}
	for _, c := range m.Cells {
		if _, gone := was[c.id()]; gone {
			changes = append(changes, Change{"gone", c.Cell, c.Repeat})
		}
	}
	return changes
}
