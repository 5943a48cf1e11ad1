package report

import (
	"math"
	"strings"

	"sweep/sweep"
)

// figureTable is a picture's data as a table: what a reader without eyes for the picture needs. It is nil where the page shows the
// same elsewhere.
func (s *Summary) figureTable(p drawing) *pageFigureTable {
	if p.Workload == "" {
		return s.edgeTable()
	}
	sheet := s.sheet(p.Workload)
	if sheet == nil {
		return nil
	}
	kind, _, _ := strings.Cut(p.Name, "-")
	switch kind {
	case "latency":
		return s.latencyTable(sheet)
	case "knee":
		return s.squaresTable(sheet, []Metric{metric("running"), metric("queued")})
	case "ttft", "tpot":
		return quantilesTable(p.classes)
	}
	return nil // a run's own table stands with the run
}

func (s *Summary) latencyTable(sheet *Sheet) *pageFigureTable {
	list := []Metric{throughput()}
	for _, v := range s.latencyViews(sheet) {
		list = append(list, v.metric)
	}
	return s.squaresTable(sheet, list)
}

// squaresTable has a line for each measured cell.
func (s *Summary) squaresTable(sheet *Sheet, list []Metric) *pageFigureTable {
	t := &pageFigureTable{Rows: [][]string{}, Heads: []string{"config", strings.TrimPrefix(levelName(sheet.Loads), "requests ")}}
	for _, m := range list {
		t.Heads = append(t.Heads, sweep.Printable(m.Name))
	}
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			if !q.Measured() {
				continue
			}
			line := []string{s.Night.curveLabel(row.Config, ""), loadLabel(q.Load, sheet.Loads)}
			for _, m := range list {
				text := absent
				if v, ok := q.Median(m); ok {
					text = commas(v, m.decimals([]float64{v}))
				}
				line = append(line, text)
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t
}

func quantilesTable(classes []classLatency) *pageFigureTable {
	t := &pageFigureTable{Rows: [][]string{}, Heads: []string{"config", "class", "requests", "p1 ms", "p25 ms", "p50 ms", "p75 ms", "p95 ms", "p99 ms"}}
	for _, cl := range classes {
		for i, v := range cl.values {
			line := []string{cl.curves[i].label + cl.curves[i].mark, sweep.Printable(cl.class), commas(float64(len(v)), 0)}
			for _, q := range []float64{0.01, 0.25, 0.5, 0.75, 0.95, 0.99} {
				x := rank(v, q)
				line = append(line, commas(x, throughput().decimals([]float64{x})))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t
}

// forecastText is a forecast with how near the truth was expected: "44,667 ± 2".
func forecastText(e Estimate, decimals int) string {
	if math.IsNaN(e.Value) {
		return absent
	}
	return commas(e.Value, decimals) + " ± " + commas((e.Hi-e.Lo)/2, decimals)
}

func (s *Summary) edgeTable() *pageFigureTable {
	e, ok := s.edge()
	if !ok {
		return nil
	}
	t := &pageFigureTable{Rows: [][]string{}, Heads: []string{"config", "KV tokens", "on the line", "forecast", "headroom GiB", "forecast GiB", "least headroom GiB", "died"}}
	show := func(v float64, decimals int) string {
		if math.IsNaN(v) {
			return absent
		}
		return commas(v, decimals)
	}
	for _, p := range e.points {
		died := p.died
		if died == "" {
			died = absent
		}
		t.Rows = append(t.Rows, []string{s.Night.curveLabel(p.config, ""), show(p.kv, 0), show(e.KV.At(p.x).Value, 0), forecastText(p.kvForecast, 0), show(p.start, 2), forecastText(p.roomForecast, 2), show(p.least, 2), died})
	}
	return t
}
