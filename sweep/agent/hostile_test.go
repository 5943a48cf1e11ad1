//go:build linux

package agent

import (
	"context"
	"math"
	"testing"

	"sweep/sweep"
)

// TestServerThatCountsNonsense: a server that prints NaN and infinities is measured like any other; what is
// no number is absent.
func TestServerThatCountsNonsense(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	count := n.engine.Sample
	n.engine.Sample = func(ctx context.Context, get sweep.Getter) (sweep.Values, error) {
		v, err := count(ctx, get)
		if v != nil {
			v[sweep.SignalTokenUsage], v[sweep.SignalQueued], v[sweep.SignalRetractions] = math.NaN(), math.Inf(1), math.Inf(-1)
		}
		return v, err
	}
	job := n.job("ready", "w@1")
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := endings(n.launches(job)), job.Loads[0].Cell+"=ok"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	var r sweep.LoadResult
	if err := readJSON(n.opt.Out+"/"+job.Dir(1)+"/"+job.Loads[0].Dir()+"/run.json", &r); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Values["running"]; !ok {
		t.Error("what the server counts well is lost as well")
	}
	for _, name := range []string{"token_usage", "queued", "retractions"} {
		if v, ok := r.Values[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}
