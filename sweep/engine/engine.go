package engine

import (
	"slices"
	"strings"

	"sweep/sweep"
)

// engines returns the known engines, in the order in which they are offered.
func engines() []*sweep.Engine {
	return []*sweep.Engine{sglang(), vllm(), llamaCPP()}
}

// Lookup returns the engine of this name and whether there is one.
func Lookup(name string) (*sweep.Engine, bool) {
	for _, e := range engines() {
		if e.Name == name {
			return e, true
		}
	}
	return nil, false
}

// Names returns the names of all engines.
func Names() []string {
	var names []string
	for _, e := range engines() {
		names = append(names, e.Name)
	}
	return names
}

// dialect is how a server writes its flags.
type dialect struct {
	short    map[string]bool // names that take one dash; all others take two
	verbatim map[string]bool // flags whose values true, false and off are words of their own
}

// render turns settings into arguments: true becomes a bare flag, false and off become nothing, a
// list becomes several words, all else is passed on as it stands. Of several settings with the same
// name the last one counts and stands in its own place.
func (d dialect) render(settings []sweep.Setting) []string {
	var argv []string
	for i, s := range settings {
		if overridden(settings[i+1:], s.Name) {
			continue
		}
		flag := "--" + s.Name
		if d.short[s.Name] {
			flag = "-" + s.Name
		}
		switch value := s.Value(); {
		case d.verbatim[s.Name]:
			argv = append(append(argv, flag), s.Values...)
		case value == "true" || value == "":
			argv = append(argv, flag)
		case isOff(value):
		default:
			argv = append(append(argv, flag), s.Values...)
		}
	}
	return argv
}

func overridden(later []sweep.Setting, name string) bool {
	return slices.ContainsFunc(later, func(s sweep.Setting) bool { return s.Name == name })
}

// isOff reports a value that stands for "no such flag".
func isOff(value string) bool { return value == "false" || value == "off" }

// setting returns the last value among several names of one flag, and whether there is one.
func setting(settings []sweep.Setting, names ...string) (string, bool) {
	for _, s := range slices.Backward(settings) {
		if slices.Contains(names, s.Name) {
			return s.Value(), true
		}
	}
	return "", false
}

// cut shortens text to n bytes without breaking a rune, and makes it printable.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return sweep.Printable(s)
}
