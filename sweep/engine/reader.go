package engine

import (
	"bytes"
	"strings"

	"sweep/sweep"
)

const (
	maxEvidence = 500     // bytes of a line that are kept as evidence
	maxScan     = 4 << 10 // bytes of a line in which the grammar's texts are looked for: what is longer is a dump
	maxRanks    = 1024    // bounds the memory for ranks: their names come from the log
	maxPIDs     = 512
)

// reader is a [sweep.LogReader] over a grammar. Its memory does not grow with the log.
type reader struct {
	grammar   *grammar
	split     splitter
	transport transport
	names     fieldNames
	events    []sweep.LogEvent // of the present call
	pids      map[int]bool     // processes of the server that the log names

	life
}

// life is what is known of the present start of the server.
type life struct {
	phases  map[string]sweep.Phase // by rank
	seen    map[string]bool        // marks that were to be remembered
	numbers map[string]*folded     // by fact
	noted   map[string]bool        // notes are said once
	traces  map[string]*trace      // by process
	ready   bool
	barred  bool // a sign says that the port is somebody else's: a ready line would speak of them
	lived   bool // more than the beginning of a life was seen
	quoting bool // a line with other people's text ended inside of that text
	rewound map[string]float64
}

func newReader(g *grammar) *reader {
	r := &reader{grammar: g, pids: map[int]bool{}}
	r.born()
	return r
}

func (r *reader) born() {
	r.life = life{phases: map[string]sweep.Phase{}, seen: map[string]bool{}, numbers: map[string]*folded{},
		noted: map[string]bool{}, traces: map[string]*trace{}, rewound: map[string]float64{}}
}

// Feed reads the next bytes of the log. The events are good until the next call.
func (r *reader) Feed(p []byte) []sweep.LogEvent {
	r.events = r.events[:0]
	r.split.feed(p, r.piece)
	return r.events
}

// Close reads what is left of an unfinished line.
func (r *reader) Close() []sweep.LogEvent {
	r.events = r.events[:0]
	r.split.close(r.piece)
	return r.events
}

// piece reads one piece.
func (r *reader) piece(p piece) {
	text := r.transport.strip(p.text)
	if bytes.IndexByte(text, '\r') < 0 {
		r.look(text, p)
		return
	}
	for part := range bytes.SplitSeq(text, []byte{'\r'}) { // out of a carrier that had packed them into one line
		r.look(bytes.TrimSpace(part), p)
	}
}

// look reads a line when it holds anything that the grammar knows.
func (r *reader) look(text []byte, p piece) {
	if !r.quoting && r.grammar.plainBatch(text) {
		r.line(string(text), hasBatch, sweep.Evidence{Line: p.line, Offset: p.offset})
		return
	}
	flags := r.grammar.machine.scan(text[:min(len(text), maxScan)])
	if flags == 0 && !r.watching() {
		return
	}
	r.text(string(text), flags, sweep.Evidence{Line: p.line, Offset: p.offset})
}

// watching reports that every line counts: a stack trace or a quotation is open.
func (r *reader) watching() bool {
	if r.quoting {
		return true
	}
	for _, t := range r.traces {
		if t.open {
			return true
		}
	}
	return false
}

// text reads a stretch of text. Two processes that write at once can put two messages into one line, and a
// progress bar has no line feed of its own: what stands behind is read by itself.
func (r *reader) text(line string, flags uint8, at sweep.Evidence) {
	if flags&hasBar != 0 {
		if progress, behind, ok := r.bar(line, at); ok {
			at.Text = cut(line, maxEvidence)
			r.emit(progress, at)
			if behind == "" {
				return
			}
			line = behind
		}
	}
	if flags&(hasBatch|hasAccess) != 0 && flags&^(hasBatch|hasAccess|hasQuote) == 0 {
		r.line(line, flags, at)
		return
	}
	for {
		next := embedded(line)
		if next < 0 || r.grammar.quoted(line) {
			r.line(line, flags, at)
			return
		}
		r.line(strings.TrimRight(line[:next], " "), flags, at)
		line = line[next:]
	}
}

// plainBatch reports a line about the running batch, as busy servers write by the million, with nothing else in it.
func (g *grammar) plainBatch(line []byte) bool {
	at := 0
	if len(line) > 0 && line[0] == '[' {
		at = bytes.IndexByte(line[:min(len(line), 64)], ']') + 2
	}
	if at == 1 || at >= len(line) {
		return false
	}
	message := line[at:]
	for _, b := range g.batches {
		if len(message) > len(b) && string(message[:len(b)]) == b {
			return bytes.IndexByte(message, '[') < 0
		}
	}
	return false
}

// embedded finds the stamp of another message inside of a line.
func embedded(line string) int {
	head := line[:min(len(line), maxScan)]
	for from := 1; from < len(head); {
		i := strings.Index(head[from:], "[20")
		if i < 0 {
			break
		}
		if from += i; isStamp([]byte(head[from:min(len(head), from+20)])) {
			return from
		}
		from++
	}
	for from := 1; from < len(head); {
		i := strings.Index(head[from:], " pid=")
		if i < 0 {
			break
		}
		from += i
		open := strings.LastIndexByte(head[:from], '(')
		if open > 0 && from-open < 40 && isLetter(head[open+1]) && pythonLead(head[open:]).process != "" {
			return open
		}
		from++
	}
	return -1
}

