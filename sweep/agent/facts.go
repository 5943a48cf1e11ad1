package agent

import (
	"math"

	"sweep/sweep"
)

// rankFacts gives for facts that several ranks told of themselves the tightest rank's value as NAME_per_rank
// and the sum as NAME_total, where the ranks differ. A pool in host memory belongs to one rank each, so it has
// a total in any case: settings of its size are easily taken for one.
func rankFacts(by map[string]map[string]float64) sweep.Values {
	v := sweep.Values{}
	for name, most := range map[string]bool{
		"weights_gib": true, "graph_gib": true, "headroom_gib": false, "host_pool_gb": true, "host_pool_tokens": false,
	} {
		low, high, sum, n := math.Inf(1), math.Inf(-1), 0.0, 0
		for rank, x := range by[name] {
			if rank == "" && len(by[name]) > 1 {
				continue // a line of the process that holds the ranks together
			}
			low, high, sum, n = min(low, x), max(high, x), sum+x, n+1
		}
		pool := name == "host_pool_gb" || name == "host_pool_tokens"
		if n < 2 || low == high && !pool {
			continue
		}
		tight := low
		if most {
			tight = high
		}
		v[name+"_per_rank"], v[name+"_total"] = tight, math.Round(sum*1e6)/1e6
	}
	return v
}

// phaseTimes gives each phase of a start as a time of its own: start_weights_s, start_graph_s.
func phaseTimes(phases []sweep.PhaseTime) sweep.Values {
	v := sweep.Values{}
	for _, p := range phases {
		v["start_"+string(p.Phase)+"_s"] = p.Seconds
	}
	return v
}
