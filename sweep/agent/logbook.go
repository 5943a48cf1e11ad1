package agent

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep/sweep"
)

// maxSigns bounds what is kept of a log that repeats itself: the first lines explain most.
const maxSigns = 400

// logbook follows a server's log and keeps what it says.
type logbook struct {
	reader sweep.LogReader
	probed []string // paths that we ask ourselves: lines about them are no sign of the server's work
	// told is called for each phase that begins and for progress inside one, outside of the lock.
	told func(phase sweep.Phase, text string)

	mu      sync.Mutex
	clock   phaseClock
	phase   sweep.Phase
	signs   []sweep.LogEvent
	phases  []sweep.LogEvent
	facts   sweep.Values
	noted   []string
	batch   string
	line    []byte // unfinished
	number  int    // of the unfinished line, from 1
	began   int64  // offset of its first byte
	offset  int64  // of the next byte
	last    *sweep.Evidence
	work    int64         // bytes of lines that our own probes did not cause
	frozen  bool          // proved ready: the start's phases are over
	done    chan struct{} // every byte is read
	port    chan struct{} // a line says that the port is taken
	portOne sync.Once
}

func newLogbook(reader sweep.LogReader, probed []string, told func(sweep.Phase, string)) *logbook {
	b := &logbook{reader: reader, probed: probed, told: told, facts: sweep.Values{}, number: 1, port: make(chan struct{}), done: make(chan struct{}), phase: sweep.PhaseLaunch}
	b.clock.enter(sweep.PhaseLaunch, time.Now())
	return b
}

// follow reads the log as it grows, until gone is closed and every byte is read.
func (b *logbook) follow(path string, gone <-chan struct{}) error {
	var f *os.File
	defer func() {
		close(b.done)
		if f != nil {
			f.Close()
		}
	}()
	buf := make([]byte, 64<<10)
	for ended := false; ; {
		if f == nil {
			opened, err := os.Open(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			f = opened // nil while there is no such file
		}
		n := 0
		if f != nil {
			var err error
			if n, err = f.Read(buf); err != nil && err != io.EOF {
				return err
			}
		}
		switch {
		case n > 0:
			b.feed(buf[:n])
			continue
		case ended:
			b.end()
			return nil
		}
		select {
		case <-gone:
			ended = true // what was written until now is still to be read
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// catchUp waits until what stands in the log now is read, at most for limit.
func (b *logbook) catchUp(path string, limit time.Duration) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b.mu.Lock()
		read := b.offset
		b.mu.Unlock()
		if read >= info.Size() {
			return
		}
	}
}

// complete waits until the log is read to its end, at most for limit.
func (b *logbook) complete(limit time.Duration) {
	select {
	case <-b.done:
	case <-time.After(limit):
	}
}

func (b *logbook) feed(p []byte) {
	b.mu.Lock()
	events := b.reader.Feed(p)
	b.split(p)
	tell := b.take(events)
	b.mu.Unlock()
	b.tell(tell)
}

func (b *logbook) end() {
	b.mu.Lock()
	tell := b.take(b.reader.Close())
	b.endLine()
	if b.clock.phase != "" {
		b.clock.close(time.Now())
	}
	b.mu.Unlock()
	b.tell(tell)
}

func (b *logbook) tell(events []sweep.LogEvent) {
	for _, e := range events {
		b.told(e.Phase, e.Text)
	}
}

// split keeps the log's last line and counts the bytes of lines that are the server's own work.
func (b *logbook) split(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			b.keep(p)
			return
		}
		b.keep(p[:i])
		b.endLine()
		if p[i] == '\n' {
			b.number++
		}
		p = p[i+1:]
	}
}

func (b *logbook) keep(p []byte) {
	b.offset += int64(len(p))
	if room := 64<<10 - len(b.line); room > 0 {
		b.line = append(b.line, p[:min(room, len(p))]...)
	}
}

func (b *logbook) endLine() {
	defer func() {
		b.offset++ // the line's end
		b.began, b.line = b.offset, b.line[:0]
	}()
	text := strings.TrimSpace(string(b.line))
	if text == "" {
		return
	}
	if !slices.ContainsFunc(b.probed, func(path string) bool { return path != "" && strings.Contains(text, path) }) {
		b.work += int64(len(b.line))
	}
	b.last = &sweep.Evidence{Line: b.number, Offset: b.began, Text: text[:min(len(text), 500)]}
}

// take keeps the events and returns those to tell. The lock is held.
func (b *logbook) take(events []sweep.LogEvent) (tell []sweep.LogEvent) {
	for _, e := range events {
		switch e.Kind {
		case sweep.LogPhase:
			if len(b.phases) < maxSigns {
				b.phases = append(b.phases, e)
			}
			if b.frozen || e.Phase == b.phase {
				break
			}
			b.phase = e.Phase
			b.clock.enter(e.Phase, time.Now())
			tell = append(tell, e)
		case sweep.LogProgress:
			if b.frozen {
				break
			}
			e.Phase = b.phase
			tell = append(tell, e)
		case sweep.LogReady:
			if len(b.phases) < maxSigns {
				b.phases = append(b.phases, e)
			}
		case sweep.LogFact:
			b.facts[e.Name] = e.Value
		case sweep.LogBatch:
			b.batch = e.Text
		case sweep.LogNote:
			if len(b.noted) < 50 && !slices.Contains(b.noted, e.Text) {
				b.noted = append(b.noted, e.Text)
			}
		case sweep.LogSign:
			if len(b.signs) < maxSigns {
				b.signs = append(b.signs, e)
			}
			if e.Sign.Outcome == sweep.BusyPort {
				b.portOne.Do(func() { close(b.port) })
			}
		}
	}
	return tell
}

// state is where the start stands, and how much the server has written of its own.
func (b *logbook) state() (sweep.Phase, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase, b.work + int64(len(b.line))
}

// freeze ends the phases of the start and returns how long each took.
func (b *logbook) freeze() []sweep.PhaseTime {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.frozen {
		b.frozen = true
		b.clock.close(time.Now())
	}
	return slices.Clone(b.clock.times)
}

// said returns the facts and notes so far.
func (b *logbook) said() (sweep.Values, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	facts := maps.Clone(b.facts)
	if ranks, ok := b.reader.(sweep.RankReader); ok {
		maps.Copy(facts, rankFacts(ranks.ByRank()))
	}
	return facts, slices.Clone(b.noted)
}

// autopsy returns what the log knows of the server's end.
func (b *logbook) autopsy() sweep.Autopsy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return sweep.Autopsy{Signs: slices.Clone(b.signs), Phases: slices.Clone(b.phases), LastBatch: b.batch, Last: b.last, Phase: b.phase}
}
