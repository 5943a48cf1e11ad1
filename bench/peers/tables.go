package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

func number(v float64, digits int) string {
	if v >= 100_000 {
		return fmt.Sprintf("%.0f k", v/1000)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// text is the median, with the range when there are several runs.
func (s spread) text(digits int) string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return number(s.Median, digits)
	}
	return fmt.Sprintf("%s (%s..%s)", number(s.Median, digits), number(s.Least, digits), number(s.Utmost, digits))
}

func ratio(a, b spread) string {
	if a.N == 0 || b.N == 0 || b.Median == 0 {
		return "–"
	}
	return strconv.FormatFloat(a.Median/b.Median, 'f', 2, 64)
}

func row(out io.Writer, cells ...string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }

func head(out io.Writer, cells ...string) {
	row(out, cells...)
	fmt.Fprintln(out, "|"+strings.Repeat("---|", len(cells)))
}

// writeGoals writes the table of goals.
func writeGoals(out io.Writer, verdicts []verdict) {
	fmt.Fprintln(out, "## Goals")
	fmt.Fprintln(out)
	head(out, "measure", "case", "stamps", "sweep", "R (same stamps)", "best peer P", "sweep/R", "sweep/P", "goal", "met")
	for _, v := range verdicts {
		p := "–"
		if v.Peer != "" {
			p = v.P.text(v.Goal.Digits) + " " + v.Peer
		}
		met := "no figure"
		switch {
		case v.Ours.N > 0 && !v.Pass:
			met = "**no**"
		case v.Complete:
			met = "yes"
		case v.Ours.N > 0:
			met = "yes, as far as measured"
		}
		row(out, v.Goal.Measure+", "+v.Goal.Unit, v.Goal.Case, v.Stamps, v.Ours.text(v.Goal.Digits), v.R.text(v.Goal.Digits), p, ratio(v.Ours, v.R), ratio(v.Ours, v.P), strings.Join(v.Limits, "; "), met)
	}
	fmt.Fprintln(out)
}

// writeCase writes the figures of all clients in one case.
func writeCase(out io.Writer, c benchCase, all []result, tools []tool) {
	fmt.Fprintf(out, "## %s: %d streams, %d requests of %d tokens\n\n", c.Name, c.Streams, c.Requests, c.Tokens)
	columns := []struct {
		name   string
		figure figure
		digits int
	}{
		{"CPU, µs an event", cpuPerEvent, 2},
		{"events per core-second", eventsPerCoreSecond, 0},
		{"events/s", func(r *result) (float64, bool) { return r.FloodPerS, true }, 0},
		{"peak RSS, MB", peakRSS, 0},
	}
	if !c.Flood {
		columns = columns[:0]
		for _, name := range []string{"ttft_mean", "ttft_p50", "ttft_p99", "itl_p50", "itl_p99", "tpot_mean", "e2e_mean"} {
			label := strings.NewReplacer("ttft", "TTFT", "itl", "ITL", "tpot", "TPOT", "e2e", "E2E", "_", " ").Replace(name)
			columns = append(columns, struct {
				name   string
				figure figure
				digits int
			}{label + " error, ms", func(r *result) (float64, bool) { v, ok := r.Errors[name]; return v, ok }, 3})
		}
		columns = append(columns, []struct {
			name   string
			figure figure
			digits int
		}{{"CPU, µs an event", cpuPerEvent, 1}, {"delivered, %", delivered, 1}, {"peak RSS (private), MB", peakAnon, 0}, {"peak RSS, MB", peakRSS, 0}, {"start, s", startup, 3}}...)
	}
	cells := []string{"client", "runs"}
	for _, col := range columns {
		cells = append(cells, col.name)
	}
	head(out, cells...)
	for i := range tools {
		runs, bad := 0, 0
		for k := range all {
			if r := &all[k]; r.Case.Name == c.Name && r.Tool.Name == tools[i].Name {
				runs++
				if !r.good() {
					bad++
				}
			}
		}
		if runs == 0 {
			continue
		}
		cells := []string{tools[i].Name, strconv.Itoa(runs)}
		if bad > 0 {
			cells[1] += fmt.Sprintf(" (%d failed)", bad)
		}
		for _, col := range columns {
			cells = append(cells, over(all, c.Name, tools[i].Name, col.figure).text(col.digits))
		}
		row(out, cells...)
	}
	late, again := spread{}, 0
	for i := range all {
		if r := &all[i]; r.Case.Name == c.Name && !c.Flood {
			late.N++
			late.Utmost = max(late.Utmost, r.LateP99US)
			again += r.Again
		}
	}
	if late.N > 0 {
		fmt.Fprintf(out, "\nLateness of the server's writes, highest p99 of a run: %.0f µs. It is in no error: true is when a write began.\n", late.Utmost)
		if again > 0 {
			fmt.Fprintf(out, "%d runs were thrown away and made again: something else held the server up (p99 above %.0f ms).\n", again, c.lateLimitUS()/1000)
		}
	}
	fmt.Fprintln(out)
}

// writeCSV writes one line a run.
func writeCSV(out io.Writer, all []result) error {
	w := csv.NewWriter(out)
	header := []string{"case", "client", "version", "repeat", "exit", "streams", "requests", "tokens", "completed", "failed", "wall_s", "start_to_first_request_s", "cpu_total_s", "cpu_load_s", "load_s", "cpu_us_per_event", "flood_events_per_s", "delivered_share", "peak_rss_mb", "peak_private_mb", "server_late_p50_us", "server_late_p99_us", "server_late_max_us", "server_blocked_writes", "server_events", "run_again"}
	for _, metric := range metricNames {
		for _, statistic := range statisticNames {
			for _, what := range []string{"true", "reported", "error"} {
				header = append(header, fmt.Sprintf("%s_%s_%s_ms", metric, statistic, what))
			}
		}
	}
	if err := w.Write(header); err != nil {
		return err
	}
	for i := range all {
		r := &all[i]
		f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
		per, _ := cpuPerEvent(r)
		line := []string{
			r.Case.Name, r.Tool.Name, r.Tool.Version, strconv.Itoa(r.Repeat), r.Exit, strconv.Itoa(r.Case.Streams), strconv.Itoa(r.Case.Requests), strconv.Itoa(r.Case.Tokens), strconv.Itoa(r.Completed), strconv.Itoa(r.Failed),
			f(r.WallS, 3), f(r.StartS, 4), f(r.CPUTotalS, 4), f(r.CPULoadS, 4), f(r.LoadS, 4), f(per, 3), f(r.FloodPerS, 0), f(r.Delivered, 4), f(r.PeakRSS, 2), f(r.PeakAnon, 2), f(r.LateP50US, 1), f(r.LateP99US, 1), f(r.LateMaxUS, 1), strconv.Itoa(r.Blocked), strconv.Itoa(r.Events), strconv.Itoa(r.Again),
		}
		for _, metric := range metricNames {
			for _, statistic := range statisticNames {
				for _, v := range []values{r.True, r.Reported, r.Errors} {
					cell := ""
					if x, ok := v[metric+"_"+statistic]; ok {
						cell = f(x, 4)
					}
					line = append(line, cell)
				}
			}
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
