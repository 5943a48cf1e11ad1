package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"sweep/sweep"
)

// Question is what a user has of a server's end beside its log.
type Question struct {
	Engine string // as in [Names]; "": by the log. Any other name: a server that is not known
	File   string // name of the log, for the evidence
	Exit   *sweep.Exit
	// Kernel holds what the kernel's log says of its OOM killer; KernelFile is that log's name.
	Kernel     []sweep.OOMKill
	KernelFile string
}

// Explanation is what a log and what is known beside it say of a server's end.
type Explanation struct {
	Engine string `json:"engine"`
	// Outcome is nil where a log alone cannot decide: it stops while the server starts, or shows neither life nor death.
	Outcome  *sweep.Outcome `json:"outcome"`
	Phase    sweep.Phase    `json:"phase"`
	Cause    string         `json:"cause"`
	Notes    []string       `json:"notes"`    // words: kv_pressure, degraded, accounting_leak, slow_start, restarted, companion_killed
	Facts    map[string]any `json:"facts"`    // numbers; flag is a text, decode_throughput a list
	Evidence *Place         `json:"evidence"` // nil where no single line proves the outcome
	Detail   string         `json:"detail"`   // why, in one sentence
	Remarks  []string       `json:"remarks"`  // what else the log says that goes with the numbers
	Next     string         `json:"next"`     // what to try next
}

// Place is a line of a log, with all keys always there.
type Place struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Offset int64  `json:"offset"` // bytes from the start of the file to the start of the line
	Text   string `json:"text"`   // the line, cut to 500 bytes
}

// Explain reads a log to its end and says how the server ended. The log may be of any length.
func Explain(log io.Reader, q Question) (Explanation, error) {
	var b book
	b.open(q.Engine)
	buf := make([]byte, 64<<10)
	for {
		n, err := log.Read(buf)
		b.feed(buf[:n])
		if errors.Is(err, io.EOF) {
			return b.close(q), nil
		}
		if err != nil {
			return Explanation{}, fmt.Errorf("log: %w", err)
		}
	}
}

// book turns the events of a log into chapters and keeps the one that decides.
type book struct {
	engine  string
	head    []byte // what is read before the engine is known
	log     sweep.LogReader
	inner   *reader
	chapter *chapter
	crashed *closed // an earlier life that had served and did not survive
	starts  int
	kernel  []sweep.OOMKill // lines of the kernel's log in the server's
}

// closed is a life with its ending.
type closed struct {
	chapter *chapter
	ending  sweep.Ending
}

func (b *book) open(engine string) {
	b.chapter = newChapter()
	if engine != "" {
		b.engine = engine
		b.log, b.inner = reads(engine)
	}
}

func (b *book) feed(p []byte) {
	if b.log != nil {
		b.take(b.log.Feed(p))
		return
	}
	b.head = append(b.head, p...)
	if len(b.head) >= detectBytes {
		b.detect()
	}
}

func (b *book) detect() {
	b.engine = Detect(b.head)
	b.log, b.inner = reads(b.engine)
	if b.engine == "" {
		b.engine = "other"
	}
	b.take(b.log.Feed(b.head))
	b.head = nil
}

func (b *book) take(events []sweep.LogEvent) {
	for _, e := range events {
		switch {
		case e.Kind == sweep.LogStart:
			b.starts++
			b.turn()
		case e.Kind == sweep.LogSign && e.Sign.Outcome == sweep.HostKilled:
			if len(b.kernel) < maxPIDs {
				b.kernel = append(b.kernel, sweep.OOMKill{PID: int(e.Values["pid"]), Name: e.Text, Evidence: e.Evidence})
			}
		default:
			b.chapter.take(e)
		}
	}
}

// turn closes a life because another one begins. That it died is certain then; why, its signs say.
func (b *book) turn() {
	c := b.chapter
	b.chapter = newChapter()
	if b.crashed != nil || !c.isReady() {
		return
	}
	causes := c.causes()
	if cause := strongest(causes); cause == nil || cause.Sign.Outcome == sweep.Aborted {
		return
	}
	b.crashed = &closed{c, verdict(c.autopsy(causes, nil, nil))}
}

// autopsy is what is known of a life.
func (c *chapter) autopsy(causes []sweep.LogEvent, exit *sweep.Exit, kernel []sweep.OOMKill) sweep.Autopsy {
	a := sweep.Autopsy{Signs: causes, LastBatch: c.batch, Ready: c.isReady(), Loading: c.isServing(), Exit: exit, Kernel: kernel, Phase: c.end()}
	for _, p := range c.phases {
		if p.Kind != sweep.LogReady || !a.Ready { // causes has no sign that the server survived
			a.Phases = append(a.Phases, p)
		}
	}
	return a
}

