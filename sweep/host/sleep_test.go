package host

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep/sweep"
)

// TestMachineSleeps: a laptop that is closed for hours while it follows a host says so when it wakes, and goes on as if
// nothing had been: no event is lost, and nothing has failed. A clock that is set, or that runs for hours, is no sleep.
func TestMachineSleeps(t *testing.T) {
	t.Parallel()
	const hours = 9 * time.Hour
	for name, c := range map[string]struct {
		wall, awake time.Duration // by which the clocks go on while an answer is waited for
		slept       bool
	}{
		"closed at once":       {hours, 0, true},
		"closed after an hour": {hours + time.Hour, time.Hour, true},
		"awake for hours":      {hours, hours, false},
		"corrected a little":   {hours + 20*time.Second, hours, false},
		"set back":             {-time.Hour, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			now := clocks{wall: time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)}
			asked := 0
			h := inProcess(t, answers(func(q request, send func([]byte)) (any, error) {
				switch q.Op {
				case "events":
				case "read":
					return nil, errors.New("there is no log")
				default:
					return nil, errors.New("nothing else was to be asked: " + q.Op)
				}
				mu.Lock()
				defer mu.Unlock()
				const line = `{"kind":"end"}` + "\n"
				if asked++; asked == 1 {
					now.wall, now.awake = now.wall.Add(c.wall), now.awake+c.awake
					send([]byte(line))
					return eventsReply{Size: int64(len(line)), Alive: true}, nil
				}
				return eventsReply{Size: int64(len(line))}, nil
			}))
			h.clocks = func() clocks {
				mu.Lock()
				defer mu.Unlock()
				return now
			}
			var said, noted []string
			h.Say = func(text string) { said = append(said, text) }
			h.Note = func(kind, text string) error {
				if kind == "sleep" {
					noted = append(noted, text)
				}
				return nil
			}
			var kinds []sweep.EventKind
			if err := h.Follow(t.Context(), 0, func(e sweep.Event, _ int64) error {
				kinds = append(kinds, e.Kind)
				return nil
			}); err != nil || !slices.Equal(kinds, []sweep.EventKind{sweep.EventEnd}) {
				t.Errorf("events %v, %v", kinds, err)
			}
			const want = "this machine slept for about 9h0m0s"
			if !c.slept {
				if len(said)+len(noted) > 0 {
					t.Errorf("said %q, noted %q", said, noted)
				}
			} else if len(said) != 1 || !strings.Contains(said[0], want) || !slices.Equal(noted, []string{want}) {
				t.Errorf("said %q, noted %q", said, noted)
			}
		})
	}
}

// TestClocksAgree: the two clocks of a machine that is awake go the same way.
func TestClocksAgree(t *testing.T) {
	t.Parallel()
	w := newSleepWatch(clocksOf())
	time.Sleep(10 * time.Millisecond) // some of each has to go by
	if d := w.look(); d != 0 || w.last.awake <= 0 {
		t.Errorf("slept for %v, awake for %v", d, w.last.awake)
	}
}
