package loadgen

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// hist counts durations in buckets 6 % wide. One goroutine or several add to it, others read it meanwhile.
type hist struct {
	counts [histSize]atomic.Int64
	sum    atomic.Int64 // ns
}

const (
	histBits = 4 // 16 buckets for each doubling
	histSize = 40 << histBits
)

func histBucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(0, bits.Len64(v)-histBits-1)
	return min(shift<<histBits+int(v>>shift), histSize-1)
}

func histValue(i int) time.Duration {
	shift := max(0, i>>histBits-1)
	return time.Duration(uint64(i-shift<<histBits)<<shift + 1<<shift/2)
}

func (h *hist) add(d time.Duration) {
	h.counts[histBucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// histShot is what a hist held at a moment.
type histShot struct {
	counts [histSize]int64
	total  int64
	sum    int64 // ns
}

// shot adds what the hist holds to s.
func (h *hist) shot(s *histShot) {
	for i := range h.counts {
		n := h.counts[i].Load()
		s.counts[i] += n
		s.total += n
	}
	s.sum += h.sum.Load()
}

// minus takes away what was there before.
func (s *histShot) minus(before *histShot) {
	for i := range s.counts {
		s.counts[i] -= before.counts[i]
	}
	s.total -= before.total
	s.sum -= before.sum
}

// quantile is the middle of the bucket of the q quantile; 0 for none.
func (s *histShot) quantile(q float64) time.Duration {
	if s.total <= 0 {
		return 0
	}
	left := int64(rank(int(s.total), q))
	for i, n := range s.counts {
		if left -= n; left < 0 {
			return histValue(i)
		}
	}
	return histValue(histSize - 1)
}

// most is the upper end of the highest bucket that holds something.
func (s *histShot) most() time.Duration {
	for i := histSize - 1; i >= 0; i-- {
		if s.counts[i] > 0 {
			return histValue(i)
		}
	}
	return 0
}
