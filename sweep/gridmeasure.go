package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// readMeasure reads how each load is warmed up and measured. Without the key the defaults of
// [Measure] hold.
func (r *reading) readMeasure() {
	m := &r.grid.Measure
	m.WarmupCohort, m.WindowMin = true, DefaultWindow
	f, ok := r.top["measure"]
	if ok && empty(f.value) {
		r.problem(f.key, "write {window: {min: 2m}}, or leave the key out", "measure is empty")
	} else if ok {
		parts := r.section(f.value, "measure", "{warmup: first-cohort, window: {min: 2m}}", "warmup", "window")
		if w, ok := parts["warmup"]; ok {
			r.warmup(w.value)
		}
		if w, ok := parts["window"]; ok {
			r.window(w)
		}
	}
	if m.WindowMax == 0 {
		m.WindowMax = max(10*time.Minute, 5*m.WindowMin)
	}
}

func (r *reading) warmup(n *yaml.Node) {
	if s, ok := r.text(n, "warmup"); !ok || s == "first-cohort" {
		return
	}
	if _, err := time.ParseDuration(n.Value); err != nil && !number.MatchString(n.Value) {
		r.problem(n, "write first-cohort, or 30s", "warmup is first-cohort or a time, not %q", n.Value)
		return
	}
	if d, ok := r.duration(n, "warmup", 0); ok {
		r.grid.Measure.WarmupCohort, r.grid.Measure.WarmupTime = false, d
	}
}

// window reads when the measured window ends. One time alone is its exact length.
func (r *reading) window(f field) {
	m := &r.grid.Measure
	if f.value.Kind == yaml.ScalarNode && !empty(f.value) {
		if d, ok := r.duration(f.value, "window", time.Second); ok {
			m.WindowMin, m.WindowMax = d, d
		}
		return
	}
	parts := r.section(f.value, "window", "{min: 2m, requests: 100, max: 15m}", "min", "max", "requests")
	good := true
	if p, ok := parts["min"]; ok {
		var d time.Duration
		if d, good = r.duration(p.value, "min", time.Second); good {
			m.WindowMin = d
		}
	}
	if p, ok := parts["max"]; ok {
		if d, ok := r.duration(p.value, "max", time.Second); ok {
			m.WindowMax = d
			if good && d < m.WindowMin {
				r.problem(p.value, fmt.Sprintf("write %s or more", shortDuration(m.WindowMin)), "the window's max %s is less than its min %s", shortDuration(d), shortDuration(m.WindowMin))
			}
		}
	}
	if p, ok := parts["requests"]; ok {
		m.Requests = r.requests(p.value)
	}
}

// requests reads how many requests each class needs in a window: one number for all, or one for each.
func (r *reading) requests(n *yaml.Node) map[string]int {
	var known []string
	for _, w := range r.grid.Workloads {
		for _, c := range w.Classes {
			known = append(known, c.Name)
		}
	}
	out := map[string]int{}
	if n.Kind == yaml.ScalarNode {
		if v, ok := r.whole(n, "requests", 1, maxTokens); ok {
			for _, name := range known {
				out[name] = v
			}
		}
		return out
	}
	for _, f := range r.fields(n, "requests", "300, or {short: 300, long: 30}") {
		if !slices.Contains(known, f.name) && len(known) > 0 {
			r.problem(f.key, didYouMean(f.name, known), "no workload has a class %q", f.name)
			continue
		}
		if v, ok := r.whole(f.value, fmt.Sprintf("requests of %q", f.name), 1, maxTokens); ok {
			out[f.name] = v
		}
	}
	return out
}

func (r *reading) readLimits(n *yaml.Node) {
	l := &r.grid.Limits
	parts := r.section(n, "limits", "{start: 45m, stall: 10m}", "start", "stall", "load_stall", "stop")
	for _, limit := range []struct {
		name string
		to   *time.Duration
	}{{"start", &l.Start}, {"stall", &l.Stall}, {"load_stall", &l.LoadStall}, {"stop", &l.Stop}} {
		if f, ok := parts[limit.name]; ok {
			*limit.to, _ = r.duration(f.value, limit.name, time.Second)
		}
	}
}

