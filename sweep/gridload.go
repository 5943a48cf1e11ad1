package sweep

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxTokens bounds the length of a prompt or an answer.
const maxTokens = 10_000_000

// notClasses are names that would make the keys of one class look like those of all.
var notClasses = []string{"mean", "median", "std", "max", "server", "client", "total", "request", "output", "input", "full"}

func (r *reading) readWorkloads(n *yaml.Node) {
	for _, f := range r.fields(n, "workloads", "{name: {classes: {short: {input: 800, output: 200}}}}") {
		before := len(r.problems)
		r.works[f.name] = f.key
		w := Workload{Name: f.name}
		r.folderName(f.key, f.name, "workload", "rename it")
		parts := r.section(f.value, "a workload", "{classes: {short: {input: 800, output: 200}}}", "classes", "slo", "api", "body")
		r.readAPI(parts, &w)
		if c, ok := parts["classes"]; ok && !empty(c.value) {
			w.Classes = r.classes(c.value, w.API)
		} else if f.value.Kind == yaml.MappingNode {
			r.problem(f.key, "add classes: {short: {input: 800, output: 200}}", "workload %q has no classes", f.name)
		}
		if s, ok := parts["slo"]; ok {
			w.SLO = r.objectives(s.value)
		}
		if slices.ContainsFunc(r.problems[before:], func(p Problem) bool { return !p.Warning }) {
			r.broken["workload "+f.name] = true
		}
		r.grid.Workloads = append(r.grid.Workloads, w)
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.problem(n, "add one as in {chat: {classes: {short: {input: 800, output: 200}}}}", "workloads is empty")
	}
}

var className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

func (r *reading) classes(n *yaml.Node, api string) []Class {
	var classes []Class
	for _, f := range r.fields(n, "classes", "{short: {input: 800, output: 200}}") {
		switch {
		case !className.MatchString(f.name):
			r.problem(f.key, "begin with a letter and use letters, digits, _ and -, at most 40", "%q is no name of a class", clip(f.name))
		case slices.Contains(notClasses, f.name):
			r.problem(f.key, "rename it", "class %q would hide keys that every record has", f.name)
		}
		classes = append(classes, r.class(f, api))
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.problem(n, "add one as in {short: {input: 800, output: 200}}", "classes is empty")
	}
	return classes
}

func (r *reading) class(f field, api string) Class {
	c := Class{Name: f.name, Share: 1}
	const example = "{input: 800..1600, output: 200..600}"
	parts := r.section(f.value, fmt.Sprintf("class %q", f.name), example, "share", "input", "output", "shared_prefix", "slo", "prompts", "session")
	if f.value.Kind != yaml.MappingNode {
		return c
	}
	if p, ok := parts["share"]; ok {
		c.Share, _ = r.whole(p.value, "share", 1, maxShare)
	}
	answered := r.readPrompts(f, parts, &c, api)
	if p, ok := parts["input"]; ok && c.Prompts == nil {
		c.Input, _ = r.length(p.value, "input")
	} else if !ok && parts["prompts"].value == nil {
		r.problem(f.key, "write it as in "+example, "class %q has no input length", f.name)
	}
	if p, ok := parts["output"]; ok {
		r.readOutput(p.value, &c, answered)
	} else if !answered {
		r.problem(f.key, "write it as in "+example, "class %q has no output length", f.name)
	}
	if p, ok := parts["shared_prefix"]; ok && c.Prompts == nil {
		c.SharedPrefix = r.sharedPrefix(p.value, c.Input)
	}
	if p, ok := parts["session"]; ok {
		c.Session = r.session(p.value)
	}
	if p, ok := parts["slo"]; ok {
		c.SLO = r.objectives(p.value)
	}
	return c
}

// length reads a number of tokens or a range of them: 512, 6k, 800..1600.
func (r *reading) length(n *yaml.Node, what string) (Range, bool) {
	s, ok := r.text(n, what)
	if !ok || r.zeroed(n, what) {
		return Range{}, false
	}
	from, to, isRange := strings.Cut(s, "..")
	if remedy := lengthRemedy(s); remedy != "" && remedy != "write "+s {
		r.problem(n, remedy, "%s is a whole number or a range, not %q", what, s)
		return Range{}, false
	}
	if !isRange {
		v, ok := r.wholeText(n, s, what, 1, maxTokens)
		return Range{v, v}, ok
	}
	low, ok := r.wholeText(n, from, "the lower end of "+what, 1, maxTokens)
	if !ok {
		return Range{}, false
	}
	high, ok := r.wholeText(n, to, "the upper end of "+what, 1, maxTokens)
	if !ok {
		return Range{}, false
	}
	if high < low {
		r.problem(n, fmt.Sprintf("write %s..%s", to, from), "%s %s runs backwards", what, s)
		return Range{}, false
	}
	return Range{low, high}, true
}

