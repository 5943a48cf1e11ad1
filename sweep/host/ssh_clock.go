package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockFile holds what both sides' clocks said at the same moment, a line for each connection.
const clockFile = "clock.jsonl"

// clockLine is one comparison. The offset is the host's clock less this machine's; half the round trip is its error.
type clockLine struct {
	At        time.Time `json:"at"`
	HostAt    time.Time `json:"host_at"`
	Offset    float64   `json:"offset_s"`
	RoundTrip float64   `json:"rtt_s"`
	BootID    string    `json:"boot_id"` // of the host
}

// clockTries is how often the clocks are compared; the quickest answer is the best.
const clockTries = 3

// compareClocks asks the host for its time. The caller holds the lock.
func (s *SSH) compareClocks(ctx context.Context) error {
	var best clockLine
	for range clockTries {
		var reply helloReply
		began := time.Now()
		if err := s.link.call(ctx, request{Op: "hello"}, &reply, nil); err != nil {
			return err
		}
		took := time.Since(began)
		middle, theirs := began.Add(took/2), time.Unix(0, reply.Time)
		line := clockLine{At: middle, HostAt: theirs, Offset: theirs.Sub(middle).Seconds(), RoundTrip: took.Seconds(), BootID: reply.BootID}
		if best.At.IsZero() || line.RoundTrip < best.RoundTrip {
			best = line
		}
	}
	s.offset = time.Duration(best.Offset * float64(time.Second))
	if s.Night == "" {
		return nil
	}
	line, err := json.Marshal(best)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir(), clockFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return s.note("clock", fmt.Sprintf("the clock of %s is %+.3f s from this machine's, known to %.3f s", s.ID, best.Offset, best.RoundTrip/2))
}

// ourTime is a moment of the host's clock by this machine's.
func (s *SSH) ourTime(t time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.Add(-s.offset)
}

// clocks is what this machine's two clocks say at one moment.
type clocks struct {
	wall  time.Time     // goes on while the machine sleeps, and can be set
	awake time.Duration // of the clock that timers use, since some moment: it stands still while the machine sleeps
}

// clocksOf gives a reader of this machine's clocks.
func clocksOf() func() clocks {
	began := time.Now()
	return func() clocks {
		now := time.Now()
		return clocks{now.Round(0), now.Sub(began)}
	}
}

// sleepWatch notices that this machine slept: its wall clock then goes on, the clock that timers use does not.
type sleepWatch struct {
	read func() clocks
	last clocks
}

func newSleepWatch(read func() clocks) *sleepWatch { return &sleepWatch{read, read()} }

// shortSleep is what a wall clock may be set by without anybody having slept.
const shortSleep = 30 * time.Second

// look returns how long the machine slept since the last look; 0: it did not.
func (w *sleepWatch) look() time.Duration {
	was, is := w.last, w.read()
	w.last = is
	if d := is.wall.Sub(was.wall) - (is.awake - was.awake); d > shortSleep {
		return d
	}
	return 0
}
