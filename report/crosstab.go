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

// Crosstab is one workload pivoted by two parameters.
type Crosstab struct {
	Workload   string // "" when the workload is one of the parameters
	Rows, Cols string // parameters
	Metric     Metric
	RowValues  []string
	ColValues  []string
	Cells      [][]CrossCell // by row, then column
}

// CrossCell is what stands at two values: the fastest of the squares that have them.
type CrossCell struct {
	Value    float64
	Has      bool
	Square   *Square
	At       string // level, where it is no parameter of the table: "@256"
	Failures string // "OOM @512 (1/3)"
	Asked    bool   // some square has the two values
}

// Crosstabs pivots the night, one table for each workload. Where several squares have the two values of a cell, the one with
// the highest output throughput stands for them, among those that meet the service levels and in which nothing died.
func (s *Summary) Crosstabs(v View) []Crosstab {
	m := throughput()
	if len(v.Metrics) > 0 {
		m = metric(v.Metrics[0])
	}
	if v.Rows == "workload" || v.Cols == "workload" {
		return []Crosstab{s.crosstab(s.Sheets, "", v, m)}
	}
	var all []Crosstab
	for _, sheet := range s.Sheets {
		all = append(all, s.crosstab([]*Sheet{sheet}, sheet.Workload, v, m))
	}
	return all
}