func (r *reading) sharedPrefix(n *yaml.Node, input Range) *SharedPrefix {
	p := &SharedPrefix{}
	parts := r.section(n, "shared_prefix", "{groups: 400, tokens: 640}", "groups", "tokens")
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for _, part := range []struct {
		name string
		to   *int
	}{{"groups", &p.Groups}, {"tokens", &p.Tokens}} {
		f, ok := parts[part.name]
		if !ok {
			r.problem(n, "write {groups: 400, tokens: 640}", "shared_prefix has no %s", part.name)
			continue
		}
		*part.to, ok = r.whole(f.value, part.name, 1, maxTokens)
		if ok && part.name == "tokens" && input.Min > 0 && p.Tokens >= input.Min {
			r.problem(f.value, fmt.Sprintf("write less than %d", input.Min), "a shared prefix of %d tokens leaves nothing of the shortest input, %d", p.Tokens, input.Min)
		}
	}
	return p
}

var (
	objective = regexp.MustCompile(`^p([0-9]{1,2}(?:\.[0-9]{1,3})?)\s*<\s*([0-9].*)$`)
	metrics   = []string{"ttft", "tpot", "itl", "e2e"}
)

// objectives reads service levels: {ttft: p90<30s, tpot: [p50<80ms, p95<150ms]}.
func (r *reading) objectives(n *yaml.Node) []Objective {
	var out []Objective
	for _, f := range r.fields(n, "slo", "{ttft: p90<30s}") {
		if !slices.Contains(metrics, f.name) {
			r.problem(f.key, didYouMean(f.name, metrics), "unknown metric %q", f.name)
			continue
		}
		values := []*yaml.Node{f.value}
		if f.value.Kind == yaml.SequenceNode {
			values = f.value.Content
		}
		for _, v := range values {
			s, ok := r.text(v, "an slo")
			if !ok {
				continue
			}
			o, ok := parseObjective(f.name, s)
			switch same := func(p Objective) bool { return p.Metric == o.Metric && p.Quantile == o.Quantile }; {
			case !ok:
				r.problem(v, "write it as in p90<30s", "slo %q has no form pNN<TIME", s)
			case slices.ContainsFunc(out, same):
				r.problem(v, "keep one of the two", "%s has two limits for the same quantile", f.name)
			default:
				out = append(out, o)
			}
		}
	}
	return out
}

func parseObjective(metric, s string) (Objective, bool) {
	m := objective.FindStringSubmatch(s)
	if m == nil {
		return Objective{}, false
	}
	percent, err := strconv.ParseFloat(m[1], 64)
	limit, bad := time.ParseDuration(m[2])
	ok := err == nil && bad == nil && percent > 0 && limit > 0 && limit <= maxDuration
	return Objective{metric, percent / 100, limit}, ok
}

// readLoads reads the load axes. Loads are put in order: workloads as they first appear, levels ascending.
func (r *reading) readLoads(n *yaml.Node) {
	seen := map[string]int{} // key of a load → line
	items := r.entries(n, "load", "[{workload: name, concurrency: [64]}]")
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.problem(n, "add one as in [{workload: name, concurrency: [64]}]", "load is empty")
	}
	var order []string
	kinds := map[string]string{} // workload → how it is loaded
	for _, item := range items {
		parts := r.section(item, "a load", "{workload: name, concurrency: [64]}", "workload", "concurrency", "rate", "arrivals")
		if item.Kind != yaml.MappingNode {
			continue
		}
		c, closed := parts["concurrency"]
		rate, open := parts["rate"]
		switch _, named := parts["workload"]; {
		case !named:
			r.problem(item, "write it as in {workload: name, concurrency: [64]}", "a load has no workload")
		case !closed && !open:
			r.problem(item, "write it as in {workload: name, concurrency: [64]}, or {workload: name, rate: [2]}", "a load has no concurrency and no rate")
		case closed && open:
			r.problem(rate.key, "keep one of the two", "a load is held at a concurrency or sent at a rate, not both")
			continue
		}
		if a, given := parts["arrivals"]; given && !open {
			r.problem(a.key, "give it a rate as well", "only a load with a rate has arrivals")
		}
		w, ok := r.loadWorkload(parts["workload"].value)
		if !ok {
			continue
		}
		kind := "concurrency"
		if open {
			kind = "rate"
		}
		if old := kinds[w.Name]; old != "" && old != kind {
			r.problem(item, "give the workload a second name for it", "workload %q is loaded by %s in another entry: the two cannot stand in one table", w.Name, old)
			continue
		}
		kinds[w.Name] = kind
		switch {
		case closed:
			order = append(order, w.Name)
			r.levels(c, w, seen)
		case open:
			order = append(order, w.Name)
			r.rates(rate, parts["arrivals"], w, seen)
		}
	}
	slices.SortStableFunc(r.grid.Loads, func(a, b Load) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Workload), slices.Index(order, b.Workload)), cmp.Compare(a.Level(), b.Level()))
	})
	for _, w := range r.grid.Workloads {
		if !slices.Contains(order, w.Name) && !r.failed() {
			r.warn(r.works[w.Name], "add it to load, or take it out", "workload %q is in no load", w.Name)
		}
	}
}

