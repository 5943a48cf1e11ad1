package main

import (
	"cmp"
	"slices"

	"sweep/bench/peers/rawreader"
	"sweep/loadgen/truth"
)

// values are figures by name: METRIC_STATISTIC, in ms. What is not known is absent.
type values map[string]float64

var (
	metricNames    = []string{"ttft", "itl", "tpot", "e2e"}
	statisticNames = []string{"mean", "p50", "p90", "p99"}
)

func (v values) put(metric string, d rawreader.Distribution) {
	if d.N == 0 {
		return
	}
	v[metric+"_mean"], v[metric+"_p50"], v[metric+"_p90"], v[metric+"_p99"] = d.Mean, d.P50, d.P90, d.P99
}

// logged is what the server's log says of one run.
type logged struct {
	Requests    int    // measured ones that were answered whole
	Tokens      int    // of these
	First       int64  // Unix ns: the first of them was read
	LastEnd     int64  // Unix ns: the last write of the last
	Values      values // true latencies; none of a flood
	Delivered   float64
	EventsPerS  float64 // of a flood, by the wall clock
	Late        truth.Summary
	Connections int
}

// readTruth derives what is true of a run. Only the last n requests count: a client may warm up before.
func readTruth(c benchCase, sum truth.Summary, all []truth.Request) logged {
	var requests []truth.Request
	for _, r := range all {
		if r.Stream && r.Status == 200 && r.End > 0 && !r.Closed && r.Sent == c.Tokens {
			requests = append(requests, r)
		}
	}
	slices.SortFunc(requests, func(a, b truth.Request) int { return cmp.Compare(a.Complete, b.Complete) })
	requests = requests[max(0, len(requests)-c.Requests):]
	l := logged{Requests: len(requests), Late: sum, Values: values{}}
	if len(requests) == 0 {
		return l
	}
	l.First = requests[0].Complete
	connections := map[int64]bool{}
	var ttft, itl, tpot, e2e []float64
	var open float64 // ns of all requests together
	const ms = 1e6
	for i := range requests {
		r := &requests[i]
		l.Tokens += r.Sent
		l.LastEnd = max(l.LastEnd, r.End)
		connections[r.Accept] = true
		open += float64(r.End - r.Complete)
		x := truth.Expect(r)
		if x.TPOT == nil {
			continue
		}
		ttft = append(ttft, float64(*x.FirstToken)/ms)
		e2e = append(e2e, float64(*x.E2EToken)/ms)
		tpot = append(tpot, *x.TPOT/ms)
		for _, gap := range x.GapITL {
			itl = append(itl, float64(gap)/ms)
		}
	}
	l.Connections = len(connections)
	for i, list := range [][]float64{ttft, itl, tpot, e2e} {
		l.Values.put(metricNames[i], rawreader.Distribute(list))
	}
	span := float64(l.LastEnd - l.First)
	l.Delivered = open / (float64(c.Streams) * span)
	if c.Flood {
		l.EventsPerS = float64(l.Tokens) / (span / 1e9)
	}
	return l
}

// reported is what a client says of one run.
type reported struct {
	Values    values
	Completed int
	Failed    int
	DurationS float64 // of its load
}

// errorsOf is reported less true, for each figure that both have.
func errorsOf(r, t values) values {
	e := values{}
	for name, v := range r {
		if truly, ok := t[name]; ok {
			e[name] = v - truly
		}
	}
	return e
}
