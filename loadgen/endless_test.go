package loadgen

import (
	"errors"
	"strings"
	"testing"
)

// A stream may be as long as its answer can need, by any route; far beyond that, it is one that never ends.
func TestEndlessStreams(t *testing.T) {
	event := "data: {\"choices\":[{\"text\":\"" + strings.Repeat("x", 100<<10) + "\"}]}\n\n"
	for _, c := range []struct {
		name, event  string
		asked, times int
		ends         bool
	}{
		{"events within", "data: {}\n\n", 100, 1800, false},
		{"events beyond", "data: {}\n\n", 100, 1801, true},
		{"bytes within", event, 100, 170, false},
		{"bytes beyond", event, 100, 200, true},
		{"the whole answer so far, with log-probabilities", event, 2000, 2000, false},
		{"no bound without a length", "data: {}\n\n", 0, 100_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &reply{asked: c.asked}
			r.reset()
			_, err := r.feed([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), 0)
			for range c.times {
				if err == nil {
					_, err = r.feed([]byte(c.event), 0)
				}
			}
			if errors.Is(err, errEndless) != c.ends {
				t.Fatalf("ended with %v", err)
			}
			if v := r.judge(c.asked, err); c.ends && (v.outcome != Failed || v.kind != KindEndless) {
				t.Errorf("judged %v", v)
			}
		})
	}
}

// One event longer than any real one ends its stream before it has taken the memory.
func TestLongestEvent(t *testing.T) {
	r := &reply{}
	r.reset()
	_, err := r.feed([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "), 0)
	piece := []byte(strings.Repeat("x", 64<<10))
	n := 0
	for ; err == nil && n < 2*maxEvent; n += len(piece) {
		_, err = r.feed(piece, 0)
	}
	if !errors.Is(err, errLong) || n > maxEvent+2*len(piece) {
		t.Errorf("after %d bytes: %v", n, err)
	}
}
