package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sweep/sweep"
)

// Options say how a table is shown on a terminal.
type Options struct {
	Width int  // columns of the terminal; 0: no limit, as when piped
	Color bool // with escape sequences; the caller knows what the output is
	View  View
}

// WriteTable writes the report for a terminal.
func WriteTable(w io.Writer, s *Summary, opts Options) error {
	var b strings.Builder
	for i, blk := range s.document(nil, opts.View) {
		text, err := blk.terminal(opts)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if i > 0 && text != "" {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return write(w, b.String())
}

func (b block) terminal(opts Options) (string, error) {
	switch {
	case b.heading != "":
		if opts.Color {
			return "\x1b[1m" + b.heading + "\x1b[0m\n", nil
		}
		return b.heading + "\n", nil
	case b.table != nil:
		text, dropped, err := b.table.terminal(opts.Width, opts.Color)
		if len(dropped) > 0 {
			text += wrapText("(not shown for lack of width: "+strings.Join(dropped, ", ")+")", opts.Width, " ") + "\n"
		}
		return text, err
	case len(b.notes) > 0:
		var out strings.Builder
		for i, n := range b.notes {
			fmt.Fprintln(&out, wrapText(fmt.Sprintf("[%d] %s", i+1, n), opts.Width, "    "))
		}
		return out.String(), nil
	case b.code != "":
		return "  " + b.code + "\n", nil
	case b.text != "":
		return wrapText(b.text, opts.Width, "") + "\n", nil
	}
	return "", nil
}

// WriteMarkdown writes the report as Markdown; pictures are those of [WriteFolder], beside the file.
func WriteMarkdown(w io.Writer, s *Summary, pictures []Picture, v View) error {
	var b strings.Builder
	level := "# "
	for _, blk := range s.document(pictures, v) {
		text, err := blk.markdown(level)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if text == "" {
			continue
		}
		if level = "## "; b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	b.WriteString("\n" + howToRead)
	return write(w, b.String())
}

// howToRead ends summary.md: the few words that the tables take for granted.
const howToRead = `## How to read this

- A **config** is one value for each server axis: one server command line. A **load** is a workload with so many requests in flight, or planned a second. Each row of the first
  tables shows a config at its best load: the one with the highest output throughput, among loads that meet the service levels where there are any.
- **output tok/s** counts tokens that arrived inside the measured window, divided by the window. With several repeats, each a fresh start of the server, a number is their
  median, and the number of repeats behind it follows in parentheses. A repeat in which the config died counts as worse than any number.
- **±** is half of the 95 % interval of a cell, by the noise that all cells of the workload have in common. **vs base** compares with the baseline at the same load; **~** means that the two are
  not told apart: the difference is noise, or less than 1 %. With a single repeat there is no noise estimate, and a change stands without a verdict.
- The winner is a **candidate** until it has been measured again with fresh starts and prompts: of many noisy configs, the one that came out on top was also lucky.
- **p50/p99** are of the requests of one load; a percentile with too few requests is absent. With a fixed number of requests in flight a latency is one at that level, not at an arrival rate.
- **usage** is the share of the KV pool in use, on average, and **time > 0.85** the share of the window in which it was more than that.
- A failure is a result: its word stands in the outcome, with the level at which it came, and how many of the repeats failed where not all did. A config that
  died under any load that was asked for, or in any repeat, is never named best; nor is one that was marked as not acceptable, or whose number may not be trusted.
- **–** means not known or not measured, never zero. Every number with its full name is in ` + "`cells.csv`" + ` and in the night's ` + "`cells.jsonl`" + `.
`

func (b block) markdown(level string) (string, error) {
	switch {
	case b.heading != "":
		return level + sweep.EscapeMarkdown(b.heading) + "\n", nil
	case b.table != nil:
		return b.table.markdown()
	case len(b.notes) > 0:
		var out strings.Builder
		for i, n := range b.notes {
			fmt.Fprintf(&out, "- \\[%d\\] %s\n", i+1, sweep.EscapeMarkdown(n))
		}
		return out.String(), nil
	case b.code != "":
		fence := "```"
		for strings.Contains(b.code, fence) {
			fence += "`"
		}
		return fence + "sh\n" + b.code + "\n" + fence + "\n", nil
	case b.picture != "":
		return "![" + sweep.EscapeMarkdown(b.text) + "](" + b.picture + ")\n", nil
	case b.text != "":
		return sweep.EscapeMarkdown(b.text) + "\n", nil
	}
	return "", nil
}

// write writes once, so that an error is seen once.
func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("report: write: %w", err)
	}
	return nil
}

// jsonSheet, jsonRow and jsonLoad are the report as JSON: what the tables show, with absent keys for
// what is not known.
type jsonSheet struct {
	Workload string    `json:"workload"`
	Best     string    `json:"best,omitempty"` // config
	Baseline string    `json:"baseline,omitempty"`
	Configs  []jsonRow `json:"configs"`
}

type jsonRow struct {
	Config       string       `json:"config"`
	Axes         sweep.Params `json:"axes"`
	Unacceptable string       `json:"unacceptable,omitempty"`
	Unfit        string       `json:"unfit,omitempty"`     // why it is never named best
	BestLoad     string       `json:"best_load,omitempty"` // where its throughput is highest
	Loads        []jsonLoad   `json:"loads"`
}

type jsonLoad struct {
	Load        string         `json:"load"`
	Concurrency int            `json:"concurrency,omitempty"`
	RequestRate float64        `json:"request_rate,omitempty"`
	Repeats     int            `json:"repeats"`            // recorded
	Outcomes    map[string]int `json:"outcomes"`           // repeats by outcome
	Change      *float64       `json:"vs_base,omitempty"`  // 0.25 is +25 % of the baseline at the same load
	SLOMet      *bool          `json:"slo_met,omitempty"`  // in every repeat
	Medians     sweep.Values   `json:"medians,omitempty"`  // of each value over the repeats that have it
	Withheld    []string       `json:"withheld,omitempty"` // why numbers are not here
}

// WriteJSON writes the report as one JSON object.
func WriteJSON(w io.Writer, s *Summary) error {
	out := struct {
		Schema   int         `json:"schema"`
		Night    string      `json:"night"`
		Recorded int         `json:"recorded"`
		Asked    int         `json:"asked"`
		Repeats  int         `json:"repeats"`
		Notes    []string    `json:"notes,omitempty"`
		Drift    string      `json:"drift,omitempty"`
		Sheets   []jsonSheet `json:"workloads"`
		Problems []string    `json:"problems,omitempty"`
	}{
		Schema: sweep.Schema, Night: s.Night.Name, Recorded: s.Recorded, Asked: s.Asked, Repeats: s.Night.Repeats,
		Notes: s.Notes, Drift: s.driftLine(), Sheets: []jsonSheet{}, Problems: s.Night.Problems,
	}
	for _, sheet := range s.Sheets {
		j := jsonSheet{Workload: sheet.Workload}
		if sheet.Best != nil {
			j.Best = sheet.Best.Config.Key
		}
		if sheet.Baseline != nil {
			j.Baseline = sheet.Baseline.Config.Key
		}
		for _, row := range sheet.Rows {
			j.Configs = append(j.Configs, row.json(sheet))
		}
		out.Sheets = append(out.Sheets, j)
	}
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return write(w, string(sweep.PrintableJSON(data))+"\n")
}

func (r *Row) json(sheet *Sheet) jsonRow {
	j := jsonRow{Config: r.Config.Key, Axes: r.Config.Axes, Unacceptable: r.Config.Unacceptable, Unfit: r.Unfit}
	if j.Axes == nil {
		j.Axes = sweep.Params{}
	}
	if r.Best != nil {
		j.BestLoad = r.Best.Load.String()
	}
	for _, q := range r.Squares {
		l := jsonLoad{Load: q.Load.String(), Concurrency: q.Load.Concurrency(), RequestRate: q.Load.Rate(), Repeats: len(q.Records), Outcomes: map[string]int{}}
		names := map[string]bool{}
		for _, rec := range q.Records {
			l.Outcomes[string(rec.Outcome)]++
			if why := withheld(rec); why != "" {
				l.Withheld = append(l.Withheld, why)
			}
			for name := range rec.Values {
				names[name] = true
			}
		}
		for name := range names {
			if v, ok := q.Median(metric(name)); ok {
				if l.Medians == nil {
					l.Medians = sweep.Values{}
				}
				l.Medians[name] = v
			}
		}
		if v, ok := sheet.Change(q); ok {
			l.Change = &v
		}
		if met, known := q.MeetsSLO(); known {
			l.SLOMet = &met
		}
		j.Loads = append(j.Loads, l)
	}
	return j
}
