package host

import (
	"fmt"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
)

// BenchmarkLaunch hands over one job whose agent does nothing, follows it to its end and fetches what it made: what a
// host adds to a launch.
func BenchmarkLaunch(b *testing.B) {
	one := func(b *testing.B, h sweep.Host) {
		n, from := 0, int64(0)
		for b.Loop() {
			n++
			job := sweep.Job{Schema: sweep.Schema, ID: fmt.Sprintf("works-%d/repeat=1", n), Attempt: 1, Config: sweep.Config{Key: "works"}}
			if err := h.Submit(b.Context(), []sweep.Job{job}); err != nil {
				b.Fatal(err)
			}
			err := h.Follow(b.Context(), from, func(e sweep.Event, next int64) error {
				from = next
				if e.Kind == sweep.EventEnd {
					return h.Fetch(b.Context(), e.Dir)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("local", func(b *testing.B) {
		one(b, &Local{ID: "local", Night: b.TempDir(), Agent: []string{thisProgram(b).Path, "agent"}})
	})
	for _, roundTrip := range []time.Duration{0, 20 * time.Millisecond} {
		b.Run(fmt.Sprintf("ssh, %v", roundTrip), func(b *testing.B) {
			s := startServer(b, sshtest.Options{})
			h := over(b, s, b.TempDir())
			h.Config = s.Far(roundTrip)
			if err := h.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			one(b, h)
		})
	}
}
