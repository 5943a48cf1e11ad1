package engine

import (
	"math"
	"strconv"
	"strings"

	"sweep/sweep"
)

// folded is one fact of several ranks and lines.
type folded struct {
	byRank map[string]float64
	final  bool
	told   float64
	said   bool
}

func (r *reader) facts(s said, rank string, at sweep.Evidence) {
	for _, n := range r.grammar.numbers {
		if !strings.Contains(s.message, n.has) {
			continue
		}
		m := n.find.FindStringSubmatch(s.message)
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		if err != nil {
			continue
		}
		if n.scale != 0 {
			v *= n.scale
		}
		f := r.numbers[n.name]
		if f == nil {
			f = &folded{byRank: map[string]float64{}}
			r.numbers[n.name] = f
		}
		if f.take(n, rank, v) {
			r.emit(sweep.LogEvent{Kind: sweep.LogFact, Name: n.name, Value: f.told, Rank: rank, Clock: s.clock}, at)
		}
	}
}

// take adds a number and reports whether the fact has changed.
func (f *folded) take(n number, rank string, v float64) bool {
	if f.final && !n.final {
		return false
	}
	if n.final && !f.final {
		clear(f.byRank)
		f.final = true
	}
	old, known := f.byRank[rank]
	if !known && len(f.byRank) >= maxRanks {
		return false
	}
	switch {
	case n.fold == foldMax && known:
		v = max(v, old)
	case n.fold == foldSum:
		v = math.Round((v+old)*1e6) / 1e6 // as exact as the lines are
	}
	f.byRank[rank] = v
	for _, x := range f.byRank {
		if n.fold == foldMin {
			v = min(v, x)
		} else {
			v = max(v, x)
		}
	}
	changed := !f.said || v != f.told
	f.told, f.said = v, true
	return changed
}

func (r *reader) notes(s said, at sweep.Evidence) {
	for _, n := range r.grammar.notes {
		if !strings.Contains(s.message, n.has) || n.unless != "" && strings.Contains(s.message, n.unless) {
			continue
		}
		text := n.text
		if n.find != nil {
			m := n.find.FindStringSubmatchIndex(s.message)
			if m == nil {
				continue
			}
			text = cut(string(n.find.ExpandString(nil, text, s.message, m)), 300)
		}
		if !r.noted[n.text] { // one note for each kind: ranks and repetitions say nothing new
			r.noted[n.text] = true
			r.emit(sweep.LogEvent{Kind: sweep.LogNote, Name: n.mark, Text: text, Rank: s.rank, Clock: s.clock}, at)
		}
	}
}
