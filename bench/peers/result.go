package main

import (
	"slices"
)

// result is one run of one client in one case.
type result struct {
	Case   benchCase
	Tool   *tool
	Repeat int
	Again  int    // times that the run was repeated because the server was held up
	Exit   string // "": ended well
	Reported, True,
	Errors values
	Completed, Failed int
	WallS, StartS     float64 // of the process; from its start to the first measured request at the server
	CPUTotalS         float64
	CPULoadS, LoadS   float64 // between the first measured request and the end of the load
	Delivered         float64 // share of the asked requests in flight
	FloodPerS         float64 // events, by the wall clock
	PeakRSS, PeakAnon float64 // MB
	LateP50US         float64 // of the server's writes
	LateP99US         float64
	LateMaxUS         float64
	Blocked           int // writes that the client was too slow for
	Events            int
}

// figure is a number of a run; false when the run does not have it.
type figure func(r *result) (float64, bool)

// good says whether a run's figures may be used.
func (r *result) good() bool { return r.Exit == "" && r.Completed >= r.Case.Requests && r.Failed == 0 }

// absError is how far a reported statistic is from the truth, in ms.
func absError(name string) figure {
	return func(r *result) (float64, bool) {
		v, ok := r.Errors[name]
		return max(v, -v), ok
	}
}

func cpuPerEvent(r *result) (float64, bool) {
	return r.CPULoadS * 1e6 / float64(r.Case.events()), r.CPULoadS > 0
}

func eventsPerCoreSecond(r *result) (float64, bool) {
	return float64(r.Case.events()) / r.CPULoadS, r.Case.Flood && r.CPULoadS > 0
}

func delivered(r *result) (float64, bool) { return 100 * r.Delivered, r.Delivered > 0 }
func peakAnon(r *result) (float64, bool)  { return r.PeakAnon, r.PeakAnon > 0 }
func peakRSS(r *result) (float64, bool)   { return r.PeakRSS, r.PeakRSS > 0 }
func startup(r *result) (float64, bool)   { return r.StartS, r.StartS > 0 }

// spread is a figure over the repeats.
type spread struct {
	N             int
	Median        float64
	Least, Utmost float64
}

// over gives the spread of a figure over the good runs of one client in one case.
func over(all []result, name, tool string, f figure) spread {
	var list []float64
	for i := range all {
		r := &all[i]
		if r.Case.Name == name && r.Tool.Name == tool && r.good() {
			if v, ok := f(r); ok {
				list = append(list, v)
			}
		}
	}
	if len(list) == 0 {
		return spread{}
	}
	slices.Sort(list)
	n := len(list)
	return spread{N: n, Median: (list[(n-1)/2] + list[n/2]) / 2, Least: list[0], Utmost: list[n-1]}
}
