package sweep

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxEntries bounds the lists that are compared with every config.
const maxEntries = 1000

func (r *reading) axis(name string) (Axis, bool) {
	i := slices.IndexFunc(r.grid.Axes, func(a Axis) bool { return a.Name == name })
	if i < 0 {
		return Axis{}, false
	}
	return r.grid.Axes[i], true
}

func (r *reading) axisNames() []string {
	var names []string
	for _, a := range r.grid.Axes {
		names = append(names, a.Name)
	}
	return names
}

// label returns the axis' own spelling of a value.
func (a Axis) label(text string) (string, bool) {
	for _, v := range a.Values {
		if sameText(v.Label, text) {
			return v.Label, true
		}
	}
	return "", false
}

// labels lists the values of an axis for a person.
func (a Axis) labels() string {
	var b strings.Builder
	for i, v := range a.Values {
		if i == 12 {
			return b.String() + ", …"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.Label)
	}
	return b.String()
}

// entries returns a list's entries, unless there are too many to compare with every config.
func (r *reading) entries(n *yaml.Node, what, example string) []*yaml.Node {
	items := r.items(n, what, example)
	if len(items) > maxEntries {
		r.problem(n, "leave values out of the axes instead", "%s has %d entries, more than %d", what, len(items), maxEntries)
		return nil
	}
	return items
}

// selection reads names and values of axes, and notes what matches nothing.
func (r *reading) selection(fields []field, what string) (Params, bool) {
	var p Params
	sweep, ok := r.top["sweep"].value, true
	for _, f := range fields {
		text, good := r.value(f.value, fmt.Sprintf("the value of %q", f.name))
		axis, known := r.axis(f.name)
		switch {
		case !known && (empty(sweep) || sweep.Kind == yaml.MappingNode):
			r.problem(f.key, didYouMean(f.name, r.axisNames()), "%s matches nothing: no axis is named %q", what, f.name)
			ok = false
		case !known || !good || r.axes[f.name].broken:
			ok = false
		default:
			label, found := axis.label(text)
			if !found {
				r.problem(f.value, "its values are "+axis.labels(), "%s matches nothing: axis %q has no value %q", what, f.name, clip(text))
				ok = false
				continue
			}
			p = append(p, Param{f.name, label})
		}
	}
	return p, ok
}

func (r *reading) readExclude(n *yaml.Node) {
	const example = "[{axis: value}]"
	for _, item := range r.entries(n, "exclude", example) {
		fields := r.fields(item, "an exclusion", "{axis: value}")
		if item.Kind == yaml.MappingNode && len(item.Content) == 0 {
			r.problem(item, "name at least one axis", "an exclusion without axes would leave no config")
		}
		if p, ok := r.selection(fields, "exclude"); ok && len(p) > 0 {
			r.grid.Exclude = append(r.grid.Exclude, p)
			r.exclude = append(r.exclude, item)
		}
	}
}

func (r *reading) readInclude(n *yaml.Node) {
	lines := map[string]int{}
	for _, item := range r.entries(n, "include", "[{label: name, flag: value}]") {
		fields := r.fields(item, "an included config", "{label: name, flag: value}")
		if item.Kind != yaml.MappingNode {
			continue
		}
		in := Include{}
		for _, f := range fields {
			switch place, axis := r.axes[f.name]; {
			case f.name == "label":
				if s, ok := r.text(f.value, "label"); ok && r.folderName(f.value, s, "label", "rename it") {
					in.Label = s
				} else {
					in.Label = "?" // noted
				}
			case axis && place.bundle:
				if p, ok := r.selection([]field{f}, "include"); ok {
					in.Settings = append(in.Settings, r.bundleSettings(p[0])...)
				}
			default:
				s, ok := r.setting(f)
				if ok && r.includeKey(f) {
					in.Settings = append(in.Settings, s)
				}
			}
		}
		switch line, twice := lines[in.Label]; {
		case in.Label == "":
			r.problem(item, "add label: a-name", "an included config has no label")
		case twice:
			r.problem(item, "rename one of them", "label %q is given twice, first in line %d", in.Label, line)
		case in.Label == onlyConfig:
			r.problem(item, "rename it", "label %q is the name of a config without axes", in.Label)
		}
		lines[in.Label] = item.Line
		r.grid.Include = append(r.grid.Include, in)
		r.include = append(r.include, item)
	}
}

// includeKey notes a flag whose name would hide a record's own key.
func (r *reading) includeKey(f field) bool {
	if slices.Contains(fixedKeys, FlatName(f.name)) {
		r.problem(f.key, "put it into server or into a bundle", "flag %q would hide a key that every record has", f.name)
		return false
	}
	return true
}

func (r *reading) bundleSettings(p Param) []Setting {
	axis, _ := r.axis(p.Name)
	for _, v := range axis.Values {
		if v.Label == p.Value {
			return v.Settings
		}
	}
	return nil
}

// readBaseline reads one value for each axis, or the label of an included config.
func (r *reading) readBaseline(n *yaml.Node) {
	fields := r.fields(n, "baseline", "{axis: value, …} or {label: name}")
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == "label" }); i >= 0 {
		if len(fields) > 1 {
			r.problem(fields[i].key, "keep the label or the values", "baseline has a label and values of axes")
		}
		label, ok := r.text(fields[i].value, "label")
		var known []string
		for _, in := range r.grid.Include {
			known = append(known, in.Label)
		}
		if ok && !slices.Contains(known, label) {
			r.problem(fields[i].value, didYouMean(label, known), "baseline matches nothing: no included config has the label %q", label)
			return
		}
		r.grid.Baseline = Params{{"label", label}}
		return
	}
	p, ok := r.selection(fields, "baseline")
	if n.Kind != yaml.MappingNode || !ok || r.broken["sweep"] {
		return
	}
	var missing []string
	for _, a := range r.grid.Axes {
		if _, given := p.Get(a.Name); !given {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		r.problem(n, "add one value for each", "baseline says nothing of %s", strings.Join(missing, ", "))
		return
	}
	for _, a := range r.grid.Axes { // in the order of the axes
		value, _ := p.Get(a.Name)
		r.grid.Baseline = append(r.grid.Baseline, Param{a.Name, value})
	}
}

// readUnacceptable reads values that must not win. They need not be asked for: the same list can
// stand in every grid of a team.
func (r *reading) readUnacceptable(n *yaml.Node) {
	for _, item := range r.entries(n, "unacceptable", "[{flag: value, reason: why}]") {
		var u Unacceptable
		before := len(r.problems)
		fields := r.fields(item, "an unacceptable value", "{flag: value, reason: why}")
		for _, f := range fields {
			if f.name == "reason" {
				u.Reason, _ = r.text(f.value, "reason")
				continue
			}
			text, _ := r.value(f.value, fmt.Sprintf("the value of %q", f.name))
			u.Match = append(u.Match, Param{f.name, text})
		}
		if item.Kind == yaml.MappingNode && len(r.problems) == before {
			switch {
			case u.Reason == "":
				r.problem(item, "add reason: why", "an unacceptable value has no reason")
			case len(u.Match) == 0:
				r.problem(item, "add flag: value", "a reason stands without the value that it is for")
			}
		}
		r.grid.Unacceptable = append(r.grid.Unacceptable, u)
		r.unwant = append(r.unwant, item)
	}
}
