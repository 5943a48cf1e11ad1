package sweep

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// axisPlace is where an axis stands in the file, and whether all of its values are known.
type axisPlace struct {
	key    *yaml.Node
	bundle bool // made of named bundles
	broken bool
}

var flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// secretFlags would put a secret into a command line, where every user of the machine sees it.
var secretFlags = []string{"api-key", "admin-api-key", "hf-token", "ssl-keyfile-password"}

// flag notes a name that cannot be a server's flag, or may not be set in a grid.
func (r *reading) flag(n *yaml.Node, name string) bool {
	switch reason, owned := r.owned[FlatName(name)]; {
	case strings.HasPrefix(name, "-"):
		r.problem(n, fmt.Sprintf("write %s", strings.TrimLeft(name, "-")), "flag %q begins with a dash", name)
	case !flagName.MatchString(name) || len(name) > maxName:
		r.problem(n, "write the flag's name as the server's help has it, without dashes before it", "%q is no name of a flag", clip(name))
	case owned:
		r.problem(n, "take it out", "flag %q belongs to sweep: %s", name, reason)
	case slices.Contains(secretFlags, strings.ReplaceAll(name, "_", "-")):
		r.problem(n, `give it by env, as in {NAME: "${env:NAME}"}`, "flag %q would show a secret in the command line", name)
	default:
		return true
	}
	return false
}

// setting reads one flag with its value or list of values.
func (r *reading) setting(f field) (Setting, bool) {
	ok := r.flag(f.key, f.name)
	if ok {
		r.underscored(f)
	}
	s := Setting{Name: f.name}
	values := []*yaml.Node{f.value}
	if f.value.Kind == yaml.SequenceNode {
		values = f.value.Content
		if len(values) == 0 {
			r.problem(f.value, "write the values, or off", "flag %q has an empty list", f.name)
			return s, false
		}
	}
	for _, v := range values {
		text, good := r.value(v, fmt.Sprintf("the value of %q", f.name))
		ok = ok && good
		s.Values = append(s.Values, text)
	}
	return s, ok
}

// settings reads a mapping of flags.
func (r *reading) settings(n *yaml.Node, what string, visit func(field)) []Setting {
	var settings []Setting
	flat := map[string]string{}
	for _, f := range r.fields(n, what, "{flag: value}") {
		s, ok := r.setting(f)
		if other, twice := flat[FlatName(f.name)]; twice {
			r.problem(f.key, "keep one of the two", "flags %q and %q are the same", other, f.name)
		}
		flat[FlatName(f.name)] = f.name
		if ok {
			settings = append(settings, s)
		}
		if visit != nil {
			visit(f)
		}
	}
	return settings
}

func (r *reading) readServer(n *yaml.Node) {
	r.grid.Server = r.settings(n, "server", func(f field) { r.flags[FlatName(f.name)] = f.key })
}

// readAxes reads the server axes. Ranges are counted before they are expanded.
func (r *reading) readAxes(n *yaml.Node) {
	setBy := map[string]string{} // flat flag → axis that sets it
	named := map[string]string{} // flat name → axis
	for _, f := range r.fields(n, "sweep", "{mem-fraction-static: [0.85, 0.88]}") {
		place := &axisPlace{key: f.key, bundle: f.value.Kind == yaml.MappingNode}
		r.axes[f.name] = place
		before := len(r.problems)
		axis := Axis{Name: f.name}
		other, taken := named[FlatName(f.name)]
		named[FlatName(f.name)] = f.name
		if taken {
			r.problem(f.key, "rename one of them", "axes %q and %q have the same key in results", other, f.name)
		} else if r.axisName(f.key, f.name) {
			if place.bundle {
				axis.Values = r.bundles(f, setBy)
			} else if r.flag(f.key, f.name) {
				r.underscored(f)
				r.axisSets(f.key, f.name, f.name, setBy)
				axis.Values = r.axisValues(f)
			}
		}
		place.broken = slices.ContainsFunc(r.problems[before:], func(p Problem) bool { return !p.Warning })
		r.grid.Axes = append(r.grid.Axes, axis)
	}
}

// fixedKeys are the keys of a record that do not come from a grid.
var fixedKeys = []string{
	"schema", "night", "cell", "content_key", "role", "config", "load", "repeat", "attempt", "host", "gpu", "gpu_count", "engine",
	"engine_version", "model", "baseline", "unacceptable", "axes", "workload", "concurrency", "pools", "outcome", "phase", "cause",
	"detail", "implied_by", "evidence", "exit", "notes", "steady", "verdict", "failures", "command", "dir", "started_at", "ended_at",
	"label", "reason", // words of include, baseline and unacceptable
}

// measuredKeys are the numbers of a record that are measured. Facts are not among them: where a flag has the name of
// one (context-length), the asked value stands for it.
var measuredKeys = regexp.MustCompile(`^(sent|completed|failed|rejected|retractions|(prompt|output|load_back)_tokens|window_s|slo_met|` +
	`goodput_share|request_goodput|(input|output|total|request|server_output)_throughput|(running|queued|token_usage)(_peak)?|` +
	`token_usage_over_085|cached_(tokens|share)_(device|host)|client_(lag_p99_ms|server_ratio|max_silence_s)|headroom_min_gib|` +
	`(mean|median|std|p90|p95|p99|max)_(ttft|tpot|itl|e2e_latency)_ms|(start|stop|harness)_s)$`)

