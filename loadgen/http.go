package loadgen

import (
	"bytes"
	"errors"
	"strconv"
)

// httpState is where in a response the parser is.
type httpState uint8

const (
	stateHead      httpState = iota // status line and header
	stateChunkSize                  // a chunk's size line
	stateChunk                      // a chunk's data
	stateChunkEnd                   // the line end after it
	stateTrailer                    // after the last chunk
	stateLength                     // a body of known length
	stateUntilEOF                   // a body that ends with the connection
	stateEnd
)

const (
	maxHead = 64 << 10 // bytes of a response's head, and of a chunk's size line
	maxBody = 8 << 10  // bytes kept of a body that is no event stream
)

var (
	errHead  = errors.New("not an HTTP/1.1 response")
	errChunk = errors.New("broken chunked framing")
	errLong  = errors.New("an event of more than 16 MiB")
)

// response parses one HTTP/1.1 response as it arrives, cut anywhere. The body goes to the SSE parser
// when the response is an event stream; of others the first 8 KiB are kept.
type response struct {
	state   httpState
	line    []byte // of the head, a size line or a trailer, as far as it came
	inField bool   // the status line has been read
	left    int64  // of the chunk or of the body
	chunked bool
	length  int64 // −1: not given

	status int
	events bool // content type is text/event-stream
	close  bool // the connection cannot be used again

	sse  sse
	body []byte
}

func (r *response) reset() {
	line, body := r.line[:0], r.body[:0]
	s := r.sse
	s.reset()
	*r = response{line: line, body: body, sse: s, length: -1}
}

// headDone says whether the whole header has come.
func (r *response) headDone() bool { return r.state != stateHead }

// feed parses the next bytes and returns how many belong to this response. After an error the
// response is of no further use.
func (r *response) feed(b []byte, to sink) (int, error) {
	i := 0
	for i < len(b) && r.state != stateEnd {
		var n int
		var err error
		switch r.state {
		case stateChunk, stateLength, stateUntilEOF:
			n = r.feedBody(b[i:], to)
		default:
			n, err = r.feedLine(b[i:])
		}
		i += n
		if err == nil && r.sse.tooLong {
			err = errLong
		}
		if err != nil {
			return i, err
		}
	}
	return i, nil
}

func (r *response) feedBody(b []byte, to sink) int {
	if r.state != stateUntilEOF && int64(len(b)) > r.left {
		b = b[:r.left]
	}
	if r.events {
		r.sse.feed(b, to)
	} else if room := maxBody - len(r.body); room > 0 {
		r.body = append(r.body, b[:min(room, len(b))]...)
	}
	if r.state == stateUntilEOF {
		return len(b)
	}
	if r.left -= int64(len(b)); r.left == 0 {
		if r.state == stateChunk {
			r.state = stateChunkEnd
		} else {
			r.state = stateEnd
		}
	}
	return len(b)
}

// feedLine reads up to the next LF and acts on the line when it is whole.
func (r *response) feedLine(b []byte) (int, error) {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		r.line = append(r.line, b...)
		if len(r.line) > maxHead {
			return len(b), r.lineError()
		}
		return len(b), nil
	}
	line := b[:n]
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
	}
	if len(line) > maxHead {
		return n + 1, r.lineError()
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	err := r.onLine(line)
	r.line = r.line[:0]
	return n + 1, err
}

func (r *response) lineError() error {
	if r.state == stateHead {
		return errHead
	}
	return errChunk
}

func (r *response) onLine(line []byte) error {
	switch r.state {
	case stateHead:
		switch {
		case !r.inField:
			return r.statusLine(line)
		case len(line) > 0:
			r.field(line)
		default:
			r.endHead()
		}
	case stateChunkSize:
		size, ok := chunkSize(line)
		if !ok {
			return errChunk
		}
		r.left, r.state = size, stateChunk
		if size == 0 {
			r.state = stateTrailer
		}
	case stateChunkEnd:
		if len(line) > 0 {
			return errChunk
		}
		r.state = stateChunkSize
	case stateTrailer:
		if len(line) == 0 {
			r.state = stateEnd
		}
	}
	return nil
}

// chunkSize reads hex digits; an extension may follow them.
func chunkSize(line []byte) (int64, bool) {
	var v int64
	digits := 0
	for i, c := range line {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | int64(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | int64(c|0x20-'a'+10)
		default:
			rest, _, _ := bytes.Cut(line[i:], []byte{';'})
			return v, digits > 0 && len(bytes.TrimSpace(rest)) == 0
		}
		if digits++; digits > 12 {
			return 0, false
		}
	}
	return v, digits > 0
}

func (r *response) statusLine(line []byte) error {
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return errHead
	}
	code, err := strconv.Atoi(string(line[9:12]))
	if err != nil || code < 100 || len(line) > 12 && line[12] != ' ' {
		return errHead
	}
	r.status = code
	r.close = line[7] == '0'
	r.inField = true
	return nil
}

func (r *response) field(line []byte) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return
	}
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		if v, err := strconv.ParseInt(string(value), 10, 64); err == nil && v >= 0 {
			r.length = v
		}
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		r.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("content-type")):
		const want = "text/event-stream"
		r.events = len(value) >= len(want) && bytes.EqualFold(value[:len(want)], []byte(want))
	case bytes.EqualFold(name, []byte("connection")):
		if bytes.EqualFold(value, []byte("close")) {
			r.close = true
		} else if bytes.EqualFold(value, []byte("keep-alive")) {
			r.close = false
		}
	}
}

func (r *response) endHead() {
	if r.status < 200 { // an interim answer: the real one follows
		r.inField, r.status, r.length = false, 0, -1
		return
	}
	switch {
	case r.status == 204 || r.status == 304:
		r.state = stateEnd
	case r.chunked:
		r.state = stateChunkSize
	case r.length == 0:
		r.state = stateEnd
	case r.length > 0:
		r.state, r.left = stateLength, r.length
	default:
		r.state, r.close = stateUntilEOF, true
	}
}
