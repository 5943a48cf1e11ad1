package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// field is one entry of a mapping.
type field struct {
	name       string
	key, value *yaml.Node
}

// problem notes that something is wrong at a node.
func (r *reading) problem(n *yaml.Node, remedy, format string, args ...any) {
	p := Problem{File: r.file, Text: fmt.Sprintf(format, args...), Remedy: remedy}
	if n != nil {
		p.Line, p.Col = max(n.Line, 0), max(n.Column, 1)
	}
	if p.Line > 0 && p.Line <= len(r.lines) {
		p.Source = strings.TrimRight(r.lines[p.Line-1], "\r")
	}
	r.problems = append(r.problems, p)
}

// warn notes something that looks wrong but can run.
func (r *reading) warn(n *yaml.Node, remedy, format string, args ...any) {
	r.problem(n, remedy, format, args...)
	r.problems[len(r.problems)-1].Warning = true
}

// empty reports a key with nothing behind it, as when all entries of a list are commented out.
func empty(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// fields returns the entries of a mapping. It notes what is no mapping, keys that are no plain
// words, and keys that stand twice. what names the mapping for a person.
func (r *reading) fields(n *yaml.Node, what, example string) []field {
	if n.Kind == yaml.AliasNode {
		return nil // noted with all aliases
	}
	if n.Kind != yaml.MappingNode {
		r.problem(n, "write "+example, "%s is a mapping, not %s", what, kindOf(n))
		return nil
	}
	var fields []field
	first := map[string]int{} // name → line
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind == yaml.AliasNode || key.Tag == "!!merge":
			continue // noted with all aliases
		case key.Kind != yaml.ScalarNode || empty(key) || key.Value == "":
			r.problem(key, "write a name", "%s is no key of %s", kindOf(key), what)
			continue
		case strings.ContainsFunc(key.Value, unsafeRune):
			r.problem(key, "write a plain word", "a key of %s holds a control character", what)
			continue
		case first[key.Value] > 0:
			r.problem(key, "keep one of the two", "%q is given twice in %s, first in line %d", key.Value, what, first[key.Value])
			continue
		}
		first[key.Value] = key.Line
		fields = append(fields, field{key.Value, key, value})
	}
	return fields
}

// section returns the entries of a mapping whose keys are known, by name, and notes the others.
func (r *reading) section(n *yaml.Node, what, example string, known ...string) map[string]field {
	found := map[string]field{}
	for _, f := range r.fields(n, what, example) {
		if !slices.Contains(known, f.name) {
			r.problem(f.key, unknownKey(f.name, known), "unknown key %q", f.name)
			continue
		}
		found[f.name] = f
	}
	return found
}

// items returns the entries of a list.
func (r *reading) items(n *yaml.Node, what, example string) []*yaml.Node {
	if n.Kind == yaml.AliasNode {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(n, "write "+example, "%s is a list, not %s", what, kindOf(n))
		return nil
	}
	return n.Content
}

// text returns a scalar's literal text. It notes lists and mappings, an empty value, and text that
// could not be one argument or one line.
func (r *reading) text(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "", false
	case n.Kind != yaml.ScalarNode:
		r.problem(n, "write one plain value", "%s is one value, not %s", what, kindOf(n))
	case empty(n):
		r.problem(n, "write a value, or leave the key out", "%s is empty", what)
	case strings.ContainsRune(n.Value, 0):
		r.problem(n, "take it out", "%s holds a NUL character", what)
	case strings.ContainsAny(n.Value, "\n\r"):
		r.problem(n, "write it in one line", "%s holds a line break", what)
	case strings.ContainsFunc(n.Value, unsafeRune):
		r.problem(n, "take it out", "%s holds a control character", what)
	case len(n.Value) > 4096:
		r.problem(n, "write at most 4096 bytes", "%s is %d bytes long", what, len(n.Value))
	default:
		return n.Value, true
	}
	return "", false
}

// value is text for a flag or an axis: numbers with leading zeros are refused, since some readers
// take 010 for 8, and a value that looks like a flag would be taken for one.
func (r *reading) value(n *yaml.Node, what string) (string, bool) {
	s, ok := r.text(n, what)
	if !ok {
		return "", false
	}
	if r.zeroed(n, what) {
		return "", false
	}
	if plain(n) && slices.Contains([]string{"True", "TRUE", "False", "FALSE", "Off", "OFF"}, s) {
		r.problem(n, fmt.Sprintf("write %s, or quote it if the server wants this very text", strings.ToLower(s)), "%s is spelled %s", what, s)
		return "", false
	}
	if flagLike.MatchString(s) {
		r.problem(n, "give each flag a key of its own", "%s is %q, which a server takes for a flag", what, s)
		return "", false
	}
	return s, true
}

