package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"sweep/sweep"
)

// spread moves labels so that neighbours are at least gap apart, moving them as little as possible, within
// lo and hi: isotonic regression by pooling adjacent violators.
func spread(at []vg.Length, gap, lo, hi vg.Length) []vg.Length {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case at[a] < at[b]:
			return -1
		case at[a] > at[b]:
			return 1
		}
		return 0
	})
	type block struct {
		sum vg.Length
		n   int
	}
	mean := func(b block) vg.Length { return b.sum / vg.Length(b.n) }
	var blocks []block
	for k, i := range order {
		blocks = append(blocks, block{at[i] - vg.Length(k)*gap, 1})
		for n := len(blocks); n > 1 && mean(blocks[n-2]) > mean(blocks[n-1]); n = len(blocks) {
			blocks[n-2].sum += blocks[n-1].sum
			blocks[n-2].n += blocks[n-1].n
			blocks = blocks[:n-1]
		}
	}
	out := make([]vg.Length, len(at))
	k := 0
	for _, b := range blocks {
		z := max(lo, min(mean(b), hi-vg.Length(len(at)-1)*gap))
		for range b.n {
			out[order[k]] = z + vg.Length(k)*gap
			k++
		}
	}
	return out
}

// tick is one marked value of an axis.
type tick struct {
	value float64
	label string
}

// niceTicks gives about n round values from 0 to a little above top, and the axis's end.
func niceTicks(top float64, n int) (ticks []tick, end float64) {
	if top <= 0 {
		return nil, 1
	}
	step, distance := 0.0, math.Inf(1)
	exponent := math.Floor(math.Log10(top / float64(n)))
	for _, m := range []float64{1, 2, 2.5, 5, 10, 20} {
		s := m * math.Pow(10, exponent)
		if d := math.Abs(top/s - float64(n)); d < distance {
			step, distance = s, d
		}
	}
	end = top * 1.04
	if round := math.Ceil(top/step-1e-9) * step; round-top < 0.10*top {
		end = round
	}
	decimals := 0
	for s := step; decimals < 6 && math.Abs(s-math.Round(s)) > 1e-9; s *= 10 {
		decimals++
	}
	for i := 0.0; i*step <= end*(1+1e-9); i++ {
		ticks = append(ticks, tick{i * step, commas(i*step, decimals)})
	}
	return ticks, end
}

// levels places a sheet's loads on the x axis, from 0 to 1.
type levels struct {
	at     map[string]float64 // by Load.String()
	ticks  []tick             // each level that was asked for
	title  string
	spaced bool // on a logarithmic scale
}

// place uses a log2 scale of the total in flight; where two loads have the same total, or a total of
// less than 1, they stand side by side in order.
func place(loads []sweep.Load) levels {
	title := levelTitle(loads)
	l := levels{at: map[string]float64{}, title: title + " (log scale)", spaced: true}
	lo, hi := math.Inf(1), 0.0
	seen := map[float64]bool{}
	for _, load := range loads {
		n := load.Level()
		if seen[n] || n <= 0 {
			l.spaced = false
		}
		seen[n] = true
		lo, hi = min(lo, n), max(hi, n)
	}
	if !l.spaced {
		l.title = title
	}
	for i, load := range loads {
		x := 0.5
		switch {
		case len(loads) == 1:
		case l.spaced:
			x = math.Log2(load.Level()/lo) / math.Log2(hi/lo)
		default:
			x = float64(i) / float64(len(loads)-1)
		}
		l.at[load.String()] = x
		label := loadLabel(load, loads)
		if !l.spaced {
			label = poolLabel(load)
		}
		l.ticks = append(l.ticks, tick{x, label})
	}
	if len(loads) == 1 {
		l.title = title
	}
	return l
}

// drawTicks writes the ticks' labels below y, leaving out those that would touch the one before; the last
// one always stands, because the highest level is what a reader looks for.
func (c canvas) drawTicks(st text.Style, ticks []tick, x func(float64) vg.Length, y vg.Length) {
	st.XAlign, st.YAlign = text.XCenter, text.YTop
	ticks = slices.Clone(ticks)
	slices.SortStableFunc(ticks, func(a, b tick) int {
		if a.value < b.value {
			return -1
		}
		return 1
	})
	left := func(t tick) vg.Length { return x(t.value) - st.Width(t.label)/2 }
	right := func(t tick) vg.Length { return x(t.value) + st.Width(t.label)/2 }
	end := c.Min.X
	for i, t := range ticks {
		last := i == len(ticks)-1
		if !last && right(t)+3 > left(ticks[len(ticks)-1]) || left(t) < end {
			continue
		}
		c.text(st, x(t.value), y, t.label)
		end = right(t) + 3
	}
}
