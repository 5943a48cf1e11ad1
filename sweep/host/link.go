package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"sweep/sweep"
)

// errLinkDown says that a link is no more; what was asked over it is asked again over the next one.
var errLinkDown = errors.New("the link is down")

// channel is one running command on a host.
type channel struct {
	in     io.WriteCloser
	out    io.Reader
	errOut *tailBuffer         // the end of what it wrote to standard error
	wait   func() (int, error) // for its end: the exit code, or why there is none
	close  func()              // ends it, and all calls that wait for it
}

// tailBuffer keeps the last bytes that were written to it.
type tailBuffer struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 8 << 10

// Write implements [io.Writer].
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > tailSize {
		t.data = append([]byte(nil), t.data[len(t.data)-tailSize:]...)
	}
	return len(p), nil
}

// String is what was kept.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

// link is a living connection to a host's relay.
type link struct {
	ch   *channel
	w    frameWriter
	idle time.Duration // without any frame for a request: the link is given up

	mu      sync.Mutex
	next    uint32
	pending map[uint32]chan frame
	closed  bool // nothing starts any more

	down chan struct{} // closed when the link is no more; err is set then
	err  error
	once sync.Once
	wg   sync.WaitGroup
}

// newLink speaks with the relay that a command on a host is. It waits for the preamble no longer than patience.
func newLink(ch *channel, patience, idle time.Duration) (*link, error) {
	l := &link{ch: ch, w: frameWriter{w: ch.in}, idle: idle, pending: map[uint32]chan frame{}, down: make(chan struct{})}
	r := bufio.NewReaderSize(ch.out, 64<<10)
	timer := time.AfterFunc(patience, ch.close)
	err := skipNoise(r)
	if !timer.Stop() && err != nil {
		err = fmt.Errorf("%w within %v", err, patience)
	}
	if err != nil {
		ch.close()
		return nil, err
	}
	l.wg.Go(func() { l.fail(l.receive(r)) })
	return l, nil
}

// receive hands each frame to whoever waits for it.
func (l *link) receive(r io.Reader) error {
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		l.mu.Lock()
		to := l.pending[f.id]
		l.mu.Unlock()
		if to == nil {
			continue // given up
		}
		select {
		case to <- f:
		case <-l.down:
			return errLinkDown
		case <-time.After(l.idle):
			return errors.New("an answer that nobody takes")
		}
	}
}

// fail ends the link for a reason.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = fmt.Errorf("%w: %w", errLinkDown, err)
		close(l.down)
		l.ch.close()
	})
}

// close ends the link and waits until nothing of it is left.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.fail(errors.New("closed"))
	l.wg.Wait()
}

// remoteError is what a relay answers when it could not do what was asked.
type remoteError struct {
	text string
	lost bool
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Is(target error) bool { return e.lost && target == sweep.ErrAgentLost }

// call asks one thing and waits for the answer. data is given the bytes that come before it; it may be nil. An error
// that wraps errLinkDown means that the answer is not known.
func (l *link) call(ctx context.Context, q request, reply any, data func([]byte) error) error {
	id, frames := l.begin()
	defer l.end(id)
	if err := l.send(ctx, id, q); err != nil {
		return err
	}
	timer := time.NewTimer(l.idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = l.w.write(frame{id: id, kind: frameGiveUp}) // a link that takes no more is found out by others
			return ctx.Err()
		case <-l.down:
			return l.err
		case <-timer.C:
			l.fail(fmt.Errorf("nothing was heard for %v", l.idle))
			return l.err
		case f := <-frames:
			timer.Reset(l.idle)
			switch f.kind {
			case frameData:
				if data == nil {
					return errors.New("the host sends what nobody asked for")
				}
				if err := data(f.payload); err != nil {
					_ = l.w.write(frame{id: id, kind: frameGiveUp})
					return err
				}
			case frameAnswer:
				return decodeAnswer(f.payload, reply)
			}
		}
	}
}

// send writes a request, and gives the link up when that takes too long: a write has no deadline of its own.
func (l *link) send(ctx context.Context, id uint32, q request) error {
	sent := make(chan error, 1)
	if !l.start(func() { sent <- l.w.writeJSON(id, frameRequest, q) }) {
		<-l.down
		return l.err
	}
	timer := time.NewTimer(l.idle)
	defer timer.Stop()
	select {
	case err := <-sent:
		if err != nil {
			l.fail(err)
			return l.err
		}
		return nil
	case <-l.down:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		l.fail(fmt.Errorf("nothing could be sent for %v", l.idle))
		return l.err
	}
}

// start runs something that close waits for; false: the link is being closed.
func (l *link) start(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.wg.Go(run)
	return true
}

func (l *link) begin() (uint32, chan frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	frames := make(chan frame, 16)
	l.pending[l.next] = frames
	return l.next, frames
}

func (l *link) end(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, id)
}

func decodeAnswer(payload []byte, reply any) error {
	var a answer
	if err := json.Unmarshal(payload, &a); err != nil {
		return fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	if a.Error != "" {
		return &remoteError{sweep.Printable(a.Error), a.Lost}
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(a.Reply, reply); err != nil {
		return fmt.Errorf("the host's answer cannot be read: %w", err)
	}
	return nil
}
