package sweep

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// onlyConfig is the key of the one config of a grid without axes.
const onlyConfig = "default"

// Plan expands the grid: configs are the product of the axes, the last axis fastest, without the
// excluded ones, then the included ones; the baseline goes first. Repeats are outermost, and each ends
// with the baseline once more at the last load, as a drift check, unless the grid turns that off or has
// one config only.
func (g *Grid) Plan() (*Plan, error) {
	if len(g.Loads) == 0 {
		return nil, errors.New("plan: the grid has no loads")
	}
	configs := g.expand(nil)
	if len(configs) == 0 {
		return nil, errors.New("plan: the grid has no configs")
	}
	base := 0
	if len(g.Baseline) > 0 {
		if base = g.baselineIndex(configs); base < 0 {
			return nil, fmt.Errorf("plan: no config is the baseline %s", g.Baseline)
		}
	}
	baseline := configs[base]
	baseline.Baseline = true
	configs = slices.Insert(slices.Delete(configs, base, base+1), 0, baseline)
	configs, err := g.only(configs)
	if err != nil {
		return nil, err
	}
	p := &Plan{Grid: g, Configs: configs}
	for repeat := 1; repeat <= max(1, g.Repeats); repeat++ {
		for _, c := range configs {
			p.Launches = append(p.Launches, Launch{Config: c, Repeat: repeat, Role: RoleMeasure, Loads: g.Loads})
		}
		if g.Drift && len(configs) > 1 && configs[0].Baseline {
			p.Launches = append(p.Launches, Launch{Config: baseline, Repeat: repeat, Role: RoleDrift, Loads: g.Loads[len(g.Loads)-1:]})
		}
	}
	return p, nil
}

// only keeps the configs that the grid names, where it names any.
func (g *Grid) only(configs []Config) ([]Config, error) {
	if len(g.Only) == 0 {
		return configs, nil
	}
	for _, key := range g.Only {
		if !slices.ContainsFunc(configs, func(c Config) bool { return c.Key == key }) {
			return nil, fmt.Errorf("plan: only: no config is named %q", key)
		}
	}
	return slices.DeleteFunc(configs, func(c Config) bool { return !slices.Contains(g.Only, c.Key) }), nil
}

// expand makes the configs in the order of the grid. hit, when not nil, is called with the index of
// the exclusion that takes a config out.
func (g *Grid) expand(hit func(exclusion int)) []Config {
	var configs []Config
	at := make([]int, len(g.Axes))
	// Without axes the flags of every launch are a config, unless configs are given by name.
	nothing := len(g.Axes) == 0 && len(g.Include) > 0 || slices.ContainsFunc(g.Axes, noValues)
	for done := nothing; !done; done = g.next(at) {
		c := g.config(at)
		if i := slices.IndexFunc(g.Exclude, c.has); i < 0 {
			configs = append(configs, c)
		} else if hit != nil {
			hit(i)
		}
	}
	for _, in := range g.Include {
		c := Config{Key: in.Label, Label: in.Label, Settings: over(g.Server, in.Settings)}
		for _, s := range in.Settings {
			c.Axes = append(c.Axes, Param{s.Name, s.Value()})
		}
		configs = append(configs, c)
	}
	for i, c := range configs {
		if j := slices.IndexFunc(g.Unacceptable, func(u Unacceptable) bool { return c.has(u.Match) }); j >= 0 {
			configs[i].Unacceptable = g.Unacceptable[j].Reason
		}
	}
	return configs
}

func noValues(a Axis) bool { return len(a.Values) == 0 }

// next moves to the next combination, the last axis fastest, and reports whether all have been.
func (g *Grid) next(at []int) (done bool) {
	for i, axis := range slices.Backward(g.Axes) {
		if at[i]++; at[i] < len(axis.Values) {
			return false
		}
		at[i] = 0
	}
	return true
}

// config makes the config with the given value of each axis.
func (g *Grid) config(at []int) Config {
	var c Config
	var settings []Setting
	for i, axis := range g.Axes {
		v := axis.Values[at[i]]
		c.Axes = append(c.Axes, Param{axis.Name, v.Label})
		settings = append(settings, v.Settings...)
	}
	c.Key = c.Axes.String()
	if c.Key == "" {
		c.Key = onlyConfig
	}
	c.Settings = over(g.Server, settings)
	return c
}

// over puts settings behind those of every launch; one that stands there already is replaced in its place.
func over(base, settings []Setting) []Setting {
	out := slices.Clone(base)
	for _, s := range settings {
		if i := slices.IndexFunc(out, func(t Setting) bool { return FlatName(t.Name) == FlatName(s.Name) }); i >= 0 {
			out[i] = s
		} else {
			out = append(out, s)
		}
	}
	return out
}

