package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Laws of the times between arrivals.
const (
	Poisson  = "poisson"  // exponential: independent users
	Gamma    = "gamma"    // of a shape: below 1 in bursts, above 1 more even than Poisson
	Constant = "constant" // equal
	Trace    = "trace"    // as given
)

// Arrivals plans when the requests of an open class go, whatever becomes of those before. All is drawn before the
// clock starts, as times since the start of the run; a request that goes late goes at once, and no other moves.
type Arrivals struct {
	Law   string
	Rate  float64 // requests/s; without Stages
	Shape float64 // of Gamma
	// Stages change the rate over time, one after the other; the last one's final rate stays.
	Stages []Stage
	// Requests of a trace, in the order of their times.
	Requests []TraceRequest
	// MaxOpen bounds the requests in flight; 0: no bound. Where it bites, requests go late, and the run is no
	// longer an open loop.
	MaxOpen int
}

// Stage is a stretch of time in which the rate goes evenly From one To another: a ramp, or a step when both are equal.
type Stage struct {
	For      time.Duration
	From, To float64 // requests/s
}

// TraceRequest is one request of a trace.
type TraceRequest struct {
	At            time.Duration
	Input, Output int // tokens; 0: drawn from the class's ranges
	// Blocks name the parts of the prompt, each BlockTokens long: equal names stand for equal tokens.
	Blocks      []int64
	BlockTokens int
}

func (a *Arrivals) check() error {
	if a.MaxOpen < 0 {
		return fmt.Errorf("a bound of %d requests in flight is below zero", a.MaxOpen)
	}
	switch a.Law {
	case Trace:
		if len(a.Requests) == 0 {
			return fmt.Errorf("a trace without requests")
		}
		if !slices.IsSortedFunc(a.Requests, func(x, y TraceRequest) int { return int(x.At - y.At) }) || a.Requests[0].At < 0 {
			return fmt.Errorf("the times of the trace are not in order")
		}
		return nil
	case Gamma:
		if !(a.Shape > 0) || math.IsInf(a.Shape, 1) {
			return fmt.Errorf("gamma arrivals need a shape above zero, not %v", a.Shape)
		}
	case Poisson, Constant:
	default:
		return fmt.Errorf("arrivals by %q: poisson, gamma, constant and trace are known", a.Law)
	}
	if len(a.Stages) == 0 && !(a.Rate > 0 && a.Rate <= maxRate) {
		return fmt.Errorf("a rate of %v requests/s is not above zero and at most %d", a.Rate, int(maxRate))
	}
	for i, s := range a.Stages {
		if s.For <= 0 || !(s.From >= 0 && s.To >= 0 && s.From <= maxRate && s.To <= maxRate) {
			return fmt.Errorf("stage %d: needs a time above zero and rates from 0 to %d requests/s", i+1, int(maxRate))
		}
	}
	return nil
}

const maxRate = 1e6 // requests/s

// plan draws the arrivals of one class. Two plans of one seed are equal.
type plan struct {
	a    *Arrivals
	rng  *rand.Rand
	sum  float64 // of the arrivals' unit gaps so far
	next int     // of a trace

	stage int     // the one that sum lies in
	begun float64 // s, when it began
	area  float64 // arrivals expected before it
}

func newPlan(a *Arrivals, rng *rand.Rand) *plan { return &plan{a: a, rng: rng} }

// draw is when the next request goes, since the start of the run; ok is false when there is none.
func (p *plan) draw() (at time.Duration, ok bool) {
	if p.a.Law == Trace {
		if p.next == len(p.a.Requests) {
			return 0, false
		}
		p.next++
		return p.a.Requests[p.next-1].At, true
	}
	p.sum += p.gap()
	s := p.when(p.sum)
	if s > float64(math.MaxInt64)/1e9/2 {
		return 0, false
	}
	return time.Duration(math.Round(s * float64(time.Second))), true
}

// gap is the next gap at a rate of one.
func (p *plan) gap() float64 {
	switch p.a.Law {
	case Poisson:
		return p.rng.ExpFloat64()
	case Gamma:
		return gammaVariate(p.rng, p.a.Shape) / p.a.Shape
	}
	return 1
}

// when is the time in s at which so many arrivals are expected: the law's gaps, stretched by the rate.
func (p *plan) when(sum float64) float64 {
	if len(p.a.Stages) == 0 {
		return sum / p.a.Rate
	}
	for ; p.stage < len(p.a.Stages); p.stage++ {
		st := p.a.Stages[p.stage]
		length := st.For.Seconds()
		area := (st.From + st.To) / 2 * length
		if rest := sum - p.area; rest <= area {
			slope := (st.To - st.From) / length
			// rest = From·x + slope·x²/2, solved so that it also holds for a slope of zero.
			root := math.Sqrt(max(0, st.From*st.From+2*slope*rest))
			if st.From+root == 0 {
				return p.begun
			}
			return p.begun + min(2*rest/(st.From+root), length)
		}
		p.begun, p.area = p.begun+length, p.area+area
	}
	last := p.a.Stages[len(p.a.Stages)-1].To
	if last == 0 {
		return math.Inf(1)
	}
	return p.begun + (sum-p.area)/last
}

// gammaVariate draws from a gamma distribution of scale 1, by Marsaglia and Tsang (2000).
func gammaVariate(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gammaVariate(rng, shape+1) * math.Pow(1-rng.Float64(), 1/shape)
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := 1 - rng.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
