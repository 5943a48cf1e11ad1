package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep/sweep"
)

// Diff holds the cells of several nights side by side. The first night is what the others are compared with.
type Diff struct {
	Nights      []*Night
	Metric      Metric
	Differences []Difference
	Cells       []DiffCell
	Noise       map[string]Noise // by workload, pooled over all nights
}

// Difference is something in which the nights differ, apart from what they measured.
type Difference struct {
	Name   string
	Values []string // of each night; "" where it is not known
}

// DiffCell is one cell in each of the nights.
type DiffCell struct {
	Config, Load string
	Workload     string
	Squares      []*Square // nil where the night does not have the cell
	Against      []DiffVerdict
}

// DiffKind says how a cell fared against the first night.
type DiffKind string

// The kinds.
const (
	DiffBetter    DiffKind = "better"
	DiffWorse     DiffKind = "worse"
	DiffSame      DiffKind = "~"
	DiffChange    DiffKind = "no noise estimate" // a change without repeats
	DiffDies      DiffKind = "newly fails"
	DiffFits      DiffKind = "newly fits"
	DiffBothDie   DiffKind = "fails in both"
	DiffOnlyFirst DiffKind = "only in the first"
	DiffOnlyHere  DiffKind = "only here"
	DiffUnknown   DiffKind = "no number" // withheld, not run, or lost
)

// DiffVerdict compares one night's cell with the first night's.
type DiffVerdict struct {
	Kind DiffKind
	Verdict
	Raw    float64 // change of the medians, where HasRaw
	HasRaw bool
}

// Compare puts nights side by side, cell by cell. metric is what is compared; its direction says what is better.
func Compare(nights []*Night, m Metric) *Diff {
	d := &Diff{Nights: nights, Metric: m, Noise: map[string]Noise{}}
	d.Differences = conditions(nights)
	type place struct{ config, load string }
	at := map[place]int{}
	samples := map[string][][]float64{}
	for i, n := range nights {
		for _, sheet := range Summarize(n).Sheets {
			for _, row := range sheet.Rows {
				for _, q := range row.Squares {
					p := place{row.Config.Key, q.Load.String()}
					k, ok := at[p]
					if !ok {
						k = len(d.Cells)
						at[p] = k
						d.Cells = append(d.Cells, DiffCell{Config: p.config, Load: p.load, Workload: sheet.Workload, Squares: make([]*Square, len(nights))})
					}
					d.Cells[k].Squares[i] = q
					samples[sheet.Workload] = append(samples[sheet.Workload], q.wholeOf(m))
				}
			}
		}
	}
	for w, s := range samples {
		d.Noise[w] = PoolNoise(s)
	}
	for i := 1; i < len(nights); i++ {
		d.judge(i)
	}
	return d
}

// wholeOf is [Square.whole] of any metric.
func (q *Square) wholeOf(m Metric) []float64 {
	if q == nil || q.death() != "" {
		return nil
	}
	return q.Values(m)
}

// judge compares one night with the first; the cells of a workload are one family.
func (d *Diff) judge(night int) {
	families := map[string][]int{}
	for k := range d.Cells {
		families[d.Cells[k].Workload] = append(families[d.Cells[k].Workload], k)
	}
	out := make([]DiffVerdict, len(d.Cells))
	for w, members := range families {
		var family []Comparison
		for _, k := range members {
			c := d.Cells[k]
			family = append(family, d.Noise[w].Compare(c.Squares[night].wholeOf(d.Metric), c.Squares[0].wholeOf(d.Metric)))
		}
		for i, v := range verdicts(family) {
			out[members[i]] = d.verdict(d.Cells[members[i]], night, v)
		}
	}
	for k := range d.Cells {
		d.Cells[k].Against = append(d.Cells[k].Against, out[k])
	}
}

func (d *Diff) verdict(c DiffCell, night int, v Verdict) DiffVerdict {
	was, is := c.Squares[0], c.Squares[night]
	out := DiffVerdict{Verdict: v, Kind: DiffUnknown}
	switch {
	case was == nil && is == nil:
		return out
	case was == nil:
		out.Kind = DiffOnlyHere
		return out
	case is == nil:
		out.Kind = DiffOnlyFirst
		return out
	}
	a, okA := was.Median(d.Metric)
	b, okB := is.Median(d.Metric)
	if okA && okB && a > 0 {
		out.Raw, out.HasRaw = b/a-1, true
	}
	diedA, diedB := was.death() != "", is.death() != ""
	up := v.Change
	if d.Metric.Better == Lower {
		up = -up
	}
	switch {
	case diedA && diedB:
		out.Kind = DiffBothDie
	case diedB && okA:
		out.Kind = DiffDies
	case diedA && okB:
		out.Kind = DiffFits
	case v.Known && !v.Sure:
		out.Kind = DiffSame
	case v.Known && up > 0:
		out.Kind = DiffBetter
	case v.Known:
		out.Kind = DiffWorse
	case out.HasRaw:
		out.Kind = DiffChange
	}
	return out
}

