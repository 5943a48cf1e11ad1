package loadgen

import (
	"fmt"
	"maps"
	"time"
)

// How requests travel.
const (
	ClientEpoll = "epoll"    // the fast path: threads of their own over epoll
	ClientConn  = "net.Conn" // a goroutine for each connection
	ClientHTTP  = "net/http" // through the standard library: HTTP/2, proxies
)

// Who stamps events.
const (
	StampsKernel = "kernel" // when the bytes came to the host
	StampsUser   = "user"   // when the client had read them: later by the client's own lateness
)

// Evidence is what a client observed of itself over a stretch of time. What cannot be known is absent.
//
//	reads, events            of the sockets; of the streams, of any kind
//	coalesced_share          of the events: they shared a read with a later one, so that their stamps are upper bounds
//	late_coalesced_share     the same because the client was late: the bytes had lain there for 0.2 ms (kernel stamps only)
//	unstamped_reads          reads without a kernel stamp, although the run has kernel stamps
//	stamp_gap_p50_us, _p99_us, _max_us   from the kernel's stamp to the client's own: its lateness, measured
//	turn_p50_us, _p99_us, _max_us        from the release of a slot of a closed class to its next request's first byte
//	send_lag_p50_us, _p99_us, _max_us    from the planned time of a request of an open class to its first byte
//	unsent_requests          of open classes: due, and not sent when the stretch ended
//	slot_idle_share          of the time of all slots: free, with the next request not yet sent
//	starved                  times that a slot was free and no request was prepared
//	timer_late_p50_ms, _p99_ms           how late a timer of the Go scheduler woke
//	busy_share               of the time of the busiest shard: not waiting for events
//	cpu_share                the same: on a core
//	run_delay_share          of the time of the worst shard: ready to run, and without a core
//	core_idle_share          of the time of the cores that the client may use: nobody used it
//	steal_share              of the machine's time: taken by other machines of its host
//	gc_cycles, gc_pause_ms, gc_pause_max_ms   of the garbage collector; what they do shows in the lateness above
//	losses                   TCP segments that were sent again or came out of order
//	clock_steps, clock_step_max_ms       times that the real-time clock was set
//	lost_records             requests that the disk was too slow for: they are in no file
//	files_left, ports_left   at the end: descriptors, local ports to the server
type Evidence map[string]float64

// shot is what a client observed of itself until a moment.
type shot struct {
	at                       time.Duration
	reads, events, coalesced int64
	lateCoalesced, unstamped int64
	starved, losses          int64
	steps, worstStep         int64
	lost                     int
	kernel                   bool
	gap, turn, lag, late     histShot
	shards                   []shardShot
	machine                  machineShot
}

// shardShot is what one shard's thread did until a moment.
type shardShot struct {
	idle       time.Duration // waiting for events
	cpu, delay time.Duration // on a core; ready, without one; −1: not known
}

// shoot observes the client now.
func (r *run) shoot() *shot {
	s := &shot{at: r.since(), lost: r.out.out.dropped()}
	r.watch.late.shot(&s.late)
	r.path.load(s)
	s.machine = shootMachine()
	return s
}

// between is the evidence of the stretch from a to b. slots is the number of requests that were to be kept in flight.
func (r *run) between(a, b *shot, slots int) Evidence {
	e := Evidence{}
	length := b.at - a.at
	if length <= 0 {
		return e
	}
	e["reads"], e["events"] = float64(b.reads-a.reads), float64(b.events-a.events)
	if n := b.events - a.events; n > 0 {
		e["coalesced_share"] = float64(b.coalesced-a.coalesced) / float64(n)
		if b.kernel {
			e["late_coalesced_share"] = float64(b.lateCoalesced-a.lateCoalesced) / float64(n)
		}
	}
	gap, turn, lag := b.gap, b.turn, b.lag
	gap.minus(&a.gap)
	turn.minus(&a.turn)
	lag.minus(&a.lag)
	if b.kernel {
		e["unstamped_reads"] = float64(b.unstamped - a.unstamped)
		e.spread("stamp_gap", &gap)
		e["clock_steps"] = float64(b.steps - a.steps)
		if b.steps > a.steps {
			e["clock_step_max_ms"] = float64(b.worstStep) / 1e6
		}
	}
	e.spread("turn", &turn)
	e.spread("send_lag", &lag)
	if slots > 0 {
		e["slot_idle_share"] = float64(turn.sum) / float64(length) / float64(slots)
	}
	e["starved"], e["losses"] = float64(b.starved-a.starved), float64(b.losses-a.losses)
	e["lost_records"] = float64(b.lost - a.lost)
	late := b.late
	if late.minus(&a.late); late.total > 0 {
		e["timer_late_p50_ms"], e["timer_late_p99_ms"] = ms(late.quantile(0.5)), ms(late.quantile(0.99))
	}
	e.shards(a, b, length)
	maps.Copy(e, b.machine.minus(&a.machine))
	return e
}

// room says what limits the number of connections.
type room struct {
	files int // descriptors that this process may still open; −1: not known
	ports int // of this host to the server's address that are free; −1: not known
}

func (e Evidence) addRoom(r room) {
	if r.files >= 0 {
		e["files_left"] = float64(r.files)
	}
	if r.ports >= 0 {
		e["ports_left"] = float64(r.ports)
	}
}

