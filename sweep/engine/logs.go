package engine

import "bytes"

// maxPiece is how much of one piece is kept, in bytes: servers print request lists and usage texts of
// tens of kilobytes in one line. What is longer is cut there; the count of lines and bytes goes on.
const maxPiece = 100 << 10

// piece is a stretch of output that a server meant as one line: it ends in a line feed or a carriage
// return (progress bars are drawn over themselves by carriage returns alone).
type piece struct {
	text   []byte // without its ending, NUL bytes and terminal escape sequences; valid until the next piece
	line   int    // from 1, counted by line feeds, as an editor counts
	offset int64  // bytes from the start of the output to the start of that line
}

// splitter cuts a server's output into pieces. Bytes may arrive split anywhere.
type splitter struct {
	buf   []byte // of the unfinished piece, as received
	line  int    // line feeds seen
	start int64  // offset of the present line
	pos   int64  // bytes seen
}

// feed cuts the next bytes and calls fn for each piece that is complete and not empty.
func (s *splitter) feed(p []byte, fn func(piece)) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			end, part = cr, p[:cr]
		}
		s.keep(part)
		if end < 0 {
			s.pos += int64(len(p))
			return
		}
		s.emit(fn)
		s.pos += int64(end) + 1
		if p[end] == '\n' {
			s.line++
			s.start = s.pos
		}
		p = p[end+1:]
	}
}

// close hands out what is left of an unfinished piece.
func (s *splitter) close(fn func(piece)) { s.emit(fn) }

func (s *splitter) keep(part []byte) {
	s.buf = append(s.buf, part[:min(len(part), maxPiece-len(s.buf))]...)
}

func (s *splitter) emit(fn func(piece)) {
	text := bytes.TrimRight(plain(s.buf), " \t")
	if len(text) > 0 {
		fn(piece{text: text, line: s.line + 1, offset: s.start})
	}
	s.buf = s.buf[:0]
}

// plain removes NUL bytes and terminal escape sequences, in place.
func plain(b []byte) []byte {
	if bytes.IndexByte(b, 0x1b) < 0 && bytes.IndexByte(b, 0) < 0 {
		return b
	}
	out := b[:0]
	for i := 0; i < len(b); {
		switch {
		case b[i] == 0:
			i++
		case b[i] == 0x1b:
			i += escape(b[i:])
		default:
			out = append(out, b[i])
			i++
		}
	}
	return out
}

// escape returns the length of the escape sequence at the start of b.
func escape(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // control sequence: parameters, then one final byte
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	case ']': // operating system command: ends in BEL or ESC \
		for i := 2; i < len(b); i++ {
			if b[i] == 7 {
				return i + 1
			}
			if b[i] == 0x1b {
				return min(i+2, len(b))
			}
		}
		return len(b)
	}
	return 2
}
