package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// View says what of a night is shown, and how. The zero value shows all of it.
type View struct {
	Rows, Cols string      // parameters of a pivot table; both or none
	Metrics    []string    // columns of the tables, or the one number of a pivot; empty: the usual ones
	Filter     []Condition // all must hold
	Sort       string      // metric or parameter by which rows are ordered; a "-" before it turns the order round
}

// Condition is one test of a record: "hicache-size=48,off", "concurrency>64", "outcome!=ok".
type Condition struct {
	Name   string // of a parameter, in either spelling, or of a value
	Op     string // = != < <= > >=
	Values []string
}

// String gives the condition as it is written.
func (c Condition) String() string { return c.Name + c.Op + strings.Join(c.Values, ",") }

// ParseCondition reads a condition.
func ParseCondition(s string) (Condition, error) {
	at := strings.IndexAny(s, "=!<>")
	if at <= 0 {
		return Condition{}, fmt.Errorf("filter %q: write NAME=VALUE, or one of != < <= > >= between them", s)
	}
	c := Condition{Name: strings.TrimSpace(s[:at])}
	rest := s[at:]
	for _, op := range []string{"!=", "<=", ">=", "=", "<", ">"} {
		if value, ok := strings.CutPrefix(rest, op); ok {
			c.Op, rest = op, value
			break
		}
	}
	if c.Op == "" {
		return Condition{}, fmt.Errorf("filter %q: write NAME=VALUE, or one of != < <= > >= between them", s)
	}
	for v := range strings.SplitSeq(rest, ",") {
		c.Values = append(c.Values, strings.TrimSpace(v))
	}
	if c.Op != "=" && c.Op != "!=" {
		if _, err := strconv.ParseFloat(rest, 64); err != nil {
			return Condition{}, fmt.Errorf("filter %q: %s compares with one number, not %q", s, c.Op, rest)
		}
	}
	return c, nil
}

// holds reports whether a text passes. Numbers are equal however they are written.
func (c Condition) holds(value string) bool {
	number, err := strconv.ParseFloat(value, 64)
	same := func(want string) bool {
		if value == want {
			return true
		}
		w, errW := strconv.ParseFloat(want, 64)
		return err == nil && errW == nil && w == number
	}
	if c.Op == "=" || c.Op == "!=" {
		return slices.ContainsFunc(c.Values, same) == (c.Op == "=")
	}
	want, errW := strconv.ParseFloat(c.Values[0], 64)
	if err != nil || errW != nil {
		return false
	}
	switch c.Op {
	case "<":
		return number < want
	case "<=":
		return number <= want
	case ">":
		return number > want
	}
	return number >= want
}

// parameter is a config's or a load's value of that name, in either spelling.
func parameter(c sweep.Config, l sweep.Load, name string) (value string, ok bool) {
	switch name {
	case "config":
		return c.Key, true
	case "workload":
		return l.Workload, true
	case "load":
		return l.String(), true
	case "concurrency":
		return l.LevelText(), true
	}
	for _, p := range c.Axes {
		if p.Name == name || sweep.FlatName(p.Name) == sweep.FlatName(name) {
			return p.Value, true
		}
	}
	for _, p := range l.Pools {
		if p.Class+"_concurrency" == name {
			return p.Text(), true
		}
	}
	return "", false
}

