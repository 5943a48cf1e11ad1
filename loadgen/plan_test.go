package loadgen

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sweep/loadgen/mock"
)

// gammaCDF is the regularised lower incomplete gamma function, by its series and its continued fraction.
func gammaCDF(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	log, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - log)
	if x < a+1 {
		sum, term := 1/a, 1/a
		for n := 1.0; n < 1000 && term > sum*1e-15; n++ {
			term *= x / (a + n)
			sum += term
		}
		return front * sum
	}
	b := x + 1 - a
	c, d := 1e300, 1/b
	h := d
	for i := 1.0; i < 1000; i++ {
		an := -i * (i - a)
		b += 2
		d = 1 / (an*d + b)
		c = b + an/c
		h *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return 1 - front*h
}

// gapsOf draws n times between arrivals, in s.
func gapsOf(a *Arrivals, seed uint64, n int) []float64 {
	p := newPlan(a, stream(seed, "arrivals", "short"))
	var gaps []float64
	before := time.Duration(0)
	for range n {
		at, _ := p.draw()
		gaps = append(gaps, (at - before).Seconds())
		before = at
	}
	return gaps
}

// The planned gaps pass a Kolmogorov-Smirnov test against their law at α = 1 % for ten fixed seeds, and fail it against
// another law.
func TestArrivalsFollowTheirLaw(t *testing.T) {
	const n, rate = 5000, 1000.
	exponential := func(x float64) float64 { return 1 - math.Exp(-rate*x) }
	gamma := func(shape float64) func(float64) float64 {
		return func(x float64) float64 { return gammaCDF(shape, shape*rate*x) }
	}
	distance := func(gaps []float64, cdf func(float64) float64) float64 {
		slices.Sort(gaps)
		d := 0.0
		for i, x := range gaps {
			f := cdf(x)
			d = max(d, math.Abs(f-float64(i)/float64(len(gaps))), math.Abs(f-float64(i+1)/float64(len(gaps))))
		}
		return d * math.Sqrt(float64(len(gaps)))
	}
	const critical = 1.628 // of √n·D at α = 1 %
	for _, c := range []struct {
		name  string
		a     Arrivals
		right func(float64) float64
		wrong func(float64) float64
	}{
		{"poisson", Arrivals{Law: Poisson, Rate: rate}, exponential, gamma(1.2)},
		{"gamma 0.5", Arrivals{Law: Gamma, Rate: rate, Shape: 0.5}, gamma(0.5), exponential},
		{"gamma 4", Arrivals{Law: Gamma, Rate: rate, Shape: 4}, gamma(4), exponential},
	} {
		for seed := range uint64(10) {
			gaps := gapsOf(&c.a, seed, n)
			if d := distance(gaps, c.right); d > critical {
				t.Errorf("%s, seed %d: distance %.3f from its law, critical %.3f", c.name, seed, d, critical)
			}
			if d := distance(gaps, c.wrong); d < critical {
				t.Errorf("%s, seed %d: passes as another law", c.name, seed)
			}
		}
	}
}

func TestPlans(t *testing.T) {
	arrivals := func(a Arrivals, until time.Duration) (list []time.Duration) {
		p := newPlan(&a, stream(3, "x"))
		for {
			at, ok := p.draw()
			if !ok || at > until {
				return list
			}
			list = append(list, at)
		}
	}
	if got := fmt.Sprint(arrivals(Arrivals{Law: Constant, Rate: 4}, second)); got != "[250ms 500ms 750ms 1s]" {
		t.Errorf("constant: %s", got)
	}
	trace := Arrivals{Law: Trace, Requests: []TraceRequest{{At: 0}, {At: 5 * msec}, {At: 5 * msec}}}
	if got := fmt.Sprint(arrivals(trace, second)); got != "[0s 5ms 5ms]" {
		t.Errorf("trace: %s", got)
	}
	// A ramp from 0 to 100/s in 10 s, a rest of 5 s, then 20/s: 500 arrivals, none, 20 a second.
	stages := []Stage{{10 * second, 0, 100}, {5 * second, 0, 0}, {second, 20, 20}}
	list := arrivals(Arrivals{Law: Constant, Stages: stages}, 20*second)
	count := func(from, to time.Duration) (n int) {
		for _, at := range list {
			if at > from && at <= to {
				n++
			}
		}
		return n
	}
	for _, c := range []struct{ from, to, want int }{{0, 5, 125}, {5, 10, 375}, {10, 15, 0}, {15, 16, 20}, {19, 20, 20}} {
		if n := count(time.Duration(c.from)*second, time.Duration(c.to)*second); n < c.want-1 || n > c.want+1 {
			t.Errorf("%d arrivals from %d s to %d s, want %d", n, c.from, c.to, c.want)
		}
	}
	if !slices.IsSorted(list) {
		t.Error("not in order")
	}
	for _, bad := range []Arrivals{
		{Law: "weibull", Rate: 1}, {Law: Poisson}, {Law: Poisson, Rate: math.NaN()}, {Law: Gamma, Rate: 1}, {Law: Trace},
		{Law: Trace, Requests: []TraceRequest{{At: 2}, {At: 1}}}, {Law: Constant, Stages: []Stage{{0, 1, 1}}}, {Law: Constant, Rate: 1, MaxOpen: -1},
	} {
		if bad.check() == nil {
			t.Errorf("no problem with %+v", bad)
		}
	}
}

