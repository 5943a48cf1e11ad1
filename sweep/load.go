package sweep

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Pool is the level of one class: requests held in flight, or a planned rate.
type Pool struct {
	Class       string  `json:"class"`
	Concurrency int     `json:"concurrency,omitempty"` // of a closed load
	Rate        float64 `json:"rate,omitempty"`        // of an open one, in requests/s
}

// Arrivals says by which law the requests of an open load go.
type Arrivals struct {
	Law   string        `json:"law"`             // poisson, gamma, constant or trace
	Shape float64       `json:"shape,omitempty"` // of gamma
	Ramp  time.Duration `json:"ramp,omitempty"`  // the rate rises evenly for so long, from nothing
	Steps int           `json:"steps,omitempty"` // or in so many equal steps
	Each  time.Duration `json:"each,omitempty"`  // of so long
	Trace *File         `json:"trace,omitempty"` // times and lengths, stretched so that the mean rate is the pool's
}

// The laws.
const (
	ArrivalsPoisson  = "poisson"
	ArrivalsGamma    = "gamma"
	ArrivalsConstant = "constant"
	ArrivalsTrace    = "trace"
)

// String is the law as it stands in a load's key: "" for plain Poisson arrivals.
func (a *Arrivals) String() string {
	if a == nil {
		return ""
	}
	var parts []string
	switch a.Law {
	case ArrivalsGamma:
		parts = append(parts, "gamma="+number32(a.Shape))
	case ArrivalsConstant:
		parts = append(parts, a.Law)
	case ArrivalsTrace:
		parts = append(parts, "trace="+a.Trace.SHA256[:min(8, len(a.Trace.SHA256))])
	}
	if a.Ramp > 0 {
		parts = append(parts, "ramp="+shortDuration(a.Ramp))
	}
	if a.Steps > 0 {
		parts = append(parts, fmt.Sprintf("steps=%dx%s", a.Steps, shortDuration(a.Each)))
	}
	return strings.Join(parts, ",")
}

// Load is a workload at one level: one pool for each of its classes, in the workload's order.
type Load struct {
	Workload string    `json:"workload"`
	Pools    []Pool    `json:"pools"`
	Arrivals *Arrivals `json:"arrivals,omitempty"` // of an open load; nil: closed pools
}

// Open says that requests go by a plan of their own, whatever becomes of those before.
func (l Load) Open() bool { return l.Arrivals != nil }

// Concurrency is the sum over the pools; 0 for an open load.
func (l Load) Concurrency() int {
	n := 0
	for _, p := range l.Pools {
		n += p.Concurrency
	}
	return n
}

// Rate is the sum of the planned rates, in requests/s; 0 for a closed load.
func (l Load) Rate() float64 {
	rate := 0.0
	for _, p := range l.Pools {
		rate += p.Rate
	}
	return tidy(rate)
}

// Level is the total by which loads of one workload are put in order: requests in flight, or requests/s.
func (l Load) Level() float64 {
	if l.Open() {
		return l.Rate()
	}
	return float64(l.Concurrency())
}

// Above says whether a load is a higher level of the same kind of load on the same workload.
func (l Load) Above(o Load) bool {
	return l.Workload == o.Workload && l.Open() == o.Open() && l.Arrivals.String() == o.Arrivals.String() && l.Level() > o.Level()
}

// LevelText is the total for a person: "150", or "2.5/s".
func (l Load) LevelText() string {
	if l.Open() {
		return number32(l.Rate()) + "/s"
	}
	return strconv.Itoa(l.Concurrency())
}

// Text is the pool's level for a person: "150", or "2.5/s".
func (p Pool) Text() string {
	if p.Rate > 0 {
		return number32(p.Rate) + "/s"
	}
	return strconv.Itoa(p.Concurrency)
}

// String is the load's key, as in folder names: "synth,short=150,long=32", "chat,short=2.5rps,gamma=0.5".
func (l Load) String() string {
	var b strings.Builder
	b.WriteString(l.Workload)
	for _, p := range l.Pools {
		if l.Open() {
			fmt.Fprintf(&b, ",%s=%srps", p.Class, number32(p.Rate))
			continue
		}
		fmt.Fprintf(&b, ",%s=%d", p.Class, p.Concurrency)
	}
	if law := l.Arrivals.String(); law != "" {
		b.WriteString("," + law)
	}
	return b.String()
}

// number32 writes a number without more digits than it was given with.
func number32(v float64) string { return strconv.FormatFloat(tidy(v), 'f', -1, 64) }

// tidy rounds away what sums of decimal fractions leave behind.
func tidy(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 9, 64), 64) // always a number
	return v
}
