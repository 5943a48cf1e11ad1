package sweep

import (
	"fmt"
	"time"
)

// Deadline is when a night that begins now has to end, by "until" or "budget"; zero: nothing bounds it. It carries
// now's monotonic reading: a clock that is set meanwhile moves it as little as it moves the night.
func (g *Grid) Deadline(now time.Time) time.Time {
	switch {
	case g.Budget > 0:
		return now.Add(g.Budget)
	case g.Until != "":
		return now.Add(untilClock(g.Until, now))
	}
	return time.Time{}
}

// untilClock is how long it is until the clock shows a time of day: always more than nothing, at most about a day.
func untilClock(clock string, now time.Time) time.Duration {
	var hour, minute int
	if _, err := fmt.Sscanf(clock, "%d:%d", &hour, &minute); err != nil {
		return 0 // the reader has checked it
	}
	for day := 0; ; day++ {
		t := time.Date(now.Year(), now.Month(), now.Day()+day, hour, minute, 0, 0, now.Location())
		if d := t.Round(0).Sub(now.Round(0)); d > 0 {
			return d
		}
	}
}

// Remaining is what is left until a deadline, in the form in which it travels to a host, whose clock may show
// another time: nil without a deadline, never negative.
func Remaining(deadline time.Time) *time.Duration {
	if deadline.IsZero() {
		return nil
	}
	d := max(0, time.Until(deadline))
	return &d
}