// has reports whether the config has all of the values, as a label of an axis or as a flag. A number
// may be written in another way.
func (c Config) has(match Params) bool {
	for _, p := range match {
		if v, ok := c.Axes.Get(p.Name); ok && sameText(v, p.Value) {
			continue
		}
		if v, ok := SettingValue(c.Settings, p.Name); !ok || !sameText(v, p.Value) {
			return false
		}
	}
	return true
}

// baselineIndex finds the baseline among the configs: −1 when it is not there.
func (g *Grid) baselineIndex(configs []Config) int {
	label, byLabel := g.Baseline.Get("label")
	return slices.IndexFunc(configs, func(c Config) bool {
		if byLabel {
			return c.Label == label
		}
		return c.Label == "" && c.has(g.Baseline)
	})
}

// Cells is how many records the plan makes: one for each load of each launch.
func (p *Plan) Cells() int {
	n := 0
	for _, l := range p.Launches {
		n += len(l.Loads)
	}
	return n
}

// What a start is taken to last before one has been seen: a small model on a warm machine, and a
// large checkpoint read from disk, with its graphs captured.
const (
	StartFast = time.Second
	StartSlow = 10 * time.Minute
)

// StartRange is what a start of this plan is taken to last: [StartFast] to [StartSlow], shorter where a
// simulator runs faster than real time.
func (p *Plan) StartRange() (lo, hi time.Duration) {
	if p.Grid.Attach != "" {
		return 0, 0
	}
	return p.Grid.faster(StartFast), p.Grid.faster(StartSlow)
}

// faster is how long something takes that a sped-up simulator shortens.
func (g *Grid) faster(d time.Duration) time.Duration {
	return time.Duration(float64(d) / g.speedup())
}

// Token times of the first cohort, for the two ends of an estimate.
const (
	tokenFast = 10 * time.Millisecond
	tokenSlow = 150 * time.Millisecond
)

// WindowHi is the longest that a window of the plan may last: the grid's max where a class waits for
// requests, else its min.
func (p *Plan) WindowHi() time.Duration {
	hi := p.Grid.Measure.WindowMin
	for _, l := range p.Grid.Loads {
		hi = max(hi, p.Grid.windowHi(l))
	}
	return hi
}

// windowHi is the longest that the window of one load may last.
func (g *Grid) windowHi(load Load) time.Duration {
	if slices.ContainsFunc(load.Pools, func(p Pool) bool { return g.Measure.Requests[p.Class] > 0 }) {
		return g.Measure.WindowMax
	}
	return g.Measure.WindowMin
}

// Estimate is how long the plan may take. At least: every start takes [StartFast], the first cohort gets
// its mean output at 10 ms a token, and every window closes at its min. At most: every start takes
// [StartSlow], the cohort gets its longest output at 150 ms a token, every window goes on to its max (a
// window that waits for no requests always closes at min), and every stop takes the whole grace. Failures,
// which shorten a night, and further attempts, which lengthen it, are not counted. Launches are spread
// evenly over the grid's hosts. A sped-up simulator divides starts and cohorts, not windows.
func (p *Plan) Estimate() (lo, hi time.Duration) {
	g := p.Grid
	startLo, startHi := p.StartRange()
	var longLo, longHi time.Duration // the longest launch
	for _, l := range p.Launches {
		launchLo, launchHi := startLo, startHi+g.Limits.WithDefaults().Stop
		for _, load := range l.Loads {
			loadLo, loadHi := g.loadTime(load)
			launchLo, launchHi = launchLo+loadLo, launchHi+loadHi
		}
		lo, hi = lo+launchLo, hi+launchHi
		longLo, longHi = max(longLo, launchLo), max(longHi, launchHi)
	}
	hosts := time.Duration(max(1, len(g.Hosts)))
	return max(lo/hosts, longLo), max((hi+hosts-1)/hosts, longHi)
}

// loadTime is how long one load may take: warm-up and window.
func (g *Grid) loadTime(load Load) (lo, hi time.Duration) {
	m := g.Measure
	lo, hi = m.WindowMin, g.windowHi(load)
	var cohortLo, cohortHi time.Duration
	for _, w := range g.Workloads {
		if w.Name != load.Workload {
			continue
		}
		for _, c := range w.Classes {
			cohortLo = max(cohortLo, g.faster(c.Life(tokenFast)))
			cohortHi = max(cohortHi, g.faster(time.Duration(c.Output.Max)*tokenSlow))
		}
	}
	if !m.WarmupCohort {
		cohortLo, cohortHi = m.WarmupTime, m.WarmupTime
	}
	return lo + cohortLo, hi + cohortHi
}
