package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep/sweep"
)

// bestWord is what a sheet's winner is called. Of many noisy configs the one that came out on top was also lucky: until it has been
// measured again with fresh starts and fresh prompts it is a candidate.
func (sheet *Sheet) bestWord() string {
	if sheet.Confirmed {
		return "best"
	}
	return "candidate"
}

// verdictWords are what a sheet says of its best, in parts: a terminal shows them one after the other, the page each under its question.
type verdictWords struct {
	which   string // the best, with its throughput and its load
	against string // the baseline, at the same load
	gain    string // where that comes from
	made    string // that the server was none: its numbers are of no hardware
	sure    string // repeats and interval
	again   string // what a confirmation said
	ties    string
	noise   string
	doubt   string // what speaks against the number itself
	edge    string // where memory ran out
}

// verdict says what the sheet shows, and how sure that is.
func (s *Summary) verdict(sheet *Sheet) verdictWords {
	if sheet.Best == nil {
		return verdictWords{which: s.noBest(sheet), made: s.simulatedLine(sheet), edge: s.edgeLine(sheet)}
	}
	q := sheet.Best.Best
	values := q.Values(throughput())
	v, _ := q.Median(throughput())
	decimals := throughput().decimals([]float64{v})
	word := strings.ToUpper(sheet.bestWord()[:1]) + sheet.bestWord()[1:]
	if len(values) == 1 && !sheet.Confirmed {
		word = "Best measured"
	}
	out := verdictWords{made: s.simulatedLine(sheet), against: sheet.againstWords(q), gain: s.gainLine(sheet), doubt: s.doubtLine(sheet), edge: s.edgeLine(sheet)}
	out.which = fmt.Sprintf("%s: %s tok/s with %s: %s", word, commas(v, decimals), loadWords(q.Load), s.Night.names().title(sheet.Best.Config))
	if sheet.Best == sheet.Baseline {
		out.which += " (the baseline)"
	}
	if sheet.Again != nil {
		out.again = sheet.Again.words()
	}
	switch {
	case len(values) == 1 && s.Night.Repeats > 1:
		out.sure = "1 repeat so far: no noise estimate"
	case len(values) == 1:
		out.sure = "1 repeat: no noise estimate"
	default:
		out.sure = fmt.Sprintf("Median of %d repeats", len(values))
		if e, ok := sheet.Noise.Of(values); ok {
			out.sure += fmt.Sprintf("; with 95 %% confidence %s–%s", commas(e.Lo, decimals), commas(e.Hi, decimals))
		}
		out.ties, out.noise = s.tieLine(sheet), sheet.noiseLine(s.Night.Repeats)
	}
	return out
}

// headline is the verdict in paragraphs.
func (s *Summary) headline(sheet *Sheet) []string {
	v := s.verdict(sheet)
	if sheet.Best == nil {
		return []string{v.which, v.made, v.edge}
	}
	line := v.which + "."
	if v.against != "" {
		line += " " + v.against + "."
	}
	return []string{line + " " + v.sure + ".", v.made, v.again, v.ties, v.gain, v.noise, v.doubt, v.edge}
}

// simulatedLine says of a workload that its servers were simulated, and how many times as fast as the clock; "" where none was.
func (s *Summary) simulatedLine(sheet *Sheet) string {
	var speeds []string
	some, real := false, false
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			for _, r := range q.Records {
				i := slices.IndexFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, "simulated") })
				if i < 0 {
					real = real || withheld(r) == ""
					continue
				}
				some = true
				if _, speed, ok := strings.Cut(r.Notes[i], "×"); ok {
					speeds = add(speeds, sweep.Printable(speed))
				}
			}
		}
	}
	if !some {
		return ""
	}
	line, whose := "The server was simulated", "its"
	if real {
		line, whose = "Some of the servers were simulated", "their"
	}
	if len(speeds) > 0 {
		line += ", speed-up " + strings.Join(speeds, ", ")
	}
	return line + ": " + whose + " numbers say nothing of real hardware."
}

// doubtLine says what speaks against the best's own number, which the table can only mark.
func (s *Summary) doubtLine(sheet *Sheet) string {
	notes := &footnotes{}
	s.quality(sheet.Best.Best, notes)
	texts := notes.texts()
	trend := s.trendWords(sheet.Best.Best)
	if trend != "" {
		texts = append(texts, trend)
	}
	if len(texts) == 0 {
		return ""
	}
	return "A doubt about its number: " + strings.Join(texts, "; ") + "."
}

// baselineWords name the baseline and what it gave at the load of the best.
func (s *Summary) baselineWords(sheet *Sheet) string {
	words := s.Night.names().title(sheet.Baseline.Config)
	if v, ok := sheet.Baseline.At(sheet.Best.Best.Load).Median(throughput()); ok {
		words += fmt.Sprintf(", %s tok/s", commas(v, throughput().decimals([]float64{v})))
	}
	return " (" + words + ")"
}

// nextBest names the fastest of the others that may be named best, each at its best load.
func (s *Summary) nextBest(sheet *Sheet) string {
	if sheet.Best == nil {
		return ""
	}
	best, _ := sheet.Best.Best.Median(throughput())
	var next *Row
	most := 0.0
	for _, row := range sheet.Rows {
		if row == sheet.Best || row.Best == nil || row.Unfit != "" || !sheet.meets(row.Best) || !row.Best.trusted() {
			continue
		}
		if v, ok := row.Best.Median(throughput()); ok && v > most {
			next, most = row, v
		}
	}
	if next == nil {
		return ""
	}
	line := fmt.Sprintf("Next comes %s with %s tok/s at %s, %s", s.Night.names().title(next.Config), commas(most, throughput().decimals([]float64{most})), loadWords(next.Best.Load), percent(most/best-1))
	if math.Abs(most/best-1) < PracticalThreshold {
		line += ": less than 1 %, a difference that decides nothing"
	}
	return line
}

