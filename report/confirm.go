package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// ConfirmedFile is where a night keeps what became of its candidates when they were measured again.
const ConfirmedFile = "confirmed.json"

// Confirmation is what measuring the candidates again gave.
type Confirmation struct {
	Schema    int                `json:"schema"`
	At        time.Time          `json:"at"`
	Nights    []string           `json:"nights"` // names of the nights that it rests on
	Workloads []ConfirmedVerdict `json:"workloads"`
}

// ConfirmedVerdict is what became of one workload's candidate.
type ConfirmedVerdict struct {
	Workload  string   `json:"workload"`
	Config    string   `json:"config"`
	Load      string   `json:"load"`
	Confirmed bool     `json:"confirmed"`
	Repeats   int      `json:"repeats"`              // fresh starts that were measured
	Value     *float64 `json:"throughput,omitempty"` // output tokens a second, median over the fresh starts
	Low       *float64 `json:"throughput_low,omitempty"`
	High      *float64 `json:"throughput_high,omitempty"`
	First     *float64 `json:"first_throughput,omitempty"` // what the night itself had
	Soak      float64  `json:"soak_s,omitempty"`           // length of the window that it lived through
	Burst     int      `json:"burst,omitempty"`            // longest prompts at once that it lived through
	Why       []string `json:"why"`                        // sentences, those that count against it first
}

// Candidates are a night's configs that a confirmation measures: for each workload the best, those that tie with it, then
// the fastest that may be named best, as many as are asked for, and the baseline. loads are the best's of each workload.
func (s *Summary) Candidates(top int) (configs []string, loads []sweep.Load) {
	take := func(r *Row) {
		if r != nil && !slices.Contains(configs, r.Config.Key) {
			configs = append(configs, r.Config.Key)
		}
	}
	for _, sheet := range s.Sheets {
		if sheet.Best == nil {
			continue
		}
		loads = append(loads, sheet.Best.Best.Load)
		rows := []*Row{sheet.Best}
		rows = append(rows, sheet.Ties...)
		for _, r := range sheet.leading(len(sheet.Rows)) {
			if r.Unfit == "" && r.Best.trusted() && sheet.meets(r.Best) && r.Best.death() == "" && !slices.Contains(rows, r) && r != sheet.Baseline {
				rows = append(rows, r)
			}
		}
		for _, r := range rows[:min(top, len(rows))] {
			take(r)
		}
	}
	if len(loads) > 0 {
		for _, sheet := range s.Sheets {
			take(sheet.Baseline)
		}
	}
	return configs, loads
}

// BurstCount is how many of the longest prompts fill the KV pool of a workload's best config at once: at least 2, and never more than
// 64; 0 when nothing is known of the pool.
func (s *Summary) BurstCount(workload string) int {
	sheet := s.sheet(workload)
	if sheet == nil || sheet.Best == nil {
		return 0
	}
	kv, ok := sheet.Best.Best.Median(metric("kv_tokens"))
	longest := 0
	for _, w := range s.Night.Workloads {
		if w.Name == workload {
			for _, c := range w.Classes {
				longest = max(longest, c.Input.Max)
			}
		}
	}
	if !ok || longest == 0 {
		return 0
	}
	return min(64, max(2, int(math.Ceil(kv/float64(longest)))))
}

// Judge says what became of a night's candidates. again is the night in which they were measured again; soak may be nil.
func (s *Summary) Judge(again, soak *Summary, now time.Time) Confirmation {
	c := Confirmation{Schema: sweep.Schema, At: now, Nights: []string{again.Night.Name}, Workloads: []ConfirmedVerdict{}}
	if soak != nil {
		c.Nights = append(c.Nights, soak.Night.Name)
	}
	for _, sheet := range s.Sheets {
		if sheet.Best != nil {
			c.Workloads = append(c.Workloads, judge(sheet, again, soak))
		}
	}
	return c
}

func judge(sheet *Sheet, again, soak *Summary) ConfirmedVerdict {
	best := sheet.Best
	v := ConfirmedVerdict{Workload: sheet.Workload, Config: best.Config.Key, Load: best.Best.Load.String(), Confirmed: true}
	against := func(format string, args ...any) {
		v.Confirmed = false
		v.Why = append(v.Why, sweep.Printable(fmt.Sprintf(format, args...)))
	}
	say := func(format string, args ...any) { v.Why = append(v.Why, sweep.Printable(fmt.Sprintf(format, args...))) }
	if first, ok := best.Best.Median(throughput()); ok {
		v.First = &first
	}
	now := again.sheet(sheet.Workload)
	row := now.rowOf(v.Config)
	if row == nil || row.At(best.Best.Load) == nil {
		against("it was not measured again")
		return v
	}
	q := row.At(best.Best.Load)
	values := q.Values(throughput())
	v.Repeats = len(values)
	switch {
	case q.death() != "":
		against("it died: %s", q.failureWords())
	case len(values) < q.Repeats || len(values) < 2:
		against("only %d of %s gave a number: %s", len(values), plural(q.Repeats, "fresh start"), q.failureWords())
	default:
		median, _ := q.Median(throughput())
		v.Value = &median
		if e, ok := now.Noise.Of(values); ok {
			v.Low, v.High = &e.Lo, &e.Hi
		}
	}
	if met, known := q.MeetsSLO(); known && !met {
		against("it missed a service level")
	}
	judgeRivals(now, row, q, against, say)
	judgeSoak(&v, soak, best, against, say)
	judgeBurst(&v, again, best, against, say)
	if v.Value != nil && v.First != nil {
		say("the night itself had %s tok/s, the fresh starts %s (%s)", commas(*v.First, 0), commas(*v.Value, 0), percent(*v.Value / *v.First - 1))
	}
	return v
}

