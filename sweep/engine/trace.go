package engine

import (
	"strings"

	"sweep/sweep"
)

// trace is the stack trace that is being read.
type trace struct {
	open  bool
	rank  string
	fatal bool // its process announced that it dies
	phase sweep.Phase
	step  string
}

// stack follows stack traces, so that an exception knows its rank and what was being done.
func (r *reader) stack(s *said) {
	t := r.traces[s.process]
	if strings.HasSuffix(s.message, "Traceback (most recent call last):") {
		r.open(s)
		return
	}
	if t == nil {
		return
	}
	switch {
	case s.bracket:
	case s.info:
		t.open = false
	case t.open && strings.HasPrefix(s.message, `  File "`):
		t.note(r.grammar.frames[function(s.message)])
		s.rank = t.rank
	case t.open && (strings.HasPrefix(s.message, "    ") || strings.TrimSpace(s.message) == ""): // the source line of a frame
		for _, src := range r.grammar.sources {
			if strings.Contains(s.message, src.has) {
				t.note(src.frame)
			}
		}
		s.rank, s.quoted = t.rank, true
	default:
		if s.process == "" {
			s.rank = t.rank
		}
	}
}

func (r *reader) open(s *said) {
	old := r.traces[s.process]
	if old == nil {
		if len(r.traces) >= maxRanks {
			return
		}
		old = &trace{}
		r.traces[s.process] = old
	}
	t := trace{open: true, rank: old.rank, fatal: old.fatal}
	if s.stamped {
		t.rank, t.fatal = s.rank, s.process != "" && old.fatal
	}
	for _, h := range r.grammar.heads {
		t.fatal = t.fatal || strings.HasPrefix(s.message, h)
	}
	*old = t
}

func (t *trace) note(f frame) {
	if f.phase != "" {
		t.phase = f.phase
	}
	if f.step != "" {
		t.step = f.step
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

// quiet are exceptions that only say that somebody asked to stop, and a C++ message without a class.
var quiet = map[string]bool{"what": true, "KeyboardInterrupt": true, "SystemExit": true, "asyncio.exceptions.CancelledError": true, "asyncio.CancelledError": true}

// unknown is the sign of an exception that no rule knows.
func (t *trace) unknown(s said) sweep.Sign {
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

// quote follows text of other people over several lines: some formatters print its line feeds as they are.
// Only a line that the server stamped ends it.
func (r *reader) quote(s *said) {
	switch {
	case s.quoted:
		r.quoting = openQuote(s.message)
	case r.quoting && !s.stamped:
		s.quoted = true
	default:
		r.quoting = false
	}
}

// openQuote reports a Python string that does not end in its line.
func openQuote(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quote == 0 && (c == '\'' || c == '"') && i > 0 && !isLetter(text[i-1]):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	return quote != 0
}