// Regressions are the cells that are worse than in the first night by more than a limit (0.05 is 5 %), or newly fail. Where repeats
// give a noise estimate the difference must be more than noise; where they do not, the change of the medians counts as it stands.
func (d *Diff) Regressions(limit float64) []string {
	var out []string
	for _, c := range d.Cells {
		for i, v := range c.Against {
			loss := -v.Raw
			if v.Known {
				loss = -v.Change
			}
			if d.Metric.Better == Lower {
				loss = -loss
			}
			where := fmt.Sprintf("%s: %s/%s", sweep.Printable(d.Nights[i+1].Name), sweep.Printable(c.Config), sweep.Printable(c.Load))
			switch {
			case v.Kind == DiffDies:
				out = append(out, where+" newly fails: "+c.Squares[i+1].death())
			case v.Kind == DiffWorse && loss > limit, v.Kind == DiffChange && loss > limit:
				change := v.Change
				if !v.Known {
					change = v.Raw
				}
				out = append(out, where+" "+percent(change))
			}
		}
	}
	return out
}

// Mean is the geometric mean of the changes of a night over the cells that were measured whole in both.
func (d *Diff) Mean(night int) (change float64, cells int) {
	sum := 0.0
	for _, c := range d.Cells {
		if v := c.Against[night-1]; v.HasRaw && v.Kind != DiffDies && v.Kind != DiffFits && v.Raw > -1 {
			sum += math.Log1p(v.Raw)
			cells++
		}
	}
	if cells == 0 {
		return 0, 0
	}
	return math.Expm1(sum / float64(cells)), cells
}

// conditions lists what differs between the nights beside their numbers.
func conditions(nights []*Night) []Difference {
	rows := []struct {
		name string
		of   func(n *Night) string
	}{
		{"engine", func(n *Night) string {
			return n.each(func(r sweep.Record) string { return strings.TrimSpace(r.Engine + " " + r.EngineVersion) })
		}},
		{"model", func(n *Night) string { return n.each(func(r sweep.Record) string { return r.Model }) }},
		{"devices", func(n *Night) string {
			return n.each(func(r sweep.Record) string {
				if r.GPU == "" {
					return ""
				}
				return fmt.Sprintf("%d × %s", r.GPUCount, r.GPU)
			})
		}},
		{"hosts", func(n *Night) string { return n.each(func(r sweep.Record) string { return r.Host }) }},
		{"sweep", func(n *Night) string { return n.Version }},
		{"repeats", func(n *Night) string { return fmt.Sprint(n.Repeats) }},
		{"workloads", func(n *Night) string {
			var parts []string
			for _, w := range n.Workloads {
				parts = append(parts, w.Name+": "+workloadWords(w))
			}
			return strings.Join(parts, "; ")
		}},
		{"flags of every launch", func(n *Night) string { return n.commonFlags() }},
		{"notes", func(n *Night) string { return strings.Join(commonNotes(n.Records), ", ") }},
	}
	var out []Difference
	for _, row := range rows {
		c := Difference{Name: row.name}
		for _, n := range nights {
			c.Values = append(c.Values, sweep.Printable(row.of(n)))
		}
		if slices.ContainsFunc(c.Values, func(v string) bool { return v != c.Values[0] }) {
			out = append(out, c)
		}
	}
	return out
}

// each joins what the records say, each once.
func (n *Night) each(f func(sweep.Record) string) string {
	var list []string
	for _, r := range n.Records {
		if v := f(r); v != "" {
			list = add(list, v)
		}
	}
	return strings.Join(list, ", ")
}

// commonFlags are the settings that all configs share.
func (n *Night) commonFlags() string {
	var common []string
	for i, c := range n.Configs {
		var own []string
		for _, s := range c.Settings {
			own = append(own, s.Name+"="+s.Value())
		}
		if i == 0 {
			common = own
			continue
		}
		common = slices.DeleteFunc(common, func(f string) bool { return !slices.Contains(own, f) })
	}
	return strings.Join(common, " ")
}