func (g *grammar) quoted(line string) bool {
	message := g.lead(line).message
	for _, q := range g.quotes {
		if strings.HasPrefix(message, q) {
			return true
		}
	}
	return false
}

func (r *reader) emit(e sweep.LogEvent, at sweep.Evidence) {
	e.Evidence = at
	r.events = append(r.events, e)
}

func (r *reader) line(line string, flags uint8, at sweep.Evidence) {
	if flags&hasBatch != 0 {
		l := r.grammar.lead(line)
		if kind, values, ok := r.grammar.batch(l.message, &r.names); ok {
			r.lived = true
			r.emit(sweep.LogEvent{Kind: sweep.LogBatch, Text: kind, Values: values, Rank: l.rank, Clock: l.clock}, at)
			return
		}
	}
	if flags&hasAccess != 0 {
		if path, status, ok := access(line); ok {
			r.lived = true
			r.emit(sweep.LogEvent{Kind: sweep.LogRequest, Text: path, Value: status, Clock: r.grammar.lead(line).clock}, at)
			return
		}
	}
	s := r.grammar.read(line)
	if r.rewind(s) {
		r.start(at, s)
	}
	if r.quote(&s); s.quoted && flags&hasMark == 0 {
		return
	}
	at.Text = cut(line, maxEvidence)
	if r.stack(&s); flags&(hasMark|hasRule|hasTrace) == 0 {
		return
	}
	r.names.pids(line, r.pids)
	r.message(s, at)
}

// message compares a line with the tables.
func (r *reader) message(s said, at sweep.Evidence) {
	for _, b := range r.grammar.births {
		if r.lived && strings.Contains(s.message, b) {
			r.start(at, s)
			break
		}
	}
	rank := s.rank
	if r.grammar.together {
		s.rank = ""
	}
	r.mark(s, at)
	if s.quoted {
		return
	}
	if kill, ok := kernelKill(s.message); ok {
		r.emit(sweep.LogEvent{Kind: sweep.LogSign, Text: kill.Name, Values: sweep.Values{"pid": float64(kill.PID)},
			Sign: sweep.Sign{Outcome: sweep.HostKilled, Priority: classKilled, Detail: killDetail(kill)}, Clock: s.clock}, at)
		return
	}
	r.pressure(s, at)
	r.facts(s, rank, at)
	r.notes(s, at)
	r.sign(s, at)
}

// start begins a new life.
func (r *reader) start(at sweep.Evidence, s said) {
	r.born()
	r.emit(sweep.LogEvent{Kind: sweep.LogStart, Clock: s.clock}, at)
}

// rewind reports a clock that went back: it counts from the start of the process.
func (r *reader) rewind(s said) bool {
	if !r.grammar.rewinds || s.clock == 0 {
		return false
	}
	old := r.rewound[s.process]
	if len(r.rewound) < maxRanks || old != 0 {
		r.rewound[s.process] = s.clock
	}
	return old > s.clock+1
}

func (r *reader) mark(s said, at sweep.Evidence) {
	for _, m := range r.grammar.marks {
		if !m.fits(s.message) || m.not != "" && r.seen[m.not] || m.given != "" && !r.seen[m.given] {
			continue
		}
		r.lived = true
		if m.seen != "" {
			r.seen[m.seen] = true
		}
		if m.ready {
			if !r.barred && !r.ready {
				r.ready = true
				r.emit(sweep.LogEvent{Kind: sweep.LogReady, Phase: sweep.PhaseReady, Rank: s.rank, Clock: s.clock}, at)
			}
			return
		}
		old, known := r.phases[s.rank]
		if m.phase != "" && m.phase != old && (m.again || old.Before(m.phase)) && (known || len(r.phases) < maxRanks) {
			r.phases[s.rank] = m.phase
			r.emit(sweep.LogEvent{Kind: sweep.LogPhase, Phase: m.phase, Rank: s.rank, Clock: s.clock}, at)
		}
		if m.text != "" {
			r.emit(sweep.LogEvent{Kind: sweep.LogProgress, Phase: r.phases[s.rank], Text: m.text, Rank: s.rank, Clock: s.clock}, at)
		}
		return
	}
}

func (m mark) fits(message string) bool {
	i := strings.Index(message, m.has)
	return i >= 0 && (m.end == "" || strings.Contains(message[i+len(m.has):], m.end))
}

func (r *reader) sign(s said, at sweep.Evidence) {
	t := r.traces[s.process]
	if t == nil || s.bracket {
		t = &trace{}
	}
	e, ok := r.grammar.match(s)
	switch {
	case ok:
		r.barred = r.barred || !r.ready && e.Sign.Outcome == sweep.BusyPort && !e.Sign.Effect
	case s.class != "" && !quiet[s.class] && t.open:
		e = sweep.LogEvent{Kind: sweep.LogSign, Sign: t.unknown(s)}
	default:
		return
	}
	r.lived = true
	e.Rank, e.Clock = s.rank, s.clock
	if s.class != "" && t.open {
		e.Sign.Step = t.step
		if e.Phase == "" {
			e.Phase = t.phase
		}
		t.open = false
	}
	r.emit(e, at)
}
