package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sweep/sweep"
)

// maxMirror bounds what a host may send as events of one night, in bytes.
const maxMirror = 256 << 20

// Follow implements [sweep.Host]. The events are kept in the night's own copy of the file, and each is on disk there
// before fn is told of it: the copy's length is where to go on.
func (s *SSH) Follow(ctx context.Context, from int64, fn func(e sweep.Event, next int64) error) error {
	if err := s.prepare(); err != nil {
		return err
	}
	path := filepath.Join(s.dir(), "events.jsonl")
	mirror, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer mirror.Close()
	have, err := wholeLines(mirror)
	if err != nil {
		return err
	}
	tell := func(e sweep.Event, next int64) error {
		e.At = s.ourTime(e.At)
		e.Text = sweep.Printable(e.Text)
		return fn(e, next)
	}
	read := s.clocks
	if read == nil {
		read = clocksOf()
	}
	watch := newSleepWatch(read)
	for {
		if from, err = readEvents(path, from, tell); err != nil {
			return err
		}
		var reply eventsReply
		var got []byte
		wait := s.timing.withDefaults().poll
		err := s.call(ctx, "events", eventsArgs{From: have, Wait: wait.Milliseconds()}, &reply, func() { got = nil }, func(piece []byte) error {
			if got = append(got, piece...); int64(len(got)) > mostEvents {
				return &configError{"the host sends more events than were asked for"}
			}
			return nil
		})
		if slept := watch.look(); slept > 0 {
			s.say("this machine slept for about %v; the agent on the host did not", slept.Round(time.Second))
			_ = s.note("sleep", fmt.Sprintf("this machine slept for about %v", slept.Round(time.Second)))
		}
		switch {
		case err != nil:
			return err
		case reply.Size < have:
			return &configError{fmt.Sprintf("the events of %s on the host are fewer than those already fetched: somebody changed them", s.state.Folder)}
		case have+int64(len(got)) > maxMirror:
			return &configError{fmt.Sprintf("the host sent more than %d MiB of events", maxMirror>>20)}
		case len(got) > 0:
			if err := appendSynced(mirror, have, got); err != nil {
				return err
			}
			have += int64(len(got))
		case !reply.Alive && reply.Open > 0:
			return fmt.Errorf("%w: %d jobs left", sweep.ErrAgentLost, reply.Open)
		case !reply.Alive:
			return s.fetchLog(ctx)
		}
	}
}

// wholeLines is the length of the whole lines of a file; what a crash left behind them is cut off.
func wholeLines(f *os.File) (int64, error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	n := lastLine(data)
	if n < len(data) {
		err = f.Truncate(int64(n))
	}
	return int64(n), err
}

func appendSynced(f *os.File, at int64, data []byte) error {
	if _, err := f.WriteAt(data, at); err != nil {
		return err
	}
	return f.Sync()
}
