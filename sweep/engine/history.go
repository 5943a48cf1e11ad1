package engine

import (
	"slices"

	"sweep/sweep"
)

// Bounds of what is kept of one life, so that a log of any length is read in constant memory: the first
// lines explain most, and the last ones say whether it went on.
const (
	keptFirst  = 200
	keptLast   = 200
	keptPhases = 400
	keptNotes  = 50
)

// chapter is what a log says of one life of the server.
type chapter struct {
	signs   []signAt // the first ones
	last    []signAt // the last ones, when there are more
	phases  []sweep.LogEvent
	facts   sweep.Values
	notes   []string
	marks   []string // words of notes, for programs
	ready   *sweep.LogEvent
	began   float64 // the first time stamp
	now     float64 // the last
	moves   int     // lines that prove work of the engine
	moved   sweep.Evidence
	batches int  // lines about the running batch
	decodes int  // of those, decodes
	answers int  // generations answered with 200
	probes  int  // probes answered with 200
	started bool // the log shows the start of this life
	served  bool // work after ready
	serving bool // a sign that only a server gives that was ready
	batch   string
	seen    bool // anything at all

	full, preempted int
	stamps          []float64 // of the last retractions
	retractions     int
	silent          *sweep.LogEvent // the server says that nothing moves, and nothing moved since
	waits           int             // such lines before ready
	jit             bool
	idle            int             // lines in a row with running requests and no token
	idleFrom        *sweep.LogEvent // the first of them
	speeds          speeds
}

// signAt is a sign, and how much work the log had shown until then.
type signAt struct {
	sweep.LogEvent
	moves   int
	readies int
}

func newChapter() *chapter { return &chapter{facts: sweep.Values{}} }

// take adds an event.
func (c *chapter) take(e sweep.LogEvent) {
	c.seen = true
	if e.Clock != 0 {
		if c.began == 0 {
			c.began = e.Clock
		}
		c.now = e.Clock
	}
	switch e.Kind {
	case sweep.LogPhase:
		c.started = c.started || c.moves == 0
		c.phase(e)
	case sweep.LogReady:
		c.phase(e)
		c.ready = &e
		c.move(e)
		c.served = c.decodes > 0 && !c.started // the log begins later, and ready is what it is again
	case sweep.LogProgress:
		c.jit = c.jit || c.ready == nil && e.Text == textJIT
	case sweep.LogFact:
		c.facts[e.Name] = e.Value
	case sweep.LogNote:
		c.note(e)
	case sweep.LogSign:
		c.sign(e)
	case sweep.LogBatch:
		c.running(e)
	case sweep.LogRequest:
		c.request(e)
	case sweep.LogRetraction:
		c.retract(e)
	case sweep.LogSilence:
		if c.ready == nil {
			c.waits++
		}
		if c.silent == nil {
			c.silent = &e
		} else {
			c.silent.Value = max(c.silent.Value, e.Value)
		}
	}
}

func (c *chapter) phase(e sweep.LogEvent) {
	if len(c.phases) < keptPhases {
		c.phases = append(c.phases, e)
	}
}

func (c *chapter) note(e sweep.LogEvent) {
	if len(c.notes) < keptNotes && !slices.Contains(c.notes, e.Text) {
		c.notes = append(c.notes, e.Text)
	}
	if e.Name != "" && !slices.Contains(c.marks, e.Name) {
		c.marks = append(c.marks, e.Name)
	}
}

func (c *chapter) sign(e sweep.LogEvent) {
	s := signAt{LogEvent: e, moves: c.moves}
	c.serving = c.serving || e.Text == signServing || e.Sign.Step == "prefill" || e.Sign.Step == "decode"
	if c.ready != nil {
		s.readies = 1
	}
	if len(c.signs) < keptFirst {
		c.signs = append(c.signs, s)
		return
	}
	if len(c.last) == keptLast {
		c.last = slices.Delete(c.last, 0, 1)
	}
	c.last = append(c.last, s)
}

// move notes proof of work.
func (c *chapter) move(e sweep.LogEvent) {
	c.moves++
	c.moved = e.Evidence
	c.silent = nil
}

// running takes a line about the running batch. One that says that nothing was made of what runs proves no work.
func (c *chapter) running(e sweep.LogEvent) {
	v := e.Values
	c.batch = e.Text
	gen, haveGen := v[sweep.SignalGenThroughput]
	prompt, fromVLLM := v["prompt_throughput"]
	if fromVLLM && haveGen && gen == 0 && prompt == 0 {
		if v[sweep.SignalRunning]+v[sweep.SignalQueued] > 0 {
			if c.idle++; c.idle == 1 {
				c.idleFrom = &e
			}
		}
		c.speeds.add(e)
		return
	}
	c.idle, c.idleFrom = 0, nil
	c.batches++
	if e.Text == "decode" {
		c.decodes++
	}
	c.move(e)
	if e.Text == "decode" || fromVLLM || v["new_token"] > probeTokens || v["new_token"] == 0 || !c.started {
		c.served = true
	}
	c.speeds.add(e)
	if v[sweep.SignalTokenUsage] >= fullUsage && v[sweep.SignalQueued] > 0 {
		c.full++
		if fromVLLM {
			c.full++ // ten seconds in one line
		}
	}
	if v["preemptions"] > 0 {
		c.preempted++
	}
}

