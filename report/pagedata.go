package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// quickly is the size in bytes from which on the page's data are compressed at the usual level.
const quickly = 4 << 20

// pack compresses the data for the page: a script element with base64 of gzip.
func (d pageData) pack() (string, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	level := gzip.BestCompression
	if len(data) > quickly { // the last per cent of its size would cost seconds
		level = gzip.DefaultCompression
	}
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(data); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// data gathers what the page's script shows.
func (s *Summary) data() (pageData, error) {
	d := pageData{
		Params: []string{}, Configs: []pageConfig{}, Loads: []pageLoad{}, Sheets: []pageSheet{}, Records: []pageRecord{}, Columns: []string{}, RecordKeys: []string{},
		Timelines: map[string]pageTimeline{}, Figures: []pageFigure{}, BestWord: "candidate",
	}
	for _, axis := range s.Night.names().axes {
		d.Params = append(d.Params, sweep.Printable(axis))
	}
	looks := s.Night.looks()
	configs := map[string]int{}
	for i, c := range s.Night.Configs {
		configs[c.Key] = i
		d.Configs = append(d.Configs, s.pageConfig(c, looks[c.Key]))
	}
	loads := map[string]int{}
	for i, l := range s.Night.Loads {
		loads[l.String()] = i
		d.Loads = append(d.Loads, pageLoadOf(l, s.Night.Loads))
	}
	keys := map[string]bool{}
	for _, r := range s.Night.all() {
		rec := s.pageRecord(r, configs, loads)
		d.Records = append(d.Records, rec)
		for k := range rec.Values {
			keys[k] = true
		}
	}
	for k := range keys {
		d.RecordKeys = append(d.RecordKeys, k)
	}
	slices.Sort(d.RecordKeys)
	d.Metrics = s.pageMetrics()
	for _, name := range []string{"output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "running", "queued", "token_usage", "retractions", "cached_share_host", "kv_tokens", "headroom_gib", "headroom_min_gib", "start_s"} {
		if keys[name] {
			d.Columns = append(d.Columns, name)
		}
	}
	for _, sheet := range s.Sheets {
		d.Sheets = append(d.Sheets, s.pageSheet(sheet, d.Metrics, configs))
		if sheet.Confirmed {
			d.BestWord = "best"
		}
	}
	if err := s.addTimelines(&d); err != nil {
		return d, err
	}
	return d, s.addFigures(&d)
}

// all are the night's records as cells.jsonl has them, drift checks included.
func (n *Night) all() []sweep.Record {
	all := slices.Concat(n.Records, n.Drift)
	slices.SortStableFunc(all, func(a, b sweep.Record) int {
		return n.order[RunID{a.Cell, a.Repeat}] - n.order[RunID{b.Cell, b.Repeat}]
	})
	return all
}

func hexColor(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

func (s *Summary) pageConfig(c sweep.Config, l look) pageConfig {
	p := pageConfig{
		Key: sweep.Printable(c.Key), Label: s.Night.curveLabel(c, ""), Named: c.Label != "", Axes: map[string]string{}, Baseline: c.Baseline,
		Unacceptable: sweep.Printable(c.Unacceptable), Color: hexColor(l.color), Open: l.marker == ring,
	}
	for _, a := range c.Axes {
		p.Axes[sweep.Printable(a.Name)] = sweep.Printable(a.Value)
	}
	for _, d := range l.dashes {
		p.Dash = append(p.Dash, float64(d)*1.6)
	}
	return p
}

func pageLoadOf(l sweep.Load, all []sweep.Load) pageLoad {
	same := slices.DeleteFunc(slices.Clone(all), func(o sweep.Load) bool { return o.Workload != l.Workload })
	return pageLoad{Key: sweep.Printable(l.String()), Workload: sweep.Printable(l.Workload), Label: loadLabel(l, same), Pools: poolLabel(l), Total: l.Level(), Level: strings.TrimPrefix(levelName([]sweep.Load{l}), "requests ")}
}

func (s *Summary) pageRecord(r sweep.Record, configs, loads map[string]int) pageRecord {
	p := pageRecord{
		ID: sweep.Printable(r.Cell) + "#" + strconv.Itoa(r.Repeat), Cell: sweep.Printable(r.Cell), Repeat: r.Repeat, Drift: r.Role == sweep.RoleDrift,
		Config: configs[r.Config], Load: loads[r.Load.String()], Outcome: sweep.Printable(string(r.Outcome)), Words: shortEnding(r), Detail: sweep.Printable(r.Detail),
		Tone: recordTone(r).class(), Measured: withheld(r) == "", Values: map[string]float64{},
	}
	for k, v := range r.Values {
		if k != "price_per_hour" && !math.IsNaN(v) && !math.IsInf(v, 0) {
			p.Values[sweep.Printable(k)] = v
		}
	}
	for _, why := range r.VerdictWhy {
		p.Notes = append(p.Notes, sweep.Printable(r.Verdict+": "+why))
	}
	for _, n := range s.ownNotes(r) {
		p.Notes = append(p.Notes, sweep.Printable(n))
	}
	if e := r.Evidence; e != nil && e.Text != "" {
		p.Evidence = &pageEvidence{Text: sweep.Printable(e.Text), Where: sweep.Printable(fmt.Sprintf("%s, line %d, byte %d", e.File, e.Line, e.Offset))}
	}
	if run, ok := s.Night.Runs[RunID{r.Cell, r.Repeat}]; ok && run.HasMean {
		words := "Steady within the window"
		if run.Trend != Flat {
			words = "Within the window: " + string(run.Trend) + ", " + percent(run.Change) + " from half to half"
		}
		p.Steady = fmt.Sprintf("%s. Mean of the window %s ± %s tok/s (95 %%, ten batch means, within this start of the server); the window is worth %.0f independent samples.",
			words, commas(run.Mean.Value, 0), commas(run.Mean.Hi-run.Mean.Value, 1), run.Worth)
		if run.TooShort {
			p.Steady += " That is few: a longer window would tell more."
		}
	}
	return p
}

// pageMetrics are the metrics that the page can choose from: those of the tables, each class's latencies too, as far as some record has them.
func (s *Summary) pageMetrics() []pageMetric {
	out := []pageMetric{}
	put := func(m Metric) {
		if !s.Night.hasMetric(m.Name) {
			return
		}
		p := pageMetric{Key: sweep.Printable(m.Name), Title: sweep.Printable(m.Title), Unit: m.Unit, Decimals: m.Decimals, Scales: m.Scales, Median: true}
		switch m.Better {
		case Higher:
			p.Better = 1
		case Lower:
			p.Better = -1
		}
		out = append(out, p)
	}
	all := metrics()
	for _, m := range all {
		put(m)
	}
	seen := map[string]bool{}
	for _, sheet := range s.Sheets {
		for _, class := range sheet.Classes {
			if seen[class] {
				continue
			}
			seen[class] = true
			for _, m := range all {
				if strings.HasSuffix(m.Name, "_ms") || m.Name == "output_throughput" {
					put(metric(class + "_" + m.Name))
				}
			}
		}
	}
	return out
}

func (s *Summary) pageSheet(sheet *Sheet, list []pageMetric, configs map[string]int) pageSheet {
	p := pageSheet{Workload: sweep.Printable(sheet.Workload), SLO: sheet.SLO, Best: slices.Index(sheet.Rows, sheet.Best), Frontier: []pagePoint{}, Rows: []pageRow{}, Loads: []pageLoad{}}
	for _, l := range sheet.Loads {
		p.Loads = append(p.Loads, pageLoadOf(l, sheet.Loads))
	}
	chosen := make([]Metric, len(list))
	for i, m := range list {
		chosen[i] = metric(m.Key)
	}
	place := map[*Square][2]int{}
	for i, row := range sheet.Rows {
		pr := pageRow{Config: configs[row.Config.Key], Best: slices.Index(row.Squares, row.Best), Unfit: row.Unfit}
		for k, q := range row.Squares {
			place[q] = [2]int{i, k}
			sq := pageSquare{Meets: sheet.meets(q), Died: slices.ContainsFunc(q.Records, sawDeath), Skipped: len(q.Records) > 0 && squareTone(q) == soft, Words: q.failureWords()}
			if sq.Versus = sheet.changeText(q); sq.Versus == absent {
				sq.Versus = ""
			}
			for _, m := range chosen {
				if v, ok := q.Median(m); ok {
					if sq.Medians == nil {
						sq.Medians = map[string]float64{}
					}
					sq.Medians[sweep.Printable(m.Name)] = significant(v, 6)
				}
			}
			pr.Squares = append(pr.Squares, sq)
		}
		p.Rows = append(p.Rows, pr)
	}
	points, perGPU := s.paretoPoints(sheet)
	p.PerGPU = perGPU
	for _, pt := range points {
		at := place[pt.square]
		p.Frontier = append(p.Frontier, pagePoint{Row: at[0], Load: at[1], X: significant(pt.x, 6), Y: significant(pt.y, 6), On: pt.frontier, Ban: string(pt.ban), Why: pt.why})
	}
	for _, b := range bansInOrder() {
		if slices.ContainsFunc(points, func(pt paretoPoint) bool { return pt.ban == b }) {
			p.Bans = append(p.Bans, string(b))
		}
	}
	return p
}

// failureWords says how a cell's repeats failed: "OOM prefill (1/3)".
func (q *Square) failureWords() string {
	failed := q.Failed()
	var out []string
	for _, r := range failed {
		words := shortEnding(r)
		if n := countEnding(failed, words); n < q.Repeats {
			words += fmt.Sprintf(" (%d/%d)", n, q.Repeats)
		}
		out = add(out, words)
	}
	return strings.Join(out, ", ")
}

// significant keeps so many digits of a derived number, which saves room in the page.
func significant(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// addFigures adds the pictures that the page does not draw itself.
func (s *Summary) addFigures(d *pageData) error {
	left := mostFigures
	for _, p := range s.drawings() {
		if p.skip != "" || slices.ContainsFunc([]string{"throughput", "heatmap", "pareto"}, func(own string) bool { return strings.HasPrefix(p.Name, own) }) {
			continue
		}
		svg, err := s.renderSVG(p)
		if err != nil {
			return err
		}
		if left -= len(svg); left < 0 {
			return nil
		}
		d.Figures = append(d.Figures, pageFigure{Name: p.Name, Title: p.Title, SVG: string(svg), Table: s.figureTable(p)})
	}
	return nil
}
