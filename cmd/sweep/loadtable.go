package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"sweep/loadgen"
	"sweep/loadgen/export"
	"sweep/sweep"
)

// ended notes how the run ended.
func (j *loadJob) ended(err error, stopped bool) {
	j.stopped = stopped && err != nil
	if !j.stopped {
		j.err = err
	}
}

// run is what a result file says of the load beside its result.
func (j *loadJob) run() export.Run {
	return export.Run{Spec: j.spec, Version: version(), Processes: j.processes, Stopped: j.stopped, Err: j.err, At: j.at}
}

// writeLoadTable writes the result for a person.
func writeLoadTable(b *bytes.Buffer, j *loadJob) {
	r := &j.result
	fmt.Fprintf(b, "%s%s · %s · %s\n", sweep.Printable(j.spec.URL), j.spec.Route, sweep.Printable(cmpOr(j.spec.Model, "no model named")), levelText(&j.spec))
	end := ""
	switch {
	case j.stopped:
		end = ", stopped before its end"
	case errors.Is(j.err, loadgen.ErrStalled), errors.Is(j.err, loadgen.ErrFailing), j.err != nil:
		end = ", ended before its time"
	}
	fmt.Fprintf(b, "%s in %s s%s", plural(r.Sent, "request"), figure(r.Span.Seconds()), end)
	if r.Window > 0 && r.Window < r.Span*99/100 {
		fmt.Fprintf(b, "; measured: a window of %s s", figure(r.Window.Seconds()))
	}
	fmt.Fprintf(b, "\n\n")
	if len(r.Values) == 0 {
		fmt.Fprintln(b, "Nothing was measured: the warm-up did not end.")
	} else {
		writeRates(b, j)
		writeLatencies(b, j)
	}
	writeLoadFailures(b, r)
	writeLoadVerdict(b, r)
}

func levelText(s *loadgen.Spec) string {
	var parts []string
	for i := range s.Classes {
		c := &s.Classes[i]
		name := ""
		if len(s.Classes) > 1 {
			name = c.Name + " "
		}
		lengths := fmt.Sprintf("%s → %s tokens", rangeText(c.Input), rangeText(c.Output))
		if len(c.Prompts) > 0 {
			lengths = plural(len(c.Prompts), "prompt")
		}
		switch a := c.Arrivals; {
		case a == nil:
			parts = append(parts, fmt.Sprintf("%s%d in flight, %s", name, c.Concurrency, lengths))
		case a.Law == loadgen.Trace:
			parts = append(parts, fmt.Sprintf("%strace of %s", name, plural(len(a.Requests), "request")))
		case len(a.Stages) > 0:
			parts = append(parts, fmt.Sprintf("%s%s of rates up to %s requests/s (%s), %s", name, plural(len(a.Stages), "stage"), figure(topRate(a.Stages)), a.Law, lengths))
		default:
			parts = append(parts, fmt.Sprintf("%s%s requests/s (%s), %s", name, figure(a.Rate), a.Law, lengths))
		}
	}
	return strings.Join(parts, " · ")
}

func topRate(stages []loadgen.Stage) float64 {
	top := 0.0
	for _, s := range stages {
		top = max(top, s.From, s.To)
	}
	return top
}

func rangeText(r loadgen.Range) string {
	if r.Min == r.Max {
		return strconv.Itoa(r.Min)
	}
	return fmt.Sprintf("%d..%d", r.Min, r.Max)
}

// figure writes a number with about four digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000 || v <= -1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// prefixes are those of the values of each class, and of all together.
func (j *loadJob) prefixes() []string {
	list := []string{""}
	if len(j.spec.Classes) > 1 {
		for _, c := range j.spec.Classes {
			list = append(list, c.Name+"_")
		}
	}
	return list
}

