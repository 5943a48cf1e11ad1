package sweep

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want int
		ok   bool
	}{
		{"0", 0, true},
		{"64", 64, true},
		{"6k", 6000, true},
		{"1.5k", 1500, true},
		{"0.25k", 250, true},
		{"1.2345k", 0, false},
		{"1.5", 0, false},
		{"-1", 0, false},
		{"6K", 0, false},
		{"k", 0, false},
		{"", 0, false},
		{" 6", 0, false},
		{"1e3", 0, false},
		{"9999999999999999", 0, false},
	} {
		if got, ok := parseCount(test.in); got != test.want || ok != test.ok {
			t.Errorf("%q: %d %v, want %d %v", test.in, got, ok, test.want, test.ok)
		}
	}
}

func TestNoSeries(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a:b:c", "127.0.0.1:8000", "0.80", "1.0.0:1", "x1:2:3", ":1:2", "fp8:1:2"} {
		if _, ok, err := parseSeries(text); ok || err != nil {
			t.Errorf("%q is taken for a range: %v", text, err)
		}
	}
}

// TestRangeExact holds that a range has exactly the values that whole numbers give, with the decimals
// of its start and step, whatever they are.
func TestRangeExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		scale := rng.IntN(7)
		start, step, steps, rest := rng.IntN(2000)-1000, 1+rng.IntN(50), rng.IntN(40), 0
		if step > 1 {
			rest = rng.IntN(step)
		}
		stop := start + steps*step + rest
		text := fmt.Sprintf("%s:%s:%s", fixed(start, scale), fixed(stop, scale), fixed(step, scale))
		s, ok, bad := parseSeries(text)
		if !ok || bad != nil {
			t.Fatalf("%s: %v %v", text, ok, bad)
		}
		var want []string
		for i := range steps + 1 {
			want = append(want, fixed(start+i*step, scale))
		}
		if got := strings.Join(s.values(), " "); got != strings.Join(want, " ") {
			t.Fatalf("%s: %s, want %s", text, got, strings.Join(want, " "))
		}
		if s.count != steps+1 || s.exact != (rest == 0) || s.last != want[steps] {
			t.Fatalf("%s: count %d, exact %v, last %s", text, s.count, s.exact, s.last)
		}
	}
}

// fixed writes n × 10^−scale.
func fixed(n, scale int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	digits := fmt.Sprintf("%0*d", scale+1, n)
	if scale == 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func TestSameText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"0.8", "0.80", true},
		{"8", "8.0", true},
		{"+8", "8", true},
		{"-0", "0.0", true},
		{"off", "false", true},
		{"100", "1", false},
		{"0.8", "0.08", false},
		{"10", "1", false},
		{"1e1", "10", false},
		{"on", "true", false},
	} {
		if got := sameText(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"mem_fraction_static", "hicache-size", "ttft", "concurrency", "output-dir"}
	for _, test := range []struct{ in, want string }{
		{"mem_fracton", "mem_fraction_static"},
		{"mem-fraction-statik", "mem_fraction_static"},
		{"hicache_size", "hicache-size"},
		{"HICACHE-SIZE", "hicache-size"},
		{"tftt", "ttft"},
		{"concurency", "concurrency"},
		{"out", "output-dir"},
		{"otput-dir", "output-dir"},
		{"zzzz", ""},
		{"me", ""},
		{strings.Repeat("a", 1000), ""},
	} {
		if got := Nearest(test.in, known); got != test.want {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}

// TestLadder holds that a ladder stops where the next rung would pass its end.
func TestLadder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in    string
		want  string
		exact bool
	}{
		{"1:256:x2", "1 2 4 8 16 32 64 128 256", true},
		{"1:255:x2", "1 2 4 8 16 32 64 128", false},
		{"7:7:x10", "7", true},
		{"1:100:x10", "1 10 100", true},
		{"549755813887:549755813887:x2", "549755813887", true},
	} {
		s, ok, bad := parseSeries(test.in)
		if !ok || bad != nil {
			t.Errorf("%s: %v %v", test.in, ok, bad)
			continue
		}
		if got := strings.Join(s.values(), " "); got != test.want || s.exact != test.exact {
			t.Errorf("%s: %s (%v)", test.in, got, s.exact)
		}
	}
}
