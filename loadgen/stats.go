package loadgen

import (
	"math"
	"math/bits"
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

// dist gathers the samples of one metric, each with a weight, in bounded memory: exactly up to its limit,
// then in buckets 0.025 % wide. Mean, standard deviation and maximum are always exact.
type dist struct {
	moments
	exact   []gap
	buckets []int // nil while the samples are exact
	sorted  bool
	rough   bool // its limit is roughExact
}

// moments are what is known of samples without keeping any.
type moments struct {
	n            int           // sum of the weights
	base         time.Duration // the first sample; sums of distances from a sample lose no digits that matter
	sum, squares float64       // of the distances from base, in ms and ms²
	largest      time.Duration
}

func (m *moments) add(x time.Duration, weight int) {
	far, w := ms(x-m.base), float64(weight)
	m.n += weight
	m.sum += far * w
	m.squares += far * far * w
	m.largest = max(m.largest, x)
}

// How many samples are kept as they are: 1 MiB; of what is only a second view of the same, 128 KiB.
const (
	keepExact  = 1 << 17
	roughExact = 1 << 14
)

func (d *dist) limit() int {
	if d.rough {
		return roughExact
	}
	return keepExact
}

// room readies d for further samples, of which first is the next.
func (d *dist) room(first time.Duration, samples int) {
	if d.n == 0 {
		d.base = first
	}
	d.sorted = false
	if d.buckets == nil && len(d.exact)+samples > d.limit() {
		d.spill()
	}
}

// keep takes a sample for quantiles.
func (d *dist) keep(x time.Duration, weight int) {
	if d.buckets != nil {
		d.buckets[bucketOf(x)] += weight
		return
	}
	d.exact = append(d.exact, gap(uint64(max(x, 0))<<20|uint64(weight)))
}

func (d *dist) add(x time.Duration, weight int) {
	d.room(x, 1)
	d.moments.add(x, weight)
	d.keep(x, weight)
}

// addGaps adds the tokens of gaps one by one; whole: each gap once, with the time of all its tokens.
func (d *dist) addGaps(list []gap, whole bool) {
	if len(list) == 0 {
		return
	}
	one := func(g gap) (x time.Duration, weight int) {
		if whole {
			return g.perToken() * time.Duration(g.tokens()), 1
		}
		return g.perToken(), g.tokens()
	}
	first, _ := one(list[0])
	d.room(first, len(list))
	m := d.moments // the compiler keeps it in registers
	for _, g := range list {
		x, weight := one(g)
		m.add(x, weight)
		d.keep(x, weight)
	}
	d.moments = m
}

// mean is in ms.
func (d *dist) mean() float64 { return ms(d.base) + d.sum/float64(d.n) }

// deviation is the standard deviation of the samples themselves, in ms.
func (d *dist) deviation() float64 {
	far := d.sum / float64(d.n)
	return math.Sqrt(max(0, d.squares/float64(d.n)-far*far))
}

// spill puts the exact samples into buckets.
func (d *dist) spill() {
	if d.buckets != nil {
		return
	}
	d.buckets = make([]int, bucketOf(math.MaxInt64>>19)+1)
	for _, g := range d.exact {
		d.buckets[bucketOf(g.perToken())] += g.tokens()
	}
	d.exact = nil
}

// join adds the samples of another.
func (d *dist) join(o *dist) {
	if o.n == 0 {
		return
	}
	if d.n == 0 {
		d.base = o.base
	}
	shift := ms(o.base - d.base)
	d.sum += o.sum + shift*float64(o.n)
	d.squares += o.squares + 2*shift*o.sum + shift*shift*float64(o.n)
	d.n, d.largest, d.sorted = d.n+o.n, max(d.largest, o.largest), false
	if o.buckets == nil && d.buckets == nil && len(d.exact)+len(o.exact) <= d.limit() {
		d.exact = append(d.exact, o.exact...)
		return
	}
	d.spill()
	for _, g := range o.exact {
		d.buckets[bucketOf(g.perToken())] += g.tokens()
	}
	for i, w := range o.buckets {
		d.buckets[i] += w
	}
}

// Buckets: one for each ns below 2^13, then 4096 for each doubling.
const bucketBits = 12

func bucketOf(x time.Duration) int {
	v := uint64(min(max(x, 0), math.MaxInt64>>19))
	shift := max(0, bits.Len64(v)-bucketBits-1)
	return shift<<bucketBits + int(v>>shift)
}

// bucketValue is the middle of a bucket.
func bucketValue(i int) time.Duration {
	shift := max(0, i>>bucketBits-1)
	low := uint64(i-shift<<bucketBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// at returns the sample of a rank, counted from 0.
func (d *dist) at(rank int) time.Duration {
	if d.buckets == nil {
		if !d.sorted {
			slices.Sort(d.exact)
			d.sorted = true
		}
		return gaps(d.exact).at(rank)
	}
	for i, w := range d.buckets {
		if rank -= w; rank < 0 {
			return min(bucketValue(i), d.largest)
		}
	}
	return d.largest
}

// quantile is the q quantile: an observed value.
func (d *dist) quantile(q float64) time.Duration { return d.at(rank(d.n, q)) }

// below counts the samples under x.
func (d *dist) below(x time.Duration) int {
	n := 0
	for _, g := range d.exact {
		if g.perToken() < x {
			n += g.tokens()
		}
	}
	for i := range min(bucketOf(x), len(d.buckets)) {
		n += d.buckets[i]
	}
	return n
}

// put writes mean, median, standard deviation (of the population), percentiles and maximum of the
// samples, in ms, under "PREFIXmean_NAME_ms" and so on.
func (d *dist) put(v map[string]float64, prefix, name string) {
	if d.n == 0 {
		return
	}
	v[prefix+"mean_"+name+"_ms"] = d.mean()
	v[prefix+"median_"+name+"_ms"] = (ms(d.at((d.n-1)/2)) + ms(d.at(d.n/2))) / 2
	if d.n > 1 {
		v[prefix+"std_"+name+"_ms"] = d.deviation()
	}
	for _, p := range percentiles {
		if d.n >= enough(p.q) {
			v[prefix+p.name+"_"+name+"_ms"] = ms(d.quantile(p.q))
		}
	}
	v[prefix+"max_"+name+"_ms"] = ms(d.largest)
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

// gapQuantile is a quantile over the tokens of sorted gaps; 0 for none.
func gapQuantile(g []gap, q float64) time.Duration {
	n := gaps(g).samples()
	if n == 0 {
		return 0
	}
	return gaps(g).at(rank(n, q))
}
