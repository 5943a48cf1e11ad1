package engine

import (
	"bytes"
	"slices"
	"strconv"
)

// sample is one line of a Prometheus text page.
type sample struct {
	name   []byte
	labels []byte // between the braces, as it stands
	value  float64
}

// samples calls fn for each sample of a page in the Prometheus text format. Lines that are not in
// that format are passed over, as are values that are no number.
func samples(page []byte, fn func(sample)) {
	for len(page) > 0 {
		line := page
		if i := bytes.IndexByte(page, '\n'); i >= 0 {
			line, page = page[:i], page[i+1:]
		} else {
			page = nil
		}
		if s, ok := parseSample(bytes.TrimSpace(line)); ok {
			fn(s)
		}
	}
}

func parseSample(line []byte) (sample, bool) {
	var s sample
	if len(line) == 0 || line[0] == '#' {
		return s, false
	}
	i := bytes.IndexAny(line, "{ \t")
	if i <= 0 {
		return s, false
	}
	s.name = line[:i]
	rest := line[i:]
	if rest[0] == '{' {
		end := labelsEnd(rest)
		if end < 0 {
			return s, false
		}
		s.labels, rest = rest[1:end], rest[end+1:]
	}
	rest = bytes.TrimSpace(rest)
	if i := bytes.IndexAny(rest, " \t"); i >= 0 { // a time stamp may follow
		rest = rest[:i]
	}
	v, err := strconv.ParseFloat(string(rest), 64)
	s.value = v
	return s, err == nil && v == v
}

// labelsEnd finds the closing brace, which may also stand inside a quoted value.
func labelsEnd(b []byte) int {
	quoted := false
	for i := 1; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label returns the value of a label, with its escapes as they stand; "" when there is none.
func (s sample) label(name string) string {
	var value string
	s.eachLabel(func(n, v []byte) {
		if string(n) == name {
			value = string(v)
		}
	})
	return value
}

func (s sample) eachLabel(fn func(name, value []byte)) {
	b := s.labels
	for len(b) > 0 {
		eq := bytes.IndexByte(b, '=')
		if eq < 0 || eq+1 >= len(b) || b[eq+1] != '"' {
			return
		}
		end := eq + 2
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(b) {
			return
		}
		fn(bytes.Trim(b[:eq], ", "), b[eq+2:end])
		b = b[end+1:]
	}
}

// tally adds up the series of one metric. Ranks that share one batch report the same number each, so
// series that differ only in the labels named alike count once, with the largest of their values.
type tally struct {
	alike  []string
	groups map[string]float64
}

func (t *tally) add(s sample) {
	if t.groups == nil {
		t.groups = map[string]float64{}
	}
	key := s.key(t.alike)
	if old, ok := t.groups[key]; !ok || s.value > old {
		t.groups[key] = s.value
	}
}

// sum is the total; ok is false when no series was seen.
func (t *tally) sum() (total float64, ok bool) {
	for _, v := range t.groups {
		total += v
	}
	return total, len(t.groups) > 0
}

// key names a series by its labels without some of them.
func (s sample) key(without []string) string {
	if len(s.labels) == 0 {
		return ""
	}
	key := make([]byte, 0, len(s.labels))
	s.eachLabel(func(n, v []byte) {
		if slices.Contains(without, string(n)) {
			return
		}
		key = append(append(append(append(key, n...), '='), v...), ',')
	})
	return string(key)
}
