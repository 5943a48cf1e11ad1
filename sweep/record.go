package sweep

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is what one cell gave in one repeat. In cells.jsonl it is one flat object: parameters stand
// under their own names as strings, values under theirs as numbers; what is not known is absent.
// results/README.md documents each key.
type Record struct {
	Night         string
	Cell          string // Launch.CellKey
	ContentKey    string
	Role          Role
	Config        string
	Load          Load
	Repeat        int
	Attempt       int
	Host          string
	GPU           string
	GPUCount      int
	Engine        string
	EngineVersion string
	Model         string
	Axes          Params // server parameters; in JSON "-" in a name becomes "_"
	Baseline      bool
	Unacceptable  string
	Command       string // the server's command line, for a person to paste
	Ending
	Steady  *bool
	Verdict string
	// Attached is the URL of a server that somebody else runs, Effective are its settings by its own word.
	Attached  string
	Effective map[string]string
	// VerdictWhy is what speaks against the numbers, Client how requests travelled, Stamps who stamped events.
	VerdictWhy     []string
	Client, Stamps string
	Values         Values // facts, metrics, counts and signals
	Failures       map[string]int
	Notes          []string
	StartedAt      time.Time
	EndedAt        time.Time
	Dir            string // the attempt's folder, relative to the night
}

// FlatName is a parameter's key in a record: "mem-fraction-static" becomes "mem_fraction_static".
func FlatName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// MarshalJSON writes the flat object, in a fixed order of keys.
func (r Record) MarshalJSON() ([]byte, error) {
	f := flatObject{}
	f.add("schema", Schema)
	f.add("night", r.Night)
	f.add("cell", r.Cell)
	f.add("content_key", r.ContentKey)
	f.add("role", r.Role)
	f.add("config", r.Config)
	f.add("load", r.Load.String())
	f.add("repeat", r.Repeat)
	f.add("attempt", r.Attempt)
	f.add("host", r.Host)
	f.addIf(r.GPU != "", "gpu", r.GPU)
	f.add("gpu_count", r.GPUCount)
	f.add("engine", r.Engine)
	f.addIf(r.EngineVersion != "", "engine_version", r.EngineVersion)
	f.add("model", r.Model)
	f.addIf(r.Baseline, "baseline", true)
	f.addIf(r.Unacceptable != "", "unacceptable", r.Unacceptable)
	f.add("axes", r.axisNames())
	for _, p := range r.Axes {
		f.add(FlatName(p.Name), p.Value)
	}
	f.add("workload", r.Load.Workload)
	r.Load.addTo(&f)
	f.add("outcome", r.Outcome)
	f.addIf(r.Phase != "", "phase", r.Phase)
	f.addIf(r.Cause != "", "cause", r.Cause)
	f.addIf(r.Detail != "", "detail", r.Detail)
	f.addIf(r.ImpliedBy != "", "implied_by", r.ImpliedBy)
	f.addIf(r.Evidence != nil, "evidence", r.Evidence)
	f.addIf(r.Exit != nil, "exit", r.Exit)
	f.addIf(len(r.Notes) > 0, "notes", r.Notes)
	f.addIf(r.Steady != nil, "steady", r.Steady)
	f.addIf(r.Verdict != "", "verdict", r.Verdict)
	f.addIf(len(r.VerdictWhy) > 0, "verdict_why", r.VerdictWhy)
	f.addIf(r.Client != "", "client", r.Client)
	f.addIf(r.Stamps != "", "stamps", r.Stamps)
	f.addIf(len(r.Failures) > 0, "failures", r.Failures)
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		key := name
		if r.isAxis(name) {
			key += inEffect
		}
		f.addIf(Number(r.Values[name]), key, r.Values[name])
	}
	f.addIf(r.Command != "", "command", r.Command)
	f.addIf(r.Attached != "", "attached", r.Attached)
	f.addIf(len(r.Effective) > 0, "effective", r.Effective)
	f.addIf(r.Dir != "", "dir", r.Dir)
	f.addIf(!r.StartedAt.IsZero(), "started_at", r.StartedAt)
	f.addIf(!r.EndedAt.IsZero(), "ended_at", r.EndedAt)
	return f.bytes()
}

// addTo writes a load's level, of a closed load as requests in flight, of an open one as requests/s.
func (l Load) addTo(f *flatObject) {
	add := func(prefix string, concurrency int, rate float64) {
		if l.Open() {
			f.add(prefix+"request_rate", rate)
		} else {
			f.add(prefix+"concurrency", concurrency)
		}
	}
	add("", l.Concurrency(), l.Rate())
	f.add("pools", l.Pools)
	f.addIf(l.Arrivals != nil, "arrivals", l.Arrivals)
	for _, p := range l.Pools {
		if len(l.Pools) > 1 {
			add(p.Class+"_", p.Concurrency, p.Rate)
		}
	}
}

