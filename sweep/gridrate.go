package sweep

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxRate bounds a planned rate, in requests/s.
const maxRate = 100_000

// rates reads one rate or a list of rates: totals, ranges and ladders of them, or a rate for each class.
func (r *reading) rates(f, law field, w Workload, seen map[string]int) {
	for _, c := range w.Classes {
		if c.Session != nil {
			r.problem(f.key, "write a concurrency: so many users at once", "class %q of workload %q makes conversations, which a rate cannot plan", c.Name, w.Name)
			return
		}
	}
	arrivals, ok := r.arrivals(law, w)
	items := []*yaml.Node{f.value}
	if f.value.Kind == yaml.SequenceNode {
		items = f.value.Content
	}
	if len(items) == 0 || empty(f.value) {
		r.problem(f.key, "write requests a second as in [0.5, 2], or a ladder as in 1:64:x2", "rate has no levels")
		return
	}
	for _, item := range items {
		var loads []Load
		if item.Kind == yaml.MappingNode {
			if l, ok := r.classRates(item, w); ok {
				loads = append(loads, l)
			}
		} else {
			for _, total := range r.totalRates(item) {
				loads = append(loads, w.SplitRate(total))
			}
		}
		if !ok {
			continue
		}
		for i := range loads {
			loads[i].Arrivals = arrivals
		}
		r.addLoads(item, loads, seen)
	}
}

// totalRates reads a rate, a range or a ladder of rates.
func (r *reading) totalRates(n *yaml.Node) []float64 {
	if n.Kind == yaml.SequenceNode {
		r.problem(n, "write rates as in [0.5, 2]", "a rate is one number or a mapping, not a list")
		return nil
	}
	texts := []string{n.Value}
	s, isSeries, bad := parseSeries(n.Value)
	switch {
	case n.Kind == yaml.ScalarNode && bad != nil:
		r.problem(n, bad.remedy, "%s", bad.text)
		return nil
	case n.Kind == yaml.ScalarNode && isSeries:
		var ok bool
		if texts, ok = r.expand(n, s, n.Value, len(r.grid.Loads)); !ok {
			return nil
		}
	}
	var rates []float64
	for _, text := range texts {
		if v, ok := r.rate(n, text, "rate"); ok {
			rates = append(rates, v)
		}
	}
	return rates
}

// rate reads one number of requests/s.
func (r *reading) rate(n *yaml.Node, text, what string) (float64, bool) {
	if _, ok := r.text(n, what); !ok || r.zeroed(n, what) {
		return 0, false
	}
	var v float64
	if _, err := fmt.Sscan(text, &v); err != nil || !number.MatchString(text) {
		r.problem(n, "write requests a second, as in 0.5", "%s is a number, not %q", what, text)
		return 0, false
	}
	if !(v > 0 && v <= maxRate) {
		r.problem(n, fmt.Sprintf("write a number above 0, at most %d", maxRate), "%s is %s requests a second", what, text)
		return 0, false
	}
	return tidy(v), true
}

// classRates reads a rate for each class.
func (r *reading) classRates(n *yaml.Node, w Workload) (Load, bool) {
	l := Load{Workload: w.Name}
	given := map[string]float64{}
	ok := true
	var known []string
	for _, c := range w.Classes {
		known = append(known, c.Name)
	}
	for _, f := range r.fields(n, "a rate", "{short: 4, long: 0.2}") {
		if !slices.Contains(known, f.name) {
			r.problem(f.key, didYouMean(f.name, known), "workload %q has no class %q", w.Name, f.name)
			ok = false
			continue
		}
		v, good := r.rate(f.value, f.value.Value, fmt.Sprintf("rate of %q", f.name))
		given[f.name], ok = v, ok && good
	}
	for _, name := range known {
		if _, has := given[name]; !has && ok {
			r.problem(n, "give each class a number", "a rate of workload %q says nothing of %s", w.Name, name)
			ok = false
		}
		l.Pools = append(l.Pools, Pool{Class: name, Rate: given[name]})
	}
	return l, ok
}