// axisName notes a name that cannot stand in a folder's name or would hide a record's own key.
func (r *reading) axisName(n *yaml.Node, name string) bool {
	if name == "concurrency" {
		r.problem(n, "write it under load: [{workload: name, concurrency: [64, 128]}]", "concurrency is no flag of a server: requests in flight are an axis of load")
		return false
	}
	if slices.Contains(fixedKeys, FlatName(name)) || measuredKeys.MatchString(FlatName(name)) || strings.HasSuffix(FlatName(name), "_concurrency") {
		r.problem(n, "make it a bundle with another name, as in {my-"+name+": {one: {"+name+": …}}}", "axis %q would hide a key that every record has", name)
		return false
	}
	if strings.HasPrefix(name, "-") {
		return r.flag(n, name)
	}
	return r.folderName(n, name, "axis", "rename it")
}

// axisSets notes a flag that stands in "server" too, or that two axes set.
func (r *reading) axisSets(n *yaml.Node, axis, flag string, setBy map[string]string) {
	flat := FlatName(flag)
	if key, ok := r.flags[flat]; ok {
		r.problem(n, fmt.Sprintf("take it out of server, line %d, or out of here", key.Line), "axis %q sets flag %q, which server sets for every launch", axis, flag)
	}
	if other, ok := setBy[flat]; ok && other != axis {
		r.problem(n, "let one axis set it", "axis %q sets flag %q, which axis %q sets too", axis, flag, other)
	}
	setBy[flat] = axis
}

// axisValues reads the values of a plain axis: literal texts, ranges and ladders.
func (r *reading) axisValues(f field) []AxisValue {
	items := []*yaml.Node{f.value}
	if f.value.Kind == yaml.SequenceNode {
		items = f.value.Content
	}
	if len(items) == 0 || empty(f.value) {
		r.problem(f.key, "write values as in [0.85, 0.88], or take the axis out", "axis %q has no values", f.name)
		return nil
	}
	var values []AxisValue
	seen := map[string]string{} // canonical → as written
	for _, item := range items {
		texts, ok := r.axisItem(item, f.name, len(values))
		if !ok {
			continue
		}
		for _, text := range texts {
			if other, twice := seen[canonical(text)]; twice {
				same := ""
				if other != text {
					same = fmt.Sprintf(", the same as %s", other)
				}
				r.problem(item, "keep one of the two", "axis %q has the value %s twice%s", f.name, text, same)
				continue
			}
			seen[canonical(text)] = text
			values = append(values, AxisValue{Label: text, Settings: []Setting{{f.name, []string{text}}}})
		}
	}
	return values
}

// axisItem reads one entry of an axis, which may stand for many values.
func (r *reading) axisItem(n *yaml.Node, axis string, have int) ([]string, bool) {
	if n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode {
		r.problem(n, fmt.Sprintf("name it: {%s: {a-name: {%s: [1, 2]}}}", axis, axis), "a value of axis %q is one plain value, not %s", axis, kindOf(n))
		return nil, false
	}
	text, ok := r.value(n, fmt.Sprintf("a value of axis %q", axis))
	if !ok {
		return nil, false
	}
	if plain(n) {
		if s, isSeries, bad := parseSeries(text); bad != nil {
			r.problem(n, bad.remedy, "%s", bad.text)
			return nil, false
		} else if isSeries {
			return r.expand(n, s, text, have)
		} else if remedy := seriesRemedy(text); remedy != "" && safeName.MatchString(text) {
			r.warn(n, remedy+"; quote it if the server wants this very text", "a value of axis %q is the text %q, not a range", axis, text)
		}
	}
	remedy := cmp.Or(seriesRemedy(text), fmt.Sprintf("give it a name: {%s: {a-name: {%s: …}}}", axis, axis))
	bare := text
	if number.MatchString(text) {
		bare = strings.TrimPrefix(text, "-") // a minus stands behind "NAME=", where it is safe
	}
	return []string{text}, r.folderName(n, bare, "value", remedy)
}

// expand turns a series into its values, unless with the have values before it there are too many.
func (r *reading) expand(n *yaml.Node, s series, text string, have int) ([]string, bool) {
	if s.count+have > maxCells {
		r.problem(n, "use a larger step", "with %q there are more than %d values", text, maxCells)
		return nil, false
	}
	if !s.exact {
		r.warn(n, "write the last value that you want", "%q ends at %s: its steps do not meet its end", text, s.last)
	}
	return s.values(), true
}

// bundles reads an axis made of named sets of flags.
func (r *reading) bundles(f field, setBy map[string]string) []AxisValue {
	var values []AxisValue
	for _, b := range r.fields(f.value, fmt.Sprintf("axis %q", f.name), "{name: {flag: value}}") {
		value := AxisValue{Label: b.name}
		r.folderName(b.key, b.name, "bundle", "rename it")
		if leadingZero.MatchString(b.name) {
			r.zeroed(b.key, "the name of a bundle")
		}
		if !empty(b.value) {
			value.Settings = r.settings(b.value, fmt.Sprintf("bundle %q", b.name), func(s field) { r.axisSets(s.key, f.name, s.name, setBy) })
		}
		values = append(values, value)
	}
	if f.value.Kind == yaml.MappingNode && len(f.value.Content) == 0 {
		r.problem(f.key, "write bundles as in {off: {}, on: {flag: value}}, or take the axis out", "axis %q has no values", f.name)
	}
	return values
}