func (sheet *Sheet) rowOf(config string) *Row {
	if sheet == nil {
		return nil
	}
	i := slices.IndexFunc(sheet.Rows, func(r *Row) bool { return r.Config.Key == config })
	if i < 0 {
		return nil
	}
	return sheet.Rows[i]
}

// judgeRivals holds the candidate against the others at the same load.
func judgeRivals(now *Sheet, row *Row, q *Square, against, say func(string, ...any)) {
	var rows []*Row
	var family []Comparison
	for _, r := range now.Rows {
		other := r.At(q.Load)
		if r != row && other != nil && r.Config.Unacceptable == "" && len(other.whole()) > 1 {
			rows = append(rows, r)
			family = append(family, now.Noise.Compare(q.whole(), other.whole()))
		}
	}
	behind := 0
	var tied []string
	for i, v := range verdicts(family) {
		switch {
		case v.Known && v.Sure && v.Change < 0 && rows[i].At(q.Load).death() == "":
			against("%s was faster: it is behind by %s", rows[i].Config.Key, strings.TrimPrefix(percent(-v.Change), "+"))
		case v.Known && v.Sure:
			behind++
		case v.Known:
			tied = append(tied, rows[i].Config.Key)
		}
	}
	if len(rows) > 0 {
		text := fmt.Sprintf("of %s measured beside it %d %s slower", plural(len(rows), "config"), behind, isAre(behind))
		if len(tied) > 0 {
			text += fmt.Sprintf(", %d %s not told apart from it (%s)", len(tied), isAre(len(tied)), strings.Join(tied, "; "))
		}
		say("%s", text)
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func judgeSoak(v *ConfirmedVerdict, soak *Summary, best *Row, against, say func(string, ...any)) {
	if soak == nil {
		say("no soak was run")
		return
	}
	row := soak.sheet(v.Workload).rowOf(v.Config)
	if row == nil || row.At(best.Best.Load) == nil || len(row.At(best.Best.Load).Records) == 0 {
		against("the soak did not run it")
		return
	}
	q := row.At(best.Best.Load)
	if !q.Measured() {
		against("it did not live through the soak: %s", q.failureWords())
		return
	}
	r := q.Records[0]
	v.Soak = r.Values["window_s"]
	say("it lived through a soak of %s", (time.Duration(v.Soak * float64(time.Second))).Round(time.Second))
	if run := soak.Night.Runs[RunID{r.Cell, r.Repeat}]; run.Trend == SlowingDown {
		against("it became slower during the soak: %s from half to half", percent(run.Change))
	}
}

func judgeBurst(v *ConfirmedVerdict, again *Summary, best *Row, against, say func(string, ...any)) {
	sheet := again.sheet(sweep.Burst{Over: best.Best.Load}.Workload())
	row := sheet.rowOf(v.Config)
	if row == nil {
		say("no burst was run")
		return
	}
	for _, q := range row.Squares {
		if q.death() != "" || !q.Measured() {
			against("it did not live through the burst: %s", q.failureWords())
			return
		}
		if p := q.Load.Pools; len(p) > 0 {
			v.Burst = p[len(p)-1].Concurrency
		}
	}
	say("it lived through bursts of %d of the longest prompts at once", v.Burst)
}

// Write keeps a confirmation with its night.
func (c Confirmation) Write(night string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return writeFile(filepath.Join(night, ConfirmedFile), append(data, '\n'))
}

// readConfirmation reads what became of the candidates; nil when they were not measured again.
func (n *Night) readConfirmation() *Confirmation {
	data, err := os.ReadFile(filepath.Join(n.Dir, ConfirmedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c Confirmation
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		n.problem("%s: %v", ConfirmedFile, err)
		return nil
	}
	return &c
}

// verdict is what is known of a sheet's present best; nil when it was not measured again at its load.
func (c *Confirmation) verdict(sheet *Sheet) *ConfirmedVerdict {
	if c == nil || sheet.Best == nil {
		return nil
	}
	for i, v := range c.Workloads {
		if v.Workload == sheet.Workload && v.Config == sheet.Best.Config.Key && v.Load == sheet.Best.Best.Load.String() {
			return &c.Workloads[i]
		}
	}
	return nil
}

// words tell a verdict in a sentence or two.
func (v ConfirmedVerdict) words() string {
	line := "Not confirmed"
	if v.Confirmed {
		line = fmt.Sprintf("Confirmed by %s", plural(v.Repeats, "fresh start"))
		if v.Value != nil {
			line += fmt.Sprintf(" with other prompts: %s tok/s", commas(*v.Value, 0))
			if v.Low != nil && v.High != nil {
				line += fmt.Sprintf(" (95 %% %s–%s)", commas(*v.Low, 0), commas(*v.High, 0))
			}
		}
	}
	why := make([]string, len(v.Why))
	for i, w := range v.Why {
		why[i] = sweep.Printable(w)
	}
	return line + ": " + strings.Join(why, "; ") + "."
}

// Words tell a whole confirmation, one line for each workload.
func (c Confirmation) Words() []string {
	var lines []string
	for _, v := range c.Workloads {
		lines = append(lines, sweep.Printable(v.Workload+", "+v.Config+": ")+v.words())
	}
	return lines
}

// Confirmed reports whether every workload's candidate held.
func (c Confirmation) Confirmed() bool {
	return len(c.Workloads) > 0 && !slices.ContainsFunc(c.Workloads, func(v ConfirmedVerdict) bool { return !v.Confirmed })
}
