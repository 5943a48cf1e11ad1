package engine

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"sweep/sweep"
)

// maxEvidence is how much of a line is kept as evidence, in bytes.
const maxEvidence = 500

// reader is a [sweep.LogReader] over a grammar. Its memory does not grow with the log.
type reader struct {
	grammar *grammar
	split   splitter
	events  []sweep.LogEvent // of the present call

	phases  map[string]sweep.Phase // by rank
	seen    map[string]bool        // marks that were to be remembered
	numbers map[string]*folded     // by fact
	noted   map[string]bool        // notes are said once
	trace   trace
	ready   bool
	barred  bool // a sign says that the port is somebody else's: a ready line would speak of them
}

// trace is the stack trace that is being read.
type trace struct {
	open  bool
	rank  string
	fatal bool // its process announced that it dies
	phase sweep.Phase
	step  string
}

// folded is one fact of several ranks and lines.
type folded struct {
	byRank map[string]float64
	final  bool
	told   float64
	said   bool
}

// maxRanks bounds the memory for ranks: their names come from the log.
const maxRanks = 1024

func newReader(g *grammar) *reader {
	return &reader{grammar: g, phases: map[string]sweep.Phase{}, seen: map[string]bool{}, numbers: map[string]*folded{}, noted: map[string]bool{}}
}

// Feed reads the next bytes of the log.
func (r *reader) Feed(p []byte) []sweep.LogEvent {
	r.events = nil
	r.split.feed(p, r.piece)
	return r.events
}

// Close reads what is left of an unfinished line.
func (r *reader) Close() []sweep.LogEvent {
	r.events = nil
	r.split.close(r.piece)
	return r.events
}

// piece reads one piece. A progress bar has no line feed of its own, so that the line of another
// process may stand behind it.
func (r *reader) piece(p piece) {
	line := string(p.text)
	at := sweep.Evidence{Line: p.line, Offset: p.offset}
	at.Text = cut(line, maxEvidence)
	if progress, behind, ok := r.bar(line, at); ok {
		r.emit(progress, at)
		if line = behind; line == "" {
			return
		}
	}
	at.Text = cut(line, maxEvidence)
	r.line(line, at)
}

func (r *reader) emit(e sweep.LogEvent, at sweep.Evidence) {
	e.Evidence = at
	r.events = append(r.events, e)
}

func (r *reader) line(line string, at sweep.Evidence) {
	s := r.grammar.read(line)
	r.stack(&s)
	if kind, values, ok := r.grammar.batch(s.message); ok {
		r.emit(sweep.LogEvent{Kind: sweep.LogBatch, Text: kind, Values: values, Rank: s.rank}, at)
		return
	}
	r.mark(s, at)
	if s.quoted {
		return
	}
	r.facts(s, at)
	r.notes(s, at)
	r.sign(s, at)
}

// stack follows stack traces, so that an exception knows its rank and what was being done.
func (r *reader) stack(s *said) {
	switch {
	case strings.HasSuffix(s.message, "Traceback (most recent call last):"):
		t := trace{open: true, rank: r.trace.rank, fatal: r.trace.fatal}
		if s.prefixed {
			t.rank, t.fatal = s.rank, false
		}
		for _, h := range r.grammar.heads {
			t.fatal = t.fatal || strings.HasPrefix(s.message, h)
		}
		r.trace = t
	case s.prefixed:
	case r.trace.open && strings.HasPrefix(s.message, `  File "`):
		if f, ok := r.grammar.frames[function(s.message)]; ok {
			if f.phase != "" {
				r.trace.phase = f.phase
			}
			if f.step != "" {
				r.trace.step = f.step
			}
		}
		s.rank = r.trace.rank
	case r.trace.open && strings.HasPrefix(s.message, "    "): // the source line of a frame
		s.rank, s.quoted = r.trace.rank, true
	default:
		s.rank = r.trace.rank
	}
}

// function is the name at the end of a stack frame's line: File "x.py", line 3, in NAME.
func function(line string) string {
	i := strings.LastIndex(line, ", in ")
	if i < 0 {
		return ""
	}
	return line[i+len(", in "):]
}

func (r *reader) mark(s said, at sweep.Evidence) {
	for _, m := range r.grammar.marks {
		if !m.fits(s.message) || m.not != "" && r.seen[m.not] {
			continue
		}
		if m.seen != "" {
			r.seen[m.seen] = true
		}
		if m.ready {
			if !r.barred {
				r.ready = true
				r.emit(sweep.LogEvent{Kind: sweep.LogReady, Phase: sweep.PhaseReady, Rank: s.rank}, at)
			}
			return
		}
		old, known := r.phases[s.rank]
		if m.phase != "" && m.phase != old && (m.again || old.Before(m.phase)) && (known || len(r.phases) < maxRanks) {
			r.phases[s.rank] = m.phase
			r.emit(sweep.LogEvent{Kind: sweep.LogPhase, Phase: m.phase, Rank: s.rank}, at)
		}
		if m.text != "" {
			r.emit(sweep.LogEvent{Kind: sweep.LogProgress, Phase: r.phases[s.rank], Text: m.text, Rank: s.rank}, at)
		}
		return
	}
}

func (m mark) fits(message string) bool {
	i := strings.Index(message, m.has)
	return i >= 0 && (m.end == "" || strings.Contains(message[i+len(m.has):], m.end))
}

func (r *reader) facts(s said, at sweep.Evidence) {
	for _, n := range r.grammar.numbers {
		if !strings.Contains(s.message, n.has) {
			continue
		}
		m := n.find.FindStringSubmatch(s.message)
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			continue
		}
		f := r.numbers[n.name]
		if f == nil {
			f = &folded{byRank: map[string]float64{}}
			r.numbers[n.name] = f
		}
		if f.take(n, s.rank, v) {
			r.emit(sweep.LogEvent{Kind: sweep.LogFact, Name: n.name, Value: f.told, Rank: s.rank}, at)
		}
	}
}

