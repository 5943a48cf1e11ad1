package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

// story turns what happens in a night into lines for a person. It is the part that a terminal and a
// log file have in common.
type story struct {
	mu   sync.Mutex
	now  func() time.Time
	view view

	night    *sweep.Night
	planned  int
	recorded int
	missing  map[string]int           // load → cells without a record
	launches map[string]int           // launch that is still to start → cells without a record
	hosts    map[string]*hostState    // by name
	took     map[string][]float64     // load → seconds that its measured runs took
	starts   []float64                // seconds from a launch's begin to its first load
	began    map[string]time.Time     // job → begin of its attempt, until its first load
	phases   map[string]sweep.Phase   // host → phase that was last told
	outcomes map[sweep.Outcome]string // told already with its detail, so that many equal ones stay short
}

// hostState is what a host does now.
type hostState struct {
	what  string  // launch or cell
	text  string  // "weights 62/64 · 1.8/s"
	share float64 // of the phase or load that is done, 0 to 1
}

// view shows a story.
type view interface {
	// line shows one line that stays.
	line(text string)
	// step shows one line that matters only where nothing else shows how far things are.
	step(text string)
	// alert shows one line that stays, whatever else is left out.
	alert(text string)
	// state shows how things stand.
	state(overall string, recorded, planned int, hosts map[string]*hostState)
	// end ends the display; lines stay.
	end()
}

// safeView makes printable what a view shows: names of launches, cells and hosts come from files.
type safeView struct{ view }

func (v safeView) line(text string)  { v.view.line(sweep.Printable(text)) }
func (v safeView) step(text string)  { v.view.step(sweep.Printable(text)) }
func (v safeView) alert(text string) { v.view.alert(printableLines(text)) }

func newStory(v view, now func() time.Time) *story {
	return &story{
		now: now, view: safeView{v}, missing: map[string]int{}, launches: map[string]int{}, hosts: map[string]*hostState{},
		took: map[string][]float64{}, began: map[string]time.Time{}, phases: map[string]sweep.Phase{}, outcomes: map[sweep.Outcome]string{},
	}
}

// Begin implements [sweep.Progress].
func (s *story) Begin(n *sweep.Night, missing []sweep.PlannedCell, recovered []sweep.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.night = n
	s.planned = len(n.Manifest.Cells)
	s.recorded = s.planned - len(missing)
	starts := map[string]bool{}
	for _, c := range missing {
		s.missing[c.Load.String()]++
		s.launches[c.Launch]++
		starts[c.Launch] = true
	}
	s.view.line(fmt.Sprintf("night %s: %s to run in %s", n.Dir, plural(len(missing), "cell"), plural(len(starts), "start")))
	if !n.Deadline.IsZero() {
		s.view.line("the night ends by " + clockOf(s.now(), n.Deadline) + "; what would not be done by then is skipped.deadline")
	}
	for _, name := range n.Recovered {
		s.view.line("half-written or damaged lines were taken out; they are kept in " + name)
	}
	if len(recovered) > 0 {
		s.view.line(fmt.Sprintf("%s found in the folders of the earlier start", plural(len(recovered), "result")))
	}
	s.show()
}

// Event implements [sweep.Progress].
func (s *story) Event(host string, e sweep.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[host]
	if h == nil {
		h = &hostState{}
		s.hosts[host] = h
	}
	text := sweep.Printable(e.Text)
	switch e.Kind {
	case sweep.EventLaunch:
		h.what, h.text, h.share = e.Job, "", 0
		s.began[e.Job] = e.At
		delete(s.phases, host)
		attempt := ""
		if e.Attempt > 1 {
			attempt = fmt.Sprintf(", attempt %d", e.Attempt)
		}
		s.line(host, "launch "+e.Job+attempt)
	case sweep.EventPhase:
		h.text, h.share = cmp.Or(text, string(e.Phase)), e.Done
		if s.phases[host] != e.Phase {
			s.phases[host] = e.Phase
			s.view.step(s.at(host, e.Job+": "+string(e.Phase)))
		}
	case sweep.EventReady:
		h.text, h.share = "ready", 0
		s.line(host, e.Job+": "+cmp.Or(text, "ready"))
	case sweep.EventLoad:
		h.what, h.text, h.share = e.Cell, "", 0
		if at, ok := s.began[e.Job]; ok {
			s.starts = append(s.starts, e.At.Sub(at).Seconds())
			delete(s.began, e.Job)
		}
		delete(s.launches, e.Job)
		s.view.step(s.at(host, e.Cell+": load"))
	case sweep.EventProgress:
		h.text, h.share = text, e.Done
	case sweep.EventCommit:
		h.text, h.share = "measured", 1
	case sweep.EventEnd:
		h.text, h.share = "", 0
		if e.Outcome != "" && e.Outcome != sweep.OK {
			s.line(host, fmt.Sprintf("%s: the launch ended as %s", e.Job, s.withReason(e.Outcome, text)))
		}
	case sweep.EventRecover:
		s.line(host, "devices: "+text)
	case sweep.EventLink:
		s.view.alert(s.at(host, text))
		return
	case sweep.EventError:
		s.view.alert("the agent failed: " + text)
	case sweep.EventDone:
		h.what, h.text, h.share = "", "done", 1
	}
	s.show()
}

// at puts the host's name before a text where there is more than one host.
func (s *story) at(host, text string) string {
	if len(s.night.Manifest.Hosts) > 1 {
		return host + ": " + text
	}
	return text
}

func (s *story) line(host, text string) { s.view.line(s.at(host, text)) }

