package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// shortOutcome is an outcome in the few words that fit a table's cell.
func shortOutcome(o sweep.Outcome) string {
	words := map[sweep.Outcome]string{
		sweep.OK:         "ok",
		sweep.OOMWeights: "OOM weights", sweep.OOMKV: "OOM KV pool", sweep.OOMGraph: "OOM graphs",
		sweep.OOMWarmup: "OOM warm-up", sweep.OOMPrefill: "OOM prefill", sweep.OOMDecode: "OOM decode",
		sweep.KVTooSmall: "KV pool too small", sweep.KVExhausted: "KV pool exhausted",
		sweep.HostShort: "host memory short", sweep.HostKilled: "killed for host memory",
		sweep.BadFlag: "bad flag", sweep.BadModel: "bad model", sweep.BadGPU: "GPU not supported",
		sweep.BusyGPU: "GPU busy", sweep.BusyPort: "port busy",
		sweep.HangStart: "hang at start", sweep.HangLoad: "hang", sweep.SlowStart: "start too slow",
		sweep.CrashStart: "crash at start", sweep.CrashLoad: "crash",
		sweep.LoadFailed: "requests failed", sweep.LoadRejected: "requests rejected", sweep.ClientBound: "client-bound",
		sweep.InfraSSH: "ssh failed", sweep.InfraDisk: "disk failed", sweep.InfraLost: "agent lost", sweep.InfraGPU: "GPU failed",
		sweep.SkippedPreflight: "skipped", sweep.SkippedImplied: "skipped", sweep.SkippedDeadline: "skipped: out of time",
		sweep.SkippedBreaker: "skipped: failures in a row", sweep.Aborted: "aborted",
	}
	if w, ok := words[o]; ok {
		return w
	}
	if o == "" {
		return "no verdict"
	}
	return sweep.Printable(string(o))
}

// shortEnding is how a record ended, in the few words that fit a table's cell.
func shortEnding(r sweep.Record) string {
	word := shortOutcome(r.Outcome)
	switch {
	case r.Outcome == sweep.SkippedPreflight:
		if sum := arithmetic(r.Detail); sum != "" {
			return word + ": " + sum
		}
		return word + ": preflight"
	case r.Outcome == sweep.SkippedImplied:
		return "implied"
	case r.Cause != "" && r.Cause != "unknown" && r.Outcome.Family() == "crash":
		return word + " (" + sweep.Printable(r.Cause) + ")"
	case r.Outcome == sweep.OK && withheld(r) != "":
		return "withheld: " + sweep.Printable(strings.TrimLeft(strings.TrimPrefix(withheld(r), "withheld"), ": "))
	}
	return word
}

// underLoad reports an end that a load brought about, so that its level belongs to the words.
func underLoad(r sweep.Record) bool {
	switch r.Outcome.Family() {
	case "load", "client", "ok":
		return true
	}
	return r.Phase == sweep.PhaseLoad
}

// unanswered reports a record without a number that is no failure seen in its config: not run, stopped from
// outside, withheld, or lost by the machine or by us.
func unanswered(r sweep.Record) bool { return !died(r.Outcome) || r.Outcome.Family() == "skipped" }

var (
	product = regexp.MustCompile(`([\d,]+)(?: \w+)? ?[×x*] ?([\d,.]+) ?(GB|GiB|TB|TiB)`)
	amount  = regexp.MustCompile(`([\d,]*\d(?:\.\d+)?) ?(GB|GiB|TB|TiB)\b`)
	part    = regexp.MustCompile(`([\d,]*\d(?:\.\d+)?) ?(?:GB|GiB|TB|TiB) of ([\d,]*\d(?:\.\d+)?) ?(?:GB|GiB|TB|TiB)\b`)
)

// arithmetic finds the sum in a preflight's sentence: "8 ranks × 300 GB = 2,400 GB of host memory, but only
// 430 GB of 449 GB are free" becomes "8 × 300 GB > 449 GB". It is "" unless exactly one amount of the same
// unit is left beside the factors and what is only a part of it, and is smaller than their product: nothing is guessed.
func arithmetic(sentence string) string {
	m := product.FindStringSubmatch(sentence)
	if m == nil {
		return ""
	}
	n, err1 := number(m[1])
	each, err2 := number(m[2])
	if err1 != nil || err2 != nil {
		return ""
	}
	parts := map[string]bool{}
	for _, p := range part.FindAllStringSubmatch(sentence, -1) {
		parts[p[1]] = true
	}
	var left []string
	for _, a := range amount.FindAllStringSubmatch(sentence, -1) {
		v, err := number(a[1])
		if err != nil || a[2] != m[3] || v == each || v == n*each || parts[a[1]] && v < n*each {
			continue
		}
		if !slices.Contains(left, a[1]) {
			left = append(left, a[1])
		}
	}
	if len(left) != 1 {
		return ""
	}
	if v, err := number(left[0]); err != nil || v >= n*each {
		return ""
	}
	return fmt.Sprintf("%s × %s %s > %s %s", m[1], m[2], m[3], left[0], m[3])
}

func number(s string) (float64, error) {
	return strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
}

// longestQuote is how much of a line of evidence a footnote quotes, in bytes: the page has the line with those around it.
const longestQuote = 100

// quote cuts a line between words.
func quote(line string) string {
	line = strings.TrimSpace(line)
	if len(line) <= longestQuote {
		return line
	}
	cut := strings.ToValidUTF8(line[:longestQuote], "")
	if i := strings.LastIndexByte(cut, ' '); i > longestQuote/2 {
		cut = cut[:i]
	}
	return cut + " …"
}