// againstWords compare a square with the baseline at the same load, as far as the repeats allow.
func (sheet *Sheet) againstWords(q *Square) string {
	v := sheet.AgainstBase(q)
	switch {
	case v.Known && v.Sure:
		return changeWords(v.Change, v.Interval) + " against the baseline at the same load"
	case v.Known:
		return "Not told apart from the baseline at the same load (~): " + changeWords(v.Change, v.Interval)
	}
	if change, ok := sheet.Change(q); ok {
		return percent(change) + " against the baseline at the same load"
	}
	return ""
}

// changeWords is a change with its interval: "+14.0 % (+12.1 to +15.9)".
func changeWords(change float64, in Interval) string {
	if math.IsInf(in.Lo, 0) || math.IsInf(in.Hi, 0) {
		return percent(change)
	}
	return fmt.Sprintf("%s (%s to %s)", percent(change), strings.TrimSuffix(percent(in.Lo), " %"), strings.TrimSuffix(percent(in.Hi), " %"))
}

// tieLine names the configs that may be as good as the best.
func (s *Summary) tieLine(sheet *Sheet) string {
	compared := 0
	for _, row := range sheet.Rows {
		if sheet.FromBest(row).Known {
			compared++
		}
	}
	switch {
	case compared == 0:
		return ""
	case len(sheet.Ties) == 0:
		return "No other config ties with it."
	}
	var list []string
	for _, r := range sheet.Ties {
		list = append(list, s.Night.names().title(r.Config))
	}
	return "Not told apart from it (~): " + strings.Join(list, "; ") + "."
}

// noiseLine says below what a difference is noise.
func (sheet *Sheet) noiseLine(repeats int) string {
	floor := sheet.Noise.Floor(repeats)
	if floor == 0 {
		return ""
	}
	line := fmt.Sprintf("Differences below %s are noise here: fresh starts of one config vary by %s (%s with repeats).",
		strings.TrimPrefix(percent(max(floor, PracticalThreshold)), "+"), strings.TrimPrefix(percent(sheet.Noise.SD), "+"), plural(sheet.Noise.Cells, "cell"))
	if sheet.Noise.Apart > 0 {
		line += fmt.Sprintf(" %s by more than three times as much: what concerns them is judged by their own spread.", pluralVerb(sheet.Noise.Apart, "cell", "varies", "vary"))
	}
	return line
}

// pluralVerb is a count with its noun and verb: "1 cell varies", "3 cells vary".
func pluralVerb(n int, noun, one, many string) string {
	if n == 1 {
		return plural(n, noun) + " " + one
	}
	return plural(n, noun) + " " + many
}

// gainLine says where the best's advantage comes from.
func (s *Summary) gainLine(sheet *Sheet) string {
	g := sheet.Gain
	if g == nil {
		return ""
	}
	var parts []string
	for _, a := range g.Axes {
		parts = append(parts, fmt.Sprintf("%s %s → %s %s", sweep.Printable(a.Axis), sweep.Printable(a.From), sweep.Printable(a.To), a.words()))
	}
	if g.OtherLoad {
		if g.Unknown == "" {
			parts = append(parts, fmt.Sprintf("another load, %s → %s, %s", poolLabel(g.From), inFlight(g.To), g.Load.words()))
		} else if g.Load != (Effect{}) {
			parts = append(parts, fmt.Sprintf("all settings together %s, another load, %s → %s, %s", g.Equal.words(), poolLabel(g.From), inFlight(g.To), g.Load.words()))
		}
	}
	if len(parts) == 0 || len(parts) == 1 && !g.OtherLoad {
		if g.Unknown != "" && g.OtherLoad {
			return fmt.Sprintf("%s against the baseline's own best, at %s; how much of that the other load is, is not known: %s.", g.Total.words(), poolLabel(g.From), g.Unknown)
		}
		return ""
	}
	line := fmt.Sprintf("Of %s against the baseline", g.Total.words())
	if g.OtherLoad {
		line += fmt.Sprintf("'s own best (at %s)", poolLabel(g.From))
	}
	return line + ": " + strings.Join(parts, "; ") + "."
}

// words is an effect for a sentence: "+12.1 %", or "~ (+0.3 %)" where it is no more than noise.
func (e Effect) words() string {
	if e.Known && !e.Sure {
		return "~ (" + percent(e.Change) + ")"
	}
	return percent(e.Change)
}

func (s *Summary) noBest(sheet *Sheet) string {
	measured, met, judged := 0, 0, 0
	for _, row := range sheet.Rows {
		if row.Best == nil {
			continue
		}
		measured++
		ok, known := row.Best.MeetsSLO()
		if ok {
			met++
		}
		if known {
			judged++
		}
	}
	switch {
	case measured == 0:
		return "No config can be named best: nothing has been measured."
	case sheet.SLO && judged == 0:
		return "No config can be named best: no load had enough requests to judge the service levels."
	case sheet.SLO && met == 0:
		return "No config can be named best: no load met the service levels."
	}
	return "No config can be named best: each one that was measured died under some load, missed a service level, or is not acceptable or not trusted."
}
