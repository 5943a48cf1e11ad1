package report

import (
	"math"
	"slices"

	"sweep/sweep"
)

// fewDF is how many degrees of freedom a workload needs for a noise of its own; with fewer it is that of the whole night.
const fewDF = 8

// analyze makes the statistics of each sheet, once configs are ranked.
func (s *Summary) analyze() {
	var all [][]float64
	bySheet := make([][][]float64, len(s.Sheets))
	for i, sheet := range s.Sheets {
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				bySheet[i] = append(bySheet[i], q.Values(throughput()))
			}
		}
		all = append(all, bySheet[i]...)
	}
	night := PoolNoise(all)
	for i, sheet := range s.Sheets {
		if v := s.Night.Confirmation.verdict(sheet); v != nil {
			sheet.Again, sheet.Confirmed = v, v.Confirmed
		}
		sheet.Noise = PoolNoise(bySheet[i])
		if sheet.Noise.DF < fewDF && night.DF > sheet.Noise.DF {
			sheet.Noise = night
		}
		sheet.compareWithBase()
		sheet.findTies()
		sheet.Gain = sheet.gain(s.Night)
		sheet.Effects = sheet.axisEffects(s.Night)
	}
	s.DriftChange = s.drift()
}

// Verdict is a comparison with what it means when all of its family are looked at together.
type Verdict struct {
	Comparison
	// Sure is that the two differ by more than noise, and by enough to care; else they are shown as "~" where Known.
	Sure bool
}

// Word is "better", "worse", "~" or, with a single repeat, "".
func (v Verdict) Word() string {
	switch {
	case !v.Known:
		return ""
	case !v.Sure:
		return "~"
	case v.Change > 0:
		return "better"
	}
	return "worse"
}

// verdicts judges a family of comparisons.
func verdicts(family []Comparison) []Verdict {
	var p []float64
	for _, c := range family {
		if c.Known {
			p = append(p, c.P)
		}
	}
	adjusted := Holm(p)
	out := make([]Verdict, len(family))
	k := 0
	for i, c := range family {
		out[i].Comparison = c
		if c.Known {
			out[i].Sure = c.Significant(adjusted[k])
			k++
		}
	}
	return out
}

// whole are a square's throughputs where each repeat that ran was measured; a square of survivors has none.
func (q *Square) whole() []float64 {
	if q == nil || q.death() != "" {
		return nil
	}
	return q.Values(throughput())
}

// compareWithBase compares every config with the baseline at the same load. The configs at one load are one family.
func (sheet *Sheet) compareWithBase() {
	sheet.againstBase = map[*Square]Verdict{}
	if sheet.Baseline == nil {
		return
	}
	for i := range sheet.Loads {
		base := sheet.Baseline.Squares[i].whole()
		var squares []*Square
		var family []Comparison
		for _, row := range sheet.Rows {
			if q := row.Squares[i]; row != sheet.Baseline {
				squares = append(squares, q)
				family = append(family, sheet.Noise.Compare(q.whole(), base))
			}
		}
		for k, v := range verdicts(family) {
			sheet.againstBase[squares[k]] = v
		}
	}
}

// AgainstBase is how a square compares with the baseline at the same load; not Known with a single repeat.
func (sheet *Sheet) AgainstBase(q *Square) Verdict { return sheet.againstBase[q] }

// findTies lists the configs that may be as good as the best: those whose difference from it is not sure. This is a set
// that holds the true best with a confidence of 95 %, in the manner of Hsu ("Multiple Comparisons", 1996) and Dunnett.
func (sheet *Sheet) findTies() {
	if sheet.Best == nil {
		return
	}
	best := sheet.Best.Best.whole()
	var rows []*Row
	var family []Comparison
	for _, row := range sheet.Rows {
		if row == sheet.Best || row.Unfit != "" || row.Best == nil || !row.Best.trusted() || !sheet.meets(row.Best) {
			continue
		}
		rows = append(rows, row)
		family = append(family, sheet.Noise.Compare(row.Best.whole(), best))
	}
	sheet.fromBest = map[*Row]Verdict{}
	for i, v := range verdicts(family) {
		sheet.fromBest[rows[i]] = v
		if v.Known && !v.Sure {
			sheet.Ties = append(sheet.Ties, rows[i])
		}
	}
}

// FromBest is how a row's best compares with the best of all; not Known where it may not be named best, or has a single repeat.
func (sheet *Sheet) FromBest(row *Row) Verdict { return sheet.fromBest[row] }

// Effect is a change with its interval: 0.05 is 5 % more.
type Effect struct {
	Change   float64
	Interval      // of Change, where Known
	Known    bool // there is a noise estimate
	Sure     bool // more than noise, and enough to care
}

// effect is a weighted sum of the logarithmic means of cells. ok is false when a cell has no number. The loads of one config share
// its starts of the server, so that their errors may go together: they are added, where those of different configs average out.
func (n Noise) effect(weights map[*Square]float64) (e Effect, ok bool) {
	sum, known := 0.0, n.DF > 0
	errors := map[string]float64{} // by config
	for q, w := range weights {
		if math.Abs(w) < 1e-12 {
			continue
		}
		l, good := logs(q.whole())
		if !good || len(l) == 0 {
			return Effect{}, false
		}
		mean := 0.0
		for _, x := range l {
			mean += x / float64(len(l))
		}
		sum += w * mean
		errors[q.config] += math.Abs(w) * n.SD / math.Sqrt(float64(len(l)))
		known = known && len(l) > 1
	}
	e = Effect{Change: math.Expm1(sum), Known: known}
	if known {
		variance := 0.0
		for _, err := range errors {
			variance += err * err
		}
		se := math.Sqrt(variance)
		half := n.quantile(n.DF) * se
		e.Interval = Interval{math.Expm1(sum - half), math.Expm1(sum + half)}
		e.Sure = twoSided(sum, se, float64(n.DF)) <= alpha && math.Abs(e.Change) >= PracticalThreshold
	}
	return e, true
}

// drift compares the baseline at the end of the repeats with itself at their beginning, under the last load that was run so; nil
// without a pair.
func (s *Summary) drift() *Effect {
	before, after := &Square{config: "before"}, &Square{config: "after"}
	var sheet *Sheet
	load := ""
	for _, c := range slices.Backward(s.Drift) {
		if !c.Known || load != "" && c.Load.String() != load {
			continue
		}
		if sheet = s.sheet(c.Load.Workload); sheet == nil {
			return nil
		}
		load = c.Load.String()
		before.Records = append(before.Records, synthetic(c.Before))
		after.Records = append(after.Records, synthetic(c.After))
	}
	if sheet == nil {
		return nil
	}
	e, ok := sheet.Noise.effect(map[*Square]float64{before: -1, after: 1})
	if !ok {
		return nil
	}
	return &e
}

// synthetic makes a record that holds nothing but a throughput.
func synthetic(v float64) sweep.Record {
	return sweep.Record{Ending: sweep.Ending{Outcome: sweep.OK}, Values: sweep.Values{"output_throughput": v}}
}

func (s *Summary) sheet(workload string) *Sheet {
	i := slices.IndexFunc(s.Sheets, func(sheet *Sheet) bool { return sheet.Workload == workload })
	if i < 0 {
		return nil
	}
	return s.Sheets[i]
}
