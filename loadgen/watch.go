package loadgen

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// watch observes the client itself: when bytes came, the longest silence in the window, and how late its own
// timer woke, which is how late a stamp may be.
type watch struct {
	lastByte   atomic.Int64 // ns since the start of the run
	lastMoved  atomic.Int64 // the same, without keep-alive comments
	maxSilence atomic.Int64 // in the window, ns

	late  hist // wake-ups of the coordinator's timer
	marks []mark
}

// mark is how many tokens had arrived at a moment.
type mark struct {
	at     time.Duration
	tokens int64
}

// mostMarks bounds the marks: of more, every other one of the older half is dropped, so that a long run keeps its course.
const mostMarks = 1 << 14

func (w *watch) mark(at time.Duration, tokens int64) {
	w.marks = append(w.marks, mark{at, tokens})
	if len(w.marks) < mostMarks {
		return
	}
	kept := w.marks[:0]
	for i, m := range w.marks {
		if i >= mostMarks/2 || i%2 == 0 {
			kept = append(kept, m)
		}
	}
	w.marks = kept
}

// byteAt notes a read at now. moved: it brought more than a comment. opened is −1 before the window.
func (w *watch) byteAt(now time.Duration, moved bool, opened time.Duration) {
	if moved {
		w.lastMoved.Store(int64(now))
	}
	before := time.Duration(w.lastByte.Swap(int64(now)))
	if opened >= 0 {
		w.silence(now - max(before, opened))
	}
}

// span notes the reads of one wake-up, the first of them at first and the last at last.
func (w *watch) span(first, last time.Duration, moved bool, opened time.Duration) {
	before := time.Duration(w.lastByte.Swap(int64(last)))
	if moved {
		w.lastMoved.Store(int64(last))
	}
	if opened >= 0 {
		w.silence(first - max(before, opened))
	}
}

func (w *watch) silence(d time.Duration) {
	for {
		old := w.maxSilence.Load()
		if int64(d) <= old || w.maxSilence.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// stable says whether the throughput of the last three stretches of a length agrees within 5 %.
func (w *watch) stable(stretch time.Duration) bool {
	if len(w.marks) == 0 {
		return false
	}
	last := w.marks[len(w.marks)-1].at
	if last-w.marks[0].at < 3*stretch {
		return false
	}
	var rates [3]float64
	for i := range rates {
		until := last - time.Duration(2-i)*stretch
		rates[i] = w.tokensAt(until) - w.tokensAt(until-stretch)
	}
	low, high := slices.Min(rates[:]), slices.Max(rates[:])
	return low > 0 && high-low <= 0.05*high
}

// tokensAt interpolates the count of tokens between the marks around a moment.
func (w *watch) tokensAt(at time.Duration) float64 {
	i, _ := slices.BinarySearchFunc(w.marks, at, func(m mark, at time.Duration) int { return int(m.at - at) })
	switch {
	case len(w.marks) == 0:
		return 0
	case i == 0:
		return float64(w.marks[0].tokens)
	case i == len(w.marks):
		return float64(w.marks[i-1].tokens)
	}
	a, b := w.marks[i-1], w.marks[i]
	share := float64(at-a.at) / float64(b.at-a.at)
	return float64(a.tokens) + share*float64(b.tokens-a.tokens)
}

// steady says whether the halves of the window agree within 5 %. nil: the window is too short to say, below
// 10 s or below four times the life of a request.
func (w *watch) steady(win window, life time.Duration) *bool {
	middle := win.opened + win.length()/2
	return agree(w.tokensAt(middle)-w.tokensAt(win.opened), w.tokensAt(win.closed)-w.tokensAt(middle), win, life)
}

// interval is the 95 % confidence interval of the throughput in a window, in tokens/s: mean ± half, from the means of
// stretches as long as a request lives, so that they are nearly independent. ok is false below ten of them.
func (w *watch) interval(win window, life time.Duration) (half, mean float64, ok bool) {
	stretch := max(life, time.Second)
	n := int(win.length() / stretch)
	if n < 10 || life == 0 {
		return 0, 0, false
	}
	stretch = win.length() / time.Duration(n)
	squares, before := 0.0, w.tokensAt(win.opened)
	for i := range n {
		count := w.tokensAt(win.opened + time.Duration(i+1)*stretch)
		x := (count - before) / stretch.Seconds()
		before = count
		delta := x - mean
		mean += delta / float64(i+1)
		squares += delta * (x - mean)
	}
	free := float64(n - 1)
	return studentT(free) * math.Sqrt(squares/free/float64(n)), mean, true
}

// studentT is the 97.5 % quantile of Student's t for so many degrees of freedom, by its expansion around the normal
// one: within 0.1 % from 9 on.
func studentT(free float64) float64 {
	const z = 1.959963984540054
	const z3, z5, z7 = z * z * z, z * z * z * z * z, z * z * z * z * z * z * z
	return z + (z3+z)/(4*free) + (5*z5+16*z3+3*z)/(96*free*free) + (3*z7+19*z5+17*z3-15*z)/(384*free*free*free)
}

// agree says whether two halves of a window agree, when it is long enough to say.
func agree(a, b float64, win window, life time.Duration) *bool {
	if win.length() < max(minSteady, 4*life) || life == 0 {
		return nil
	}
	agree := max(a, b) > 0 && max(a, b)-min(a, b) <= 0.05*max(a, b)
	return &agree
}

const minSteady = 10 * time.Second

// Verdicts on a run's numbers.
const (
	Valid       = "valid"        // nothing speaks against the numbers
	Suspect     = "suspect"      // stamps may be late enough to show in the tails
	ClientBound = "client_bound" // the client itself was the limit
)