// inEffect ends the key of a fact that a parameter of the same name would hide: the grid asked for max_running_requests "512", and
// the server runs with max_running_requests_in_effect 480.
const inEffect = "_in_effect"

// isAxis reports whether a key of the record is that of a server parameter.
func (r Record) isAxis(key string) bool {
	return slices.ContainsFunc(r.Axes, func(p Param) bool { return FlatName(p.Name) == key })
}

func (r Record) axisNames() []string {
	names := make([]string, 0, len(r.Axes))
	for _, p := range r.Axes {
		names = append(names, p.Name)
	}
	return names
}

// recordKeys are the keys of a record that are not values. Every other number is one.
type recordKeys struct {
	Night         string            `json:"night"`
	Cell          string            `json:"cell"`
	ContentKey    string            `json:"content_key"`
	Role          Role              `json:"role"`
	Config        string            `json:"config"`
	Repeat        int               `json:"repeat"`
	Attempt       int               `json:"attempt"`
	Host          string            `json:"host"`
	GPU           string            `json:"gpu"`
	GPUCount      int               `json:"gpu_count"`
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version"`
	Model         string            `json:"model"`
	Baseline      bool              `json:"baseline"`
	Unacceptable  string            `json:"unacceptable"`
	Axes          []string          `json:"axes"`
	Workload      string            `json:"workload"`
	Pools         []Pool            `json:"pools"`
	Arrivals      *Arrivals         `json:"arrivals"`
	Notes         []string          `json:"notes"`
	Steady        *bool             `json:"steady"`
	Verdict       string            `json:"verdict"`
	Attached      string            `json:"attached"`
	Effective     map[string]string `json:"effective"`
	VerdictWhy    []string          `json:"verdict_why"`
	Client        string            `json:"client"`
	Stamps        string            `json:"stamps"`
	Failures      map[string]int    `json:"failures"`
	Command       string            `json:"command"`
	Dir           string            `json:"dir"`
	StartedAt     time.Time         `json:"started_at"`
	EndedAt       time.Time         `json:"ended_at"`
	Ending
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(data []byte) error {
	var k recordKeys
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*r = Record{
		Night: k.Night, Cell: k.Cell, ContentKey: k.ContentKey, Role: k.Role, Config: k.Config,
		Load: Load{Workload: k.Workload, Pools: k.Pools, Arrivals: k.Arrivals}, Repeat: k.Repeat, Attempt: k.Attempt, Host: k.Host,
		GPU: k.GPU, GPUCount: k.GPUCount, Engine: k.Engine, EngineVersion: k.EngineVersion, Model: k.Model,
		Baseline: k.Baseline, Unacceptable: k.Unacceptable, Command: k.Command, Ending: k.Ending, Steady: k.Steady,
		Verdict: k.Verdict, VerdictWhy: k.VerdictWhy, Attached: k.Attached, Effective: k.Effective, Client: k.Client, Stamps: k.Stamps, Failures: k.Failures, Notes: k.Notes, StartedAt: k.StartedAt, EndedAt: k.EndedAt, Dir: k.Dir,
		Values: Values{},
	}
	for _, name := range k.Axes {
		var value string
		if raw, ok := all[FlatName(name)]; ok && json.Unmarshal(raw, &value) == nil {
			r.Axes = append(r.Axes, Param{name, value})
		}
	}
	ofClass := map[string]bool{} // what MarshalJSON writes for each pool; "mean_concurrency" is a value
	for _, p := range k.Pools {
		ofClass[p.Class+"_concurrency"], ofClass[p.Class+"_request_rate"] = true, true
	}
	for name, raw := range all {
		var v *float64 // nil: null is no number
		if !notValues[name] && !ofClass[name] && json.Unmarshal(raw, &v) == nil && v != nil {
			if fact, ok := strings.CutSuffix(name, inEffect); ok && r.isAxis(fact) {
				name = fact
			}
			r.Values[name] = *v
		}
	}
	return nil
}

// notValues are the numbers of a record that are fields of their own.
var notValues = map[string]bool{"schema": true, "repeat": true, "attempt": true, "gpu_count": true, "concurrency": true, "request_rate": true}

// flatObject builds a JSON object in the order of its add calls; a name that stands already is left out.
type flatObject struct {
	buf  []byte
	seen map[string]bool
	err  error
}

func (f *flatObject) addIf(want bool, name string, value any) {
	if want {
		f.add(name, value)
	}
}

func (f *flatObject) add(name string, value any) {
	if f.err != nil || f.seen[name] {
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[name] = true
	n, _ := json.Marshal(name)
	v, err := json.Marshal(value)
	if err != nil {
		f.err = err
		return
	}
	if len(f.buf) > 0 {
		f.buf = append(f.buf, ',')
	}
	f.buf = append(append(append(f.buf, n...), ':'), v...)
}

func (f *flatObject) bytes() ([]byte, error) {
	return append(append([]byte{'{'}, f.buf...), '}'), f.err
}
