package report

import (
	"fmt"
	"slices"

	"sweep/sweep"
)

// died reports the outcomes that say that a config cannot be trusted with a load that was asked for.
// A machine's or our own failure, a stop from outside and what is left to run say nothing of it.
func died(o sweep.Outcome) bool {
	switch o.Family() {
	case "oom", "kv", "host", "bad", "hang", "slow", "crash", "load":
		return true
	}
	return o == sweep.SkippedPreflight
}

// rank picks each row's best load and each sheet's best config.
func (s *Summary) rank() {
	unfit := map[string]string{} // by config, over all sheets
	bans := map[string]ban{}
	for _, sheet := range s.Sheets {
		for _, row := range sheet.Rows {
			key := row.Config.Key
			if why := row.Config.Unacceptable; why != "" {
				unfit[key], bans[key] = "not acceptable: "+sweep.Printable(why), notAcceptable
			}
			for _, q := range row.Squares {
				if why := q.doubt(); why != "" && unfit[key] == "" {
					unfit[key], bans[key] = sweep.Printable(why), inDoubt
				}
				if why := q.death(); why != "" && unfit[key] == "" && !(s.Night.AcceptEdge && row.edge(q)) {
					unfit[key], bans[key] = fmt.Sprintf("%s in %s", why, sweep.Printable(sheet.Workload)), deathBan(q)
					if underLoad(q.deadRecord()) {
						unfit[key] += " @" + loadLabel(q.Load, sheet.Loads)
					}
				}
			}
		}
	}
	for _, sheet := range s.Sheets {
		sheet.SLO = s.Night.asksSLO(sheet.Workload)
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				_, known := q.MeetsSLO()
				sheet.SLO = sheet.SLO || known
			}
		}
		for _, row := range sheet.Rows {
			row.Unfit, row.ban = unfit[row.Config.Key], bans[row.Config.Key]
			row.Best = sheet.bestSquare(row.Squares)
		}
		sheet.Best = bestRow(sheet)
	}
}

// ban is the kind of reason for which a number is no offer, in the words of a legend; "" where it is one.
type ban string

const (
	diedBan       ban = "died under some load"
	refused       ban = "refused before some start"
	notAcceptable ban = "not acceptable"
	inDoubt       ban = "not trusted" // its answers, or what it ran with
	unusedCache   ban = "host cache not used"
)

// bansInOrder are the kinds as a legend lists them.
func bansInOrder() []ban { return []ban{diedBan, refused, notAcceptable, inDoubt, unusedCache} }

// deathBan is the kind of a square with a death.
func deathBan(q *Square) ban {
	if q.deadRecord().Outcome.Family() == "skipped" {
		return refused
	}
	return diedBan
}

// banned says why a row's number at a load is no offer: the kind, and in words which death or doubt it was.
func (r *Row) banned(q *Square) (kind ban, words string) {
	switch {
	case r.ban == notAcceptable:
		return r.ban, r.Unfit
	case r.Unfit != "":
		return r.ban, string(r.ban) + ": " + r.Unfit
	case q.death() != "":
		return deathBan(q), string(deathBan(q)) + ": " + q.death()
	case !q.trusted():
		return unusedCache, string(unusedCache) + " at this load"
	}
	return "", ""
}

// edge reports a death under load above a level at which the same config lived: where the grid accepts it, that is only where the
// edge lies.
func (r *Row) edge(dead *Square) bool {
	return underLoad(dead.deadRecord()) && slices.ContainsFunc(r.Squares, func(q *Square) bool {
		return dead.Load.Above(q.Load) && q.Measured() && q.death() == ""
	})
}

// death says in few words how a cell's config died, "" when it did not.
func (q *Square) death() string {
	if r := q.deadRecord(); r.Outcome != "" {
		return shortEnding(r)
	}
	return ""
}

// doubt says why the config of a square may not be trusted with any load, "" when it may: a server whose answers look
// wrong after its last load was no better before.
func (q *Square) doubt() string {
	for _, r := range q.Records {
		if why := doubtful(r); why != "" {
			return why
		}
	}
	return ""
}

// deadRecord is the first record in which the config died; its outcome is empty when there is none.
func (q *Square) deadRecord() sweep.Record {
	for _, r := range q.Records {
		if died(r.Outcome) {
			return r
		}
	}
	return sweep.Record{}
}

// trusted reports whether a square's number may name a winner.
func (q *Square) trusted() bool {
	return q.Measured() && !slices.ContainsFunc(q.Records, func(r sweep.Record) bool { return inert(r) != "" })
}

// meets reports whether a square may count where service levels were asked for.
func (sheet *Sheet) meets(q *Square) bool {
	met, _ := q.MeetsSLO()
	return met || !sheet.SLO
}

// bestSquare is the fastest square, among those that meet the service levels and in which no repeat died, where there are any.
func (sheet *Sheet) bestSquare(squares []*Square) *Square {
	var best *Square
	bestMet := false
	for _, q := range squares {
		v, ok := q.Median(throughput())
		if !ok {
			continue
		}
		met := sheet.meets(q) && q.death() == ""
		if best != nil {
			b, _ := best.Median(throughput())
			if bestMet && !met || bestMet == met && v <= b {
				continue
			}
		}
		best, bestMet = q, met
	}
	return best
}

// bestRow is the config with the highest output throughput at a load that meets the service levels,
// among those that may be named best.
func bestRow(sheet *Sheet) *Row {
	var best *Row
	top := 0.0
	for _, row := range sheet.Rows {
		q := row.Best
		if row.Unfit != "" || q == nil || !q.trusted() {
			continue
		}
		if !sheet.meets(q) || q.death() != "" {
			continue
		}
		if v, _ := q.Median(throughput()); best == nil || v > top {
			best, top = row, v
		}
	}
	return best
}

// Change compares a square's throughput with the baseline's at the same load: 0.25 is +25 %.
func (sheet *Sheet) Change(q *Square) (change float64, ok bool) {
	if sheet.Baseline == nil || q == nil {
		return 0, false
	}
	base := sheet.Baseline.at(q.load)
	if base == nil || base == q {
		return 0, false
	}
	b, ok1 := base.Median(throughput())
	v, ok2 := q.Median(throughput())
	if !ok1 || !ok2 || b <= 0 {
		return 0, false
	}
	return v/b - 1, true
}
