package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sweep/sweep"
)

// text is what the table shows of a verdict.
func (v DiffVerdict) text(q *Square) string {
	switch v.Kind {
	case DiffBetter, DiffWorse:
		return string(v.Kind) + " " + percent(v.Change)
	case DiffSame:
		return "~"
	case DiffChange:
		return percent(v.Raw)
	case DiffDies:
		return "newly fails: " + q.failureWords()
	}
	return string(v.Kind)
}

func (d *Diff) blocks() []block {
	names := make([]string, len(d.Nights))
	for i, n := range d.Nights {
		names[i] = sweep.Printable(n.Name)
	}
	blocks := []block{{heading: d.Metric.Name + ": " + names[0] + " against " + strings.Join(names[1:], ", ")}}
	if len(d.Differences) == 0 {
		blocks = append(blocks, block{text: "Nothing else is known to differ between the nights."})
	} else {
		t := &textTable{columns: []textColumn{{head: [2]string{"differs"}}}}
		for _, name := range names {
			t.columns = append(t.columns, textColumn{head: [2]string{name}, wrap: true})
		}
		for _, c := range d.Differences {
			cells := []string{c.Name}
			for _, v := range c.Values {
				if v == "" {
					v = absent
				}
				cells = append(cells, v)
			}
			t.add(plain, cells)
		}
		blocks = append(blocks, block{text: "What differs beside the numbers:"}, block{table: t})
	}
	blocks = append(blocks, block{table: d.table(names)})
	for i := range d.Nights[1:] {
		if line := d.line(i + 1); line != "" {
			blocks = append(blocks, block{text: line})
		}
	}
	return append(blocks, block{text: d.noiseLine()})
}

func (d *Diff) table(names []string) *textTable {
	t := &textTable{columns: []textColumn{{head: [2]string{"config"}, key: true}, {head: [2]string{"load"}}}}
	for i, name := range names {
		t.columns = append(t.columns, textColumn{head: [2]string{name, d.Metric.Unit}, right: true})
		if i > 0 {
			t.columns = append(t.columns, textColumn{head: [2]string{"against", "the first"}, wrap: true})
		}
	}
	var values []float64
	for _, c := range d.Cells {
		for _, q := range c.Squares {
			if q != nil {
				if v, ok := q.Median(d.Metric); ok {
					values = append(values, v)
				}
			}
		}
	}
	decimals := d.Metric.decimals(values)
	for _, c := range d.Cells {
		cells := []string{sweep.Printable(c.Config), sweep.Printable(c.Load)}
		tn := plain
		for i, q := range c.Squares {
			text := absent
			if q != nil {
				if v, ok := q.Median(d.Metric); ok {
					text = commas(v, decimals)
				} else if words := q.failureWords(); words != "" {
					text = words
				}
			}
			cells = append(cells, text)
			if i == 0 {
				continue
			}
			v := c.Against[i-1]
			cells = append(cells, v.text(q))
			switch v.Kind {
			case DiffWorse, DiffDies:
				tn = alarm
			case DiffBetter, DiffFits:
				tn = strong
			}
		}
		t.add(tn, cells)
	}
	return t
}

