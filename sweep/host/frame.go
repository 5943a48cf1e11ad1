package host

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"sweep/sweep"
)

// preamble comes before the first frame of a relay: whatever a login shell printed before it is skipped.
const preamble = "\n\x01sweep-relay 1\x02\n"

// maxNoise is how much a login may print before the relay speaks, in bytes.
const maxNoise = 256 << 10

// maxFrame bounds the payload of one frame, in bytes, so that a hostile other side cannot fill the memory.
const maxFrame = 1 << 20

// The kinds of frames.
const (
	frameRequest = 'q' // to the relay: a request
	frameGiveUp  = 'c' // to the relay: nobody waits for the answer any more
	frameData    = 'd' // from the relay: a piece of the answer's bytes
	frameAlive   = 'k' // from the relay: still at work on the answer
	frameAnswer  = 'a' // from the relay: the answer's end, an answer
)

// frame is one message: the length of its payload, the number of its request and its kind come before it.
type frame struct {
	id      uint32
	kind    byte
	payload []byte
}

// frameWriter writes frames; it is safe for use by several goroutines.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *frameWriter) write(f frame) error {
	if len(f.payload) > maxFrame {
		return fmt.Errorf("a frame of %d bytes is longer than %d", len(f.payload), maxFrame)
	}
	head := make([]byte, 9, 9+len(f.payload))
	binary.BigEndian.PutUint32(head, uint32(len(f.payload)))
	binary.BigEndian.PutUint32(head[4:], f.id)
	head[8] = f.kind
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(append(head, f.payload...))
	return err
}

func (w *frameWriter) writeJSON(id uint32, kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(frame{id, kind, data})
}

func readFrame(r io.Reader) (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return frame{}, fmt.Errorf("the other side announces a frame of %d bytes; %d is the most", size, maxFrame)
	}
	f := frame{id: binary.BigEndian.Uint32(head[4:]), kind: head[8], payload: make([]byte, size)}
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

// errNoPreamble says that what answered is no relay of ours.
var errNoPreamble = errors.New("no answer of sweep's own program")

// skipNoise reads up to the preamble. When it never comes, the error holds the end of what came instead.
func skipNoise(r *bufio.Reader) error {
	var seen []byte
	for len(seen) < maxNoise {
		b, err := r.ReadByte()
		if err != nil {
			return fmt.Errorf("%w: %w%s", errNoPreamble, err, quoteEnd(seen))
		}
		seen = append(seen, b)
		if b == '\n' && bytes.HasSuffix(seen, []byte(preamble)) {
			return nil
		}
	}
	return fmt.Errorf("%w within %d bytes%s", errNoPreamble, maxNoise, quoteEnd(seen))
}

// quoteEnd is the end of what a host printed, as part of a message for a person.
func quoteEnd(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	const most = 400
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return "; it said: " + sweep.Printable(string(bytes.ToValidUTF8(text, []byte("?"))))
}

// request is what a workstation asks of a relay.
type request struct {
	Op    string          `json:"op"`
	Night string          `json:"night,omitempty"` // the night's folder on the host
	Host  string          `json:"host,omitempty"`  // the host's name in the night
	Lease float64         `json:"lease_s,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
}

// answer ends what a relay has to say to a request.
type answer struct {
	Error string          `json:"error,omitempty"`
	Lost  bool            `json:"lost,omitempty"` // the error is sweep.ErrAgentLost
	Reply json.RawMessage `json:"reply,omitempty"`
}

// The requests' arguments and replies.
type (
	helloReply struct {
		BootID string `json:"boot_id"`
		Time   int64  `json:"time_ns"` // of the host's clock, Unix time
		Root   string `json:"root"`    // the folder of the host's nights
	}
	submitArgs struct {
		ID   string      `json:"id"` // the same in each try at one submission
		Jobs []sweep.Job `json:"jobs"`
		Env  []string    `json:"env,omitempty"` // KEY=VALUE; goes into the agent's environment and nowhere else
	}
	workingReply struct {
		Alive bool        `json:"alive"`
		Jobs  []sweep.Job `json:"jobs"` // that are not done
	}
	eventsArgs struct {
		From int64 `json:"from"`
		Wait int64 `json:"wait_ms"`
	}
	eventsReply struct {
		Size  int64 `json:"size"` // of events.jsonl
		Alive bool  `json:"alive"`
		Open  int   `json:"open"` // jobs that are not done
	}
	dirArgs struct {
		Dir  string   `json:"dir"`            // relative to the night, with slashes
		Have []string `json:"have,omitempty"` // folders in it that need not be listed
	}
	fileInfo struct {
		Path   string `json:"path"` // relative to the folder, with slashes
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	}
	listReply struct {
		Ended bool       `json:"ended"` // launch.json is there: nothing changes any more
		Alive bool       `json:"alive"` // an agent is at work
		Files []fileInfo `json:"files"`
		Other []string   `json:"other,omitempty"` // links and the like, which are not fetched
	}
	attemptsReply struct {
		Dirs []string `json:"dirs"` // not yet acknowledged
	}
	readArgs struct {
		Path string `json:"path"`
		From int64  `json:"from"`
		Max  int64  `json:"max"`
	}
	readReply struct {
		Size int64 `json:"size"` // of the whole file
	}
	cancelArgs struct {
		Now bool `json:"now"`
	}
)
