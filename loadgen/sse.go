package loadgen

import "bytes"

// maxEvent bounds one event. Real ones reach some 200 KiB.
const maxEvent = 16 << 20

// sse splits a byte stream into server-sent events, as the WHATWG text defines them: lines end in
// LF, CRLF or CR, a blank line ends an event, several data lines are joined by LF, comments and other
// fields are passed over. Bytes may be split anywhere. In the common case nothing is copied.
type sse struct {
	line    []byte // start of a line whose end has not come
	held    []byte // data of the current event, when it had to be copied
	data    []byte // data of the current event: a part of the fed bytes, or held
	has     bool   // the current event has data
	failed  bool   // the current event is named "error"
	skipLF  bool   // the last byte was a CR that ended a line
	started bool   // the first line is behind us: a byte-order mark can only stand before it

	comments int
	tooLong  bool // an event passed maxEvent: the rest is not read
}

// sink receives what a stream holds. The bytes are good only during the call.
type sink interface {
	onData(data []byte) // one event's data
	onComment(line []byte)
	onError(data []byte) // of an event named "error", or of a line "error: …", as llama.cpp sent before 2026
}

func (p *sse) reset() {
	line, held := p.line[:0], p.held[:0]
	if cap(line)+cap(held) > 1<<20 {
		line, held = nil, nil // do not keep what one huge event took
	}
	*p = sse{line: line, held: held}
}

// feed reads the next bytes and calls the sink for each event that they complete.
func (p *sse) feed(b []byte, to sink) {
	lf, cr := -1, -1 // index of the next one at or after the cursor; len(b) when there is none
	for i := 0; i < len(b) && !p.tooLong; {
		if p.skipLF {
			p.skipLF = false
			if b[i] == '\n' {
				i++
				continue
			}
		}
		if lf < i {
			lf = indexFrom(b, i, '\n')
		}
		if cr < i {
			cr = indexFrom(b, i, '\r')
		}
		end := min(lf, cr)
		if end == len(b) { // the line goes on in the next bytes
			p.line = append(p.line, b[i:]...)
			p.tooLong = len(p.line)+len(p.data) > maxEvent
			break
		}
		p.skipLF = b[end] == '\r'
		line := b[i:end]
		i = end + 1
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
			p.onLine(p.line, to)
			if p.has && len(p.data) > 0 { // it lies in p.line, which is used again
				p.hold()
			}
			p.line = p.line[:0]
			continue
		}
		p.onLine(line, to)
	}
	if p.has {
		p.hold()
	}
}

// indexFrom is the index of c in b, from i on; len(b) when there is none.
func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}

// hold copies the current event's data, so that it outlives the bytes it came in.
func (p *sse) hold() {
	if len(p.data) > 0 && (len(p.held) == 0 || &p.data[0] != &p.held[0]) {
		p.held = append(p.held[:0], p.data...)
		p.data = p.held
	}
}

var (
	dataStart  = []byte("data: ") // as all servers write it
	fieldData  = []byte("data")
	fieldError = []byte("error")
	fieldEvent = []byte("event")
	bom        = []byte("\ufeff")
)

func (p *sse) onLine(line []byte, to sink) {
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, bom)
	}
	if len(line) == 0 {
		if p.has {
			data, failed := p.data, p.failed
			p.data, p.has = nil, false
			if failed {
				to.onError(data)
			} else {
				to.onData(data)
			}
			p.held = p.held[:0]
		}
		p.failed = false
		return
	}
	if value, ok := bytes.CutPrefix(line, dataStart); ok {
		p.addData(value)
		return
	}
	name, value := line, []byte(nil)
	if before, after, ok := bytes.Cut(line, []byte{':'}); ok {
		name, value = before, after
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch {
	case len(name) == 0:
		p.comments++
		to.onComment(line)
	case bytes.Equal(name, fieldData):
		p.addData(value)
	case bytes.Equal(name, fieldError):
		to.onError(value)
	case bytes.Equal(name, fieldEvent):
		p.failed = bytes.Equal(value, fieldError)
	}
}

func (p *sse) addData(value []byte) {
	if !p.has {
		p.has, p.data = true, value
		return
	}
	if len(p.held) == 0 {
		p.held = append(p.held, p.data...)
	}
	p.held = append(append(p.held, '\n'), value...)
	p.data = p.held
	p.tooLong = len(p.held) > maxEvent
}