func (b *book) close(q Question) Explanation {
	if b.log == nil {
		b.detect()
	}
	b.take(b.log.Close())
	kernel := slices.Concat(slices.Clone(q.Kernel), b.kernel)
	for i := range kernel {
		kernel[i].File = q.File
		if i < len(q.Kernel) {
			kernel[i].File = q.KernelFile
		}
	}
	claim(kernel, b.inner.pids)
	c, ending, decided := b.settle(q, kernel)
	e := Explanation{Engine: b.engine, Phase: ending.Phase, Cause: ending.Cause, Detail: ending.Detail, Facts: c.stated(), Remarks: c.notes, Notes: c.words(ending)}
	if decided {
		e.Outcome = &ending.Outcome
	}
	if ending.Evidence != nil {
		place := Place(*ending.Evidence)
		place.File = cmp.Or(place.File, q.File)
		e.Evidence = &place
	}
	if b.starts > 0 {
		e.Notes = append(e.Notes, noteRestarted)
	}
	if foreignKill(kernel) {
		e.Notes = append(e.Notes, noteCompanion)
	}
	if flag := refusedFlag(c.signs); flag != "" && ending.Outcome == sweep.BadFlag {
		e.Facts["flag"] = flag
	}
	if e.Notes == nil {
		e.Notes = []string{}
	}
	if e.Remarks == nil {
		e.Remarks = []string{}
	}
	e.Next = advice(e, c)
	return e
}

func foreignKill(kernel []sweep.OOMKill) bool {
	return len(kernel) > 0 && !slices.ContainsFunc(kernel, func(k sweep.OOMKill) bool { return k.Ours })
}

func refusedFlag(signs []signAt) string {
	for _, s := range signs {
		if s.Sign.Flag != "" {
			return s.Sign.Flag
		}
	}
	return ""
}

// settle finds the ending. decided is false where the log cannot tell.
func (b *book) settle(q Question, kernel []sweep.OOMKill) (*chapter, sweep.Ending, bool) {
	if b.crashed != nil {
		return b.crashed.chapter, b.crashed.ending, true
	}
	c := b.chapter
	causes := c.causes()
	a := c.autopsy(causes, q.Exit, adopt(kernel, causes, q.Exit))
	cause := strongest(living(a))
	hang := c.hangs()
	switch {
	case cause == nil && killedByKernel(a) == nil && q.Exit == nil && hang != nil:
		evidence := hang.Evidence
		return c, sweep.Ending{Outcome: sweep.HangLoad, Phase: c.end(), Evidence: &evidence, Detail: "the server itself says that nothing moves, and nothing did until the end of the log"}, true
	case cause == nil && killedByKernel(a) == nil && q.Exit == nil && !diedSilently(causes):
		return c, c.alive(foreignKill(kernel)), c.provedAlive(foreignKill(kernel))
	}
	return c, b.dead(c, a, causes), true
}

// dead names the end of a server that is known, or said, to have ended.
func (b *book) dead(c *chapter, a sweep.Autopsy, causes []sweep.LogEvent) sweep.Ending {
	if a.Exit == nil && strongest(living(a)) == nil && killedByKernel(a) == nil {
		a.Exit = &sweep.Exit{Code: -1, Signal: sigKill, By: "server"} // it announced its own end
	}
	e := verdict(a)
	if e.Phase == "" {
		e.Phase = c.end()
	}
	return e
}

// diedSilently reports lines that come only with an end, and no cause beside them.
func diedSilently(causes []sweep.LogEvent) bool {
	return slices.ContainsFunc(causes, func(s sweep.LogEvent) bool { return s.Sign.Effect })
}

// adopt makes a kill of a process that any program may be called the server's, when the log shows that one of the
// server's processes was killed.
func adopt(kernel []sweep.OOMKill, causes []sweep.LogEvent, exit *sweep.Exit) []sweep.OOMKill {
	killed := exit != nil && exit.Signal == sigKill || slices.ContainsFunc(causes, func(s sweep.LogEvent) bool { return s.Sign.Cause == "killed" })
	for i := range kernel {
		kernel[i].Ours = kernel[i].Ours || killed && (strings.HasPrefix(kernel[i].Name, "python") || strings.HasPrefix(kernel[i].Name, "pt_main") || strings.HasPrefix(kernel[i].Name, "ray::"))
	}
	return kernel
}

// alive is the ending of a log that shows no end.
func (c *chapter) alive(companion bool) sweep.Ending {
	e := sweep.Ending{Phase: c.end()}
	if !c.provedAlive(companion) {
		e.Detail = fmt.Sprintf("the log stops in phase %s and shows no end: only a clock can tell a hang from a slow start", e.Phase)
		if c.isReady() {
			e.Detail = "the log shows neither that the engine works nor that it died"
		}
		return e
	}
	e.Outcome = sweep.OK
	if c.ready != nil {
		evidence := c.ready.Evidence
		e.Evidence = &evidence
		e.Detail = "the server became ready"
	}
	if c.isServing() {
		e.Detail = "the server works on requests"
	}
	return e
}

// provedAlive reports work of the engine with nothing against it.
func (c *chapter) provedAlive(companion bool) bool {
	contradicted := slices.ContainsFunc(c.all(), func(s signAt) bool { // a pool that failed, in a log that shows no start
		return c.ready == nil && s.Sign.Priority == classAccounting
	})
	return c.isReady() && (c.ready != nil || c.moves > 0) && c.silent == nil && c.idle == 0 && !companion && !contradicted
}

// stated are the facts of a life. What is absent was not said.
func (c *chapter) stated() map[string]any {
	facts := map[string]any{}
	for name, v := range c.facts {
		if name == "kv_tokens" && v <= 0 { // no capacity at all
			continue
		}
		facts[name] = v
	}
	if c.retractions > 0 {
		facts["retractions"] = float64(c.retractions)
	}
	if len(c.speeds.list) > 0 {
		facts["decode_throughput"] = c.speeds.list
	}
	if v, ok := c.speeds.steadyState(); ok {
		facts["decode_throughput_steady"] = math.Round(v*1e4) / 1e4
	}
	return facts
}
