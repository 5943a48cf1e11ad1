package engine

import (
	"strconv"
	"strings"

	"sweep/sweep"
)

// maxBar is how much of a line is looked at for a bar: what is longer is none.
const maxBar = 2000

// barText is a progress bar as tqdm draws it: "label:  25%|██▌  | 1/4 [00:01<00:03,  1.20it/s]".
type barText struct {
	label, done, total string
	rate, unit         string // empty in a bar that does not know its rate yet
	end                int    // where the line goes on behind the bar
}

// parseBar reads a bar by hand: a start of a server draws hundreds of them.
func parseBar(line string) (b barText, ok bool) {
	line = line[:min(len(line), maxBar)]
	percent := strings.IndexByte(line, '%')
	if percent < 0 {
		return b, false
	}
	before, share := cutDigits(line[:percent])
	label := strings.TrimRight(before, " \t")
	if share == "" || before != "" && label == before || strings.Contains(label, "|") {
		return b, false
	}
	open := strings.IndexByte(line[percent:], '[') + percent
	if open < percent+2 || isDigit(line[percent+1]) {
		return b, false
	}
	count, spaced := strings.CutSuffix(line[percent+1:open], " ")
	count, b.total = cutDigits(count)
	count, slash := strings.CutSuffix(count, "/")
	if _, b.done = cutDigits(count); !spaced || !slash || b.done == "" || b.total == "" {
		return b, false
	}
	times, _, closed := strings.Cut(line[open+1:], "]")
	if !closed {
		return b, false
	}
	b.label, b.end = strings.TrimSuffix(label, ":"), open+1+len(times)+1
	if _, behind, ok := strings.Cut(times, ","); ok {
		behind = strings.TrimLeft(behind, " \t")
		for _, unit := range []string{"it/s", "s/it"} {
			if rate, _, ok := strings.Cut(behind, unit); ok && rate != "" && strings.Trim(rate, "0123456789.?") == "" {
				b.rate, b.unit = rate, unit
				break
			}
		}
	}
	return b, true
}

// cutDigits cuts the digits off at the end of a text.
func cutDigits(s string) (before, digits string) {
	i := len(s)
	for i > 0 && isDigit(s[i-1]) {
		i--
	}
	return s[:i], s[i:]
}

// bar reads a progress bar, and returns what stands behind it.
func (r *reader) bar(line string, at sweep.Evidence) (e sweep.LogEvent, behind string, ok bool) {
	b, ok := parseBar(line)
	if !ok {
		return e, "", false
	}
	done, _ := strconv.ParseFloat(b.done, 64)
	total, _ := strconv.ParseFloat(b.total, 64)
	work := r.grammar.work(r.grammar.lead(b.label).message)
	r.begin(work.phase, at)
	phase := r.furthest()
	if work.text == "" {
		work.text = string(phase)
	}
	text := work.text + " " + b.done + "/" + b.total
	if rate, err := strconv.ParseFloat(b.rate, 64); err == nil && rate > 0 {
		if b.unit == "s/it" {
			rate = 1 / rate
		}
		text += " · " + strconv.FormatFloat(rate, 'f', 1, 64) + "/s"
	}
	e = sweep.LogEvent{Kind: sweep.LogProgress, Phase: phase, Text: cut(text, 100)}
	if total > 0 {
		e.Value = done / total
	}
	return e, strings.TrimSpace(line[b.end:]), true
}

// work is what a bar counts, by its label; nothing for a bar without one.
func (g *grammar) work(label string) bar {
	for _, b := range g.bars {
		if strings.Contains(label, b.label) {
			return b
		}
	}
	return bar{text: strings.TrimSpace(label)}
}

// begin notes that a phase has begun, when only a bar of one process says so.
func (r *reader) begin(phase sweep.Phase, at sweep.Evidence) {
	if phase != "" && r.furthest().Before(phase) {
		r.phases[""] = phase
		r.emit(sweep.LogEvent{Kind: sweep.LogPhase, Phase: phase}, at)
	}
}

func (r *reader) furthest() sweep.Phase {
	far := sweep.PhaseLaunch
	for _, p := range r.phases {
		if far.Before(p) {
			far = p
		}
	}
	return far
}
