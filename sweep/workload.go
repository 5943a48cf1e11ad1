package sweep

import (
	"fmt"
	"maps"
	"slices"
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
	SLO          []Objective   `json:"slo,omitempty"`     // of this class; the workload's come on top
	Prompts      *File         `json:"prompts,omitempty"` // the user's own, in place of drawn ones; Input is zero then
	// Natural: Output is the most that is allowed, and the model ends where it would. Zero: each prompt brings its own most.
	Natural bool     `json:"natural,omitempty"`
	Session *Session `json:"session,omitempty"` // conversations in place of single requests
}

// Session makes conversations of a class: each request carries all that was said before.
type Session struct {
	Turns Range         `json:"turns"` // requests of a conversation
	Input Range         `json:"input"` // tokens of each later question
	Think time.Duration `json:"think"` // mean time between an answer's end and the next question
}

// Workload is a set of classes, each with its own pool of concurrent requests.
type Workload struct {
	Name    string      `json:"name"`
	Classes []Class     `json:"classes"`
	SLO     []Objective `json:"slo,omitempty"` // for each class
	// API is the route of its requests: completions, chat or generate; "" is the engine's usual one.
	API  string         `json:"api,omitempty"`
	Body map[string]any `json:"body,omitempty"` // further fields of each request
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
		load.Pools = append(load.Pools, Pool{Class: c.Name, Concurrency: n})
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

// SplitRate divides a rate among the classes by their shares.
func (w Workload) SplitRate(total float64) Load {
	load := Load{Workload: w.Name}
	shares := 0
	for _, c := range w.Classes {
		shares += c.Share
	}
	for _, c := range w.Classes {
		load.Pools = append(load.Pools, Pool{Class: c.Name, Rate: tidy(total * float64(c.Share) / float64(shares))})
	}
	return load
}

// Own says in words what differs from drawn prompts on the usual route, one line for the workload and one for each such class.
func (w Workload) Own() []string {
	var lines []string
	if w.API != "" {
		lines = append(lines, "by "+w.API)
	}
	if len(w.Body) > 0 {
		lines = append(lines, "with "+strings.Join(slices.Sorted(maps.Keys(w.Body)), ", ")+" in each request")
	}
	for _, c := range w.Classes {
		var parts []string
		if c.Prompts != nil {
			parts = append(parts, fmt.Sprintf("prompts of %s (%s)", c.Prompts.Name, c.Prompts.SHA256[:min(8, len(c.Prompts.SHA256))]))
		}
		switch {
		case c.Natural && c.Output.Max > 0:
			parts = append(parts, fmt.Sprintf("natural output of at most %d tokens", c.Output.Max))
		case c.Natural:
			parts = append(parts, "natural output, at most as the prompts say")
		}
		if s := c.Session; s != nil {
			parts = append(parts, fmt.Sprintf("conversations of %d to %d turns, %s to think", s.Turns.Min, s.Turns.Max, shortDuration(s.Think)))
		}
		if len(parts) > 0 {
			lines = append(lines, c.Name+": "+strings.Join(parts, ", "))
		}
	}
	return lines
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
