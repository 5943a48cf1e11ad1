package report

import (
	"bytes"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"sweep/sweep"
)

// tone is how a row of a table looks where colour was asked for.
type tone int

const (
	plain tone = iota
	strong
	soft
	alarm
)

// textColumn is one column of a textTable.
type textColumn struct {
	head  [2]string // two lines on a terminal, joined in Markdown
	right bool      // numbers are set right
	// drop says when the column goes on a narrow terminal: the highest first, 0 never.
	drop int
	wrap bool // a long text may stand on several lines of a narrow terminal
	// key columns name the row; below a row of the same names they are left blank on a terminal.
	key bool
}

// name is the head on one line; a name that was broken at its dash is whole again.
func (c textColumn) name() string {
	if strings.HasSuffix(c.head[0], "-") || strings.HasSuffix(c.head[0], "–") {
		return c.head[0] + c.head[1]
	}
	return strings.TrimSpace(c.head[0] + " " + c.head[1])
}

// textTable is a table of finished text: the renderers below change no cell.
type textTable struct {
	columns []textColumn
	rows    [][]string
	tones   []tone
}

func (t *textTable) add(tn tone, cells []string) {
	t.rows = append(t.rows, cells)
	t.tones = append(t.tones, tn)
}

// terminal renders the table for a terminal of the given width (0: no limit). Columns that do not fit are
// left out whole, and named in dropped: a number is never cut.
func (t *textTable) terminal(width int, color bool) (text string, dropped []string, err error) {
	t = t.folded(width)
	keep := t.fit(width)
	var heads []string
	var align []tw.Align
	for i, c := range t.columns {
		if !keep[i] {
			dropped = append(dropped, c.name())
			continue
		}
		// A blank line above keeps one-line heads beside the rule.
		head := c.head[0] + "\n" + c.head[1]
		if c.head[1] == "" {
			head = "\n" + c.head[0]
		}
		heads = append(heads, head)
		align = append(align, alignment(c))
	}
	var rows [][]string
	for n, row := range t.rows {
		blank := n > 0 && t.sameKey(n)
		var cells []string
		for i, cell := range row {
			switch {
			case !keep[i]:
				continue
			case blank && t.columns[i].key:
				cell = ""
			case color:
				cell = paint(cell, t.tones[n])
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	rule := tw.NewSymbolCustom("rule").WithRow("─").WithCenter("─").WithMidLeft("─").WithMidRight("─")
	text, err = layout(heads, rows, align,
		tablewriter.WithRenderer(renderer.NewBlueprint()),
		tablewriter.WithRendition(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: rule,
			Settings: tw.Settings{
				Separators: tw.Separators{ShowHeader: tw.On, BetweenColumns: tw.Off, BetweenRows: tw.Off},
				Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On, ShowFooterLine: tw.Off},
			},
		}))
	return text, dropped, err
}

// folded breaks long texts as little as the width allows, once the columns that cannot be shown at all are left out.
func (t *textTable) folded(width int) *textTable {
	if len(t.dropped(width)) == 0 {
		return t
	}
	narrow := t.fold(outcomeWidth)
	most := len(narrow.dropped(width))
	for _, w := range []int{0, 2 * outcomeWidth, outcomeWidth + outcomeWidth/2} {
		if wider := t.fold(w); len(wider.dropped(width)) == most && wider.width(wider.fit(width)) <= width {
			return wider
		}
	}
	return narrow
}

// outcomeWidth is what a text that may be folded takes of a narrow terminal.
const outcomeWidth = 28

// fold breaks long texts into lines (0: none).
func (t *textTable) fold(width int) *textTable {
	out := &textTable{columns: t.columns, tones: t.tones, rows: make([][]string, len(t.rows))}
	for n, row := range t.rows {
		out.rows[n] = slices.Clone(row)
		for i, c := range t.columns {
			if c.wrap {
				out.rows[n][i] = wrapText(row[i], width, "")
			}
		}
	}
	return out
}

// dropped lists the columns that do not fit.
func (t *textTable) dropped(width int) []string {
	var names []string
	for i, keep := range t.fit(width) {
		if !keep {
			names = append(names, t.columns[i].name())
		}
	}
	return names
}

// sameKey reports whether a row's key cells equal those of the row above.
func (t *textTable) sameKey(n int) bool {
	for i, c := range t.columns {
		if c.key && t.rows[n][i] != t.rows[n-1][i] {
			return false
		}
	}
	return true
}

// markdown renders the table as GitHub reads it. The library escapes nothing, so each cell is escaped here.
func (t *textTable) markdown() (string, error) {
	var heads []string
	var align []tw.Align
	for _, c := range t.columns {
		heads = append(heads, sweep.EscapeMarkdown(c.name()))
		align = append(align, alignment(c))
	}
	rows := make([][]string, len(t.rows))
	for n, row := range t.rows {
		for _, cell := range row {
			cell = sweep.EscapeMarkdown(cell)
			if t.tones[n] == strong && cell != "" {
				cell = "**" + cell + "**"
			}
			rows[n] = append(rows[n], cell)
		}
	}
	return layout(heads, rows, align, tablewriter.WithRenderer(renderer.NewMarkdown()))
}

// layout hands the cells to the library with all that it would do to them turned off: it would rewrite
// headers, wrap and trim. It draws into memory, because it ignores errors of a writer, and trailing
// spaces of borderless lines are cut.
func layout(heads []string, rows [][]string, align []tw.Align, opts ...tablewriter.Option) (string, error) {
	var buf bytes.Buffer
	alignment := tw.CellAlignment{PerColumn: align}
	t := tablewriter.NewTable(&buf, append(opts,
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithHeaderAlignmentConfig(alignment),
		tablewriter.WithRowAlignmentConfig(alignment),
	)...)
	t.Header(heads)
	for _, row := range rows {
		if err := t.Append(row); err != nil {
			return "", err
		}
	}
	if err := t.Render(); err != nil {
		return "", err
	}
	lines := strings.Split(buf.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimLeft(strings.Join(lines, "\n"), "\n"), nil
}

// widths are what each column takes.
func (t *textTable) widths() []int {
	wide := make([]int, len(t.columns))
	for i, c := range t.columns {
		wide[i] = max(twwidth.Width(c.head[0]), twwidth.Width(c.head[1]))
		for _, row := range t.rows {
			for line := range strings.Lines(row[i]) {
				wide[i] = max(wide[i], twwidth.Width(strings.TrimSuffix(line, "\n")))
			}
		}
		wide[i] += 2 // one space on each side
	}
	return wide
}

// width is what the columns that stay take together.
func (t *textTable) width(keep []bool) int {
	total := 0
	for i, w := range t.widths() {
		if keep[i] {
			total += w
		}
	}
	return total
}

// fit says which columns stay so that the table is at most width wide.
func (t *textTable) fit(width int) []bool {
	keep, wide := make([]bool, len(t.columns)), t.widths()
	total := 0
	for i := range keep {
		keep[i] = true
		total += wide[i]
	}
	for width > 0 && total > width {
		worst := -1
		for i, c := range t.columns {
			if keep[i] && c.drop > 0 && (worst < 0 || c.drop >= t.columns[worst].drop) {
				worst = i
			}
		}
		if worst < 0 {
			break // what is left is needed: a line that wraps is better than a number that is cut
		}
		keep[worst] = false
		total -= wide[worst]
	}
	return keep
}

func alignment(c textColumn) tw.Align {
	if c.right {
		return tw.AlignRight
	}
	return tw.AlignLeft
}

// paint wraps a cell in the escapes of a tone; widths are measured without them.
func paint(cell string, t tone) string {
	code := map[tone]string{strong: "1;32", soft: "2", alarm: "31"}[t]
	if code == "" || cell == "" {
		return cell
	}
	return "\x1b[" + code + "m" + strings.ReplaceAll(cell, "\n", "\x1b[0m\n\x1b["+code+"m") + "\x1b[0m"
}

// wrapText breaks a sentence into lines of at most width columns (0: no limit); later lines are indented.
func wrapText(s string, width int, indent string) string {
	if width <= 0 {
		return s
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		next := word
		if line != "" {
			next = line + " " + word
		}
		if line != "" && twwidth.Width(next) > width {
			lines = append(lines, line)
			next = indent + word
		}
		line = next
	}
	return strings.Join(append(lines, line), "\n")
}