// take adds a number and reports whether the fact has changed.
func (f *folded) take(n number, rank string, v float64) bool {
	if f.final && !n.final {
		return false
	}
	if n.final && !f.final {
		clear(f.byRank)
		f.final = true
	}
	old, known := f.byRank[rank]
	if !known && len(f.byRank) >= maxRanks {
		return false
	}
	switch {
	case n.fold == foldMax && known:
		v = max(v, old)
	case n.fold == foldSum:
		v = math.Round((v+old)*1e6) / 1e6 // as exact as the lines are
	}
	f.byRank[rank] = v
	for _, x := range f.byRank {
		if n.fold == foldMin {
			v = min(v, x)
		} else {
			v = max(v, x)
		}
	}
	changed := !f.said || v != f.told
	f.told, f.said = v, true
	return changed
}

func (r *reader) notes(s said, at sweep.Evidence) {
	for _, n := range r.grammar.notes {
		if !strings.Contains(s.message, n.has) || n.unless != "" && strings.Contains(s.message, n.unless) {
			continue
		}
		text := n.text
		if n.find != nil {
			m := n.find.FindStringSubmatchIndex(s.message)
			if m == nil {
				continue
			}
			text = cut(string(n.find.ExpandString(nil, text, s.message, m)), 300)
		}
		if !r.noted[n.text] { // one note for each kind: ranks and repetitions say nothing new
			r.noted[n.text] = true
			r.emit(sweep.LogEvent{Kind: sweep.LogNote, Text: text, Rank: s.rank}, at)
		}
	}
}

func (r *reader) sign(s said, at sweep.Evidence) {
	e := sweep.LogEvent{Kind: sweep.LogSign}
	rule, ok := r.grammar.match(s)
	switch {
	case ok:
		e = rule.event(s)
		r.barred = r.barred || !r.ready && e.Sign.Outcome == sweep.BusyPort && !e.Sign.Effect
	case s.class != "" && !quiet[s.class] && !s.prefixed && r.trace.open:
		e.Sign = r.trace.unknown(s)
	default:
		return
	}
	e.Rank = s.rank
	if s.class != "" && !s.prefixed && r.trace.open {
		e.Sign.Step = r.trace.step
		if e.Phase == "" {
			e.Phase = r.trace.phase
		}
		r.trace.open = false
	}
	r.emit(e, at)
}

// quiet are exceptions that only say that somebody asked to stop, and a C++ message without a class.
var quiet = map[string]bool{"what": true, "KeyboardInterrupt": true, "SystemExit": true, "asyncio.exceptions.CancelledError": true, "asyncio.CancelledError": true}

// unknown is the sign of an exception that no rule knows.
func (t trace) unknown(s said) sweep.Sign {
	sign := sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classStray, Detail: cut(s.message, 300)}
	if t.fatal {
		sign.Priority = classRuntime
	}
	if t.step == "args" {
		sign.Outcome, sign.Cause, sign.Priority = sweep.BadFlag, "", classFlag
		sign.Detail = "the server refuses its flags: " + sign.Detail
	}
	return sign
}

var barLine = regexp.MustCompile(`^(?:([^|%]*?):?\s+)?(\d+)%[^\d][^\[]*?(\d+)/(\d+) \[(?:[^\],]*,\s*([\d.?]+)(it/s|s/it))?[^\]]*\]`)

// bar reads a progress bar, and returns what stands behind it.
func (r *reader) bar(line string, at sweep.Evidence) (e sweep.LogEvent, behind string, ok bool) {
	if !strings.Contains(line, "%") || !strings.Contains(line, "it") {
		return e, "", false
	}
	m := barLine.FindStringSubmatchIndex(line[:min(len(line), 2000)])
	if m == nil {
		return e, "", false
	}
	group := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return line[m[2*i]:m[2*i+1]]
	}
	done, _ := strconv.ParseFloat(group(3), 64)
	total, _ := strconv.ParseFloat(group(4), 64)
	work := r.grammar.work(group(1))
	r.begin(work.phase, at)
	phase := r.furthest()
	if work.text == "" {
		work.text = string(phase)
	}
	text := work.text + " " + group(3) + "/" + group(4)
	if rate, err := strconv.ParseFloat(group(5), 64); err == nil && rate > 0 {
		if group(6) == "s/it" {
			rate = 1 / rate
		}
		text += " · " + strconv.FormatFloat(rate, 'f', 1, 64) + "/s"
	}
	e = sweep.LogEvent{Kind: sweep.LogProgress, Phase: phase, Text: cut(text, 100)}
	if total > 0 {
		e.Value = done / total
	}
	return e, strings.TrimSpace(line[m[1]:]), true
}

// work is what a bar counts, by its label; nothing for a bar without one.
func (g *grammar) work(label string) bar {
	for _, b := range g.bars {
		if strings.Contains(label, b.label) {
			return b
		}
	}
	return bar{text: strings.TrimSpace(label)}
}

// begin notes that a phase has begun, when only a bar of one process says so.
func (r *reader) begin(phase sweep.Phase, at sweep.Evidence) {
	if phase != "" && r.furthest().Before(phase) {
		r.phases[""] = phase
		r.emit(sweep.LogEvent{Kind: sweep.LogPhase, Phase: phase}, at)
	}
}

func (r *reader) furthest() sweep.Phase {
	far := sweep.PhaseLaunch
	for _, p := range r.phases {
		if far.Before(p) {
			far = p
		}
	}
	return far
}
