package loadgen

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// RecordHead opens a record file: what the run was to do.
type RecordHead struct {
	Schema  int       `json:"schema"`
	Started time.Time `json:"started"` // the zero of all times of the record
	URL     string    `json:"url"`
	Route   string    `json:"route"`
	Model   string    `json:"model"`
	Seed    uint64    `json:"seed"`
	Salt    string    `json:"salt"`
	Part    int       `json:"part"`  // of a schedule that several processes share, from 0
	Parts   int       `json:"parts"` // 1: the whole
	Classes []Class   `json:"classes"`
	Client  string    `json:"client"` // [ClientEpoll], [ClientConn] or [ClientHTTP]
	Stamps  string    `json:"stamps"` // [StampsKernel] or [StampsUser]
	// Exactly: the window is all requests of a number, so that it lasts until the last of them has ended.
	Exactly bool `json:"exactly,omitempty"`
}

// RecordMark is a moment of the run.
type RecordMark struct {
	What string        `json:"what"`  // opened or closed: the window
	At   time.Duration `json:"at_ns"` // since the start
}

// RecordEnd closes a record file.
type RecordEnd struct {
	Complete bool          `json:"complete"` // the window closed by its own rule
	Ended    time.Duration `json:"ended_ns"` // the last request was over
	Verdict  string        `json:"verdict"`  // on the window
	Why      []string      `json:"why,omitempty"`
	Evidence Evidence      `json:"evidence"`
}

// Recording is a record file without its requests.
type Recording struct {
	Head           RecordHead
	Opened, Closed time.Duration // of the window; −1: never
	End            *RecordEnd    // nil: the writer was killed
	Requests       int
	Torn           bool // the file ends in a part of a frame
}

// ReadRecord reads a record file and gives each of its requests to each, which may be nil. The Record is used again
// for the next one. A file whose writer was killed is read as far as it is whole.
func ReadRecord(from io.Reader, each func(*Record) error) (Recording, error) {
	return readFinished(from, func(f *finished) error {
		if each == nil {
			return nil
		}
		return each(&f.rec)
	})
}

func readFinished(from io.Reader, each func(*finished) error) (Recording, error) {
	in := bufio.NewReaderSize(from, 256<<10)
	rec := Recording{Opened: -1, Closed: -1}
	magic := make([]byte, len(recordMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != recordMagic {
		return rec, errors.New("not a record file of a load")
	}
	var f finished
	var body []byte
	for n := 0; ; n++ {
		var kind byte
		var err error
		body, kind, err = readFrame(in, body)
		switch {
		case err == io.EOF:
			return rec, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			rec.Torn = true
			return rec, nil
		case err == nil:
			err = rec.take(kind, body[1:], &f, each)
		}
		if err != nil {
			return rec, fmt.Errorf("record file: frame %d: %w", n+1, err)
		}
	}
}

func (rec *Recording) take(kind byte, payload []byte, f *finished, each func(*finished) error) error {
	switch kind {
	case frameHead:
		return json.Unmarshal(payload, &rec.Head)
	case frameMark:
		var m RecordMark
		if err := json.Unmarshal(payload, &m); err != nil {
			return err
		}
		switch m.What {
		case markOpened:
			rec.Opened = m.At
		case markClosed:
			rec.Closed = m.At
		}
	case frameEnd:
		rec.End = &RecordEnd{}
		return json.Unmarshal(payload, rec.End)
	case frameRequest:
		if err := readRequest(payload, f); err != nil {
			return err
		}
		if f.class >= len(rec.Head.Classes) {
			return errFrame
		}
		f.rec.Class = rec.Head.Classes[f.class].Name
		rec.Requests++
		return each(f)
	}
	return nil // of a later version
}

// readFrame reads kind and payload into buf. A frame that ends before its end gives io.ErrUnexpectedEOF.
func readFrame(in *bufio.Reader, buf []byte) ([]byte, byte, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return buf, 0, err
	}
	if size < 1 || size > maxFrame {
		return buf, 0, errFrame
	}
	buf = slices.Grow(buf[:0], int(min(size, 1<<20)))
	for uint64(len(buf)) < size { // by pieces: a broken length must not take all memory
		n := int(min(size-uint64(len(buf)), 1<<20))
		buf = slices.Grow(buf, n)
		if _, err := io.ReadFull(in, buf[len(buf):len(buf)+n]); err != nil {
			return buf, 0, io.ErrUnexpectedEOF
		}
		buf = buf[:len(buf)+n]
	}
	var sum [4]byte
	if _, err := io.ReadFull(in, sum[:]); err != nil {
		return buf, 0, io.ErrUnexpectedEOF
	}
	if binary.LittleEndian.Uint32(sum[:]) != crc32.Checksum(buf, castagnoli) {
		return buf, 0, errors.New("wrong checksum")
	}
	return buf, buf[0], nil
}

// Words of marks.
const (
	markOpened = "opened"
	markClosed = "closed"
)

func appendJSONFrame(b []byte, kind byte, v any) []byte {
	return appendFrame(b, kind, func(b []byte) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			return b // the types of these frames always have a JSON form
		}
		return append(b, data...)
	})
}
