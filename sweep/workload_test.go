package sweep

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func shares(shares ...int) Workload {
	w := Workload{Name: "w"}
	for i, s := range shares {
		w.Classes = append(w.Classes, Class{Name: fmt.Sprintf("c%d", i), Share: s})
	}
	return w
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shares []int
		total  int
		want   string
	}{
		{[]int{150, 32}, 182, "w,c0=150,c1=32"},
		{[]int{150, 32}, 64, "w,c0=53,c1=11"}, // 52.75 and 11.25
		{[]int{1}, 7, "w,c0=7"},
		{[]int{1, 1}, 3, "w,c0=2,c1=1"}, // the first of equals
		{[]int{1, 1, 1}, 5, "w,c0=2,c1=2,c2=1"},
		{[]int{1, 1000}, 2, "w,c0=1,c1=1"},
		{[]int{1, 1000}, 10, "w,c0=1,c1=9"},
		{[]int{1, 1, 1, 97}, 10, "w,c0=1,c1=1,c2=1,c3=7"}, // the minimum comes from the largest
		{[]int{97, 1, 1, 97}, 9, "w,c0=4,c1=1,c2=1,c3=3"}, // equals give from the last
		{[]int{maxShare, maxShare, 1}, maxShare, "w,c0=524288,c1=524287,c2=1"},
	} {
		load, err := shares(test.shares...).Split(test.total)
		if err != nil || load.String() != test.want {
			t.Errorf("%v of %d: %s %v, want %s", test.shares, test.total, load, err, test.want)
		}
	}
}

func TestSplitErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shares []int
		total  int
		want   string
	}{
		{[]int{1, 2, 3}, 2, "less than the 3 classes"},
		{[]int{1, 2}, 0, "less than the 2 classes"},
		{[]int{1, 2}, -5, "less than the 2 classes"},
		{nil, 4, "no classes"},
		{nil, 0, "no classes"},
		{[]int{0, 0}, 4, `class "c0" of workload "w" has a share of 0`},
		{[]int{5, -1}, 4, `class "c1" of workload "w" has a share of -1`},
		{[]int{maxShare + 1}, 4, "has a share of"},
		{[]int{1}, maxShare + 1, "more than"},
	} {
		load, err := shares(test.shares...).Split(test.total)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v of %d: %s %v, want an error with %q", test.shares, test.total, load, err, test.want)
		}
	}
}

// TestSplitProperties holds for thousands of random workloads what the rule promises: the sum is the
// total, each class has at least one, a class with a larger share never has fewer, and where nobody
// is held up by the minimum each class is within one of its exact part, those with the larger
// remainders above it.
func TestSplitProperties(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		parts := make([]int, 1+rng.IntN(6))
		sum := 0
		for i := range parts {
			parts[i] = 1 + rng.IntN([]int{3, 50, 10_000}[rng.IntN(3)])
			sum += parts[i]
		}
		total := len(parts) + rng.IntN(300)
		load, err := shares(parts...).Split(total)
		if err != nil {
			t.Fatalf("%v of %d: %v", parts, total, err)
		}
		if got := load.Concurrency(); got != total || len(load.Pools) != len(parts) {
			t.Fatalf("%v of %d: %s has %d", parts, total, load, got)
		}
		lifted := false
		for i, p := range load.Pools {
			lifted = lifted || total*parts[i] < sum
			if p.Concurrency < 1 {
				t.Fatalf("%v of %d: %s", parts, total, load)
			}
			for j, q := range load.Pools {
				if parts[i] > parts[j] && p.Concurrency < q.Concurrency {
					t.Fatalf("%v of %d: %s gives the larger share less", parts, total, load)
				}
			}
		}
		if !lifted {
			checkLargestRemainder(t, parts, total, sum, load)
		}
	}
}

// checkLargestRemainder checks a split against the textbook's rule: floors first, then one more for
// each of the largest remainders.
func checkLargestRemainder(t *testing.T, parts []int, total, sum int, load Load) {
	t.Helper()
	smallestUp, largestDown := sum, -1
	for i, p := range load.Pools {
		floor, remainder := total*parts[i]/sum, total*parts[i]%sum
		switch p.Concurrency {
		case floor:
			largestDown = max(largestDown, remainder)
		case floor + 1:
			smallestUp = min(smallestUp, remainder)
		default:
			t.Fatalf("%v of %d: %s, but class %d is due %d and a part", parts, total, load, i, floor)
		}
	}
	if smallestUp < largestDown {
		t.Fatalf("%v of %d: %s rounds a smaller remainder up", parts, total, load)
	}
}

// TestSplitNearest compares with every other way to split: none with at least one for each class is
// nearer to the exact parts.
func TestSplitNearest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		parts := []int{1 + rng.IntN(40), 1 + rng.IntN(40), 1 + rng.IntN(400)}
		sum := parts[0] + parts[1] + parts[2]
		total := 3 + rng.IntN(20)
		load, err := shares(parts...).Split(total)
		if err != nil {
			t.Fatal(err)
		}
		off := func(a ...int) (d int) { // squared distance, in units of 1/sum²
			for i, n := range a {
				e := n*sum - total*parts[i]
				d += e * e
			}
			return d
		}
		got := off(load.Pools[0].Concurrency, load.Pools[1].Concurrency, load.Pools[2].Concurrency)
		for a := 1; a <= total-2; a++ {
			for b := 1; a+b <= total-1; b++ {
				if off(a, b, total-a-b) < got {
					t.Fatalf("%v of %d: %s, but %d %d %d is nearer", parts, total, load, a, b, total-a-b)
				}
			}
		}
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	c := Class{Output: Range{1000, 2000}}
	if got := c.Life(TokenTime); got != 75*time.Second {
		t.Errorf("life %s, want 75 s for 1500 tokens at 50 ms", got)
	}
}

func TestObjectiveString(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"p90<30s", "p99.9<150ms", "p50<1m30s"} {
		o, ok := parseObjective("ttft", text)
		if !ok || o.String() != "ttft "+text {
			t.Errorf("%s reads as %s %v", text, o, ok)
		}
	}
}

func TestMeasureOf(t *testing.T) {
	m := Measure{WindowMin: time.Minute, Requests: map[string]int{"short": 300, "long": 30}}
	got := m.Of(Workload{Name: "short-only", Classes: []Class{{Name: "short"}}})
	if len(got.Requests) != 1 || got.Requests["short"] != 300 || got.WindowMin != time.Minute {
		t.Errorf("of short-only: %+v", got)
	}
	if len(m.Requests) != 2 {
		t.Error("the measure itself changed")
	}
}