var flagLike = regexp.MustCompile(`^--[A-Za-z]`)

// zeroed notes an unquoted number that begins with a zero.
func (r *reading) zeroed(n *yaml.Node, what string) bool {
	if !plain(n) || !leadingZero.MatchString(n.Value) {
		return false
	}
	short := strings.TrimLeft(n.Value, "-+0")
	if short == "" || short[0] == '.' {
		short = "0" + short
	}
	if n.Value[0] == '-' {
		short = "-" + short
	}
	r.problem(n, fmt.Sprintf("write %s, or quote it as text", short), "%s is %s, and a number with a leading zero is octal to some readers", what, n.Value)
	return true
}

// plain reports a scalar without quotes.
func plain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// whole reads a whole number; k at its end stands for a thousand.
func (r *reading) whole(n *yaml.Node, what string, least, most int) (int, bool) {
	s, ok := r.text(n, what)
	if !ok || r.zeroed(n, what) {
		return 0, false
	}
	return r.wholeText(n, s, what, least, most)
}

// wholeText is whole for a part of a scalar.
func (r *reading) wholeText(n *yaml.Node, s, what string, least, most int) (int, bool) {
	v, ok := parseCount(s)
	remedy := fmt.Sprintf("write a number from %d to %d", least, most)
	switch {
	case !ok && number.MatchString(s) && s[0] != '-':
		r.problem(n, "write it without decimals", "%s is a whole number, not %s", what, s)
	case !ok && number.MatchString(s):
		r.problem(n, remedy, "%s is %s, less than %d", what, s, least)
	case !ok:
		r.problem(n, "write digits, as in 64 or 6k", "%s is a whole number, not %q", what, s)
	case v < least:
		r.problem(n, remedy, "%s is %d, less than %d", what, v, least)
	case v > most:
		r.problem(n, remedy, "%s is %d, more than %d", what, v, most)
	default:
		return v, true
	}
	return 0, false
}

// maxDuration bounds every time in a grid, so that sums cannot overflow.
const maxDuration = 30 * 24 * time.Hour

// duration reads a time such as 90s or 2m30s.
func (r *reading) duration(n *yaml.Node, what string, least time.Duration) (time.Duration, bool) {
	s, ok := r.text(n, what)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil && number.MatchString(s):
		r.problem(n, fmt.Sprintf("write %ss or %sm", s, s), "%s is %s without a unit", what, s)
	case err != nil:
		r.problem(n, "write it as in 90s, 2m or 1h30m", "%s is a time, not %q", what, s)
	case d < least:
		r.problem(n, fmt.Sprintf("write %s or more", shortDuration(max(least, time.Second))), "%s is %s, too short", what, s)
	case d > maxDuration:
		r.problem(n, "write at most 720h", "%s is %s, more than 30 days", what, s)
	default:
		return d, true
	}
	return 0, false
}

// shortDuration writes 2m instead of 2m0s, as a person would in a grid.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// kindOf names what stands at a node.
func kindOf(n *yaml.Node) string {
	switch {
	case empty(n):
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "the number " + clip(n.Value)
	}
	return fmt.Sprintf("%q", clip(n.Value))
}

func clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// safeName is a name that can be a part of a folder's name and of a key in results: no separators,
// nothing that a shell or another system reads in its own way.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_.+-]*$`)

// maxName is how long a label, workload or class may be; a folder's name holds several.
const maxName = 64

// folderName notes a name that is not safe as part of a folder's name.
func (r *reading) folderName(n *yaml.Node, s, what, remedy string) bool {
	switch {
	case len(s) > maxName:
		r.problem(n, remedy, "%s is %d characters long, more than the %d that a folder's name can hold", what, len(s), maxName)
	case !safeName.MatchString(s) || strings.Trim(s, ".") == "":
		r.problem(n, remedy, "%s %q is not safe as a folder's name: only letters, digits and . _ + - are", what, clip(s))
	default:
		return true
	}
	return false
}
