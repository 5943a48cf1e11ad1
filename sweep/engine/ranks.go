package engine

import (
	"maps"

	"sweep/sweep"
)

// ByRank gives the facts that ranks told of themselves, each by rank. It implements [sweep.RankReader].
func (r *reader) ByRank() map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for name, f := range r.numbers {
		all[name] = maps.Clone(f.byRank)
	}
	return all
}

var _ sweep.RankReader = (*reader)(nil)