func (s *Summary) crosstab(sheets []*Sheet, workload string, v View, m Metric) Crosstab {
	t := Crosstab{Workload: workload, Rows: v.Rows, Cols: v.Cols, Metric: m}
	type key struct{ row, col string }
	squares := map[key][]*Square{}
	sheetOf := map[*Square]*Sheet{}
	for _, sheet := range sheets {
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				r, ok1 := parameter(row.Config, q.Load, v.Rows)
				c, ok2 := parameter(row.Config, q.Load, v.Cols)
				if !ok1 || !ok2 || row.Config.Unacceptable != "" {
					continue
				}
				t.RowValues, t.ColValues = add(t.RowValues, r), add(t.ColValues, c)
				squares[key{r, c}] = append(squares[key{r, c}], q)
				sheetOf[q] = sheet
			}
		}
	}
	t.RowValues, t.ColValues = sorted(t.RowValues), sorted(t.ColValues)
	levels := v.Rows == "concurrency" || v.Cols == "concurrency"
	for _, r := range t.RowValues {
		var line []CrossCell
		for _, c := range t.ColValues {
			line = append(line, crossCell(squares[key{r, c}], sheetOf, m, levels))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}

func add(list []string, v string) []string {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

func crossCell(squares []*Square, sheetOf map[*Square]*Sheet, m Metric, levels bool) CrossCell {
	cell := CrossCell{Asked: len(squares) > 0}
	if !cell.Asked {
		return cell
	}
	sheet := sheetOf[squares[0]]
	if cell.Square = sheet.bestSquare(squares); cell.Square != nil {
		cell.Value, cell.Has = cell.Square.Median(m)
		if !levels {
			cell.At = "@" + loadLabel(cell.Square.Load, sheetOf[cell.Square].Loads)
		}
	}
	var failures []string
	for _, q := range squares {
		failed := q.Failed()
		for i, r := range failed {
			words := shortEnding(r)
			if r.Outcome == sweep.SkippedImplied || i > 0 && shortEnding(failed[0]) == words {
				continue
			}
			if underLoad(r) && !levels {
				words += " @" + loadLabel(q.Load, sheetOf[q].Loads)
			}
			if n := countEnding(failed, shortEnding(r)); n < q.Repeats {
				words += fmt.Sprintf(" (%d/%d)", n, q.Repeats)
			}
			failures = add(failures, words)
		}
	}
	cell.Failures = strings.Join(failures, ", ")
	return cell
}

// text is "5,095 @256 · OOM @512 (1/3)".
func (c CrossCell) text(decimals int, m Metric) string {
	var parts []string
	switch {
	case c.Has:
		parts = append(parts, strings.TrimSpace(commas(c.Value, decimals)+" "+c.At))
	case !c.Asked:
		return "not in the grid"
	case c.Square != nil:
		parts = append(parts, absent)
	}
	if c.Failures != "" {
		parts = append(parts, c.Failures)
	}
	if len(parts) == 0 {
		return "not run yet"
	}
	return strings.Join(parts, " · ")
}

func (t Crosstab) decimals() int {
	var values []float64
	for _, line := range t.Cells {
		for _, c := range line {
			if c.Has {
				values = append(values, c.Value)
			}
		}
	}
	return t.Metric.decimals(values)
}

// title says what the table holds.
func (t Crosstab) title() string {
	what := t.Metric.Name
	if t.Metric.Unit != "" {
		what += " (" + t.Metric.Unit + ")"
	}
	line := sweep.Printable(fmt.Sprintf("%s by %s and %s", what, t.Rows, t.Cols))
	if t.Workload != "" {
		line = sweep.Printable(t.Workload) + ": " + line
	}
	return line
}

func (t Crosstab) table() *textTable {
	out := &textTable{columns: []textColumn{{head: [2]string{sweep.Printable(t.Rows), "\\ " + sweep.Printable(t.Cols)}, right: true}}}
	for _, c := range t.ColValues {
		out.columns = append(out.columns, textColumn{head: [2]string{sweep.Printable(c)}, right: true, wrap: true})
	}
	decimals := t.decimals()
	for i, r := range t.RowValues {
		cells := []string{sweep.Printable(r)}
		for _, c := range t.Cells[i] {
			cells = append(cells, c.text(decimals, t.Metric))
		}
		out.add(plain, cells)
	}
	return out
}

// crosstabBlocks are the pivot tables in words.
func (s *Summary) crosstabBlocks(v View) []block {
	var blocks []block
	for _, t := range s.Crosstabs(v) {
		blocks = append(blocks, block{heading: t.title()}, block{table: t.table()})
	}
	text := "Where several cells have the two values, the one with the highest output throughput stands for them"
	if slices.ContainsFunc(s.Sheets, func(sheet *Sheet) bool { return sheet.SLO }) {
		text += ", among those that meet the service levels"
	}
	return append(blocks, block{text: text + "; @: " + levelName(s.Night.Loads) + "."})
}

// WriteCrosstabCSV writes the pivot tables as CSV, one line for each cell.
func WriteCrosstabCSV(w io.Writer, s *Summary, v View) error {
	var b strings.Builder
	out := csv.NewWriter(&b)
	_ = out.Write([]string{"workload", sweep.FlatName(v.Rows), sweep.FlatName(v.Cols), "metric", "value", "load", "failures"}) // checked by Error below
	for _, t := range s.Crosstabs(v) {
		for i, r := range t.RowValues {
			for j, c := range t.ColValues {
				cell := t.Cells[i][j]
				row := []string{t.Workload, r, c, t.Metric.Name, "", "", cell.Failures}
				if cell.Has {
					row[4], row[5] = fmt.Sprint(cell.Value), cell.Square.Load.String()
				}
				for k := range row {
					row[k] = sweep.PrintableField(row[k])
				}
				_ = out.Write(row)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return write(w, b.String())
}

// WriteCrosstabJSON writes the pivot tables as a JSON list with one object for each cell.
func WriteCrosstabJSON(w io.Writer, s *Summary, v View) error {
	type line struct {
		Workload string   `json:"workload,omitempty"`
		Row      string   `json:"row"`
		Col      string   `json:"col"`
		Metric   string   `json:"metric"`
		Value    *float64 `json:"value,omitempty"`
		Load     string   `json:"load,omitempty"`
		Failures string   `json:"failures,omitempty"`
	}
	lines := []line{}
	for _, t := range s.Crosstabs(v) {
		for i, r := range t.RowValues {
			for j, c := range t.ColValues {
				cell := t.Cells[i][j]
				l := line{Workload: t.Workload, Row: r, Col: c, Metric: t.Metric.Name, Failures: cell.Failures}
				if cell.Has {
					l.Value, l.Load = &cell.Value, cell.Square.Load.String()
				}
				lines = append(lines, l)
			}
		}
	}
	data, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return write(w, string(sweep.PrintableJSON(data))+"\n")
}