// reason explains a record's end, for a footnote.
func reason(r sweep.Record) string {
	var b strings.Builder
	b.WriteString(string(r.Outcome))
	if r.Phase != "" {
		fmt.Fprintf(&b, " in phase %s", r.Phase)
	}
	if r.Cause != "" {
		fmt.Fprintf(&b, ", cause %s", r.Cause)
	}
	if r.ImpliedBy != "" {
		fmt.Fprintf(&b, ", implied by %s", r.ImpliedBy)
	}
	if r.Detail != "" {
		b.WriteString(": " + r.Detail)
	}
	if e := r.Evidence; e != nil && e.Text != "" {
		fmt.Fprintf(&b, " — “%s”", quote(e.Text))
		if e.File != "" {
			fmt.Fprintf(&b, " (%s:%d)", e.File, e.Line)
		}
	} else if answeredOnly(r) {
		b.WriteString(" — " + noLine)
	}
	return sweep.Printable(b.String())
}

// answeredOnly reports an end that stands on answers of a server that lived, with no line kept as evidence: records of earlier versions
// have the answer in their detail alone.
func answeredOnly(r sweep.Record) bool {
	switch r.Outcome {
	case sweep.LoadRejected, sweep.LoadFailed, sweep.KVTooSmall:
		return r.Evidence == nil && r.Exit == nil && r.Phase == sweep.PhaseLoad && r.Detail != ""
	}
	return false
}

// noLine is said where a reader looks for the line of evidence and there is none.
const noLine = "seen by the client: the server lived, and no line of its log was kept for it"

// signed is a difference with its sign; what rounds to zero has none.
func signed(v float64, decimals int) string {
	text := commas(math.Abs(v), decimals)
	switch {
	case strings.Trim(text, "0.,") == "":
		return text
	case v < 0:
		return "−" + text
	}
	return "+" + text
}

// loadLabel names a load among those of its sheet: the total where that is enough, else the pools.
func loadLabel(load sweep.Load, among []sweep.Load) string {
	same := 0
	for _, l := range among {
		if l.Level() == load.Level() {
			same++
		}
	}
	if same < 2 {
		return load.LevelText()
	}
	return poolLabel(load)
}

// levelName names the levels of loads: requests in flight, or planned a second. Those of one workload are all closed or all open; of several
// it names both.
func levelName(loads []sweep.Load) string {
	switch open, closed := kinds(loads); {
	case open && closed:
		return "requests in flight or planned a second"
	case open:
		return "requests planned a second"
	}
	return "requests in flight"
}

// kinds says which kinds of loads there are.
func kinds(loads []sweep.Load) (open, closed bool) {
	for _, l := range loads {
		open, closed = open || l.Open(), closed || !l.Open()
	}
	return open, closed
}

// levelTitle names the axis of the levels.
func levelTitle(loads []sweep.Load) string { return "R" + levelName(loads)[1:] }

// levelHead heads a column of levels.
func levelHead(loads []sweep.Load) [2]string {
	switch open, closed := kinds(loads); {
	case open && closed:
		return [2]string{"load"}
	case open:
		return [2]string{"planned", "a second"}
	}
	return [2]string{"in", "flight"}
}

// levelWords is a load among others in a sentence: "64 in flight", "2.5/s".
func levelWords(load sweep.Load, among []sweep.Load) string {
	if load.Open() {
		return loadLabel(load, among)
	}
	return loadLabel(load, among) + " in flight"
}

// inFlight is a load in a sentence: "short 150 + long 32 in flight", or "2.5/s planned".
func inFlight(load sweep.Load) string {
	if load.Open() {
		return poolLabel(load) + " planned"
	}
	return poolLabel(load) + " in flight"
}

// poolLabel names each pool: "short 150 + long 32".
func poolLabel(load sweep.Load) string {
	if len(load.Pools) == 1 {
		return load.Pools[0].Text()
	}
	parts := make([]string, len(load.Pools))
	for i, p := range load.Pools {
		parts[i] = sweep.Printable(p.Class) + " " + p.Text()
	}
	return strings.Join(parts, " + ")
}

// loadWords says a load in a sentence: "150 short + 32 long requests in flight".
func loadWords(load sweep.Load) string {
	if load.Open() {
		return poolLabel(load) + " planned"
	}
	if len(load.Pools) == 1 {
		return plural(load.Pools[0].Concurrency, "request") + " in flight"
	}
	parts := make([]string, len(load.Pools))
	for i, p := range load.Pools {
		parts[i] = fmt.Sprintf("%d %s", p.Concurrency, sweep.Printable(p.Class))
	}
	return strings.Join(parts, " + ") + " requests in flight"
}

// commas formats with a separator at the thousands: 12345.6 with one decimal is "12,345.6".
func commas(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no minus zero
	}
	digits, fraction, has := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if has {
		digits += "." + fraction
	}
	return sign + digits
}

// decimals is how many the metric's values get, the same in a whole column so that they line up.
func (m Metric) decimals(values []float64) int {
	if !m.Scales || len(values) == 0 {
		return m.Decimals
	}
	switch top := slices.Max(values); {
	case top == 0:
		return m.Decimals
	case top < 10:
		return m.Decimals + 2
	case top < 100:
		return m.Decimals + 1
	}
	return m.Decimals
}

// percent writes a change with its sign: 0.254 is "+25.4 %".
func percent(change float64) string {
	s := commas(change*100, 1) + " %"
	if change >= 0 || s == "0.0 %" {
		return "+" + s
	}
	return "−" + strings.TrimPrefix(s, "-")
}

// plural gives a count with its noun: "1 repeat", "3 repeats".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