// loadWorkload finds the workload that a load names. ok is false when it is missing or not known in full.
func (r *reading) loadWorkload(n *yaml.Node) (Workload, bool) {
	if n == nil {
		return Workload{}, false
	}
	name, ok := r.text(n, "workload")
	if !ok {
		return Workload{}, false
	}
	var known []string
	for _, w := range r.grid.Workloads {
		if w.Name == name {
			return w, !r.broken["workload "+name]
		}
		known = append(known, w.Name)
	}
	if len(known) > 0 || !r.broken["workloads"] {
		r.problem(n, didYouMean(name, known), "no workload is named %q", name)
	}
	return Workload{}, false
}

// levels reads one level or a list of levels: totals, ranges and ladders of them, or a number for each class.
func (r *reading) levels(f field, w Workload, seen map[string]int) {
	items := []*yaml.Node{f.value}
	if f.value.Kind == yaml.SequenceNode {
		items = f.value.Content
	}
	if len(items) == 0 || empty(f.value) {
		r.problem(f.key, "write levels as in [64, 128], or a ladder as in 1:256:x2", "concurrency has no levels")
		return
	}
	for _, item := range items {
		var loads []Load
		if item.Kind == yaml.MappingNode {
			if l, ok := r.pools(item, w); ok {
				loads = append(loads, l)
			}
		} else {
			loads = r.totals(item, w)
		}
		r.addLoads(item, loads, seen)
	}
}

// addLoads adds the loads of one level, each key once.
func (r *reading) addLoads(item *yaml.Node, loads []Load, seen map[string]int) {
	for _, l := range loads {
		key := l.String()
		if line, twice := seen[key]; twice {
			r.problem(item, "keep one of the two", "load %s is given twice, first in line %d", key, line)
			continue
		}
		seen[key] = item.Line
		if len("load="+key) > maxFolder {
			r.problem(item, "shorten the names of workload and classes", "the folder of load %s would have a name of %d characters, more than %d", clip(key), len("load="+key), maxFolder)
		}
		r.grid.Loads = append(r.grid.Loads, l)
	}
}

// maxConcurrency bounds one load: one machine cannot hold more streams.
const maxConcurrency = 100_000

// totals reads a total, a range or a ladder of totals, each split by the shares.
func (r *reading) totals(n *yaml.Node, w Workload) []Load {
	if n.Kind == yaml.SequenceNode {
		r.problem(n, "write levels as in [64, 128]", "a level is one number or a mapping, not a list")
		return nil
	}
	var totals []int
	s, isSeries, bad := parseSeries(n.Value)
	switch {
	case n.Kind == yaml.ScalarNode && bad != nil:
		r.problem(n, bad.remedy, "%s", bad.text)
	case n.Kind == yaml.ScalarNode && isSeries:
		texts, ok := r.expand(n, s, n.Value, len(r.grid.Loads))
		for i := 0; ok && i < len(texts); i++ {
			var v int
			if v, ok = r.wholeText(n, texts[i], "concurrency", 1, maxConcurrency); ok {
				totals = append(totals, v)
			}
		}
	case n.Kind == yaml.ScalarNode && seriesRemedy(n.Value) != "":
		r.problem(n, seriesRemedy(n.Value), "concurrency is a whole number, not %q", n.Value)
	default:
		if v, ok := r.whole(n, "concurrency", 1, maxConcurrency); ok {
			totals = append(totals, v)
		}
	}
	var loads []Load
	for _, total := range totals {
		l, err := w.Split(total)
		if err != nil {
			r.problem(n, fmt.Sprintf("write %d or more", len(w.Classes)), "%v", err)
			break
		}
		loads = append(loads, l)
	}
	return loads
}

// pools reads a number for each class.
func (r *reading) pools(n *yaml.Node, w Workload) (Load, bool) {
	l := Load{Workload: w.Name}
	given := map[string]int{}
	var known, missing []string
	for _, c := range w.Classes {
		known = append(known, c.Name)
	}
	ok := true
	for _, f := range r.fields(n, "a level", "{short: 150, long: 32}") {
		if !slices.Contains(known, f.name) {
			r.problem(f.key, didYouMean(f.name, known), "workload %q has no class %q", w.Name, f.name)
			ok = false
			continue
		}
		v, good := r.whole(f.value, fmt.Sprintf("concurrency of %q", f.name), 1, maxConcurrency)
		given[f.name], ok = v, ok && good
	}
	for _, name := range known {
		if _, has := given[name]; !has {
			missing = append(missing, name)
		}
		l.Pools = append(l.Pools, Pool{Class: name, Concurrency: given[name]})
	}
	if ok && len(missing) > 0 {
		r.problem(n, "give each class a number", "a level of workload %q says nothing of %s", w.Name, strings.Join(missing, ", "))
	}
	return l, ok && len(missing) == 0
}
