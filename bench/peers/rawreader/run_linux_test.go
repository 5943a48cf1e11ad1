package rawreader

import (
	"math"
	"strings"
	"testing"

	"sweep/loadgen/truth"
)

// What the reader says is what the server's log says, but for the way between them.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, kernel := range []bool{false, true} {
		for _, pattern := range []string{"spread", "lockstep", "split"} {
			plan, err := truth.ParseQuery(truth.DefaultPlan(), "pattern="+pattern+"&first_us=20000&gap_us=10000")
			if err != nil {
				t.Fatal(err)
			}
			s, err := truth.Listen(truth.Options{Plan: plan})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			got, err := Run(Options{Address: strings.TrimPrefix(s.URL(), "http://"), Streams: 3, Requests: 6, Tokens: 5, Kernel: kernel})
			if err != nil || got.Requests != 6 || got.Events != 30 || got.User.ITL.N != 24 || got.CPUS <= 0 || got.CPUS > got.DurationS {
				t.Fatalf("%s: %+v, %v", pattern, got, err)
			}
			var ttft, gaps float64
			for _, r := range s.Log() {
				x := truth.Expect(&r)
				ttft += float64(*x.FirstToken) / 6e6
				gaps += float64(*x.E2EToken-*x.FirstToken) / 24e6
			}
			times := got.User
			if kernel {
				if times = *got.Kernel; got.Unstamped > 0 {
					t.Logf("%d reads without a stamp of the kernel", got.Unstamped)
				}
			}
			if late := times.TTFT.Mean - ttft; late < 0 || late > 15 { // a busy machine is late, never early
				t.Errorf("%s, kernel %v: TTFT %v ms, truly %v", pattern, kernel, times.TTFT.Mean, ttft)
			}
			if math.Abs(times.ITL.Mean-gaps) > 5 {
				t.Errorf("%s, kernel %v: gaps %v ms, truly %v", pattern, kernel, times.ITL.Mean, gaps)
			}
		}
	}
}

func TestDistribute(t *testing.T) {
	t.Parallel()
	got := Distribute([]float64{4, 1, 3, 2})
	want := Distribution{N: 4, Mean: 2.5, P50: 2.5, P90: 3.7, P99: 3.97, Max: 4}
	if math.Abs(got.P90-want.P90) > 1e-9 || math.Abs(got.P99-want.P99) > 1e-9 {
		t.Errorf("%+v", got)
	}
	got.P90, got.P99 = want.P90, want.P99
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if one := Distribute([]float64{7}); one.P99 != 7 || (Distribute(nil) != Distribution{}) {
		t.Errorf("%+v", one)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	if _, err := Run(Options{Address: "127.0.0.1:1", Streams: 1, Requests: 1, Tokens: 1}); err == nil {
		t.Error("no error without a server")
	}
	if _, err := Run(Options{}); err == nil {
		t.Error("no error without streams")
	}
	s, err := truth.Listen(truth.Options{Plan: truth.Plan{FirstUS: 1000, GapUS: 1000, ResetAfter: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := Run(Options{Address: strings.TrimPrefix(s.URL(), "http://"), Streams: 1, Requests: 1, Tokens: 5}); err == nil {
		t.Error("no error for a reset stream")
	}
}