// maxRepeats bounds how often every config is measured.
const maxRepeats = 100

// SetRepeats has every config measured n times instead of as often as the grid says, within the same bounds.
func (g *Grid) SetRepeats(n int) error {
	configs, loads := g.configCount(), max(1, len(g.Loads))
	switch {
	case n < 1 || n > maxRepeats:
		return fmt.Errorf("write a number from 1 to %d", maxRepeats)
	case saturated(saturated(configs, loads), n) > 10*maxCells:
		return fmt.Errorf("%d configs × %d loads × %d repeats are more than %d measurements; repeat less often", configs, loads, n, 10*maxCells)
	}
	g.Repeats = n
	return nil
}

func (r *reading) readRepeats() {
	r.grid.Repeats, r.grid.Drift = 1, true
	r.grid.Limits = r.grid.Limits.WithDefaults()
	if f, ok := r.top["repeats"]; ok && !empty(f.value) {
		r.grid.Repeats, _ = r.whole(f.value, "repeats", 1, maxRepeats)
	} else if ok {
		r.emptySection(f)
	}
	f, ok := r.top["drift"]
	if ok && empty(f.value) {
		r.emptySection(f)
	} else if ok {
		switch s, ok := r.text(f.value, "drift"); {
		case !ok:
		case s == "on" || s == "true":
		case s == "off" || s == "false":
			r.grid.Drift = false
		default:
			r.problem(f.value, "write on or off", "drift is on or off, not %q", s)
		}
	}
}

// checkLives warns when a window ends before two requests can follow each other in a pool: then it
// holds mostly requests that began or ended outside.
func (r *reading) checkLives() {
	m := r.grid.Measure
	at := r.windowPlace()
	r.checkTraces()
	for _, w := range r.grid.Workloads {
		if !slices.ContainsFunc(r.grid.Loads, func(l Load) bool { return l.Workload == w.Name }) {
			continue
		}
		for _, c := range w.Classes {
			end, name := m.WindowMin, "min"
			if m.Requests[c.Name] > 0 {
				end, name = m.WindowMax, "max"
			}
			life := r.grid.faster(c.Life(TokenTime))
			if end >= 2*life {
				continue
			}
			r.warn(at(name), fmt.Sprintf("write %s or more", shortDuration((2*life).Round(time.Second))),
				"the window's %s is %s, but a request of class %q in %q is expected to take %s (%g tokens at %s%s), and a window needs two such lives",
				name, shortDuration(end), c.Name, w.Name, shortDuration(life.Round(100*time.Millisecond)), c.Output.Mean(), TokenTime, r.sped())
		}
	}
}

// windowPlace returns where a part of the window stands, or else the nearest thing around it.
func (r *reading) windowPlace() func(part string) *yaml.Node {
	measure, ok := r.top["measure"]
	if !ok {
		return func(string) *yaml.Node { return r.top["workloads"].key }
	}
	find := func(n *yaml.Node, name string) (key, value *yaml.Node) {
		if n == nil {
			return nil, nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
		return nil, nil
	}
	key, window := find(measure.value, "window")
	return func(part string) *yaml.Node {
		if key == nil {
			return measure.key
		}
		if _, value := find(window, part); value != nil {
			return value
		}
		return key
	}
}

// speedup is by how much the grid's command makes simulated time run faster; 1 for a real server.
func (g *Grid) speedup() float64 {
	for i, word := range g.Command {
		value, joined := strings.CutPrefix(word, "--speedup=")
		if word == "--speedup" && i+1 < len(g.Command) {
			value, joined = g.Command[i+1], true
		}
		if v, err := strconv.ParseFloat(value, 64); joined && err == nil && v >= 1 && v <= 1e6 {
			return v
		}
	}
	return 1
}

func (r *reading) sped() string {
	if s := r.grid.speedup(); s > 1 {
		return fmt.Sprintf(", %g times faster", s)
	}
	return ""
}
