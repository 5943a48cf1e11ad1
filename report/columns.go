package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

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

// behind is how many repeats a median stands on: "3", or "2/3" where the config died in one.
func (q *Square) behind() string {
	n := strconv.Itoa(len(q.Values(throughput())))
	if q.death() != "" {
		n += "/" + strconv.Itoa(q.Repeats)
	}
	return n
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
			s += " (" + q.behind() + ")"
		}
		return s
	}
	return c
}

// spreadColumn shows how sure a throughput is: half the width of its interval, relative.
func spreadColumn(sheet *Sheet, drop int, squares []*Square) valueColumn {
	show := func(q *Square) string {
		e, ok := sheet.Noise.Of(q.whole())
		if !ok {
			return absent
		}
		return "±" + strings.TrimPrefix(percent(math.Sqrt(e.Hi/e.Lo)-1), "+")
	}
	c := valueColumn{col: textColumn{head: [2]string{"", "±"}, right: true, drop: drop}, cell: show}
	for _, q := range squares {
		c.used = c.used || show(q) != absent
	}
	return c
}

// changeColumn compares with the baseline at the same load: "~" where the two are not told apart, a bare change where a single repeat
// gives no noise estimate.
func changeColumn(sheet *Sheet, drop int, squares []*Square) valueColumn {
	c := valueColumn{col: textColumn{head: [2]string{"vs base", "same load"}, right: true, drop: drop}, cell: sheet.changeText}
	for _, q := range squares {
		_, ok := sheet.Change(q)
		c.used = c.used || ok
	}
	return c
}

func (sheet *Sheet) changeText(q *Square) string {
	v := sheet.AgainstBase(q)
	change, ok := sheet.Change(q)
	switch {
	case v.Known && v.Sure:
		return percent(v.Change)
	case v.Known:
		return "~"
	case ok && q.death() == "":
		return percent(change)
	case sheet.Baseline != nil && sheet.Baseline.at(q.load) == q && q.Measured():
		return "base"
	}
	return absent
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
	case "requests", "requests/s", "tokens", "tokens/s", "share", "$":
		head[1] = "" // the title says it
	case "share of time": // beside usage
		head = [2]string{"time", "> 0.85"}
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

// summaryColumns are the columns of the table with one row for each config: how well it serves.
func (sheet *Sheet) summaryColumns(squares []*Square, v View) []valueColumn {
	if len(v.Metrics) > 0 {
		return chosenColumns(v.Metrics, squares)
	}
	cols := []valueColumn{throughputColumn(squares), spreadColumn(sheet, 2, squares), changeColumn(sheet, 1, squares), sloColumn(sheet, 1)}
	if slices.ContainsFunc(squares, manyGPUs) { // on one it is the throughput once more
		cols = append(cols, metricByName("output_throughput_per_gpu", 8, squares))
	}
	cols = append(cols, metricByName("output_throughput_per_user", 6, squares), metricByName("input_throughput_per_gpu", 9, squares))
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("ttft", class, 3, squares))
	}
	for _, class := range sheet.classNames() {
		cols = append(cols, pairColumn("tpot", class, 4, squares))
	}
	return used(append(cols, metricByName("usd_per_million_output_tokens", 5, squares)))
}

func manyGPUs(q *Square) bool {
	return slices.ContainsFunc(q.Records, func(r sweep.Record) bool { return r.GPUCount > 1 })
}

// resourceColumns are those of the second table with one row for each config: what it takes.
func (sheet *Sheet) resourceColumns(squares []*Square) []valueColumn {
	var cols []valueColumn
	for _, c := range []struct {
		name string
		drop int
	}{
		{"kv_tokens", 0}, {"headroom_gib", 1}, {"headroom_min_gib", 1}, {"running", 2}, {"queued", 2}, {"token_usage", 2},
		{"token_usage_over_085", 6}, {"retractions", 5}, {"cached_share_host", 3}, {"decode_graph_share", 6}, {"accept_length", 6}, {"start_s", 5}, {"power_w", 6},
	} {
		cols = append(cols, metricByName(c.name, c.drop, squares))
		if c.name == "headroom_min_gib" {
			cols = append(cols, forecastColumn(7, squares), hostColumn(4, squares))
		}
	}
	return used(cols)
}

// forecastColumn shows how far the truth was from what was forecast before the launch: "+0.1 % / −0.04".
func forecastColumn(drop int, squares []*Square) valueColumn {
	c := valueColumn{col: textColumn{head: [2]string{"off forecast", "KV / GiB"}, right: true, drop: drop}}
	c.cell = func(q *Square) string {
		kv, room := absent, absent
		off, ok := q.Median(metric("forecast_kv_tokens_error"))
		truth, known := q.Median(metric("kv_tokens"))
		if forecast := truth - off; ok && known && forecast > 0 {
			kv = percent(off / forecast)
		}
		if off, ok := q.Median(metric("forecast_headroom_error_gib")); ok {
			room = signed(off, 2)
		}
		if kv == absent && room == absent {
			return absent
		}
		return kv + " / " + room
	}
	for _, q := range squares {
		c.used = c.used || c.cell(q) != absent
	}
	return c
}

// hostColumn shows what a launch took of the host's memory: when it was ready, and at most.
func hostColumn(drop int, squares []*Square) valueColumn {
	c := valueColumn{col: textColumn{head: [2]string{"host RAM GiB", "ready / most"}, right: true, drop: drop}}
	c.cell = func(q *Square) string {
		var parts []string
		known := false
		for _, m := range []Metric{metric("host_taken_gib"), metric("host_ram_peak_gib")} {
			text := absent
			if v, ok := q.Median(m); ok {
				text, known = commas(v, m.Decimals), true
			}
			parts = append(parts, text)
		}
		if !known {
			return absent
		}
		return strings.Join(parts, " / ")
	}
	for _, q := range squares {
		c.used = c.used || c.cell(q) != absent
	}
	return c
}

// chosenColumns are the metrics that a reader asked for, under their own names.
func chosenColumns(names []string, squares []*Square) []valueColumn {
	var cols []valueColumn
	for i, name := range names {
		m := metric(name)
		col := metricColumn(m, [2]string{sweep.Printable(name), m.Unit}, i, squares)
		col.used = true
		cols = append(cols, col)
	}
	return cols
}

// detailColumns are the columns of the table with one row for each cell.
func (sheet *Sheet) detailColumns(squares []*Square, v View) []valueColumn {
	if len(v.Metrics) > 0 {
		return chosenColumns(v.Metrics, squares)
	}
	cols := []valueColumn{throughputColumn(squares), spreadColumn(sheet, 2, squares), changeColumn(sheet, 1, squares), sloColumn(sheet, 1)}
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