// Parameters are the names that --rows, --cols and --filter know.
func (n *Night) Parameters() []string {
	names := slices.Clone(n.Axes)
	names = append(names, "workload", "concurrency", "config")
	for _, l := range n.Loads {
		for _, p := range l.Pools {
			if name := p.Class + "_concurrency"; len(l.Pools) > 1 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// recordText is a record's own key that is no parameter.
func recordText(r sweep.Record, name string) (string, bool) {
	switch name {
	case "outcome":
		return string(r.Outcome), true
	case "host":
		return r.Host, true
	case "phase":
		return string(r.Phase), true
	case "verdict":
		return r.Verdict, true
	case "repeat":
		return strconv.Itoa(r.Repeat), true
	}
	if v, ok := metric(name).Of(r); ok {
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}

// hasMetric reports whether some record has a value of that name.
func (n *Night) hasMetric(name string) bool {
	m := metric(name)
	for i := range n.Records {
		if _, ok := m.of(&n.Records[i]); ok {
			return true
		}
	}
	return false
}

// isParameter reports whether some config or load of the night has that parameter.
func (n *Night) isParameter(name string) bool {
	return slices.ContainsFunc(n.Parameters(), func(p string) bool { return sweep.FlatName(p) == sweep.FlatName(name) })
}

// Check says what of a view the night does not know.
func (n *Night) Check(v View) error {
	if (v.Rows == "") != (v.Cols == "") {
		return fmt.Errorf("a pivot needs both --rows and --cols: parameters of this night are %s", strings.Join(n.Parameters(), ", "))
	}
	for _, name := range []string{v.Rows, v.Cols} {
		if name != "" && !n.isParameter(name) {
			return fmt.Errorf("this night has no parameter %q; it has %s", name, strings.Join(n.Parameters(), ", "))
		}
	}
	if v.Rows != "" && sweep.FlatName(v.Rows) == sweep.FlatName(v.Cols) {
		return fmt.Errorf("rows and columns are both %s", v.Rows)
	}
	if v.Rows != "" && len(v.Metrics) > 1 {
		return fmt.Errorf("a pivot shows one metric, not %d", len(v.Metrics))
	}
	for _, name := range v.Metrics {
		if !n.hasMetric(name) {
			return fmt.Errorf("no record of this night has a value %q; the keys are those of %s", name, CellsFile)
		}
	}
	for _, c := range v.Filter {
		if _, known := recordText(sweep.Record{}, c.Name); !known && !n.isParameter(c.Name) && !n.hasMetric(c.Name) {
			return fmt.Errorf("filter %q: this night has no such parameter or value", c)
		}
	}
	if name := strings.TrimPrefix(v.Sort, "-"); name != "" && !n.isParameter(name) && !n.hasMetric(name) {
		return fmt.Errorf("sort %q: this night has no such parameter or value", v.Sort)
	}
	return nil
}

// Filtered is the night with what passes all conditions: configs and loads by their parameters, records by the rest.
func (n *Night) Filtered(conditions []Condition) *Night {
	if len(conditions) == 0 {
		return n
	}
	out := *n
	out.index = nightIndex{}
	passes := func(c sweep.Config, l sweep.Load, r *sweep.Record) bool {
		for _, cond := range conditions {
			value, ok := parameter(c, l, cond.Name)
			if !ok && !n.isParameter(cond.Name) {
				if r == nil {
					continue // nothing that a config or load alone could fail
				}
				value, ok = recordText(*r, cond.Name)
			}
			if !ok || !cond.holds(value) {
				return false
			}
		}
		return true
	}
	out.Configs = slices.DeleteFunc(slices.Clone(n.Configs), func(c sweep.Config) bool {
		return !slices.ContainsFunc(n.Loads, func(l sweep.Load) bool { return passes(c, l, nil) })
	})
	out.Loads = slices.DeleteFunc(slices.Clone(n.Loads), func(l sweep.Load) bool {
		return !slices.ContainsFunc(n.Configs, func(c sweep.Config) bool { return passes(c, l, nil) })
	})
	configs := map[string]sweep.Config{}
	for _, c := range n.Configs {
		configs[c.Key] = c
	}
	keep := func(records []sweep.Record) []sweep.Record {
		return slices.DeleteFunc(slices.Clone(records), func(r sweep.Record) bool { return !passes(configs[r.Config], r.Load, &r) })
	}
	out.Records, out.Drift = keep(n.Records), keep(n.Drift)
	out.Asked = len(out.Configs) * len(out.Loads) * out.Repeats
	return &out
}

// sortRows orders the rows of every sheet.
func (s *Summary) sortRows(by string) {
	name, down := strings.CutPrefix(by, "-")
	if name == "" {
		return
	}
	s.told = nil // it has the rows in another order
	m := metric(name)
	for _, sheet := range s.Sheets {
		slices.SortStableFunc(sheet.Rows, func(a, b *Row) int {
			var order int
			if s.Night.isParameter(name) {
				x, _ := parameter(a.Config, a.shown().Load, name)
				y, _ := parameter(b.Config, b.shown().Load, name)
				order = compareTexts(x, y)
			} else {
				x, okX := a.shown().Median(m)
				y, okY := b.shown().Median(m)
				if okX != okY {
					return before(okX, okY) // what has no value stays at the end, whichever way
				}
				order = cmp.Compare(x, y)
			}
			if down {
				return -order
			}
			return order
		})
	}
}

// compareTexts orders words before numbers, and numbers by their value.
func compareTexts(a, b string) int {
	x, errX := number(a)
	y, errY := number(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX != nil && errY != nil:
		return cmp.Compare(a, b)
	}
	return before(errX != nil, errY != nil)
}
