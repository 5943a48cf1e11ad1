package loadgen

import (
	"encoding/binary"
	"errors"
	"time"
)

// ChunkKind is what one event of a stream brought.
type ChunkKind uint8

// The kinds.
const (
	ChunkOther     ChunkKind = iota // nothing that is known here
	ChunkRole                       // a choice that says who speaks, without text
	ChunkEmpty                      // a choice without text: a special token, or a part of a character
	ChunkReasoning                  // text of a model that thinks aloud
	ChunkContent                    // visible text
	ChunkTool                       // a part of a tool call
	ChunkUsage                      // counts only
	ChunkDone                       // the stream's own end mark
	ChunkError                      // an error object
	ChunkComment                    // an SSE comment: a sign of life
)

var chunkWords = [...]string{"other", "role", "empty", "reasoning", "content", "tool", "usage", "done", "error", "comment"}

// String is the kind's word in files.
func (k ChunkKind) String() string {
	if int(k) < len(chunkWords) {
		return chunkWords[k]
	}
	return "other"
}

// Chunk is one event of a stream.
type Chunk struct {
	At    time.Duration // stamp of the read that completed it, since the start of the run
	Bytes int           // of its data
	// Tokens that it brought, by the server's running count; 0: it bore none; −1: it bore text, and the server gave
	// no count. On a chunk of kind usage: tokens that had no event of their own.
	Tokens int
	Kind   ChunkKind
	// Exact: it was the last thing that its read completed, so that the stamp is its own. The stamp of the others
	// is the time of a later byte: an upper bound.
	Exact bool
	// User: stamped by the client after its wake-up, although the request has kernel stamps.
	User bool
}

// Bears says whether the event brought output tokens or text.
func (c Chunk) Bears() bool { return c.Tokens != 0 && c.Kind != ChunkUsage }

// track is the list of a stream's chunks in some 7 bytes each, so that thousands of streams stay small.
// The last chunk is kept open until the next one comes.
type track struct {
	buf     []byte
	last    Chunk
	open    bool // last is not in buf yet
	count   int  // chunks of all kinds
	bearing int  // of those, the ones that bear tokens
	at      time.Duration
	bytes   int
}

func (t *track) reset() { *t = track{buf: t.buf[:0]} }

func (t *track) add(c Chunk) {
	if t.open {
		t.encode()
	}
	t.last, t.open = c, true
	t.count++
	if c.Bears() {
		t.bearing++
	}
}

// exact marks the last chunk's stamp as its own.
func (t *track) exact() {
	if t.open {
		t.last.Exact = true
	}
}

// sealed returns the whole list.
func (t *track) sealed() []byte {
	if t.open {
		t.encode()
	}
	return t.buf
}

// Bits of the first byte of a chunk: the kind in the low four.
const (
	bitExact = 1 << 4
	bitUser  = 1 << 5

	tokensNone    = 0 << 6
	tokensUnknown = 1 << 6
	tokensOne     = 2 << 6
	tokensCounted = 3 << 6 // the count follows
)

func (t *track) encode() {
	c := &t.last
	head := byte(c.Kind & 15)
	if c.Exact {
		head |= bitExact
	}
	if c.User {
		head |= bitUser
	}
	switch {
	case c.Tokens < 0:
		head |= tokensUnknown
	case c.Tokens == 1:
		head |= tokensOne
	case c.Tokens > 1:
		head |= tokensCounted
	}
	t.buf = append(t.buf, head)
	t.buf = binary.AppendVarint(t.buf, int64(c.At-t.at))
	t.buf = binary.AppendVarint(t.buf, int64(c.Bytes-t.bytes))
	if c.Tokens > 1 {
		t.buf = binary.AppendUvarint(t.buf, uint64(c.Tokens))
	}
	t.at, t.bytes, t.open = c.At, c.Bytes, false
}

var errTrack = errors.New("broken list of chunks")

// appendChunks decodes a list of chunks.
func appendChunks(to []Chunk, b []byte) ([]Chunk, error) {
	var c Chunk
	for len(b) > 0 {
		head := b[0]
		b = b[1:]
		d, n := binary.Varint(b)
		if n <= 0 {
			return to, errTrack
		}
		b = b[n:]
		size, n := binary.Varint(b)
		if n <= 0 {
			return to, errTrack
		}
		b = b[n:]
		c = Chunk{At: c.At + time.Duration(d), Bytes: c.Bytes + int(size), Kind: ChunkKind(head & 15), Exact: head&bitExact != 0, User: head&bitUser != 0}
		switch head & tokensCounted {
		case tokensUnknown:
			c.Tokens = unknown
		case tokensOne:
			c.Tokens = 1
		case tokensCounted:
			v, n := binary.Uvarint(b)
			if n <= 0 || v > 1<<40 {
				return to, errTrack
			}
			b = b[n:]
			c.Tokens = int(v)
		}
		to = append(to, c)
	}
	return to, nil
}
