package proc

import (
	"bytes"
	"fmt"
	"io"
)

// The caps of a log where a Spec leaves them open, in bytes.
const (
	defaultLogHead = 64 << 20
	defaultLogTail = 16 << 20
)

// capLog writes a log whose size has a limit: the first head bytes as they come, then the last tail
// bytes at the end, and between them one line that says how many are missing. It only appends, so
// what was written stays at its offset and evidence can point at it.
//
// Bytes after the head wait in memory for the end. A server that is stuck does not end, so when the
// output goes quiet what waits is written early, for at most tail bytes in all: the file is never
// larger than head, twice tail and its marks.
type capLog struct {
	w     io.Writer
	head  int64 // bytes that may still be written as they come
	tail  int64
	early int64 // bytes that may still be written early

	ring []byte // waits
	cut  int64  // bytes that were dropped since the last byte written
	last byte   // byte written last

	lost int64 // bytes that the disk refused since the last byte written
	err  error // the first refusal
}

func newCapLog(w io.Writer, head, tail int64) *capLog {
	if head <= 0 {
		head = defaultLogHead
	}
	if tail <= 0 {
		tail = defaultLogTail
	}
	return &capLog{w: w, head: head, tail: tail, early: tail, last: '\n'}
}

// Write implements [io.Writer]. It never fails: a full disk must not stop the server, which would
// otherwise wait for us on its next line. The error is kept in err.
func (c *capLog) Write(p []byte) (int, error) {
	n := len(p)
	if c.head > 0 {
		k := min(c.head, int64(len(p)))
		c.write(p[:k])
		c.head -= k
		p = p[k:]
	}
	if len(p) == 0 {
		return n, nil
	}
	c.ring = append(c.ring, p...)
	if over := int64(len(c.ring)) - 2*c.tail; over > 0 { // twice, so that bytes are moved seldom
		c.drop(int64(len(c.ring)) - c.tail)
	}
	return n, nil
}

// waiting reports whether bytes wait that quiet would write.
func (c *capLog) waiting() bool { return len(c.ring) > 0 && c.early > 0 }

// quiet is called when the output has paused.
func (c *capLog) quiet() {
	if c.waiting() {
		n := min(int64(len(c.ring)), c.early)
		c.early -= n
		c.flush(n)
	}
}

// finish writes what waits. Nothing may be written afterwards.
func (c *capLog) finish() {
	c.flush(c.tail)
}

// flush writes the last n bytes of those that wait.
func (c *capLog) flush(n int64) {
	if over := int64(len(c.ring)) - n; over > 0 {
		c.drop(over)
	}
	if c.cut > 0 {
		if i := bytes.IndexByte(c.ring, '\n'); i >= 0 { // begin with a whole line
			c.drop(int64(i) + 1)
		}
		mark := fmt.Sprintf("[sweep: %d bytes of output are cut here]\n", c.cut)
		if c.last != '\n' {
			mark = "\n" + mark
		}
		c.cut = 0
		c.write([]byte(mark))
	}
	if len(c.ring) > 0 {
		c.write(c.ring)
	}
	c.ring = c.ring[:0]
}

func (c *capLog) drop(n int64) {
	c.cut += n
	c.ring = append(c.ring[:0], c.ring[n:]...)
}

// write appends to the file; what the disk refuses is counted, and said in the file when the disk
// takes bytes again.
func (c *capLog) write(p []byte) {
	if c.lost > 0 {
		mark := fmt.Sprintf("\n[sweep: %d bytes of output are missing here: %v]\n", c.lost, c.err)
		if _, err := io.WriteString(c.w, mark); err != nil {
			c.lost += int64(len(p))
			return
		}
		c.lost = 0
	}
	n, err := c.w.Write(p)
	if err != nil {
		c.lost += int64(len(p) - n)
		if c.err == nil {
			c.err = err
		}
	}
	if n > 0 {
		c.last = p[n-1]
	}
}
