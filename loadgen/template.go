package loadgen

import "bytes"

// template is the shape of an earlier event: what is the same in the next one need not be read again. An event that
// has the same bytes, but for the values of strings and numbers that say nothing or are read below, is what a scan
// would say of it. All others are scanned. All streams that one thread reads share one, which so stays in the processor's cache: a
// server's events differ little from stream to stream, and an odd one, as a stream's first and last are, changes nothing.
type template struct {
	base   []byte // the event that it was learnt from
	holes  []hole // the values in it that may differ, in order
	ev     event  // what the scan said, without those values
	state  templateState
	misses int   // how many more events did not fit than did, of the last ones
	rest   int   // events that are scanned before the next try: nothing fits
	read   event // the last event that was read
}

type templateState uint8

const (
	templateNone    templateState = iota
	templateLearnt                // from one event: all values may differ
	templateNarrow                // from two: those that are equal in both may not
	maxTemplate     = 2 << 10     // bytes
	maxHoles        = 16          // values
	oddAtMost       = 2           // misses before another shape is learnt in place of one that fitted
	missesAtMost    = 8           // misses before nothing more is learnt for a while
	restAfterMisses = 256
)

// hole is a value that may differ from event to event.
type hole struct {
	from, to int32 // in the base, of a string without its quotes
	kind     holeKind
}

type holeKind uint8

const (
	holeString     holeKind = iota // of no meaning
	holeNumber                     // of no meaning
	holeText                       // visible text
	holeReasoning                  // text of a model that thinks aloud
	holeCompletion                 // completion tokens so far
)

// scan reads an event as scanEvent does. What it returns is good until the next call.
func (t *template) scan(data []byte) *event {
	e := &t.read
	if t.rest > 0 {
		t.rest--
		scanEvent(data, e)
		return e
	}
	if t.state != templateNone && t.match(data, e) {
		t.misses = max(0, t.misses-1)
		return e
	}
	t.misses++
	switch fits := t.state == templateNarrow; {
	case fits && t.misses <= oddAtMost:
		scanEvent(data, e)
	case fits: // the events have changed
		t.misses = 0
		t.learn(data, e)
	case t.misses <= missesAtMost:
		t.learn(data, e)
	default:
		t.misses, t.rest, t.state = 0, restAfterMisses, templateNone
		scanEvent(data, e)
	}
	return e
}

// match reads an event that has the template's shape.
func (t *template) match(data []byte, e *event) bool {
	i, at := 0, int32(0)
	fixed := true // no value of no meaning is looked at
	raw, completion := []byte(nil), unknown
	reasoning := false
	for n := range t.holes {
		s := &t.holes[n]
		literal := t.base[at:s.from]
		if len(data)-i < len(literal) || string(data[i:i+len(literal)]) != string(literal) {
			return false
		}
		i += len(literal)
		start := i
		switch s.kind {
		case holeString, holeText, holeReasoning:
			end := bytes.IndexByte(data[i:], '"')
			if end < 0 || end > 0 && data[i+end-1] == '\\' {
				return false
			}
			i += end
			switch s.kind {
			case holeText:
				raw = data[start:i]
			case holeReasoning:
				reasoning = end > 0
			}
		case holeCompletion:
			v := 0
			for i < len(data) && data[i] >= '0' && data[i] <= '9' {
				v = v*10 + int(data[i]-'0')
				i++
			}
			if i == start || i > start+12 {
				return false
			}
			completion = v
		case holeNumber:
			for i < len(data) && isNumeric(data[i]) {
				i++
			}
			if i == start {
				return false
			}
		}
		at = s.to
		fixed = fixed && s.kind > holeNumber
	}
	if string(data[i:]) != string(t.base[at:]) {
		return false
	}
	*e = t.ev
	if len(raw) > 0 {
		e.Text, e.Raw = true, raw
	}
	e.Reasoning, e.Completion = reasoning, completion
	if t.state == templateLearnt && !fixed {
		t.narrow(data)
	}
	t.state = templateNarrow
	return true
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

// narrow drops the holes of values of no meaning that are the same in data as in the base: they need not be looked
// at one by one.
func (t *template) narrow(data []byte) {
	kept := t.holes[:0]
	shift := int32(0) // of data against the base
	for _, s := range t.holes {
		length := s.length(data[s.from+shift:])
		if s.kind > holeNumber || length != s.to-s.from || !bytes.Equal(data[s.from+shift:s.to+shift], t.base[s.from:s.to]) {
			kept = append(kept, s)
		}
		shift += length - (s.to - s.from)
	}
	t.holes = kept
}

// length is how long the hole's value is at the start of b, which it fits.
func (s *hole) length(b []byte) int32 {
	if s.kind != holeNumber && s.kind != holeCompletion {
		return int32(bytes.IndexByte(b, '"'))
	}
	n := 0
	for n < len(b) && isNumeric(b[n]) {
		n++
	}
	return int32(n)
}

// learn scans an event and keeps its shape, when it is a plain one.
func (t *template) learn(data []byte, e *event) {
	t.state = templateNone
	if len(data) > maxTemplate || len(data) == 0 || data[0] != '{' {
		scanEvent(data, e)
		return
	}
	t.holes = t.holes[:0]
	whole := scanFor(data, e, t)
	texts, counts := 0, 0
	for i := range t.holes {
		switch t.holes[i].kind {
		case holeText, holeReasoning:
			texts++
		case holeCompletion:
			counts++
		}
	}
	if !whole || len(t.holes) >= maxHoles || texts > 1 || counts > 1 || e.Error || e.Done || e.Finish != finishNone || len(e.ErrorText)+len(e.ErrorType) > 0 || e.Completion >= 0 && counts == 0 {
		return
	}
	t.state, t.base, t.ev = templateLearnt, append(t.base[:0], data...), *e
	t.ev.Text, t.ev.Raw, t.ev.Reasoning, t.ev.FinishWord = false, nil, false, nil
}

// note keeps where a value lies that ends at the cursor.
func (s *scanner) note(from, to int, kind holeKind) {
	if s.learns != nil && len(s.learns.holes) < maxHoles {
		s.learns.holes = append(s.learns.holes, hole{int32(from), int32(to), kind})
	}
}

// noteText keeps where a string lies whose contents were read last.
func (s *scanner) noteText(raw []byte, kind holeKind) {
	if s.learns != nil {
		to := s.i - 1 // before the quote
		s.note(to-len(raw), to, kind)
	}
}
