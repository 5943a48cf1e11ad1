package report

import (
	"slices"
	"strings"

	"sweep/sweep"
)

// Summary is a night pivoted: one sheet for each workload, because throughput under unlike loads
// cannot be compared.
type Summary struct {
	Night    *Night
	Sheets   []*Sheet
	Drift    []DriftCheck
	Recorded int      // records of role measure
	Asked    int      // cells × repeats that the night is to have
	Notes    []string // notes that every record of the night carries, such as "simulated ×20"
}

// Sheet holds one workload: configs in rows, loads in columns.
type Sheet struct {
	Workload string
	Classes  []string // names of the classes where there are several; empty for one
	Loads    []sweep.Load
	Rows     []*Row // in the order of the night, baseline first
	Baseline *Row   // nil when the night has none
	Best     *Row   // nil when no config may be named best
	SLO      bool   // service levels were asked for
}

// Row is one config under the loads of a sheet.
type Row struct {
	Config  sweep.Config
	Squares []*Square // one for each load of the sheet
	Best    *Square   // highest throughput, among loads that meet the service levels when any does; nil: nothing measured
	// Unfit says why the config is not named best however fast it was; "" when it may be. A death under any
	// asked load of any workload counts, and so does one repeat of several.
	Unfit string
}

// Square is one cell over its repeats.
type Square struct {
	Load    sweep.Load
	Records []sweep.Record // those there are, by repeat
	Repeats int            // asked for
}

// DriftCheck compares the baseline at the end of a repeat with itself at the beginning.
type DriftCheck struct {
	Repeat  int
	Load    sweep.Load
	Change  float64 // of the output throughput: 0.004 is +0.4 %
	Outcome sweep.Outcome
	Known   bool // both ends were measured
}

// Summarize pivots a night and ranks its configs.
func Summarize(n *Night) *Summary {
	s := &Summary{
		Night: n, Recorded: len(n.Records), Asked: n.Asked,
		Drift: driftChecks(n), Notes: commonNotes(n.Records),
	}
	type key struct{ config, load string }
	cells := map[key][]sweep.Record{}
	for _, r := range n.Records {
		k := key{r.Config, r.Load.String()}
		cells[k] = append(cells[k], r)
	}
	for _, load := range n.Loads {
		if len(s.Sheets) == 0 || s.Sheets[len(s.Sheets)-1].Workload != load.Workload {
			s.Sheets = append(s.Sheets, &Sheet{Workload: load.Workload, Classes: classes(load)})
		}
		sheet := s.Sheets[len(s.Sheets)-1]
		sheet.Loads = append(sheet.Loads, load)
	}
	for _, sheet := range s.Sheets {
		for _, c := range n.Configs {
			row := &Row{Config: c}
			for _, load := range sheet.Loads {
				records := cells[key{c.Key, load.String()}]
				slices.SortStableFunc(records, func(a, b sweep.Record) int { return a.Repeat - b.Repeat })
				row.Squares = append(row.Squares, &Square{Load: load, Records: records, Repeats: n.Repeats})
			}
			sheet.Rows = append(sheet.Rows, row)
			if c.Baseline && sheet.Baseline == nil {
				sheet.Baseline = row
			}
		}
	}
	s.rank()
	return s
}

// asksSLO reports whether the plan has service levels for a workload.
func (n *Night) asksSLO(workload string) bool {
	return slices.ContainsFunc(n.Workloads, func(w sweep.Workload) bool {
		return w.Name == workload && (len(w.SLO) > 0 || slices.ContainsFunc(w.Classes, func(c sweep.Class) bool { return len(c.SLO) > 0 }))
	})
}

func classes(load sweep.Load) []string {
	if len(load.Pools) < 2 {
		return nil
	}
	names := make([]string, len(load.Pools))
	for i, p := range load.Pools {
		names[i] = p.Class
	}
	return names
}

// commonNotes returns the notes that all records with any carry: facts of the night, not of a cell.
func commonNotes(records []sweep.Record) []string {
	var common []string
	first := true
	for _, r := range records {
		switch {
		case len(r.Notes) == 0:
			continue
		case first:
			common, first = slices.Clone(r.Notes), false
		default:
			common = slices.DeleteFunc(common, func(n string) bool { return !slices.Contains(r.Notes, n) })
		}
	}
	if len(records) < 2 { // of a single record only this note is known to be the night's
		common = slices.DeleteFunc(common, func(n string) bool { return !strings.HasPrefix(n, "simulated") })
	}
	return common
}

func driftChecks(n *Night) []DriftCheck {
	var checks []DriftCheck
	for _, d := range n.Drift {
		c := DriftCheck{Repeat: d.Repeat, Load: d.Load, Outcome: d.Outcome}
		i := slices.IndexFunc(n.Records, func(r sweep.Record) bool {
			return r.Config == d.Config && r.Repeat == d.Repeat && r.Load.String() == d.Load.String()
		})
		if i >= 0 {
			before, ok1 := throughput().Of(n.Records[i])
			after, ok2 := throughput().Of(d)
			if c.Known = ok1 && ok2 && before > 0; c.Known {
				c.Change = after/before - 1
			}
		}
		checks = append(checks, c)
	}
	return checks
}

// Values returns the metric's value in each record that has one, by repeat.
func (q *Square) Values(m Metric) []float64 {
	var values []float64
	for _, r := range q.Records {
		if v, ok := m.Of(r); ok {
			values = append(values, v)
		}
	}
	return values
}

// Median is the median over the repeats that have the metric; ok is false when none has.
func (q *Square) Median(m Metric) (median float64, ok bool) {
	return medianOf(q.Values(m))
}

func medianOf(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2, true
	}
	return v[len(v)/2], true
}

// Failed returns the records that have no number to show, in order of repeat.
func (q *Square) Failed() []sweep.Record {
	var failed []sweep.Record
	for _, r := range q.Records {
		if withheld(r) != "" {
			failed = append(failed, r)
		}
	}
	return failed
}

// Measured reports whether any repeat gave a throughput.
func (q *Square) Measured() bool { return len(q.Values(throughput())) > 0 }

// MeetsSLO reports whether every measured repeat met the service levels. known is false when none was asked
// for, or a repeat had too few requests to say and none missed them.
func (q *Square) MeetsSLO() (met, known bool) {
	values := q.Values(metric("slo_met"))
	if slices.Contains(values, 0) {
		return false, true
	}
	met = len(values) > 0 && len(values) == len(q.Values(throughput()))
	return met, met
}

// At returns the row's square at a load.
func (r *Row) At(load sweep.Load) *Square {
	key := load.String()
	for _, q := range r.Squares {
		if q.Load.String() == key {
			return q
		}
	}
	return nil
}
