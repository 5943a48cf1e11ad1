// Package rawreader is the least that a client of streaming completions can do: it sends, reads, stamps and counts
// lines on one locked thread. It parses nothing, so it works against the server of package truth only. It asks the server to
// count tokens as they come, as our client does, so that both read the same bytes. What it needs in CPU and errs in time is
// the limit R that a real client is held against.
//
// The steps to use it:
//
//	result, err := rawreader.Run(rawreader.Options{Address: "127.0.0.1:18080", Streams: 100, Requests: 200, Tokens: 100})
//	result.User.TTFT.Mean   // ms, as its stamps say
package rawreader

import (
	"math"
	"slices"
)

// Options say what to send.
type Options struct {
	Address  string // of the server
	Streams  int    // connections, each with one request at a time
	Requests int    // in all
	Tokens   int    // of an answer, one in an event
	Kernel   bool   // ask the kernel for the time of reception of each read
}

// Result is what the stamps say.
type Result struct {
	Requests  int     `json:"requests"`
	Events    int     `json:"events"`
	DurationS float64 `json:"duration_s"`       // from before the connections to the end of the last answer
	CPUS      float64 `json:"cpu_s"`            // of its thread, from the first request on: comparable within one process too
	Coalesced float64 `json:"coalesced_share"`  // of events that were not the last of their read
	Unstamped int     `json:"unstamped"`        // reads without a stamp of the kernel, though it was asked for
	User      Times   `json:"user"`             // by a clock read after each read
	Kernel    *Times  `json:"kernel,omitempty"` // by the kernel
}

// Times are distributions in ms.
type Times struct {
	TTFT Distribution `json:"ttft"`
	ITL  Distribution `json:"itl"`
	TPOT Distribution `json:"tpot"`
	E2E  Distribution `json:"e2e"` // to the last token
}

// Distribution sums values up. Quantiles are interpolated linearly, as numpy does it.
type Distribution struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Distribute sums values up; it sorts them in place.
func Distribute(values []float64) Distribution {
	if len(values) == 0 {
		return Distribution{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	quantile := func(q float64) float64 {
		whole, part := math.Modf(q * float64(len(values)-1))
		i := int(whole)
		if i+1 >= len(values) {
			return values[len(values)-1]
		}
		return values[i] + part*(values[i+1]-values[i])
	}
	return Distribution{N: len(values), Mean: sum / float64(len(values)), P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99), Max: values[len(values)-1]}
}

// request is the stamps of one request, in ns of one clock.
type request struct {
	sent         int64
	user, kernel []int64
}

func times(requests []*request, stamps func(*request) []int64) Times {
	var ttft, itl, tpot, e2e []float64
	const ms = 1e6
	for _, r := range requests {
		t := stamps(r)
		if len(t) == 0 {
			continue
		}
		last := len(t) - 1
		ttft = append(ttft, float64(t[0]-r.sent)/ms)
		e2e = append(e2e, float64(t[last]-r.sent)/ms)
		for i := range last {
			itl = append(itl, float64(t[i+1]-t[i])/ms)
		}
		if last > 0 {
			tpot = append(tpot, float64(t[last]-t[0])/ms/float64(last))
		}
	}
	return Times{TTFT: Distribute(ttft), ITL: Distribute(itl), TPOT: Distribute(tpot), E2E: Distribute(e2e)}
}
