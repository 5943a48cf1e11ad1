package loadgen

import (
	"errors"
	"fmt"
)

// errEndless ends a stream that goes on and on. Its record grows with each event, so that without a bound one broken server
// takes the client's memory.
var errEndless = errors.New("far more than the asked output can need")

// mostEvents is how many events a stream may have that was asked for so many tokens. A server sends one a token, some send
// one more for each (role, usage, a part of a character), and comments while a request waits.
func mostEvents(asked int) int { return 8*asked + 1000 }

// mostBytes is the same in bytes. An event with log-probabilities takes some 10 KiB; SGLang's native route repeats the whole
// answer so far in each event, so that the square of its length counts, at up to 128 B a token with log-probabilities.
func mostBytes(asked int) int64 {
	n := int64(asked)
	return maxEvent + n*16<<10 + n*n*64
}

// endless says why a stream is not to be read any further; nil when it may go on.
func (r *reply) endless() error {
	switch {
	case r.asked == 0:
	case r.track.count > mostEvents(r.asked):
		return fmt.Errorf("%w: %d tokens were asked, and the stream has not ended after %d events", errEndless, r.asked, r.track.count)
	case r.taken > mostBytes(r.asked):
		return fmt.Errorf("%w: %d tokens were asked, and the stream has not ended after %d MiB", errEndless, r.asked, r.taken>>20)
	}
	return nil
}
