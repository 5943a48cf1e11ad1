package loadgen

import (
	"testing"
	"testing/synctest"
	"time"
)

// What ended waits for what ends with it, but neither when nothing else is in flight nor when requests fail.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		name             string
		inFlight, failed int64
		want             time.Duration
	}{{"others in flight", 3, 0, gatherTime}, {"the last one", 0, 0, 0}, {"failures", 3, 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := newRun(Spec{URL: "http://h:1", Route: "/v1/completions", Window: Window{Min: time.Hour},
					Classes: []Class{{Name: "a", Concurrency: 1, Input: Range{1, 1}, Output: Range{1, 1}}}})
				if err != nil {
					t.Fatal(err)
				}
				r.inFlight.Store(c.inFlight)
				r.failing.Store(c.failed)
				began := time.Now()
				go r.out.loop()
				r.out.put(r.out.blank(), r.out.blank())
				<-r.moved
				if took := time.Since(began); took != c.want || r.result.Sent != 2 {
					t.Errorf("%d requests after %v, want 2 after %v", r.result.Sent, took, c.want)
				}
				r.out.close()
			})
		})
	}
}
