package loadgen

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// A record file is recordMagic and frames: the length of what follows up to the checksum (uvarint), a byte for the
// kind, the payload, and the CRC-32C of kind and payload (little endian). A file whose writer was killed ends in a part
// of a frame; all before it is good.
const recordMagic = "SWEEPREC1\n"

// Kinds of frames.
const (
	frameHead    = 'h' // JSON of RecordHead; the first one
	frameRequest = 'r'
	frameMark    = 'm' // JSON of RecordMark
	frameEnd     = 'e' // JSON of RecordEnd; the last one
)

const maxFrame = 1 << 30 // bytes

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// finished is a request that ended, on its way to the writer: a record whose chunks are still packed.
type finished struct {
	rec   Record
	class int
	open  bool // of an open loop
	exact bool // the prompt was token ids; not in the file
	goes  bool // its conversation goes on; not in the file
	track []byte
}

// Bits of the flags of a request.
const (
	flagCounted = 1 << iota
	flagKernel
	flagResent
	flagOpen
	flagWarm
)

var outcomeCodes = []Outcome{OK, Failed, Rejected, Cancelled}

// appendRequest packs a request.
func appendRequest(b []byte, f *finished) []byte {
	r := &f.rec
	var flags uint64
	for _, x := range []struct {
		is  bool
		bit uint64
	}{{r.Counted, flagCounted}, {r.Kernel, flagKernel}, {r.Resent, flagResent}, {f.open, flagOpen}, {r.Stream == warmUp, flagWarm}} {
		if x.is {
			flags |= x.bit
		}
	}
	code := 0
	for i, o := range outcomeCodes {
		if o == r.Outcome {
			code = i
		}
	}
	for _, v := range []uint64{uint64(f.class), flags, uint64(code), uint64(r.Index), uint64(r.Turn), uint64(r.Status), uint64(r.AskedInput), uint64(r.AskedOutput), uint64(r.Reads)} {
		b = binary.AppendUvarint(b, v)
	}
	for _, d := range []time.Duration{r.Sched, r.Admit, r.Send, r.Sent, r.Header, r.End} {
		b = binary.AppendVarint(b, int64(d))
	}
	for _, n := range []int{r.PromptTokens, r.OutputTokens, r.CachedTokens, r.CachedDevice, r.CachedHost, r.Retransmits} {
		b = binary.AppendVarint(b, int64(n))
	}
	for _, s := range []string{r.Kind, r.Reason, r.Finish} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, uint64(len(f.track)))
	return append(b, f.track...)
}

var errFrame = errors.New("broken frame")

// unpacker reads the fields of a frame; after the first fault it gives zeros.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) bytes() []byte {
	n := u.uint()
	if n > uint64(len(u.b)) {
		u.b, u.bad = nil, true
		return nil
	}
	s := u.b[:n]
	u.b = u.b[n:]
	return s
}

// readRequest unpacks a request. Its track is a part of b.
func readRequest(b []byte, f *finished) error {
	u := unpacker{b: b}
	r := &f.rec
	chunks := r.Chunks[:0]
	*r = Record{Chunks: chunks}
	f.class = int(u.uint())
	flags, code := u.uint(), u.uint()
	r.Index, r.Turn, r.Status = int(u.uint()), int(u.uint()), int(u.uint())
	r.AskedInput, r.AskedOutput, r.Reads = int(u.uint()), int(u.uint()), int(u.uint())
	for _, d := range []*time.Duration{&r.Sched, &r.Admit, &r.Send, &r.Sent, &r.Header, &r.End} {
		*d = time.Duration(u.int())
	}
	for _, n := range []*int{&r.PromptTokens, &r.OutputTokens, &r.CachedTokens, &r.CachedDevice, &r.CachedHost, &r.Retransmits} {
		*n = int(u.int())
	}
	for _, s := range []*string{&r.Kind, &r.Reason, &r.Finish} {
		*s = string(u.bytes())
	}
	f.track = u.bytes()
	if u.bad || len(u.b) > 0 || code >= uint64(len(outcomeCodes)) {
		return errFrame
	}
	r.Outcome = outcomeCodes[code]
	r.Counted, r.Kernel, r.Resent = flags&flagCounted != 0, flags&flagKernel != 0, flags&flagResent != 0
	f.open = flags&flagOpen != 0
	r.Stream = measured
	if flags&flagWarm != 0 {
		r.Stream = warmUp
	}
	var err error
	r.Chunks, err = appendChunks(r.Chunks, f.track)
	return err
}

// appendFrame wraps a payload. fill appends it.
func appendFrame(b []byte, kind byte, fill func([]byte) []byte) []byte {
	const room = 5 // bytes that the length takes at most
	start := len(b)
	b = append(b, make([]byte, room)...)
	b = append(b, kind)
	b = fill(b)
	body := b[start+room:]
	var size [room]byte
	n := binary.PutUvarint(size[:], uint64(len(body)))
	sum := crc32.Checksum(body, castagnoli)
	copy(b[start:], size[:n])
	copy(b[start+n:], body)
	b = b[:start+n+len(body)]
	return binary.LittleEndian.AppendUint32(b, sum)
}
