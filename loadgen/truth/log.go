package truth

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Event is one event as it was written. Times are Unix ns of the log's clock (see [Summary.DriftNS]).
type Event struct {
	Kind   Kind
	Tokens int32 // that it carries
	Due    int64 // when its write was due; 0: a flood has no schedule
	Start  int64 // just before its first byte was written
	Last   int64 // just before the write of its last byte: the same, but for an event in several writes
}

// Request is the log of one request. Times are as in [Event].
type Request struct {
	Number    int     `json:"number"` // in order of arrival since the last reset, from 0
	ID        string  `json:"id,omitempty"`
	Path      string  `json:"path"`
	Stream    bool    `json:"stream"`
	Asked     int     `json:"asked"`  // tokens
	Prompt    int     `json:"prompt"` // tokens
	Status    int     `json:"status"`
	Plan      *Plan   `json:"plan"`
	Accept    int64   `json:"accept"`            // its connection was accepted
	FirstByte int64   `json:"first_byte"`        // its first byte was read
	Arrived   int64   `json:"arrived,omitempty"` // its last byte came, by the kernel; 0: the kernel does not say
	Complete  int64   `json:"complete"`          // it was read completely
	End       int64   `json:"end"`               // the last write began, or the connection ended; 0: still open
	Closed    bool    `json:"closed,omitempty"`  // the client left before the end
	Blocked   int     `json:"blocked,omitempty"` // writes that the socket did not take at once: the times of what followed are no truth
	Sent      int     `json:"sent"`              // tokens written
	Events    []Event `json:"-"`
}

// Summary is what a log says of the server itself.
type Summary struct {
	Requests int `json:"requests"`
	Events   int `json:"events"`
	Tokens   int `json:"tokens"`
	Blocked  int `json:"blocked"` // writes that a socket did not take at once
	// Lateness of scheduled writes (start of the write − due), in ns.
	Late      int   `json:"late_writes"` // how many were measured
	LateP50NS int64 `json:"late_p50_ns"`
	LateP99NS int64 `json:"late_p99_ns"`
	LateMaxNS int64 `json:"late_max_ns"`
	// DriftNS is how far the wall clock moved against the log's clock since the last reset: the log's clock is the
	// monotonic one, set to the wall clock at the reset.
	DriftNS int64          `json:"drift_ns"`
	First   int64          `json:"first"`            // Unix ns: end of the first request of any kind, /ctl apart; 0: none came
	Others  map[string]int `json:"others,omitempty"` // requests for no completion, by method and path
	Plan    Plan           `json:"plan"`             // the default
}

// Summarize derives the part of a summary that the requests tell.
func Summarize(requests []Request) Summary {
	s := Summary{Requests: len(requests)}
	var late []int64
	for i := range requests {
		r := &requests[i]
		s.Events += len(r.Events)
		s.Tokens += r.Sent
		s.Blocked += r.Blocked
		for _, e := range r.Events {
			if e.Due != 0 {
				late = append(late, e.Start-e.Due)
			}
		}
	}
	if s.Late = len(late); s.Late > 0 {
		slices.Sort(late)
		s.LateP50NS, s.LateP99NS, s.LateMaxNS = late[s.Late/2], late[s.Late*99/100], late[s.Late-1]
	}
	return s
}

// appendLog writes a log as lines of JSON: the summary, then the requests. Events are arrays of kind, tokens, due,
// start and last, the times after the end of the request (a due of 0 stays 0).
func appendLog(dst []byte, s Summary, requests []Request) ([]byte, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	dst = append(append(dst, line...), '\n')
	for i := range requests {
		r := &requests[i]
		line, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		dst = append(dst, line[:len(line)-1]...)
		dst = append(dst, `,"events":[`...)
		for k, e := range r.Events {
			if k > 0 {
				dst = append(dst, ',')
			}
			due := int64(0)
			if e.Due != 0 {
				due = e.Due - r.Complete
			}
			for j, v := range [...]int64{int64(e.Kind), int64(e.Tokens), due, e.Start - r.Complete, e.Last - r.Complete} {
				dst = append(dst, "[,,,,"[j])
				dst = strconv.AppendInt(dst, v, 10)
			}
			dst = append(dst, ']')
		}
		dst = append(dst, "]}\n"...)
	}
	return dst, nil
}

// ReadLog reads what GET /ctl/dump answers. With the query events=0 the requests come without events.
func ReadLog(in io.Reader) (Summary, []Request, error) {
	var s Summary
	var requests []Request
	dec := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	if err := dec.Decode(&s); err != nil {
		return s, nil, fmt.Errorf("log: %w", err)
	}
	for dec.More() {
		var line struct {
			Request
			Events [][5]int64 `json:"events"`
		}
		if err := dec.Decode(&line); err != nil {
			return s, nil, fmt.Errorf("log: request %d: %w", len(requests), err)
		}
		r := line.Request
		for _, e := range line.Events {
			if e[0] < 0 || e[0] > int64(Reset) {
				return s, nil, fmt.Errorf("log: request %d: %d is no kind of event", len(requests), e[0])
			}
			due := int64(0)
			if e[2] != 0 {
				due = e[2] + r.Complete
			}
			r.Events = append(r.Events, Event{Kind: Kind(e[0]), Tokens: int32(e[1]), Due: due, Start: e[3] + r.Complete, Last: e[4] + r.Complete})
		}
		requests = append(requests, r)
	}
	return s, requests, nil
}