// said shows what a link has to say.
func (s *story) said(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.alert(sweep.Printable(text))
}

// Record implements [sweep.Progress].
func (s *story) Record(r sweep.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded++
	load := r.Load.String()
	s.missing[load]--
	s.done(r)
	if (r.Outcome == sweep.OK || r.Outcome == sweep.ClientBound) && r.EndedAt.After(r.StartedAt) {
		s.took[load] = append(s.took[load], r.EndedAt.Sub(r.StartedAt).Seconds())
	}
	repeat := ""
	if s.night.Manifest.Repeats > 1 {
		repeat = fmt.Sprintf(", repeat %d", r.Repeat)
	}
	s.line(r.Host, fmt.Sprintf("[%d/%d] %s%s: %s%s", s.recorded, s.planned, r.Cell, repeat, s.describe(r), s.eta(" · ")))
	s.show()
}

// done takes a cell away from what its launch is still to start for.
func (s *story) done(r sweep.Record) {
	for _, c := range s.night.Manifest.Cells {
		if c.Cell != r.Cell || c.Repeat != r.Repeat || s.launches[c.Launch] == 0 {
			continue
		}
		if s.launches[c.Launch]--; s.launches[c.Launch] == 0 {
			delete(s.launches, c.Launch)
		}
	}
}

// describe says in a few words what a cell gave.
func (s *story) describe(r sweep.Record) string {
	if r.Outcome == sweep.OK {
		return describeOK(r.Values)
	}
	text := string(r.Outcome)
	if r.Outcome == sweep.SkippedImplied && r.ImpliedBy != "" {
		return text + " by " + r.ImpliedBy
	}
	detail := sweep.Printable(r.Detail)
	if detail == "" && r.Evidence != nil {
		detail = sweep.Printable(r.Evidence.Text)
	}
	return s.withReason(r.Outcome, detail)
}

// withReason puts the reason behind an outcome, unless the line of a launch or cell before has told the same.
func (s *story) withReason(o sweep.Outcome, detail string) string {
	if detail == "" || s.outcomes[o] == detail {
		return string(o)
	}
	s.outcomes[o] = detail
	return string(o) + ": " + detail
}

func describeOK(v sweep.Values) string {
	parts := []string{"ok"}
	if x, ok := v["output_throughput"]; ok {
		parts = append(parts, thousands(x)+" tok/s")
	}
	if x, ok := v["p99_ttft_ms"]; ok {
		parts = append(parts, "p99 TTFT "+milliseconds(x))
	} else if x, ok := v["median_ttft_ms"]; ok {
		parts = append(parts, "median TTFT "+milliseconds(x))
	}
	if len(parts) > 1 {
		parts = parts[1:]
	}
	return strings.Join(parts, ", ")
}

// Lost implements [sweep.Progress].
func (s *story) Lost(host string, err error, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := "what it left is kept, the rest is handed over again"
	if final {
		next = "given up: it was lost again and again without a result in between"
	}
	text := sweep.Printable(err.Error())
	if !final || errors.Is(err, sweep.ErrAgentLost) {
		text += "; " + next
	}
	s.line(host, text)
	s.show()
}

// End implements [sweep.Progress].
func (s *story) End(sweep.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.end()
}

// Write lets a logger write its lines into the story.
func (s *story) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.alert(printableLines(string(p)))
	return len(p), nil
}

func (s *story) show() {
	overall := fmt.Sprintf("%d of %s", s.recorded, plural(s.planned, "cell")) + s.eta(" · ")
	s.view.state(overall, s.recorded, s.planned, s.hosts)
}

// eta is the clock time at which the rest will be done: for each missing cell what its load took so
// far (of a load not yet seen, what loads took), for each launch what starts took. Cells that fail are
// short, so only measured ones count. It is empty until a load has been measured.
func (s *story) eta(before string) string {
	var all []float64
	for _, t := range s.took {
		all = append(all, t...)
	}
	if len(all) == 0 || s.recorded >= s.planned {
		return ""
	}
	var seconds float64
	for load, n := range s.missing {
		t := s.took[load]
		if len(t) == 0 {
			t = all
		}
		seconds += float64(n) * median(t)
	}
	if len(s.starts) > 0 {
		seconds += float64(len(s.launches)) * median(s.starts)
	}
	seconds /= float64(max(1, len(s.night.Manifest.Hosts)))
	now := s.now()
	at := now.Add(time.Duration(seconds * float64(time.Second)))
	if end := s.night.Deadline; !end.IsZero() && at.After(end) {
		return before + "ends by " + clockOf(now, end) + ", before all is done"
	}
	return before + "done ≈ " + clockOf(now, at)
}

// clockOf is a moment by the clock: with seconds when it is near, with the day when it is not today.
func clockOf(now, at time.Time) string {
	switch {
	case at.YearDay() != now.YearDay():
		return at.Format("Mon 15:04")
	case at.Sub(now) < 10*time.Minute:
		return at.Format("15:04:05")
	}
	return at.Format("15:04")
}

func median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	n := len(s)
	return (s[n/2] + s[(n-1)/2]) / 2
}

// thousands writes a number without decimals, with commas; small ones with one decimal.
func thousands(x float64) string {
	if x < 100 && x != float64(int(x)) {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func milliseconds(ms float64) string {
	if ms >= 1000 {
		return strconv.FormatFloat(ms/1000, 'f', 2, 64) + " s"
	}
	return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
}

// interrupted tells what a signal does. It reaches a person even when only problems are wanted.
func (s *story) interrupted(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.alert(text)
}
