package engine

import (
	"regexp"
	"slices"
	"strings"

	"sweep/sweep"
)

// grammar is what the lines of one engine's log mean, as data. A line is read in this order: prefix,
// exception's class, wrappers; what remains is compared with the tables.
type grammar struct {
	lead func(line string) lead
	// quotes are beginnings of messages that carry other people's text (requests, arguments): such a
	// line may be a mark, never a sign.
	quotes   []string
	births   []string // texts with which a server's life begins
	marks    []mark
	wrappers []wrapper
	rules    []rule
	numbers  []number
	notes    []note
	frames   map[string]frame // functions in stack traces that tell what was going on
	sources  []source         // the same for lines of source code in stack traces
	bars     []bar            // labels of progress bars
	batches  []string         // texts in lines about the running batch
	batch    func(message string, names *fieldNames) (kind string, values sweep.Values, ok bool)
	retracts []string // beginnings of lines that tell of a retraction
	silences []string // beginnings of lines in which the server says that nothing moves
	// heads are messages that open the stack trace of a process that is about to die.
	heads []string
	// together: the processes of a server log parts of one start each, so that a phase belongs to all of them.
	together bool
	// rewinds: the clock in the log counts from the start, so that one that goes back tells of a new life.
	rewinds bool

	machine *matcher
}

// mark is a line with which a phase begins.
type mark struct {
	has   string // in the message
	end   string // and, when not empty, this behind it
	phase sweep.Phase
	ready bool   // the engine says that it is ready
	again bool   // the phase may come a second time in one start (a draft model after the main one)
	text  string // progress for a person; empty: none
	seen  string // remember under this name that the line came
	given string // only when a line of this name came
	not   string // only while no line of this name came
}

// wrapper is text in front of another failure's text.
type wrapper struct {
	text   string
	until  string // and all up to the first of this behind it
	phase  sweep.Phase
	raised bool // what follows is the text of an exception
}

// rule is a line that may explain an end.
type rule struct {
	begins  []string // the message, or the exception's text, begins with one of these
	has     []string // or contains one of these
	classes []string // or the exception is of one of these classes
	ends    []string // and, when not empty, ends with one of these
	raised  bool     // counts only as the text of an exception
	unless  string   // and not when this stands in the message
	also    string   // and only when this stands in the message
	sign    sweep.Sign
	phase   sweep.Phase
	serving bool // only a server that was ready says so
	// detail finds the parts of Sign.Detail's $1, $2 …; when it does not match, and when Sign.Detail
	// is empty, the line itself is the detail.
	detail *regexp.Regexp
	flag   *regexp.Regexp // group 1 is the flag that was refused
	// judge changes the sign by the numbers that detail found; ok false: the rule does not hold.
	judge func(groups []string, sign *sweep.Sign) (ok bool)
}

// frame is what a function in a stack trace tells.
type frame struct {
	phase sweep.Phase
	step  string // prefill, decode, or "args": the command line was being read
}

// source is what a word in a line of source code tells.
type source struct {
	has string
	frame
}

// note is a line worth keeping with the numbers although nothing failed.
type note struct {
	has    string
	unless string
	find   *regexp.Regexp // its groups fill $1, $2 … of text
	text   string
	mark   string // a word for programs: "degraded", "accounting_leak"
}

// bar names the work behind a progress bar's label, and the phase that it proves to have begun.
type bar struct {
	label, text string
	phase       sweep.Phase
}

// How the numbers of several ranks and lines become one fact. Of one rank the last line counts.
const (
	foldMin = iota // the smallest of the ranks
	foldMax        // the largest number that any line had
	foldSum        // the lines of a rank added, the largest of the ranks
)

// number is a fact in a line.
type number struct {
	name  string
	has   string
	find  *regexp.Regexp // group 1 is the number
	fold  int
	scale float64 // multiplies it; 0: 1
	final bool    // the engine's last word: what other lines said of this name is dropped
}

// said is one line, taken apart.
type said struct {
	lead
	class  string      // of an exception; empty when the line is none
	text   string      // the message without class and wrappers
	phase  sweep.Phase // of a wrapper
	quoted bool
}

// signServing marks a sign that only a server gives that was ready.
const signServing = "serving"

var exceptionLine = regexp.MustCompile(`^([A-Za-z_][\w.:]*(?:Error|Exception|Interrupt|Exit|OutOfResources)|Exception)(?:: |:$|$)`)

func (g *grammar) read(line string) said {
	s := said{lead: g.lead(line)}
	s.quoted = slices.ContainsFunc(g.quotes, func(q string) bool { return strings.HasPrefix(s.message, q) })
	s.text = s.message
	if s.quoted {
		return s
	}
	if rest, ok := strings.CutPrefix(s.text, "  what():  "); ok {
		s.class, s.text = "what", rest
	}
	for {
		if m := exceptionLine.FindStringIndex(s.text[:min(len(s.text), 200)]); m != nil {
			s.class, s.text = strings.TrimRight(s.text[:m[1]], ": "), s.text[m[1]:]
			continue
		}
		if !g.unwrap(&s) {
			return s
		}
	}
}