func newColumns(b *bytes.Buffer) *tabwriter.Writer {
	return tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// row writes cells; the first is aligned to the left.
func tableRow(w *tabwriter.Writer, width int, cells ...string) {
	fmt.Fprintf(w, "%-*s\t%s\t\n", width, cells[0], strings.Join(cells[1:], "\t"))
}

func cell(v map[string]float64, name string) string {
	x, ok := v[name]
	if !ok {
		return "–"
	}
	return figure(x)
}

func writeRates(b *bytes.Buffer, j *loadJob) {
	w := newColumns(b)
	tableRow(w, 18, "", "output tok/s", "total tok/s", "requests/s", "in flight", "completed", "failed", "rejected")
	for _, p := range j.prefixes() {
		v := j.result.Values
		tableRow(w, 18, cmpOr(strings.TrimSuffix(p, "_"), "all"), cell(v, p+"output_throughput"), cell(v, p+"total_throughput"), cell(v, p+"request_throughput"),
			cell(v, p+"mean_concurrency"), cell(v, p+"completed"), cell(v, p+"failed"), cell(v, p+"rejected"))
	}
	w.Flush()
	b.WriteByte('\n')
}

func writeLatencies(b *bytes.Buffer, j *loadJob) {
	w := newColumns(b)
	tableRow(w, 18, "ms", "mean", "median", "p90", "p95", "p99", "max")
	for _, p := range j.prefixes() {
		for _, m := range []struct{ key, name string }{{"ttft", "TTFT"}, {"sched_ttft", "TTFT from plan"}, {"tpot", "TPOT"}, {"itl", "ITL"}, {"e2e_latency", "E2E"}} {
			v := j.result.Values
			if _, ok := v[p+"mean_"+m.key+"_ms"]; !ok {
				continue
			}
			cells := []string{strings.TrimSpace(strings.TrimSuffix(p, "_") + " " + m.name)}
			for _, s := range []string{"mean", "median", "p90", "p95", "p99", "max"} {
				cells = append(cells, cell(v, p+s+"_"+m.key+"_ms"))
			}
			tableRow(w, 18, cells...)
		}
	}
	w.Flush()
	b.WriteByte('\n')
}

func writeLoadFailures(b *bytes.Buffer, r *loadgen.Result) {
	if len(r.Failures) == 0 {
		return
	}
	var kinds []string
	for kind, n := range r.Failures {
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	fmt.Fprintf(b, "failures: %s; the first: %s\n", strings.Join(kinds, ", "), sweep.Printable(r.FirstFailure))
}

// writeLoadVerdict says whether the client was the limit, and how it knows.
func writeLoadVerdict(b *bytes.Buffer, r *loadgen.Result) {
	if r.Verdict == "" {
		return
	}
	facts := []string{fmt.Sprintf("stamps by %s over %s", map[string]string{loadgen.StampsKernel: "the kernel", loadgen.StampsUser: "the client"}[r.Stamps], r.Client)}
	for _, e := range []struct {
		key, text string
		factor    float64
	}{
		{"stamp_gap_p99_us", "read %s ms after the kernel's stamp at p99", 1e-3},
		{"send_lag_p99_us", "sent %s ms after the plan at p99", 1e-3},
		{"coalesced_share", "%s %% of the events shared a read", 100},
		{"busy_share", "busiest thread at work %s %% of the time", 100},
		{"run_delay_share", "waited for a core %s %% of the time", 100},
		{"steal_share", "steal %s %%", 100},
		{"losses", "%s segments lost", 1},
	} {
		if v, ok := r.Evidence[e.key]; ok && (e.key != "losses" || v > 0) {
			facts = append(facts, fmt.Sprintf(e.text, figure(v*e.factor)))
		}
	}
	fmt.Fprintf(b, "client: %s (%s)\n", r.Verdict, strings.Join(facts, "; "))
	for _, note := range r.Notes {
		fmt.Fprintf(b, "  - %s\n", sweep.Printable(note))
	}
	for _, why := range r.Why {
		if !slices.Contains(r.Notes, why) {
			fmt.Fprintf(b, "  - %s\n", sweep.Printable(why))
		}
	}
}
