package report

import (
	"slices"
	"strings"

	"sweep/sweep"
)

// Summary is a night pivoted: one sheet for each workload, because throughput under unlike loads
// cannot be compared.
type Summary struct {
	Night  *Night
	Sheets []*Sheet
	Drift  []DriftCheck
	// DriftChange is the baseline at the end of the repeats against itself at their beginning; nil without a pair.
	DriftChange *Effect
	Recorded    int      // records of role measure
	Asked       int      // cells × repeats that the night is to have
	Notes       []string // notes that every record of the night carries, such as "simulated ×20"

	limits   *foundEdge // made once, as the pictures
	served   string
	told     map[*Sheet][]block
	pictures []drawing
	svg      map[string][]byte // of pictures, by name: the page has them too
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
	// Confirmed: the best was measured again with fresh starts and prompts, and held.
	Confirmed bool
	Again     *ConfirmedVerdict // what measuring it again gave; nil: that was not done

	Noise   Noise        // of the throughput between fresh starts
	Ties    []*Row       // configs that may be as good as the best; empty with a single repeat
	Gain    *Gain        // where the best's advantage comes from; nil where there is none to explain
	Effects []AxisEffect // what each value of an axis brings at equal load

	againstBase map[*Square]Verdict
	fromBest    map[*Row]Verdict
}

// Row is one config under the loads of a sheet.
type Row struct {
	Config  sweep.Config
	Squares []*Square // one for each load of the sheet
	Best    *Square   // highest throughput, among loads that meet the service levels when any does; nil: nothing measured
	// Unfit says why the config is not named best however fast it was; "" when it may be. A death under any
	// asked load of any workload counts, and so does one repeat of several.
	Unfit string
	ban   ban // the kind of Unfit
}

// Square is one cell over its repeats.
type Square struct {
	Load    sweep.Load
	Records []sweep.Record // those there are, by repeat
	Repeats int            // asked for

	config string // key; squares of one config in one repeat share a start of the server
	load   string // Load.String()
}

// DriftCheck compares the baseline at the end of a repeat with itself at the beginning.
type DriftCheck struct {
	Repeat  int
	Load    sweep.Load
	Before  float64 // output throughput at the beginning of the repeat
	After   float64 // and at its end
	Change  float64 // 0.004 is +0.4 %
	Outcome sweep.Outcome
	Known   bool // both ends were measured
}

// Summarize pivots a night and ranks its configs.
func Summarize(n *Night) *Summary {
	n.index = nightIndex{}
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
		keys := make([]string, len(sheet.Loads))
		for i, load := range sheet.Loads {
			keys[i] = load.String()
		}
		for _, c := range n.Configs {
			row := &Row{Config: c}
			for i, load := range sheet.Loads {
				records := cells[key{c.Key, keys[i]}]
				slices.SortStableFunc(records, func(a, b sweep.Record) int { return a.Repeat - b.Repeat })
				row.Squares = append(row.Squares, &Square{Load: load, Records: records, Repeats: n.Repeats, config: c.Key, load: keys[i]})
			}
			sheet.Rows = append(sheet.Rows, row)
			if c.Baseline && sheet.Baseline == nil {
				sheet.Baseline = row
			}
		}
	}
	s.rank()
	s.analyze()
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
				c.Before, c.After, c.Change = before, after, after/before-1
			}
		}
		checks = append(checks, c)
	}
	return checks
}

// Values returns the metric's value in each record that has one, by repeat.
func (q *Square) Values(m Metric) []float64 {
	var values []float64
	for i := range q.Records { // a record is large: its copy would cost more than the look
		v, ok := m.of(&q.Records[i])
		if !ok {
			continue
		}
		if values == nil {
			values = make([]float64, 0, len(q.Records))
		}
		values = append(values, v)
	}
	return values
}

// Median is the median over the repeats; ok is false when there is none. A repeat in which the config died counts as worse
// than any number: the median of survivors alone would say that a config is fast because it dies when it is slow.
func (q *Square) Median(m Metric) (median float64, ok bool) {
	values := q.Values(m)
	dead := 0
	for i := range q.Records {
		if died(q.Records[i].Outcome) {
			dead++
		}
	}
	if dead == 0 || isFact(m.Name) {
		return medianInPlace(values)
	}
	if m.Better == Neither {
		return 0, false
	}
	slices.Sort(values)
	if m.Better == Higher {
		slices.Reverse(values)
	}
	n := len(values) + dead
	if n/2 >= len(values) {
		return 0, false
	}
	if n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2, true
	}
	return values[n/2], true
}

func medianOf(values []float64) (float64, bool) { return medianInPlace(slices.Clone(values)) }

// medianInPlace sorts the values.
func medianInPlace(v []float64) (float64, bool) {
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
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

// Measured reports whether the repeats gave a throughput.
func (q *Square) Measured() bool {
	_, ok := q.Median(throughput())
	return ok
}

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
func (r *Row) At(load sweep.Load) *Square { return r.at(load.String()) }

func (r *Row) at(key string) *Square {
	for _, q := range r.Squares {
		if q.load == key {
			return q
		}
	}
	return nil
}
