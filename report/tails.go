package report

import (
	"cmp"
	"math"
	"slices"

	"sweep/sweep"
)

// mostTails bounds the configs whose requests are read again for a table.
const mostTails = 12

// tailTable shows percentiles of the best loads with their intervals: of the best config, those that tie with it, the baseline, and
// then the fastest. It is nil where no requests were kept.
func (s *Summary) tailTable(sheet *Sheet) *textTable {
	rows := sheet.leading(mostTails)
	var configs []sweep.Config
	for _, row := range rows {
		configs = append(configs, row.Config)
	}
	ns := s.Night.namesOf(configs)
	t := &textTable{columns: ns.columns()}
	t.columns = append(t.columns, textColumn{head: levelHead(sheet.Loads), right: true}, textColumn{head: [2]string{"class"}}, textColumn{head: [2]string{"requests"}, right: true})
	quantiles := []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}}
	for _, kind := range []string{"TTFT ms", "TPOT ms"} {
		for _, q := range quantiles {
			t.columns = append(t.columns, textColumn{head: [2]string{kind, q.name}, right: true, drop: map[string]int{"p50": 2, "p95": 3, "p99": 1}[q.name]})
		}
	}
	for _, row := range rows {
		latencies, err := s.Night.Latencies(row.Best)
		if err != nil || latencies == nil {
			continue
		}
		for _, p := range row.Best.Load.Pools {
			l := latencies[p.Class]
			if l == nil || len(l.TTFT) == 0 {
				continue
			}
			cells := append(ns.cells(row.Config), loadLabel(row.Best.Load, sheet.Loads), sweep.Printable(p.Class), commas(float64(len(l.TTFT)), 0))
			for _, values := range [][]float64{l.TTFT, l.TPOT} {
				for _, q := range quantiles {
					cells = append(cells, quantileText(values, q.q))
				}
			}
			t.add(plain, cells)
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	return t
}

// quantileText is "2,310 (2,101–2,540)", or "n too small" where an end of the interval does not exist.
func quantileText(sorted []float64, q float64) string {
	e, ok := QuantileInterval(sorted, q)
	if !ok {
		return absent
	}
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) {
		return "n too small"
	}
	decimals := throughput().decimals([]float64{e.Hi})
	return commas(e.Value, decimals) + " (" + commas(e.Lo, decimals) + "–" + commas(e.Hi, decimals) + ")"
}

// leading are the rows that a reader looks at first: the best, its ties, the baseline, then by throughput.
func (sheet *Sheet) leading(most int) []*Row {
	var rows []*Row
	take := func(r *Row) {
		if r != nil && r.Best != nil && !slices.Contains(rows, r) && len(rows) < most {
			rows = append(rows, r)
		}
	}
	take(sheet.Best)
	take(sheet.Baseline)
	for _, r := range sheet.Ties {
		take(r)
	}
	rest := slices.Clone(sheet.Rows)
	fast := make(map[*Row]float64, len(rest))
	for _, r := range rest {
		if r.Best != nil {
			fast[r], _ = r.Best.Median(throughput())
		}
	}
	slices.SortStableFunc(rest, func(a, b *Row) int { return cmp.Compare(fast[b], fast[a]) })
	for _, r := range rest {
		take(r)
	}
	return rows
}

// Latency holds the latencies of one class of requests in ms, ascending.
type Latency struct{ TTFT, TPOT, E2E []float64 }

// Latencies reads the requests of a square's measured repeats together, by class; nil where none were kept.
func (n *Night) Latencies(q *Square) (map[string]*Latency, error) {
	var out map[string]*Latency
	for _, r := range q.Records {
		if withheld(r) != "" {
			continue
		}
		err := n.EachRequest(r, func(x *Request) {
			if !x.Measured() || math.IsNaN(x.TTFT) {
				return
			}
			if out == nil {
				out = map[string]*Latency{}
			}
			l := out[x.Class]
			if l == nil {
				l = &Latency{}
				out[x.Class] = l
			}
			l.TTFT = append(l.TTFT, x.TTFT)
			if !math.IsNaN(x.TPOT) {
				l.TPOT = append(l.TPOT, x.TPOT)
			}
			if !math.IsNaN(x.E2E) {
				l.E2E = append(l.E2E, x.E2E)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for _, l := range out {
		slices.Sort(l.TTFT)
		slices.Sort(l.TPOT)
		slices.Sort(l.E2E)
	}
	return out, nil
}