// arrivals reads the law of an open load: poisson, constant, {law: gamma, shape: 0.5}, {ramp: 60s}, {steps: 4, each: 30s}, {trace: x.jsonl}.
func (r *reading) arrivals(f field, w Workload) (*Arrivals, bool) {
	a := &Arrivals{Law: ArrivalsPoisson}
	if f.value == nil {
		return a, true
	}
	before := len(r.problems)
	law := f.value
	var parts map[string]field
	if f.value.Kind == yaml.MappingNode {
		parts = r.section(f.value, "arrivals", "{law: gamma, shape: 0.5}", "law", "shape", "ramp", "steps", "each", "trace")
		law = parts["law"].value
	}
	if law != nil {
		a.Law = r.law(law, parts["shape"].value != nil)
	}
	r.arrivalParts(f.value, parts, a, w)
	return a, len(r.problems) == before
}

func (r *reading) law(n *yaml.Node, shaped bool) string {
	s, ok := r.text(n, "arrivals")
	known := []string{ArrivalsPoisson, ArrivalsConstant, ArrivalsGamma}
	switch {
	case !ok:
	case s == ArrivalsGamma && !shaped:
		r.problem(n, "write {law: gamma, shape: 0.5}: below 1 in bursts, above 1 more even than Poisson", "gamma arrivals have no shape")
	case !slices.Contains(known, s):
		r.problem(n, didYouMean(s, known), "unknown law %q of arrivals", s)
	}
	return s
}

// checkTraces warns of traces that are over before the window has been open for its least time.
func (r *reading) checkTraces() {
	need := r.grid.Measure.WarmupTime + r.grid.Measure.WindowMin
	for _, l := range r.grid.Loads {
		if l.Arrivals == nil || l.Arrivals.Trace == nil || l.Arrivals.Trace.requests == 0 {
			continue
		}
		t := l.Arrivals.Trace
		if lasts := time.Duration(float64(t.requests) / l.Rate() * float64(time.Second)); lasts < need {
			r.warn(t.at, "take a lower rate, a shorter window or a longer trace", "the %d requests of the trace are over after %s at %s, and warm-up and window take %s at least",
				t.requests, shortDuration(lasts.Round(time.Second)), l.LevelText(), shortDuration(need))
		}
	}
}

// arrivalParts reads what else a mapping says.
func (r *reading) arrivalParts(n *yaml.Node, parts map[string]field, a *Arrivals, w Workload) {
	if p, ok := parts["shape"]; ok {
		if a.Shape, ok = r.rate(p.value, p.value.Value, "shape"); ok && a.Law != ArrivalsGamma {
			r.problem(p.key, "write law: gamma", "only gamma arrivals have a shape")
		}
	}
	if p, ok := parts["ramp"]; ok {
		a.Ramp, _ = r.duration(p.value, "ramp", time.Second)
	}
	steps, stepped := parts["steps"]
	each, timed := parts["each"]
	switch {
	case stepped != timed:
		r.problem(n, "write it as in {steps: 4, each: 30s}", "steps need their number and the time of each")
	case stepped && a.Ramp > 0:
		r.problem(steps.key, "keep one of the two", "arrivals rise by a ramp or in steps, not both")
	case stepped:
		a.Steps, _ = r.whole(steps.value, "steps", 2, 100)
		a.Each, _ = r.duration(each.value, "each", time.Second)
	}
	p, ok := parts["trace"]
	switch {
	case !ok:
		return
	case len(parts) > 1:
		r.problem(p.key, "keep the trace alone", "a trace has its own times: no law, ramp or steps beside it")
	case len(w.Classes) > 1:
		r.problem(p.key, "give it a workload with one class", "a trace brings one kind of request, and workload %q has %d classes", w.Name, len(w.Classes))
	case w.Classes[0].Prompts != nil:
		r.problem(p.key, "keep one of the two", "a trace draws prompts of its own lengths, and class %q brings prompts along", w.Classes[0].Name)
	}
	a.Law = ArrivalsTrace
	var facts FileFacts
	if a.Trace, facts, _ = r.namedFile(p.value, "trace"); a.Trace != nil {
		a.Trace.requests, a.Trace.at = facts.Requests, p.value
	}
}
