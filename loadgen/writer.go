package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// writer writes the request file and the record from a goroutine of its own, so that a slow disk slows nothing.
type writer struct {
	lines, record writerTo
	pushed        time.Time

	mu   sync.Mutex
	err  error
	lost int // requests for which there was no room
	done bool
	wake chan struct{} // of capacity 1
}

// maxQueued bounds what waits for the disk, in bytes of each file.
const maxQueued = 64 << 20

// pushSize and pushTime bound what a killed process loses.
const (
	pushSize = 64 << 10
	pushTime = time.Second
)

func (w *writer) add(f *finished, x *sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines.full() || w.record.full() {
		w.lost++
		return
	}
	if w.record.to != nil {
		w.record.buf = appendFrame(w.record.buf, frameRequest, func(b []byte) []byte { return appendRequest(b, f) })
	}
	if w.lines.to != nil {
		if b, err := json.Marshal(x.line(&f.rec)); err == nil { // a Request always has a JSON form
			w.lines.buf = append(append(w.lines.buf, b...), '\n')
		}
	}
}

// note appends a frame that is no request.
func (w *writer) note(kind byte, v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.record.to != nil {
		w.record.buf = appendJSONFrame(w.record.buf, kind, v)
	}
}

// push wakes the writer when there is enough to write, or when the last time was long ago.
func (w *writer) push(now bool) {
	w.mu.Lock()
	size := len(w.lines.buf) + len(w.record.buf)
	if size > 0 && (now || size >= pushSize || time.Since(w.pushed) >= pushTime) {
		now, w.pushed = true, time.Now()
	}
	w.mu.Unlock()
	if !now {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.done = true
	w.mu.Unlock()
	w.push(true)
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) dropped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// loop writes until close. After the first error it writes no more.
func (w *writer) loop() {
	for range w.wake {
		w.mu.Lock()
		lines, record, done := w.lines.swap(), w.record.swap(), w.done
		w.mu.Unlock()
		w.write(&w.lines, lines, "the request file")
		w.write(&w.record, record, "the record")
		if done {
			return
		}
	}
}

func (w *writer) write(to *writerTo, b []byte, what string) {
	if len(b) == 0 || w.failed() != nil {
		return
	}
	if _, err := to.to.Write(b); err != nil {
		w.fail(fmt.Errorf("write %s: %w", what, err))
	}
}

// writerTo is one of the writer's files: one buffer fills while the other is being written.
type writerTo struct {
	to         io.Writer // nil: not wanted
	buf, other []byte
}

func (t *writerTo) full() bool { return len(t.buf) > maxQueued }

// swap returns what is to be written. It is good until the next swap.
func (t *writerTo) swap() []byte {
	t.buf, t.other = t.other[:0], t.buf
	return t.other
}

func newWriter(lines, record io.Writer) *writer {
	w := &writer{lines: writerTo{to: lines}, record: writerTo{to: record}, wake: make(chan struct{}, 1)}
	if record != nil {
		w.record.buf = []byte(recordMagic)
	}
	return w
}
