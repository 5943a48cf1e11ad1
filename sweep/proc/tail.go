package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	maxLine  = 64 << 10              // bytes of a line that are kept
	tailPoll = 25 * time.Millisecond // how often a file that does not grow is looked at
)

// Tail follows a file that grows. Bytes once written must stay where they are, as a supervisor's log
// does. It is used by one goroutine.
type Tail struct {
	path   string
	file   *os.File
	offset int64  // of the next byte to read
	buf    []byte // read and not yet given
	start  int64  // offset of buf[0]
	number int
	skip   bool // the rest of a line that was cut
}

// NewTail follows the file at path from offset; the file need not exist yet.
func NewTail(path string, offset int64) *Tail {
	return &Tail{path: path, offset: offset, start: offset, number: 1}
}

// Next waits for the next line. When done is closed (a server's Gone) and every byte is read it
// returns io.EOF, after a last line without an end.
func (t *Tail) Next(ctx context.Context, done <-chan struct{}) (Line, error) {
	for {
		if line, ok := t.take(false); ok {
			return line, nil
		}
		over := closed(done) // before the read: what was written before done is then read
		n, err := t.fill()
		if err != nil {
			return Line{}, fmt.Errorf("follow %s: %w", t.path, err)
		}
		switch {
		case n > 0:
		case over:
			if line, ok := t.take(true); ok {
				return line, nil
			}
			return Line{}, io.EOF
		default:
			timer := time.NewTimer(tailPoll)
			select {
			case <-ctx.Done():
				timer.Stop()
				return Line{}, context.Cause(ctx)
			case <-done:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// Close closes the file.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// fill reads what has been written since.
func (t *Tail) fill() (int, error) {
	if t.file == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, os.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		t.file = f
	}
	chunk := make([]byte, 64<<10)
	n, err := t.file.ReadAt(chunk, t.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	t.offset += int64(n)
	t.buf = append(t.buf, chunk[:n]...)
	return n, nil
}

// take gives the first whole line of the buffer; with final set also one without an end.
func (t *Tail) take(final bool) (Line, bool) {
	for {
		i := bytes.IndexAny(t.buf, "\r\n")
		switch {
		case i < 0 && len(t.buf) > maxLine:
			line := t.cut(maxLine, maxLine, '\n')
			skipped := t.skip
			t.number-- // the line goes on
			t.skip = true
			if !skipped {
				return line, true
			}
			continue
		case i < 0 && (!final || len(t.buf) == 0):
			return Line{}, false
		case i < 0:
			i = len(t.buf)
			line := t.cut(i, i, '\n')
			return line, !t.skip
		}
		end, n := t.buf[i], i+1
		if end == '\r' {
			if n == len(t.buf) && !final {
				return Line{}, false // it may be half of "\r\n"
			}
			if n < len(t.buf) && t.buf[n] == '\n' {
				end, n = '\n', n+1
			}
		}
		line := t.cut(i, n, end)
		if t.skip {
			t.skip = false
			continue
		}
		return line, true
	}
}

// cut takes n bytes off the buffer, of which text are the line's.
func (t *Tail) cut(text, n int, end byte) Line {
	line := Line{Offset: t.start, Number: t.number, Text: string(t.buf[:min(text, maxLine)]), Bar: end == '\r'}
	if end == '\n' {
		t.number++
	}
	t.start += int64(n)
	t.buf = t.buf[n:]
	return line
}
