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
	// prefix takes time, rank and level off a line.
	prefix func(line string) (rank, message string, prefixed bool)
	// quotes are beginnings of messages that carry other people's text (requests, arguments): such a
	// line may be a mark, never a sign.
	quotes   []string
	marks    []mark
	wrappers []wrapper
	rules    []rule
	numbers  []number
	notes    []note
	frames   map[string]frame // functions in stack traces that tell what was going on
	bars     []bar            // labels of progress bars
	batch    func(message string) (kind string, values sweep.Values, ok bool)
	// heads are messages that open the stack trace of a process that is about to die.
	heads []string
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
	not   string // only while no line of this name came
}

// wrapper is text in front of another failure's text.
type wrapper struct {
	text  string
	phase sweep.Phase
}

// rule is a line that may explain an end.
type rule struct {
	begins  []string // the message, or the exception's text, begins with one of these
	has     []string // or contains one of these
	classes []string // or the exception is of one of these classes
	ends    []string // and, when not empty, ends with one of these
	raised  bool     // counts only as the text of an exception
	unless  string   // and not when this stands in the message
	sign    sweep.Sign
	phase   sweep.Phase
	// detail finds the parts of Sign.Detail's $1, $2 …; when it does not match, and when Sign.Detail
	// is empty, the line itself is the detail.
	detail *regexp.Regexp
}

// frame is what a function in a stack trace tells.
type frame struct {
	phase sweep.Phase
	step  string // prefill, decode, or "args": the command line was being read
}

// note is a line worth keeping with the numbers although nothing failed.
type note struct {
	has    string
	unless string
	find   *regexp.Regexp // its groups fill $1, $2 … of text
	text   string
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
	final bool // the engine's last word: what other lines said of this name is dropped
}

// said is one line, taken apart.
type said struct {
	rank     string
	prefixed bool
	message  string      // without prefix
	class    string      // of an exception; empty when the line is none
	text     string      // the message without class and wrappers
	phase    sweep.Phase // of a wrapper
	quoted   bool
}

var exceptionLine = regexp.MustCompile(`^([A-Za-z_][\w.:]*(?:Error|Exception|Interrupt|Exit)|Exception)(?:: |:$|$)`)

func (g *grammar) read(line string) said {
	var s said
	s.rank, s.message, s.prefixed = g.prefix(line)
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
		if rest, ok := strings.CutPrefix(s.text, w.text); ok {
			s.text, s.phase = rest, w.phase
			return true
		}
	}
	return false
}

// match returns the first rule that a line fits.
func (g *grammar) match(s said) (rule, bool) {
	if s.quoted {
		return rule{}, false
	}
	for _, r := range g.rules {
		if r.fits(s) {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) fits(s said) bool {
	if r.raised && s.class == "" || r.unless != "" && strings.Contains(s.message, r.unless) {
		return false
	}
	ends := func(t string) bool { return strings.HasSuffix(s.message, t) }
	if len(r.ends) > 0 && !slices.ContainsFunc(r.ends, ends) {
		return false
	}
	begins := func(t string) bool { return strings.HasPrefix(s.text, t) || strings.HasPrefix(s.message, t) }
	has := func(t string) bool { return strings.Contains(s.message, t) }
	return slices.ContainsFunc(r.begins, begins) || slices.ContainsFunc(r.has, has) || s.class != "" && slices.Contains(r.classes, s.class)
}

// event makes the sign that a rule gives for a line.
func (r rule) event(s said) sweep.LogEvent {
	sign := r.sign
	template := sign.Detail
	sign.Detail = cut(strings.TrimSpace(s.text), 300)
	if sign.Detail == "" {
		sign.Detail = cut(s.message, 300)
	}
	switch {
	case template != "" && r.detail == nil:
		sign.Detail = template
	case template != "":
		if m := r.detail.FindStringSubmatchIndex(s.message); m != nil {
			sign.Detail = cut(string(r.detail.ExpandString(nil, template, s.message, m)), 400)
		}
	}
	phase := r.phase
	if phase == "" {
		phase = s.phase
	}
	return sweep.LogEvent{Kind: sweep.LogSign, Phase: phase, Sign: sign}
}
