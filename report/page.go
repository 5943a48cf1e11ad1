package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts are in the binary
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var pageCSS string

//go:embed page/page.js
var pageJS string

//go:embed page/uPlot.iife.min.js
var chartJS string

//go:embed page/uPlot.min.css
var chartCSS string

//go:embed page/uPlot.LICENSE
var chartLicence string

var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageHTML)) })

// PageOptions say how a page is made.
type PageOptions struct {
	Version string    // of sweep
	Made    time.Time // zero: not told
	Refresh int       // seconds after which the page loads itself again; 0: never
}

// pageView is what the template shows.
type pageView struct {
	Name, Version, Made       string
	Refresh                   int
	ScriptHashes, StyleHashes string
	ChartCSS, CSS             template.CSS
	ChartJS, JS, Data         template.JS
	ChartHash                 string
	About, Night, Problems    []string
	Decisions                 []pageDecision
	Next                      []Step
	Blocks                    []pageBlock
	Failures, Skipped         []failure
	Environment               []pageFact
	Grid                      string
	Notes                     []pageNote
}

// pageDecision answers for one workload what a reader came for.
type pageDecision struct {
	Workload, Command string
	Answers           []pageAnswer
}

type pageAnswer struct {
	Question string
	Lines    []string
}

// decision puts each part of a verdict under its question.
func (s *Summary) decision(sheet *Sheet) pageDecision {
	v := s.verdict(sheet)
	d := pageDecision{Workload: sweep.Printable(sheet.Workload)}
	put := func(question string, lines ...string) {
		var some []string
		for _, l := range lines {
			if l != "" {
				some = append(some, strings.TrimSuffix(l, ".")+".")
			}
		}
		if len(some) > 0 {
			d.Answers = append(d.Answers, pageAnswer{question, some})
		}
	}
	put("Which config?", v.which)
	if sheet.Best != nil && sheet.Best == sheet.Baseline {
		v.gain = "It is the baseline itself: nothing else that may be named best was faster"
	}
	if v.against != "" {
		v.against += s.baselineWords(sheet)
	}
	put("By how much?", v.against, s.nextBest(sheet), v.gain)
	switch {
	case v.again != "":
		v.sure = "In the night itself: " + v.sure
	case strings.HasPrefix(v.sure, "1 repeat"):
		v.sure += ", so a small difference may be luck"
	}
	drift := ""
	if len(s.Sheets) == 1 { // of several, the sentence stands below all
		drift = s.driftLine()
	}
	put("How sure?", v.made, v.again, v.sure, v.ties, v.noise, v.doubt, drift)
	put("Where is the edge?", v.edge)
	if sheet.Best != nil {
		d.Command = s.Night.command(sheet.Best.Best)
	}
	return d
}

type pageBlock struct {
	Heading, Text string
	Notes         []string
	Table         *pageTable
}

type pageTable struct {
	Heads []pageCell
	Rows  []pageTableRow
	Tall  bool // scrolls on its own, so that what follows can be found
}

// tallTable is how many rows make a table tall.
const tallTable = 24

type pageTableRow struct {
	Class string
	Cells []pageCell
}

type pageCell struct {
	Text  string
	Right bool
	Wide  bool // a sentence
	Later bool // not printed: paper is narrow
}

type pageFact struct {
	Name, Value string
	Code        bool
}

type pageNote struct{ Title, Text string }

// hashOf lists the hashes of what stands between the tags, so that the page's own policy can name them: no other script runs.
func hashOf(parts ...string) string {
	var out []string
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		out = append(out, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join(out, " ")
}

// WritePage writes the report as one HTML file that loads nothing.
func WritePage(w io.Writer, s *Summary, o PageOptions) error {
	data, err := s.data()
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	var packed string
	var packErr error
	var packing sync.WaitGroup // the data is complete: it is packed while the words are written
	packing.Go(func() { packed, packErr = data.pack() })
	defer packing.Wait()
	chart := "/*! " + strings.TrimSpace(chartLicence) + " */\n" + chartJS
	sum := sha256.Sum256([]byte(chartJS))
	v := pageView{
		Name: sweep.Printable(s.Night.Name), Version: sweep.Printable(o.Version), Refresh: o.Refresh,
		ScriptHashes: hashOf(chart, pageJS), StyleHashes: hashOf(chartCSS, pageCSS),
		ChartCSS: template.CSS(chartCSS), CSS: template.CSS(pageCSS), // our own files
		ChartJS: template.JS(chart), JS: template.JS(pageJS),
		ChartHash: hex.EncodeToString(sum[:]),
		About:     s.about(), Next: s.Next(), Problems: s.Night.Problems, Notes: pageNotes(),
	}
	if !o.Made.IsZero() {
		v.Made = o.Made.UTC().Format("2006-01-02 15:04 UTC")
	}
	for _, sheet := range s.Sheets {
		v.Decisions = append(v.Decisions, s.decision(sheet))
		v.Blocks = append(v.Blocks, pageBlocks(s.sheetBlocks(sheet, View{}), s.headline(sheet))...)
	}
	if line := s.driftLine(); line != "" && len(s.Sheets) != 1 {
		v.Night = append(v.Night, line)
	}
	v.Failures, v.Skipped = s.pageFailures()
	v.Environment, v.Grid = s.environment()
	packing.Wait()
	if packErr != nil {
		return fmt.Errorf("report: page: %w", packErr)
	}
	v.Data = template.JS(packed) // base64 is no script
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, v); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	return write(w, b.String())
}