// line counts how a night's cells fared.
func (d *Diff) line(night int) string {
	counts := map[DiffKind]int{}
	for _, c := range d.Cells {
		counts[c.Against[night-1].Kind]++
	}
	var parts []string
	for _, k := range []DiffKind{DiffBetter, DiffWorse, DiffSame, DiffChange, DiffDies, DiffFits, DiffBothDie, DiffOnlyFirst, DiffOnlyHere, DiffUnknown} {
		if counts[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	line := sweep.Printable(d.Nights[night].Name) + ": " + strings.Join(parts, ", ")
	if change, cells := d.Mean(night); cells > 0 {
		line += fmt.Sprintf(". Geometric mean over %s measured in both: %s", plural(cells, "cell"), percent(change))
	}
	return line + "."
}

func (d *Diff) noiseLine() string {
	var parts []string
	repeats := 0
	for _, n := range d.Nights {
		if repeats == 0 || n.Repeats < repeats {
			repeats = n.Repeats
		}
	}
	for _, c := range d.Cells {
		if floor := d.Noise[c.Workload].Floor(repeats); floor > 0 {
			parts = add(parts, fmt.Sprintf("%s in %s", strings.TrimPrefix(percent(max(floor, PracticalThreshold)), "+"), sweep.Printable(c.Workload)))
		}
	}
	if len(parts) == 0 {
		return "1 repeat: no noise estimate; changes stand without verdicts."
	}
	return "Differences below " + strings.Join(parts, ", ") + " are noise here (~), by the spread of fresh starts over all nights."
}

// WriteDiff writes a comparison for a terminal.
func WriteDiff(w io.Writer, d *Diff, opts Options) error {
	var b strings.Builder
	for i, blk := range d.blocks() {
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

// WriteDiffMarkdown writes a comparison as Markdown.
func WriteDiffMarkdown(w io.Writer, d *Diff) error {
	var parts []string
	for _, blk := range d.blocks() {
		text, err := blk.markdown("# ")
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return write(w, strings.Join(parts, "\n"))
}

// diffLine is one cell in one night as data.
type diffLine struct {
	Night    string   `json:"night"`
	Config   string   `json:"config"`
	Load     string   `json:"load"`
	Metric   string   `json:"metric"`
	First    *float64 `json:"first,omitempty"`
	Value    *float64 `json:"value,omitempty"`
	Verdict  string   `json:"verdict"`
	Change   *float64 `json:"change,omitempty"` // 0.05 is 5 % more
	Low      *float64 `json:"change_low,omitempty"`
	High     *float64 `json:"change_high,omitempty"`
	Failures string   `json:"failures,omitempty"`
}

func (d *Diff) lines() []diffLine {
	lines := []diffLine{}
	median := func(q *Square) *float64 {
		if q == nil {
			return nil
		}
		if v, ok := q.Median(d.Metric); ok {
			return &v
		}
		return nil
	}
	for _, c := range d.Cells {
		for i, v := range c.Against {
			l := diffLine{
				Night: sweep.Printable(d.Nights[i+1].Name), Config: sweep.Printable(c.Config), Load: sweep.Printable(c.Load), Metric: d.Metric.Name,
				First: median(c.Squares[0]), Value: median(c.Squares[i+1]), Verdict: string(v.Kind),
			}
			if q := c.Squares[i+1]; q != nil {
				l.Failures = q.failureWords()
			}
			switch {
			case v.Known:
				l.Change, l.Low, l.High = &v.Change, &v.Lo, &v.Hi
			case v.HasRaw:
				l.Change = &v.Raw
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// WriteDiffJSON writes a comparison as one JSON object.
func WriteDiffJSON(w io.Writer, d *Diff) error {
	names := make([]string, len(d.Nights))
	for i, n := range d.Nights {
		names[i] = sweep.Printable(n.Name)
	}
	differs := map[string][]string{}
	for _, c := range d.Differences {
		differs[c.Name] = c.Values
	}
	data, err := json.MarshalIndent(struct {
		Schema  int                 `json:"schema"`
		Nights  []string            `json:"nights"`
		Differs map[string][]string `json:"differs"`
		Cells   []diffLine          `json:"cells"`
	}{sweep.Schema, names, differs, d.lines()}, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return write(w, string(sweep.PrintableJSON(data))+"\n")
}

// WriteDiffCSV writes one line for each cell of each night after the first.
func WriteDiffCSV(w io.Writer, d *Diff) error {
	var b strings.Builder
	out := csv.NewWriter(&b)
	_ = out.Write([]string{"night", "config", "load", "metric", "first", "value", "verdict", "change", "change_low", "change_high", "failures"}) // checked by Error below
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	}
	for _, l := range d.lines() {
		row := []string{l.Night, l.Config, l.Load, l.Metric, number(l.First), number(l.Value), l.Verdict, number(l.Change), number(l.Low), number(l.High), l.Failures}
		for i := range row {
			if !slices.Contains([]int{4, 5, 7, 8, 9}, i) {
				row[i] = sweep.PrintableField(row[i])
			}
		}
		_ = out.Write(row)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return write(w, b.String())
}