func (e Evidence) spread(name string, h *histShot) {
	if h.total == 0 {
		return
	}
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	e[name+"_p50_us"], e[name+"_p99_us"], e[name+"_max_us"] = us(h.quantile(0.5)), us(h.quantile(0.99)), us(h.most())
}

// shards writes what the worst of the shards did.
func (e Evidence) shards(a, b *shot, length time.Duration) {
	for i, s := range b.shards {
		var before shardShot
		if i < len(a.shards) {
			before = a.shards[i]
		}
		share := func(name string, d time.Duration) {
			e[name] = max(e[name], float64(d)/float64(length))
		}
		share("busy_share", length-(s.idle-before.idle))
		if s.cpu >= 0 && before.cpu >= 0 {
			share("cpu_share", s.cpu-before.cpu)
			share("run_delay_share", s.delay-before.delay)
		}
	}
}

// Limits of the verdict. The graver one asks for proof that the client held the load back, or that its stamps are as
// far off as what they measure: a machine that is merely crowded makes a run suspect.
const (
	busyBound, busySuspect = 0.95, 0.80 // share of the time
	delaySuspect           = 0.05       // share of the time
	idleBound, idleSuspect = 0.10, 0.02 // share of the slots' time
	turnBound, turnSuspect = 5, 1       // ms in the median: a slot of short requests is idle for a large share in any client
	stealSuspect           = 0.05       // share of the time
	coreIdle, crowded      = 0.03, 0.01 // shares of the time: no core was free, and the client waited for one
	lateShareSuspect       = 0.01       // of the events
	lagBound, lagSuspect   = 5, 1       // ms
)

// verdict judges the client: was it, and not the server, the limit? gapMS is the median time between tokens, against
// which lateness is measured; 0: not known.
// bounded says that the requests in flight had a bound, so that it is not the client that made them late.
func (e Evidence) verdict(gapMS float64, kernel, bounded bool) (word string, why []string) {
	word = Valid
	found := func(level string, format string, args ...any) {
		if word == Valid || level == ClientBound {
			word = level
		}
		why = append(why, fmt.Sprintf(format, args...))
	}
	level := func(value, bound, suspect float64, format string) {
		switch {
		case value > bound:
			found(ClientBound, format, 100*value)
		case value > suspect:
			found(Suspect, format, 100*value)
		}
	}
	if n := e["lost_records"]; n > 0 {
		found(ClientBound, "%.0f requests are in no file: the disk was too slow", n)
	}
	if p50, p99 := e["timer_late_p50_ms"], e["timer_late_p99_ms"]; p50 > max(5, gapMS/2) {
		found(ClientBound, "the client's timer woke %.1f ms late in the median, against %.1f ms between tokens", p50, gapMS)
	} else if !kernel && p99 > max(10, gapMS) {
		found(Suspect, "the client's own timer woke late: p50 %.1f ms, p99 %.1f ms, against %.1f ms between tokens", p50, p99, gapMS)
	}
	if late := e["stamp_gap_p99_us"] / 1000; late > 1+gapMS/20 {
		found(Suspect, "the client read its sockets %.1f ms late at p99; the kernel's stamps hold, the sending of the next requests was as late", late)
	}
	p50, p99 := e["send_lag_p50_us"]/1000, e["send_lag_p99_us"]/1000
	switch {
	case bounded:
	case p50 > lagBound:
		found(ClientBound, "planned requests went %.1f ms late in the median", p50)
	case p99 > lagSuspect:
		found(Suspect, "planned requests went %.1f ms late at p99", p99)
	}
	idle, turn := e["slot_idle_share"], e["turn_p50_us"]/1000
	switch {
	case idle > idleBound && turn > turnBound:
		found(ClientBound, "slots stood free for %.1f %% of the time: fewer requests were in flight than asked", 100*idle)
	case idle > idleSuspect && turn > turnSuspect:
		found(Suspect, "slots stood free for %.1f %% of the time: fewer requests were in flight than asked", 100*idle)
	}
	busy := e["busy_share"]
	if cpu, ok := e["cpu_share"]; ok {
		busy = min(busy, cpu/busySuspect*busyBound) // waiting for a core is no work
	}
	level(busy, busyBound, busySuspect, "the busiest thread had no rest for %.0f %% of the time")
	level(e["run_delay_share"], 1, delaySuspect, "the client waited for a core for %.1f %% of the time")
	if idle, ok := e["core_idle_share"]; ok && idle < coreIdle && e["run_delay_share"] > crowded && e["run_delay_share"] <= delaySuspect {
		found(Suspect, "the cores that the client may use were idle for %.1f %% of the time, and it waited for one for %.1f %%: others want them", 100*idle, 100*e["run_delay_share"])
	}
	level(e["steal_share"], 1, stealSuspect, "other machines of this host took %.1f %% of the time")
	level(e["late_coalesced_share"], 1, lateShareSuspect, "%.1f %% of the events were read late together with others: their stamps are upper bounds")
	if n := e["clock_steps"]; n > 0 {
		found(Suspect, "the real-time clock was set %.0f times, by up to %.1f ms: stamps near that moment are wrong by as much", n, e["clock_step_max_ms"])
	}
	return word, why
}