// openSpec is testSpec with arrivals.
func openSpec(s *mock.Server, a Arrivals) Spec {
	spec := testSpec(s, 1)
	spec.Classes[0].Concurrency, spec.Classes[0].Arrivals = 0, &a
	return spec
}

// In virtual time an open loop at 10 requests/s, each of 200 ms, has two in flight, and none is late.
func TestOpenLoopKnownTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := openSpec(server, Arrivals{Law: Constant, Rate: 10})
		spec.Warmup, spec.Window = Warmup{Time: 1050 * msec}, Window{Min: 10 * second}
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		wantValues(t, res.Values, map[string]float64{
			"mean_concurrency": 2, "sent": 100, "completed": 100, "mean_ttft_ms": 100, "mean_sched_ttft_ms": 100, "max_sched_ttft_ms": 100, "mean_e2e_latency_ms": 200,
		})
		if res.Verdict != Valid || res.Evidence["unsent_requests"] != 0 || !res.Complete {
			t.Errorf("verdict %s, evidence %v", res.Verdict, res.Evidence)
		}
	})
}

// Where a bound holds requests back, they keep their planned times: the schedule's view shows the wait that the service's view hides.
func TestLateRequestsKeepTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &mock.Server{Answer: steady(mock.Timing{First: 100 * msec, Gap: 25 * msec})}
		spec := openSpec(server, Arrivals{Law: Constant, Rate: 10, MaxOpen: 1})
		spec.Warmup, spec.Window = Warmup{}, Window{Min: 10 * second}
		var record bytes.Buffer
		spec.Record = &record
		res, err := Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		wantValues(t, res.Values, map[string]float64{"mean_ttft_ms": 100, "mean_concurrency": 0.99})
		if d := res.Values["max_sched_ttft_ms"]; d < 4000 {
			t.Errorf("after 10 s at twice the rate that can be served, the schedule's TTFT is %v ms", d)
		}
		sent, never := 0, 0
		if _, err := ReadRecord(&record, func(r *Record) error {
			if want := time.Duration(r.Index+1) * 100 * msec; r.Sched != want {
				t.Errorf("request %d planned for %v, want %v", r.Index, r.Sched, want)
			}
			if r.Send >= 0 {
				sent++
			} else {
				never++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if sent+never < 99 || never < 45 || res.Evidence["unsent_requests"] < 45 {
			t.Errorf("%d sent, %d never, evidence %v", sent, never, res.Evidence)
		}
	})
}

// Two processes that share a load send what one would, each request once, at the same planned times.
func TestPartsMakeTheWhole(t *testing.T) {
	type key struct {
		stream string
		index  int
		due    time.Duration
		bytes  string
	}
	all := func(part, parts int) map[key]bool {
		spec := openSpec(&mock.Server{}, Arrivals{Law: Poisson, Rate: 50})
		spec.Classes = append(spec.Classes, Class{Name: "closed", Concurrency: 5, Input: Range{3, 9}, Output: Range{1, 4}})
		spec.Part, spec.Parts = part, parts
		spec.Window = Window{Max: 10 * second, Requests: map[string]int{"short": 201, "closed": 33}, Exactly: true}
		r, err := newRun(spec)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[key]bool{}
		go r.schedules[0].prepare(t.Context())
		for req := range r.schedules[0].lanes[0] {
			r.schedules[0].taken(r.schedules[0].lanes[0])
			seen[key{req.stream, req.index, req.due, string(req.bytes)}] = true
		}
		go r.feeds[0].prepare(t.Context(), &r.feeds[0].measured, nil)
		for range r.spec.share(33) {
			req := <-r.feeds[0].measured.ready
			r.feeds[0].measured.taken()
			seen[key{req.stream, req.index, 0, string(req.bytes)}] = true
		}
		if !r.feeds[0].over() {
			t.Error("not over")
		}
		return seen
	}
	whole, parts, slots := all(0, 1), map[key]bool{}, 0
	if len(whole) != 234 {
		t.Fatalf("%d requests", len(whole))
	}
	for i := range 3 {
		for k := range all(i, 3) {
			if parts[k] {
				t.Errorf("request %d is in two parts", k.index)
			}
			parts[k] = true
		}
		spec := Spec{Part: i, Parts: 3}
		slots += spec.share(5)
	}
	if len(parts) != len(whole) || slots != 5 {
		t.Errorf("%d requests and %d slots in three parts", len(parts), slots)
	}
	for k := range whole {
		if !parts[k] {
			t.Errorf("request %s/%d at %v is in no part", k.stream, k.index, k.due)
		}
	}
}
