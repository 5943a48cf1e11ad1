package truth

import (
	"slices"
	"syscall"
	"time"
)

// fire makes the write of a connection that is due, and plans the next.
func (w *worker) fire(c *conn) {
	if len(c.parts) > 0 {
		w.part(c)
	} else {
		w.next(c)
	}
	switch {
	case c.dead:
	case len(c.parts) > 0:
		c.next += c.r.Plan.SplitUS * 1000
		w.timers.fix(c)
	case c.more:
		c.next = max(c.next, w.due(c))
		w.timers.fix(c)
	default:
		w.timers.remove(c)
		w.done(c)
	}
}

// due is when the next write of a connection is: of a batch, when its last event is.
func (w *worker) due(c *conn) int64 {
	at := c.step.AtNS
	if n := c.r.Plan.Batch; n > 1 && c.step.Kind <= Content {
		ahead := c.script // a copy: looking does not move it
		for range n - 1 {
			step, ok := ahead.next()
			if !ok || step.Kind > Content {
				break
			}
			at = step.AtNS
		}
	}
	return c.begin + at
}

// next writes the event or the batch of events that comes next.
func (w *worker) next(c *conn) {
	w.out, w.stamps = w.out[:0], w.stamps[:0]
	from := len(c.r.Events)
	for range max(1, c.r.Plan.Batch) {
		w.appendStep(c)
		batched := c.step.Kind <= Content
		if c.step, c.more = c.script.next(); !c.more || !batched || c.step.Kind > Content {
			break
		}
	}
	events := c.r.Events[from:]
	due := int64(0)
	if !c.flood {
		due = w.s.epoch.Load() + c.next
	}
	if k := c.r.Plan.Split; k > 1 && events[0].Kind <= Usage {
		events[0].Due = due
		c.parts = split(slices.Clone(w.out), k)
		w.part(c)
		return
	}
	at := w.stamp()
	for i := range events {
		events[i].Due, events[i].Start, events[i].Last = due, at, at
	}
	if events[0].Kind == Reset {
		c.r.End = at
		_ = syscall.SetsockoptLinger(c.fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		w.finish(c)
		w.drop(c)
		return
	}
	w.send(c, w.out)
}

// appendStep appends the current event to the write that is being made, and to the log.
func (w *worker) appendStep(c *conn) {
	step := c.step
	c.r.Events = append(c.r.Events, Event{Kind: step.Kind, Tokens: int32(step.Tokens)})
	c.r.Sent += step.Tokens
	w.totals.tokens += int64(step.Tokens)
	switch {
	case step.Kind == Reset:
	case step.Kind == Whole && c.r.Status != 200:
		body := errorBody(c.r.Status, "refused by plan")
		w.out = append(appendHead(w.out, c.r.Status, "application/json", len(body), c.ends), body...)
	case step.Kind == Whole:
		w.event = c.state.appendWhole(w.event[:0], step)
		w.out = append(appendHead(w.out, 200, "application/json", len(w.event), c.ends), w.event...)
	default:
		w.event = c.state.appendEvent(w.event[:0], step)
		before := len(w.out)
		w.out = appendChunk(w.out, w.event)
		if step.Kind == Done {
			w.out = append(w.out, "0\r\n\r\n"...)
		} else {
			size := len(w.out) - before - len(w.event) - 2 // of the chunk's size line
			w.stamps = append(w.stamps, before+size+len("data: ")+len(stampHead))
		}
	}
}

// stamp reads the clocks, puts the wall time into the events of the write, and gives the time of the log's clock. It is
// called right before the write.
func (w *worker) stamp() int64 {
	now := time.Now()
	wall := uint64(now.UnixNano())
	for _, i := range w.stamps {
		putDigits(w.out[i:i+stampSize], wall)
	}
	return w.s.epoch.Load() + int64(now.Sub(w.s.base))
}

// split cuts b into n pieces of nearly one length, none empty.
func split(b []byte, n int) [][]byte {
	n = min(n, len(b))
	parts := make([][]byte, n)
	for i := range n {
		parts[i] = b[i*len(b)/n : (i+1)*len(b)/n]
	}
	return parts
}

// part writes the next piece of an event.
func (w *worker) part(c *conn) {
	e := &c.r.Events[len(c.r.Events)-1]
	now := time.Now()
	at := w.s.epoch.Load() + int64(now.Sub(w.s.base))
	if e.Start == 0 {
		e.Start = at
		if len(w.stamps) > 0 { // the first piece of an event that was just made holds the time, or its beginning
			joined := c.parts[0][:cap(c.parts[0])] // the pieces lie one after another
			putDigits(joined[w.stamps[0]:w.stamps[0]+stampSize], uint64(now.UnixNano()))
		}
	}
	e.Last = at
	b := c.parts[0]
	c.parts = c.parts[1:]
	w.send(c, b)
}

// floodOn writes as much of a flooded stream as is its turn; false when the socket is full or the stream at its end.
func (w *worker) floodOn(c *conn) bool {
	for range floodTurn {
		if c.dead || c.r == nil || len(c.out) > 0 {
			return false
		}
		w.next(c)
		if c.dead {
			return false
		}
		if !c.more {
			w.done(c)
			return false
		}
	}
	return len(c.out) == 0
}

// done ends an answer after its last event.
func (w *worker) done(c *conn) {
	c.r.End = c.r.Events[len(c.r.Events)-1].Last
	w.finish(c)
	if c.ends {
		if len(c.out) == 0 {
			w.drop(c)
		}
		return
	}
	w.read(c)
}
