package sweep

import "slices"

// Level is what a finding of preflight means.
type Level string

// The levels.
const (
	LevelOK      Level = "ok"      // looked at, and fine
	LevelWarning Level = "warning" // a launch may still go wrong, or something could not be looked at
	LevelRefused Level = "refused" // these configs cannot work here: they are skipped, the night goes on
	LevelMissing Level = "missing" // the machine lacks what each launch needs
	LevelFlags   Level = "flags"   // the engine does not know what the grid asks of it
)

// A Finding is one thing that was looked at before any launch, as one sentence that a person can act on.
type Finding struct {
	Check   string   `json:"check"` // what was looked at: "model", "host memory", …
	Level   Level    `json:"level"`
	Host    string   `json:"host,omitempty"`
	Configs []string `json:"configs,omitempty"` // keys of those that it is about; nil: all
	Flag    string   `json:"flag,omitempty"`    // the setting that it is about
	Text    string   `json:"text"`
	// Blocks: every launch would fail in the same way, each after a start of its own.
	Blocks bool `json:"blocks,omitempty"`
}

// Merge puts together what was found alike for several configs, and leaves the list of configs out where
// it is all of them.
func Merge(found []Finding, configs int) []Finding {
	var out []Finding
	for _, f := range found {
		i := slices.IndexFunc(out, func(o Finding) bool {
			return o.Check == f.Check && o.Level == f.Level && o.Host == f.Host && o.Flag == f.Flag && o.Text == f.Text
		})
		if i < 0 {
			f.Configs = slices.Clone(f.Configs)
			out = append(out, f)
			continue
		}
		for _, c := range f.Configs {
			if !slices.Contains(out[i].Configs, c) {
				out[i].Configs = append(out[i].Configs, c)
			}
		}
	}
	for i, f := range out {
		if len(f.Configs) >= configs {
			out[i].Configs = nil
		}
	}
	return out
}

// Probes are the plan's launches as jobs without loads, one for each config and host: enough to look at
// what they will need.
func (p *Plan) Probes(engine *Engine) []Job {
	g := p.Grid
	hosts := g.Hosts
	if len(hosts) == 0 {
		hosts = []HostSpec{{Name: "local"}}
	}
	command := g.Command
	if len(command) == 0 && engine != nil {
		command = engine.Command
	}
	var jobs []Job
	for _, h := range hosts {
		for _, c := range p.Configs {
			jobs = append(jobs, Job{
				Schema: Schema, ID: launchID(c.Key, 1, RoleMeasure), Role: RoleMeasure, Config: c, Repeat: 1, Engine: g.Engine, Model: g.Model,
				Host: h.Name, Simulate: h.Simulate, GPUs: h.GPUs, Command: command, Container: g.Container, Workdir: g.Workdir, Env: g.Env, Limits: g.Limits, Attach: g.Attach, AttachKey: g.AttachKey, Flush: g.Flush,
			})
		}
	}
	return jobs
}

// DidYouMean is the remedy for a name that nobody knows: the known name that is most like it.
func DidYouMean(name string, known []string) string {
	if k := Nearest(name, known); k != "" {
		return "did you mean " + k + "?"
	}
	return ""
}
