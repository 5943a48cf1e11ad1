package engine

import (
	"regexp"
	"strconv"
	"strings"

	"sweep/sweep"
)

var barLine = regexp.MustCompile(`^(?:([^|%]*?):?\s+)?(\d+)%[^\d][^\[]*?(\d+)/(\d+) \[(?:[^\],]*,\s*([\d.?]+)(it/s|s/it))?[^\]]*\]`)

// bar reads a progress bar, and returns what stands behind it.
func (r *reader) bar(line string, at sweep.Evidence) (e sweep.LogEvent, behind string, ok bool) {
	m := barLine.FindStringSubmatchIndex(line[:min(len(line), 2000)])
	if m == nil {
		return e, "", false
	}
	group := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return line[m[2*i]:m[2*i+1]]
	}
	done, _ := strconv.ParseFloat(group(3), 64)
	total, _ := strconv.ParseFloat(group(4), 64)
	work := r.grammar.work(r.grammar.lead(group(1)).message)
	r.begin(work.phase, at)
	phase := r.furthest()
	if work.text == "" {
		work.text = string(phase)
	}
	text := work.text + " " + group(3) + "/" + group(4)
	if rate, err := strconv.ParseFloat(group(5), 64); err == nil && rate > 0 {
		if group(6) == "s/it" {
			rate = 1 / rate
		}
		text += " · " + strconv.FormatFloat(rate, 'f', 1, 64) + "/s"
	}
	e = sweep.LogEvent{Kind: sweep.LogProgress, Phase: phase, Text: cut(text, 100)}
	if total > 0 {
		e.Value = done / total
	}
	return e, strings.TrimSpace(line[m[1]:]), true
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