// pageBlocks turns the report in words into the template's parts; the sentences that stand under Decision are left out here.
func pageBlocks(blocks []block, said []string) []pageBlock {
	var out []pageBlock
	for _, b := range blocks {
		switch {
		case b.text != "" && slices.Contains(said, b.text):
		case b.table != nil:
			out = append(out, pageBlock{Table: b.table.page()})
		case len(b.notes) > 0:
			p := pageBlock{}
			for i, n := range b.notes {
				p.Notes = append(p.Notes, fmt.Sprintf("[%d] %s", i+1, n))
			}
			out = append(out, p)
		default:
			out = append(out, pageBlock{Heading: b.heading, Text: b.text})
		}
	}
	return out
}

// class is a tone's name in the page's style.
func (t tone) class() string {
	return map[tone]string{strong: "strong", soft: "soft", alarm: "alarm"}[t]
}

// page puts the sentences of a row before what a narrow screen may not show.
func (t *textTable) page() *pageTable {
	out := &pageTable{Tall: len(t.rows) > tallTable}
	var order, later []int
	told := slices.ContainsFunc(t.columns, func(c textColumn) bool { return c.wrap })
	for i, c := range t.columns {
		if told && c.drop > 2 {
			later = append(later, i)
		} else {
			order = append(order, i)
		}
	}
	order = append(order, later...)
	for _, i := range order {
		head := strings.ReplaceAll(t.columns[i].name(), "> ", ">\u00a0") // no sign at the end of a line
		out.Heads = append(out.Heads, pageCell{head, t.columns[i].right, t.columns[i].wrap, t.columns[i].drop > 4})
	}
	for n, row := range t.rows {
		r := pageTableRow{Class: t.tones[n].class()}
		for _, i := range order {
			r.Cells = append(r.Cells, pageCell{row[i], t.columns[i].right, t.columns[i].wrap, t.columns[i].drop > 4})
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// effectTable shows what each value of an axis brings at equal load; it is nil where no pair of configs differs in one axis only.
func (s *Summary) effectTable(sheet *Sheet) *textTable {
	if len(sheet.Effects) == 0 {
		return nil
	}
	known := slices.ContainsFunc(sheet.Effects, func(e AxisEffect) bool { return e.Known })
	several := slices.ContainsFunc(sheet.Effects, func(e AxisEffect) bool { return e.Pairs > 1 })
	t := &textTable{columns: []textColumn{
		{head: [2]string{"axis"}}, {head: [2]string{"value"}, right: true}, {head: [2]string{"against"}, right: true}, {head: [2]string{"output", "tok/s"}, right: true},
	}}
	if known {
		t.columns = append(t.columns, textColumn{head: [2]string{"95 %", "interval"}, right: true})
	}
	if several {
		t.columns = append(t.columns, textColumn{head: [2]string{"least to", "most"}, right: true, drop: 2})
	}
	t.columns = append(t.columns, textColumn{head: [2]string{"pairs"}, right: true, drop: 1}, textColumn{head: [2]string{"loads,", strings.TrimPrefix(levelName(sheet.Loads), "requests ")}, right: true})
	for _, e := range sheet.Effects {
		cells := []string{sweep.Printable(e.Axis), sweep.Printable(e.Value), sweep.Printable(e.Against), e.words()}
		if known {
			interval := absent
			if e.Known {
				interval = rangeOf(e.Interval.Lo, e.Interval.Hi)
			}
			cells = append(cells, interval)
		}
		if several {
			spread := absent // of one pair there is none
			if e.Pairs > 1 {
				spread = rangeOf(e.Lo, e.Hi)
			}
			cells = append(cells, spread)
		}
		t.add(plain, append(cells, fmt.Sprint(e.Pairs), levelList(e.Loads, sheet.Loads)))
	}
	return t
}

// rangeOf is a range of changes: "+0.5 to +7.2 %".
func rangeOf(lo, hi float64) string {
	return strings.TrimSuffix(percent(lo), " %") + " to " + percent(hi)
}

// levelList names loads, or says how many they are: "8, 16, 32", "10 loads".
func levelList(loads, among []sweep.Load) string {
	if len(loads) > 4 {
		return plural(len(loads), "load")
	}
	labels := make([]string, len(loads))
	for i, l := range loads {
		labels[i] = loadLabel(l, among)
	}
	return strings.Join(labels, ", ")
}
