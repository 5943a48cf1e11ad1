package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep/sweep"
)

// mostRefusals is how many sentences of a preflight the edge tells; the rest is in the tables.
const mostRefusals = 2

// edgeLine says where a workload's memory ran out: the largest value of the axis that sets the pool which served every load, the
// smallest that died, and what was refused before its start.
func (s *Summary) edgeLine(sheet *Sheet) string {
	var parts []string
	if line := s.ranOut(sheet); line != "" {
		parts = append(parts, line)
	}
	var refused []string
	for _, row := range sheet.Rows {
		for _, q := range row.Squares {
			for _, r := range q.Records {
				if r.Outcome == sweep.SkippedPreflight && r.Detail != "" {
					refused = add(refused, sweep.Printable(strings.TrimSuffix(r.Detail, ".")))
				}
			}
		}
	}
	for _, why := range refused[:min(len(refused), mostRefusals)] {
		parts = append(parts, "Refused before its start: "+why+".")
	}
	return strings.Join(parts, " ")
}

// ranOut is the edge along the axis that sets the pool; without one, or without its numbers, the first config that died of memory.
func (s *Summary) ranOut(sheet *Sheet) string {
	e, ok := s.edge()
	if !ok {
		for _, row := range sheet.Rows {
			if q, r, ok := firstDeath(row); ok && ofMemory(r.Outcome) {
				return fmt.Sprintf("The edge: %s %s.", s.Night.names().title(row.Config), deathWords(q, r, math.NaN()))
			}
		}
		return ""
	}
	lived, least := e.largestServed(sheet)
	dead, deathOf := e.smallestDead(sheet, lived)
	axis := sweep.Printable(e.Axis)
	switch {
	case deathOf == "" && lived.tick == "":
		return ""
	case deathOf == "":
		line := fmt.Sprintf("The edge was not reached: %s %s, the largest that was tried, served every load of this workload", axis, sweep.Printable(lived.tick))
		if !math.IsNaN(least) {
			line += fmt.Sprintf(", with %s GiB of device memory left at least", commas(least, 2))
		}
		return line + "."
	case lived.tick == "":
		return fmt.Sprintf("No %s served every load: the smallest that died, %s, %s.", axis, sweep.Printable(dead.tick), deathOf)
	}
	return fmt.Sprintf("The edge lies between %s %s, which served every load, and %s, which %s.", axis, sweep.Printable(lived.tick), sweep.Printable(dead.tick), deathOf)
}

// largestServed is the largest value at which every config that was started served every load, with the least room that was left
// there; its tick is "" where there is none.
func (e Edge) largestServed(sheet *Sheet) (lived edgePoint, least float64) {
	rows := sheet.byConfig()
	failed, served := map[float64]bool{}, map[float64]bool{}
	for _, p := range e.points {
		row := rows[p.config.Key]
		if row == nil {
			continue
		}
		_, _, dead := firstDeath(row)
		waits := slices.ContainsFunc(row.Squares, func(q *Square) bool { return len(q.Records) == 0 })
		failed[p.x] = failed[p.x] || dead || waits
		served[p.x] = served[p.x] || row.Best != nil
	}
	lived, least = edgePoint{x: math.Inf(-1)}, math.NaN()
	for _, p := range e.points {
		if !served[p.x] || failed[p.x] || p.x < lived.x {
			continue
		}
		if p.x > lived.x {
			least = math.NaN()
		}
		lived = p
		if !math.IsNaN(p.least) && !(p.least >= least) {
			least = p.least
		}
	}
	return lived, least
}

// smallestDead is the smallest value above another at which a config died, and how; words are "" where none did.
func (e Edge) smallestDead(sheet *Sheet, above edgePoint) (dead edgePoint, words string) {
	rows := sheet.byConfig()
	dead = edgePoint{x: math.Inf(1)}
	for _, p := range e.points {
		row := rows[p.config.Key]
		if row == nil || p.x <= above.x || p.x >= dead.x {
			continue
		}
		if q, r, ok := firstDeath(row); ok {
			dead, words = p, deathWords(q, r, p.start)
		}
	}
	return dead, words
}

func (sheet *Sheet) byConfig() map[string]*Row {
	rows := make(map[string]*Row, len(sheet.Rows))
	for _, row := range sheet.Rows {
		rows[row.Config.Key] = row
	}
	return rows
}

// firstDeath is a row's death at the lowest load.
func firstDeath(row *Row) (*Square, sweep.Record, bool) {
	for _, q := range row.Squares {
		for _, r := range q.Records {
			if sawDeath(r) {
				return q, r, true
			}
		}
	}
	return nil, sweep.Record{}, false
}

// ofMemory reports an end for lack of memory.
func ofMemory(o sweep.Outcome) bool {
	switch o.Family() {
	case "oom", "kv", "host":
		return true
	}
	return false
}

// deathWords say how a config died, at which load, and how much room it had begun with.
func deathWords(q *Square, r sweep.Record, room float64) string {
	text := "died (" + shortEnding(r) + ")"
	switch r.Outcome.Family() {
	case "oom":
		text = "ran out of device memory (" + shortEnding(r) + ")"
	case "host":
		text = "ran out of host memory (" + shortEnding(r) + ")"
	}
	if underLoad(r) {
		text += " with " + loadWords(q.Load)
	}
	if !math.IsNaN(room) {
		text += fmt.Sprintf("; when it was ready, %s GiB of device memory were left", commas(room, 2))
	}
	return text
}