// probeTokens is how many new tokens the prefill of a server's own probe has at most.
const probeTokens = 8

func (c *chapter) request(e sweep.LogEvent) {
	switch {
	case e.Value != 200:
	case e.Text == pathGenerate:
		c.answers++
		c.move(e)
		c.served = true
	case e.Text == pathProbe:
		c.probes++
	}
}

// retract counts retractions: all ranks of a server print the same one, at the same time.
func (c *chapter) retract(e sweep.LogEvent) {
	c.move(e)
	c.served = true
	if e.Clock != 0 && slices.Contains(c.stamps, e.Clock) {
		return
	}
	if len(c.stamps) == 16 {
		c.stamps = slices.Delete(c.stamps, 0, 1)
	}
	c.stamps = append(c.stamps, e.Clock)
	c.retractions++
	c.speeds.retracted()
}

// isReady reports that the server could be asked: it said so, or the log begins later and shows it at work.
func (c *chapter) isReady() bool {
	return c.ready != nil || !c.started && (c.moves > 0 || c.probes > 0 || c.silent != nil || c.idle > 0 || c.serving) || c.decodes > 0 && c.answers > 0
}

// isServing reports that requests were worked on after that.
func (c *chapter) isServing() bool {
	return c.isReady() && (c.served || c.ready == nil)
}

// end is the phase in which the life is at the end of its log.
func (c *chapter) end() sweep.Phase {
	switch {
	case c.isServing():
		return sweep.PhaseLoad
	case c.isReady():
		return sweep.PhaseReady
	}
	last := sweep.LogEvent{Evidence: sweep.Evidence{Offset: 1<<63 - 1}}
	return markedPhase(sweep.Autopsy{Phases: c.phases}, last)
}

// all returns the signs in order.
func (c *chapter) all() []signAt { return slices.Concat(c.signs, c.last) }

// causes returns the signs that the server did not survive. A line that tells of a failure is one only when the
// process ends or never gets ready: memory that was refused may have been asked for again in a smaller piece.
func (c *chapter) causes() []sweep.LogEvent {
	signs := c.all()
	var kept []sweep.LogEvent
	for _, s := range signs {
		if !c.survived(s, signs) {
			kept = append(kept, s.LogEvent)
		}
	}
	return kept
}

const (
	deathMoves = 20 // lines of work that other ranks may still print when one has died
	deathTime  = 60 // seconds for that
)

func (c *chapter) survived(s signAt, signs []signAt) bool {
	if s.readies == 0 && c.ready != nil && c.ready.Offset > s.Offset && !s.Sign.Effect {
		return true
	}
	for _, d := range signs { // a death close by was its death
		if isDeath(d.Sign) && abs(d.moves-s.moves) < deathMoves && (d.Clock == 0 || s.Clock == 0 || abs(d.Clock-s.Clock) <= deathTime) {
			return false
		}
	}
	if c.moves > s.moves && (c.ready == nil || s.Offset > c.ready.Offset || c.moved.Offset > c.ready.Offset) {
		return true
	}
	return s.Sign.Priority == classStray && c.isReady()
}

// isDeath reports lines that come only with the end of a process.
func isDeath(s sweep.Sign) bool {
	return s.Effect || s.Priority >= classCore && s.Priority <= classShell || s.Priority == classStopped
}

func abs[T int | float64](v T) T {
	if v < 0 {
		return -v
	}
	return v
}

// hangs returns the line from which on the server itself says that nothing moves, when nothing did until the end.
func (c *chapter) hangs() *sweep.LogEvent {
	if c.silent != nil && c.isReady() && c.silent.Value >= hangingSilence {
		return c.silent
	}
	if c.idle >= 3 && (c.idleFrom.Clock == 0 || between(c.idleFrom.Clock, c.now) >= 20) {
		return c.idleFrom
	}
	return nil
}

// words are the notes for programs.
func (c *chapter) words(end sweep.Ending) []string {
	lives := end.Outcome == sweep.OK || end.Outcome == sweep.Aborted
	var words []string
	add := func(word string, holds bool) {
		if holds && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	add(notePressure, lives && (c.retractions > 0 || c.preempted > 0 || c.full >= 2))
	add(noteDegraded, c.isReady() && slices.Contains(c.marks, noteDegraded) || lives && c.speeds.collapsed())
	add(noteLeak, slices.Contains(c.marks, noteLeak))
	add(noteSlow, c.ready != nil && (c.jit || c.waits >= slowSilences || c.began != 0 && c.ready.Clock != 0 && between(c.began, c.ready.Clock) >= slowStart ||
		c.facts["init_engine_s"] >= slowStart || c.facts["compile_s"] >= slowCompile))
	return words
}