func (g *grammar) unwrap(s *said) bool {
	for _, w := range g.wrappers {
		rest, ok := strings.CutPrefix(s.text, w.text)
		if ok && w.until != "" {
			_, rest, ok = strings.Cut(rest, w.until)
		}
		if !ok {
			continue
		}
		s.text, s.phase = rest, w.phase
		if w.raised && s.class == "" {
			s.class = "Exception"
		}
		return true
	}
	return false
}

// match returns the first rule that a line fits.
func (g *grammar) match(s said) (sweep.LogEvent, bool) {
	if s.quoted {
		return sweep.LogEvent{}, false
	}
	for i := range g.rules {
		if r := &g.rules[i]; r.fits(s) {
			if e, ok := r.event(s); ok {
				return e, true
			}
		}
	}
	return sweep.LogEvent{}, false
}

func (r *rule) fits(s said) bool {
	if r.raised && s.class == "" {
		return false
	}
	begins := func(t string) bool { return strings.HasPrefix(s.text, t) || strings.HasPrefix(s.message, t) }
	has := func(t string) bool { return strings.Contains(s.message, t) }
	if !slices.ContainsFunc(r.begins, begins) && !slices.ContainsFunc(r.has, has) && (s.class == "" || !slices.Contains(r.classes, s.class)) {
		return false
	}
	ends := func(t string) bool { return strings.HasSuffix(s.message, t) }
	if len(r.ends) > 0 && !slices.ContainsFunc(r.ends, ends) {
		return false
	}
	return (r.unless == "" || !has(r.unless)) && (r.also == "" || has(r.also))
}

// event makes the sign that a rule gives for a line.
func (r *rule) event(s said) (sweep.LogEvent, bool) {
	sign := r.sign
	template := sign.Detail
	sign.Detail = cut(strings.TrimSpace(s.text), 300)
	if sign.Detail == "" {
		sign.Detail = cut(s.message, 300)
	}
	switch {
	case template != "" && r.detail == nil:
		sign.Detail = template
	case r.detail != nil:
		if m := r.detail.FindStringSubmatchIndex(s.message); m != nil && template != "" {
			sign.Detail = cut(string(r.detail.ExpandString(nil, template, s.message, m)), 400)
		}
	}
	if r.flag != nil {
		if m := r.flag.FindStringSubmatch(s.message); m != nil {
			sign.Flag = cut(m[1], 100)
		}
	}
	if r.judge != nil && !r.judge(r.detail.FindStringSubmatch(s.message), &sign) {
		return sweep.LogEvent{}, false
	}
	phase := r.phase
	if phase == "" {
		phase = s.phase
	}
	e := sweep.LogEvent{Kind: sweep.LogSign, Phase: phase, Sign: sign}
	if r.serving {
		e.Text = signServing
	}
	return e, true
}

// What a matcher's flags say of a line: which of the tables it has to be compared with.
const (
	hasBatch  = 1 << iota // a batch line
	hasAccess             // an answered HTTP request
	hasBar                // a progress bar
	hasMark               // marks, numbers, notes and the like
	hasRule
	hasTrace // a stack trace's head, frame or exception
	hasQuote
)

// compile builds the matcher over all texts of the grammar.
func (g *grammar) compile() *grammar {
	texts := map[string]uint8{}
	add := func(flag uint8, all ...string) {
		for _, t := range all {
			if t != "" {
				texts[t] |= flag
			}
		}
	}
	add(hasBatch, g.batches...)
	add(hasAccess, ` HTTP/1.`, ` HTTP/2`, "done request: ")
	add(hasBar, "%|", "% Completed")
	add(hasTrace, "Traceback (most recent", "File \"", "Error", "Exception", "Interrupt", "SystemExit", "OutOfResources", "what():  ")
	add(hasQuote, g.quotes...)
	add(hasMark, g.births...)
	add(hasMark, g.retracts...)
	add(hasMark, g.silences...)
	add(hasMark, killedProcess...)
	for _, m := range g.marks {
		add(hasMark, m.has)
	}
	for _, n := range g.numbers {
		add(hasMark, n.has)
	}
	for _, n := range g.notes {
		add(hasMark, n.has)
	}
	for _, w := range g.wrappers {
		add(hasTrace, w.text)
	}
	for _, r := range g.rules {
		add(hasRule, r.begins...)
		add(hasRule, r.has...)
		add(hasRule, r.classes...)
	}
	g.machine = newMatcher(texts)
	return g
}
