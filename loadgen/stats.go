package loadgen

import (
	"math"
	"slices"
	"time"
)

// enough is the least number of samples from which a quantile is stated: 30 for p90, 60 for p95, 100 for
// p99, 1000 for p99.9, 6 for a median of interest to an objective. In general 3/(1−q), at most 100, and
// never so few that the quantile would be beyond the largest sample. For the binomial bound of a
// service-level claim more are needed (662 for p99); this is the least for a number that is more than
// the maximum under another name.
func enough(q float64) int {
	if q >= 1 {
		return 1
	}
	rest := 1 - q
	least := min(math.Ceil(3/rest-1e-9), 100)
	return int(max(least, math.Ceil(1/rest-1e-9)))
}

// rank is the index of the q quantile among n sorted samples: nearest rank, an observed value.
func rank(n int, q float64) int {
	return min(max(int(math.Ceil(q*float64(n)-1e-9))-1, 0), n-1)
}

// durations is a set of samples of one metric.
type durations []time.Duration

// put writes mean, median, standard deviation (of the population), percentiles and maximum of the
// samples, in ms, under "PREFIXmean_NAME_ms" and so on. The samples get sorted.
func (d durations) put(v map[string]float64, prefix, name string) {
	n := len(d)
	if n == 0 {
		return
	}
	slices.Sort(d)
	var sum, squares float64
	for _, x := range d {
		sum += ms(x)
	}
	mean := sum / float64(n)
	for _, x := range d {
		squares += (ms(x) - mean) * (ms(x) - mean)
	}
	v[prefix+"mean_"+name+"_ms"] = mean
	v[prefix+"median_"+name+"_ms"] = (ms(d[(n-1)/2]) + ms(d[n/2])) / 2
	if n > 1 {
		v[prefix+"std_"+name+"_ms"] = math.Sqrt(squares / float64(n))
	}
	for _, p := range percentiles {
		if n >= enough(p.q) {
			v[prefix+p.name+"_"+name+"_ms"] = ms(d[rank(n, p.q)])
		}
	}
	v[prefix+"max_"+name+"_ms"] = ms(d[n-1])
}

var percentiles = []struct {
	name string
	q    float64
}{{"p90", 0.90}, {"p95", 0.95}, {"p99", 0.99}}

// gaps is a set of times between tokens, each weighing as many samples as it has tokens.
type gaps []gap

func (g gaps) samples() int {
	n := 0
	for _, x := range g {
		n += x.tokens()
	}
	return n
}

// at returns the sample of a rank, counted from 0. The gaps are sorted.
func (g gaps) at(rank int) time.Duration {
	for _, x := range g {
		if rank -= x.tokens(); rank < 0 {
			return x.perToken()
		}
	}
	return 0
}

func (g gaps) put(v map[string]float64, prefix, name string) {
	n := g.samples()
	if n == 0 {
		return
	}
	slices.Sort(g)
	var sum, squares float64
	for _, x := range g {
		sum += ms(x.perToken()) * float64(x.tokens())
	}
	mean := sum / float64(n)
	for _, x := range g {
		d := ms(x.perToken()) - mean
		squares += d * d * float64(x.tokens())
	}
	v[prefix+"mean_"+name+"_ms"] = mean
	v[prefix+"median_"+name+"_ms"] = (ms(g.at((n-1)/2)) + ms(g.at(n/2))) / 2
	if n > 1 {
		v[prefix+"std_"+name+"_ms"] = math.Sqrt(squares / float64(n))
	}
	for _, p := range percentiles {
		if n >= enough(p.q) {
			v[prefix+p.name+"_"+name+"_ms"] = ms(g.at(rank(n, p.q)))
		}
	}
	v[prefix+"max_"+name+"_ms"] = ms(g[len(g)-1].perToken())
}

// gapQuantile is a quantile over the tokens of sorted gaps; 0 for none.
func gapQuantile(g []gap, q float64) time.Duration {
	n := gaps(g).samples()
	if n == 0 {
		return 0
	}
	return gaps(g).at(rank(n, q))
}
