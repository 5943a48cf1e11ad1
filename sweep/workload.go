package sweep

import (
	"fmt"
	"strings"
	"time"
)

// Range is an inclusive range of whole numbers; a single number has Min = Max.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Mean is the middle of the range.
func (r Range) Mean() float64 { return float64(r.Min+r.Max) / 2 }

// SharedPrefix says that each prompt of a class begins with one of Groups common prefixes of Tokens tokens.
type SharedPrefix struct {
	Groups int `json:"groups"`
	Tokens int `json:"tokens"`
}

// Objective is one service level: the quantile of a metric must stay under a limit.
type Objective struct {
	Metric   string        `json:"metric"`   // ttft, tpot, itl or e2e
	Quantile float64       `json:"quantile"` // 0.95 of "p95"
	Limit    time.Duration `json:"limit"`
}

// String gives the objective as a grid has it: "ttft p90<30s".
func (o Objective) String() string {
	return fmt.Sprintf("%s p%g<%s", o.Metric, o.Quantile*100, o.Limit)
}

// Class is one kind of request in a workload.
type Class struct {
	Name         string        `json:"name"`
	Share        int           `json:"share"` // weight when a total is split; 1 when the grid has none
	Input        Range         `json:"input"`
	Output       Range         `json:"output"`
	SharedPrefix *SharedPrefix `json:"shared_prefix,omitempty"`
	SLO          []Objective   `json:"slo,omitempty"` // of this class; the workload's come on top
}

// Workload is a set of classes, each with its own pool of concurrent requests.
type Workload struct {
	Name    string      `json:"name"`
	Classes []Class     `json:"classes"`
	SLO     []Objective `json:"slo,omitempty"` // for each class
}

// Pool is the level at which one class is held.
type Pool struct {
	Class       string `json:"class"`
	Concurrency int    `json:"concurrency"`
}

// Load is a workload at one level: one pool for each of its classes, in the workload's order.
type Load struct {
	Workload string `json:"workload"`
	Pools    []Pool `json:"pools"`
}

// Concurrency is the sum over the pools.
func (l Load) Concurrency() int {
	n := 0
	for _, p := range l.Pools {
		n += p.Concurrency
	}
	return n
}

// String is the load's key, as in folder names: "synth,short=150,long=32".
func (l Load) String() string {
	var b strings.Builder
	b.WriteString(l.Workload)
	for _, p := range l.Pools {
		fmt.Fprintf(&b, ",%s=%d", p.Class, p.Concurrency)
	}
	return b.String()
}

// maxShare bounds a class's share and a total that is split, so that their product fits.
const maxShare = 1 << 20

// Split divides a total among the classes by their shares: largest remainder, each at least 1, the
// first of equals before the others. It fails when the total is smaller than the number of classes,
// or a share is not above zero.
func (w Workload) Split(total int) (Load, error) {
	load := Load{Workload: w.Name}
	shares := 0
	for _, c := range w.Classes {
		if c.Share < 1 || c.Share > maxShare {
			return load, fmt.Errorf("class %q of workload %q has a share of %d: want 1 to %d", c.Name, w.Name, c.Share, maxShare)
		}
		shares += c.Share
	}
	switch {
	case len(w.Classes) == 0:
		return load, fmt.Errorf("workload %q has no classes to split %d among", w.Name, total)
	case total < len(w.Classes):
		return load, fmt.Errorf("concurrency %d is less than the %d classes of workload %q: each needs at least one", total, len(w.Classes), w.Name)
	case total > maxShare:
		return load, fmt.Errorf("concurrency %d is more than %d", total, maxShare)
	}
	left := total
	remainders := make([]int, len(w.Classes)) // what is still due to each class, in units of 1/shares
	for i, c := range w.Classes {
		n := max(1, total*c.Share/shares)
		remainders[i] = total*c.Share - n*shares
		load.Pools = append(load.Pools, Pool{c.Name, n})
		left -= n
	}
	for ; left > 0; left-- { // to the largest remainder; the first of equals
		best := 0
		for i, r := range remainders {
			if r > remainders[best] {
				best = i
			}
		}
		load.Pools[best].Concurrency++
		remainders[best] -= shares
	}
	for ; left < 0; left++ { // the minimum of 1 took too many: from the most overfull that can give, the last of equals
		best := -1
		for i, r := range remainders {
			if load.Pools[i].Concurrency > 1 && (best < 0 || r <= remainders[best]) {
				best = i
			}
		}
		load.Pools[best].Concurrency--
		remainders[best] += shares
	}
	return load, nil
}

// TokenTime is how long one output token is taken to last before anything is measured: between the
// 10 ms of an idle server and the 100 ms of a crowded one.
const TokenTime = 50 * time.Millisecond

// Life is how long a request of the class is expected to be in flight: its mean output at perToken
// for each token. Waiting and prefill are left out, so a real life is longer.
func (c Class) Life(perToken time.Duration) time.Duration {
	return time.Duration(c.Output.Mean() * float64(perToken))
}

// DefaultWindow is the shortest length of a window when a grid has none.
const DefaultWindow = time.Minute

// Measure says how each load is warmed up and measured. Without "measure" in a grid the warm-up is the
// first cohort, WindowMin is [DefaultWindow], WindowMax the longer of 10 minutes and five times WindowMin,
// and no class needs a number of requests, so that the window lasts exactly WindowMin.
type Measure struct {
	// WarmupCohort: the warm-up lasts until the first cohort (as many requests as a pool holds) of
	// each class has ended. Else it lasts WarmupTime.
	WarmupCohort bool          `json:"warmup_cohort"`
	WarmupTime   time.Duration `json:"warmup_time"`
	// The window ends when WindowMin has passed and each class has had its number of Requests both
	// sent and finished inside, or at WindowMax.
	WindowMin time.Duration  `json:"window_min"`
	WindowMax time.Duration  `json:"window_max"`
	Requests  map[string]int `json:"requests,omitempty"` // by class name
}

// Of is the measure as it applies to one workload: only its own classes are waited for.
func (m Measure) Of(w Workload) Measure {
	requests := map[string]int{}
	for _, c := range w.Classes {
		if n, ok := m.Requests[c.Name]; ok {
			requests[c.Name] = n
		}
	}
	m.Requests = requests
	return m
}
