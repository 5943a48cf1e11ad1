package report

import (
	"strconv"

	"sweep/sweep"
)

// valueColumn is one column of measured values: how to head it and what it shows of a square.
type valueColumn struct {
	col  textColumn
	cell func(q *Square) string
	used bool // some row has a value
}

// metricColumn shows a metric's median over the repeats, with the same decimals in each row.
func metricColumn(m Metric, head [2]string, drop int, squares []*Square) valueColumn {
	var values []float64
	for _, q := range squares {
		if v, ok := q.Median(m); ok {
			values = append(values, v)
		}
	}
	decimals := m.decimals(values)
	return valueColumn{
		col:  textColumn{head: head, right: true, drop: drop},
		used: len(values) > 0,
		cell: func(q *Square) string {
			v, ok := q.Median(m)
			if !ok {
				return absent
			}
			return commas(v, decimals)
		},
	}
}

// pairColumn shows two metrics of one kind as "812 / 2,310", the median and the highest percentile that
// most squares have: a percentile with too few requests is absent.
func pairColumn(kind, class string, drop int, squares []*Square) valueColumn {
	low := metric("median_" + kind + "_ms").ForClass(class)
	high, name := tailMetric(kind, class, squares)
	decimals := low.decimals(append(medians(low, squares), medians(high, squares)...))
	head := [2]string{upper(kind) + " ms", "p50/" + name}
	if class != "" {
		head[0] = sweep.Printable(class) + " " + head[0]
	}
	show := func(q *Square, m Metric) string {
		v, ok := q.Median(m)
		if !ok {
			return absent
		}
		return commas(v, decimals)
	}
	return valueColumn{
		col:  textColumn{head: head, right: true, drop: drop},
		used: len(medians(low, squares)) > 0,
		cell: func(q *Square) string {
			a, b := show(q, low), show(q, high)
			if a == absent && b == absent {
				return absent
			}
			return a + " / " + b
		},
	}
}

func medians(m Metric, squares []*Square) []float64 {
	var values []float64
	for _, q := range squares {
		if v, ok := q.Median(m); ok {
			values = append(values, v)
		}
	}
	return values
}

// tailMetric is the percentile that most squares have, the higher one of equals.
func tailMetric(kind, class string, squares []*Square) (Metric, string) {
	best, name, most := Metric{}, "p99", -1
	for _, p := range []string{"p99", "p95", "p90"} {
		m := metric(p + "_" + kind + "_ms").ForClass(class)
		m.Scales = true
		if n := len(medians(m, squares)); n > most {
			best, name, most = m, p, n
		}
	}
	return best, name
}

func upper(kind string) string {
	return map[string]string{"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e_latency": "E2E"}[kind]
}

// throughputColumn shows output tokens a second, with the number of repeats behind it.
func throughputColumn(squares []*Square) valueColumn {
	c := metricColumn(throughput(), [2]string{"output", "tok/s"}, 0, squares)
	number := c.cell
	c.used = true
	c.cell = func(q *Square) string {
		s := number(q)
		if s != absent && q.Repeats > 1 {
			s += " (" + strconv.Itoa(len(q.Values(throughput()))) + ")"
		}
		return s
	}
	return c
}

// rangeColumn shows the lowest and the highest of several repeats.
func rangeColumn(drop int, squares []*Square) valueColumn {
	m := throughput()
	decimals := m.decimals(medians(m, squares))
	c := valueColumn{col: textColumn{head: [2]string{"lowest–", "highest"}, right: true, drop: drop}}
	for _, q := range squares {
		c.used = c.used || len(q.Values(m)) > 1
	}
	c.cell = func(q *Square) string {
		v := q.Values(m)
		if len(v) < 2 {
			return absent
		}
		lo, hi := span(v)
		return commas(lo, decimals) + "–" + commas(hi, decimals)
	}
	return c
}

func changeColumn(sheet *Sheet, drop int, squares []*Square) valueColumn {
	c := valueColumn{col: textColumn{head: [2]string{"vs base", "same load"}, right: true, drop: drop}}
	for _, q := range squares {
		_, ok := sheet.Change(q)
		c.used = c.used || ok
	}
	c.cell = func(q *Square) string {
		if v, ok := sheet.Change(q); ok {
			return percent(v)
		}
		if sheet.Baseline != nil && sheet.Baseline.At(q.Load) == q && q.Measured() {
			return "base"
		}
		return absent
	}
	return c
}

func sloColumn(sheet *Sheet, drop int) valueColumn {
	c := valueColumn{col: textColumn{head: [2]string{"SLO"}, drop: drop}, used: sheet.SLO}
	c.cell = func(q *Square) string {
		switch met, known := q.MeetsSLO(); {
		case !known:
			return absent
		case met:
			return "met"
		}
		return "missed"
	}
	return c
}

// metricByName is a column of a metric of the table under its own title.
func metricByName(name string, drop int, squares []*Square) valueColumn {
	m := metric(name)
	head := [2]string{m.Title, m.Unit}
	switch m.Unit {
	case "requests", "requests/s", "tokens", "share":
		head[1] = "" // the title says it
	}
	return metricColumn(m, head, drop, squares)
}

// classNames returns the classes to show: one unnamed class for all requests where there is only one.
func (sheet *Sheet) classNames() []string {
	if len(sheet.Classes) == 0 {
		return []string{""}
	}
	return sheet.Classes
}

// summaryColumns are the columns of the table with one row for each config.
func (sheet *Sheet) summaryColumns(squares []*Square) []valueColumn {
	cols := []valueColumn{throughputColumn(squares), rangeColumn(7, squares), changeColumn(sheet, 1, squares), sloColumn(sheet, 1)}
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("ttft", class, 4, squares))
	}
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("tpot", class, 5, squares))
	}
	for _, c := range []struct {
		name string
		drop int
	}{{"kv_tokens", 2}, {"headroom_gib", 2}, {"headroom_min_gib", 7}, {"running", 3}, {"queued", 3}, {"token_usage", 3}, {"start_s", 6}} {
		cols = append(cols, metricByName(c.name, c.drop, squares))
	}
	return used(cols)
}

// detailColumns are the columns of the table with one row for each cell.
func (sheet *Sheet) detailColumns(squares []*Square) []valueColumn {
	cols := []valueColumn{throughputColumn(squares), rangeColumn(7, squares), changeColumn(sheet, 1, squares), sloColumn(sheet, 1)}
	cols = append(cols, metricByName("request_throughput", 5, squares))
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("ttft", class, 2, squares))
	}
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("tpot", class, 3, squares))
	}
	for _, c := range []struct {
		name string
		drop int
	}{
		{"p99_itl_ms", 6}, {"median_e2e_latency_ms", 6}, {"running", 4}, {"queued", 4}, {"token_usage", 4},
		{"token_usage_over_085", 7}, {"retractions", 6}, {"cached_share_host", 5}, {"client_server_ratio", 7},
	} {
		cols = append(cols, metricByName(c.name, c.drop, squares))
	}
	return used(cols)
}

// used leaves out columns that no row has a value for.
func used(cols []valueColumn) []valueColumn {
	var out []valueColumn
	for _, c := range cols {
		if c.used {
			out = append(out, c)
		}
	}
	return out
}

func span(values []float64) (lo, hi float64) {
	lo, hi = values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}
