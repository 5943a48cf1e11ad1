package search

import (
	"slices"

	"sweep/sweep"
)

// family gives the launches that differ from the asked one in nothing but the fraction and the host's
// cache, all of one engine version and one kind of device: those of the newest, where the asked one does not say.
func family(rule *sweep.MemoryRule, seen []sweep.Sighting, asked sweep.Sighting) []sweep.Sighting {
	var kin []sweep.Sighting
	for _, s := range seen {
		if _, ok := rule.FractionOf(s.Settings); ok && related(rule, s, asked) {
			kin = append(kin, s)
		}
	}
	if len(kin) == 0 {
		return nil
	}
	slices.SortStableFunc(kin, func(a, b sweep.Sighting) int { return a.At.Compare(b.At) })
	newest := kin[len(kin)-1]
	return slices.DeleteFunc(kin, func(s sweep.Sighting) bool {
		return s.EngineVersion != newest.EngineVersion || s.GPU != newest.GPU || s.GPUCount != newest.GPUCount
	})
}

// related compares all that decides how memory is divided, apart from the fraction and the host's cache.
func related(rule *sweep.MemoryRule, s, asked sweep.Sighting) bool {
	either := func(a, b string) bool { return a == b || a == "" || b == "" }
	return s.Engine == asked.Engine && s.Model == asked.Model && s.Host == asked.Host && s.Simulate == asked.Simulate &&
		either(s.EngineVersion, asked.EngineVersion) && either(s.GPU, asked.GPU) &&
		(s.GPUCount == asked.GPUCount || s.GPUCount == 0 || asked.GPUCount == 0) &&
		slices.Equal(s.Command, asked.Command) && slices.Equal(s.Env, asked.Env) && slices.Equal(s.GPUs, asked.GPUs) &&
		slices.EqualFunc(compared(rule, s.Settings), compared(rule, asked.Settings), sameSetting)
}

// compared are the settings that two launches must share, in order of their names.
func compared(rule *sweep.MemoryRule, settings []sweep.Setting) []sweep.Setting {
	var out []sweep.Setting
	for i, s := range settings {
		later := slices.ContainsFunc(settings[i+1:], func(t sweep.Setting) bool { return t.Name == s.Name })
		if later || s.Name == rule.Fraction || rule.OfHostCache != nil && rule.OfHostCache(s.Name) {
			continue
		}
		if v := s.Value(); v == "off" || v == "false" {
			continue // no flag at all
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b sweep.Setting) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

func sameSetting(a, b sweep.Setting) bool {
	return a.Name == b.Name && slices.Equal(a.Values, b.Values)
}

// Basis names the launches of before, by their indexes, that a forecast of asked will rest on once they
// have run: the first of the family at each fraction. It is empty when they will not do. enough is how
// many different fractions it takes: 2, or 1 where the size of a token is known.
func Basis(rule *sweep.MemoryRule, before []sweep.Sighting, asked sweep.Sighting, enough int) []int {
	if rule == nil {
		return nil
	}
	if _, ok := rule.FractionOf(asked.Settings); !ok {
		return nil
	}
	var at []int
	var fractions []float64
	for i, s := range before {
		x, ok := rule.FractionOf(s.Settings)
		if !ok || slices.Contains(fractions, x) || !related(rule, s, asked) {
			continue
		}
		at, fractions = append(at, i), append(fractions, x)
	}
	if len(at) < enough {
		return nil
	}
	return at
}

// Relatives keeps of seen what a forecast of asked can use, the newest most of them.
func Relatives(rule *sweep.MemoryRule, seen []sweep.Sighting, asked sweep.Sighting, most int) []sweep.Sighting {
	if rule == nil {
		return nil
	}
	kin := family(rule, seen, asked)
	return kin[max(0, len(kin)-most):]
}
