package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"
)

// How long a host that is away at the start is tried again. A machine that starts anew is back within awayPatience; as
// long as other hosts work, the tries cost nobody anything.
const (
	awayFirst    = 2 * time.Second  // between the first tries; it doubles
	awayMost     = time.Minute      // between later ones
	awayPatience = 10 * time.Minute // after the start, once no other host has anything to do
)

// AgentStopped is the text of a journal entry of kind [JournalStop] that says that nothing of a host's agent is left.
const AgentStopped = "the agent has stopped"

// away are the hosts that were not reached, and why.
type away struct {
	mu    sync.Mutex
	since time.Time
	why   map[string]*LinkError
}

func newAway() *away { return &away{since: time.Now(), why: map[string]*LinkError{}} }

func (a *away) is(host string) bool { return a.reason(host) != nil }

func (a *away) reason(host string) *LinkError {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why[host]
}

// set notes why a host is not reached; nil: it is.
func (a *away) set(host string, why *LinkError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if why == nil {
		delete(a.why, host)
		return
	}
	a.why[host] = why
}

// Open makes one try to reach each host at the end of a link. [Runner.Run] goes on without those that are away, and tries
// them again. An error means that none of those is there that have something to do; it says why of each.
func (r *Runner) Open(ctx context.Context) error {
	r.away = newAway()
	p := pool.New().WithContext(ctx)
	for _, h := range r.Hosts {
		if l, ok := h.(Linked); ok {
			p.Go(func(ctx context.Context) error {
				err := l.Open(ctx)
				if gone := (*LinkError)(nil); errors.As(err, &gone) {
					r.away.set(h.Name(), gone)
					return nil
				}
				return err
			})
		}
	}
	if err := p.Wait(); err != nil {
		return err
	}
	if err := r.shareOut(ctx); err != nil {
		return err
	}
	var errs []error
	missing := r.Night.Missing()
	for _, h := range r.Hosts {
		name := h.Name()
		switch why := r.away.reason(name); {
		case len(r.launchesOf(name)) > 0 && why != nil:
			errs = append(errs, fmt.Errorf("host %s: %w", name, why))
		case why == nil && (len(r.launchesOf(name)) > 0 || r.share.take(name, missing, r.Night.Manifest.Hosts)):
			return nil
		}
	}
	return errors.Join(errs...)
}

// shareOut leaves each launch with the host that an earlier process of the night handed it to, where that one is still at
// work on it, or may be as it is not reached.
func (r *Runner) shareOut(ctx context.Context) error {
	r.share = newSharing()
	for _, h := range r.Hosts {
		r.share.away[h.Name()] = r.away.is(h.Name())
	}
	working := map[string][]Job{} // of the hosts that were asked
	for _, c := range r.Night.Missing() {
		last := r.Night.handed[c.Launch]
		i := slices.IndexFunc(r.Hosts, func(h Host) bool { return h.Name() == last })
		if i < 0 || last == c.Host && !r.away.is(last) {
			continue
		}
		if r.away.is(last) {
			r.share.keep(c.Launch, last, true)
			continue
		}
		o, ok := r.Hosts[i].(Outliving)
		if !ok {
			continue
		}
		if _, asked := working[last]; !asked {
			jobs, err := o.Working(ctx)
			if err != nil {
				return fmt.Errorf("host %s: %w", last, err)
			}
			working[last] = jobs
		}
		if slices.ContainsFunc(working[last], func(j Job) bool { return j.ID == c.Launch }) {
			r.share.keep(c.Launch, last, false)
		}
	}
	return nil
}

// handedTo is the host that each launch was last handed to, as far as its agent may still be at work.
func handedTo(entries []JournalEntry) map[string]string {
	handed := map[string]string{}
	for _, e := range entries {
		switch {
		case e.Kind == JournalSubmit:
			for _, id := range e.Jobs {
				handed[id] = e.Host
			}
		case e.Kind == JournalStop && e.Text == AgentStopped:
			for id, host := range handed {
				if host == e.Host {
					delete(handed, id)
				}
			}
		}
	}
	return handed
}

// reach tries a host that is away again and again, and has it work through its part of the night once it is there.
func (r *Runner) reach(ctx, now context.Context, h Host) error {
	name := h.Name()
	why := r.away.reason(name)
	if err := r.link(name, r.awayText(name, why)); err != nil {
		return err
	}
	for wait := awayFirst; !why.Final; wait = min(2*wait, awayMost) {
		next := time.Now().Add(wait/2 + rand.N(wait/2)) // many workstations do not come back at the same moment
		if done, err := r.untilTry(ctx, name, next); done || err != nil {
			return err
		}
		err := h.(Linked).Open(ctx)
		if err == nil {
			return r.reached(ctx, now, h)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !errors.As(err, &why) {
			return err
		}
		r.away.set(name, why)
	}
	return r.givenUp(name, why)
}

// untilTry waits until a host that is away is to be tried again. done: nothing is left for it, or it was tried for long
// enough while no other host has anything to do.
func (r *Runner) untilTry(ctx context.Context, name string, next time.Time) (done bool, err error) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		rest, changed := r.share.othersRest(name, r.Hosts)
		switch {
		case rest && len(r.launchesOf(name)) == 0:
			r.share.leave(name)
			return true, nil
		case rest && time.Since(r.away.since) >= awayPatience:
			return true, r.givenUp(name, r.away.reason(name))
		}
		select {
		case <-ctx.Done():
			return true, nil
		case <-timer.C:
			return false, nil
		case <-changed:
		}
	}
}

// reached has a host that was away go on as if it had been there from the start.
func (r *Runner) reached(ctx, now context.Context, h Host) error {
	name := h.Name()
	text := fmt.Sprintf("reached after %v", time.Since(r.away.since).Round(time.Second))
	if err := r.link(name, text); err != nil {
		return err
	}
	r.away.set(name, nil)
	r.share.setAway(name, false)
	if o, ok := h.(Outliving); ok {
		if err := o.CatchUp(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return r.leftAside(name, err)
		}
	}
	for _, launch := range r.launchesOf(name) {
		records, err := r.Night.collect(launch, noAttempt, true, r.Log)
		for _, rec := range records {
			r.told(func(p Progress) { p.Record(rec) })
		}
		if err != nil {
			return err
		}
	}
	return r.runHost(ctx, now, h)
}

// givenUp leaves a host aside that is not tried again. What it cannot be at work on goes to hosts with the same devices.
func (r *Runner) givenUp(name string, why *LinkError) error {
	free := slices.DeleteFunc(r.launchesOf(name), r.share.staying)
	if len(free) > 0 && r.share.setAside(name, free, r.Night.Manifest.Hosts) {
		if err := r.link(name, fmt.Sprintf("its %s to other hosts", countOf(len(free), "launch goes", "launches go"))); err != nil {
			return err
		}
	}
	return r.unreached(name, why, len(r.launchesOf(name)))
}

// unreached says that a host's launches have no result, as it is not reached.
func (r *Runner) unreached(name string, why *LinkError, launches int) error {
	r.away.set(name, why)
	r.share.leave(name)
	if launches == 0 {
		return nil
	}
	return r.link(name, fmt.Sprintf("given up (%s): %s without a result, as infra.ssh; resume the night once it is there", clipText(why.Error()), countOf(launches, "launch is", "launches are")))
}

// awayText says of a host that is away why, and what becomes of its launches.
func (r *Runner) awayText(name string, why *LinkError) string {
	launches := r.launchesOf(name)
	if why.Final {
		return fmt.Sprintf("left aside, as no further try can help: %s", why)
	}
	text := fmt.Sprintf("not reached (%s); the night goes on without it, and it is tried again", why)
	staying := slices.ContainsFunc(launches, r.share.staying)
	switch like := twins(name, r.Night.Manifest.Hosts); {
	case len(launches) == 0:
		return text
	case staying:
		return text + "; it may be at work on launches of its own, which wait for it"
	case len(like) > 0:
		return text + fmt.Sprintf("; hosts with the same devices take its %s when they have done their own", countOf(len(launches), "launch", "launches"))
	}
	return text + fmt.Sprintf("; its %s for it, as no other host has the same devices", countOf(len(launches), "launch waits", "launches wait"))
}

// link tells and notes what became of the way to a host.
func (r *Runner) link(host, text string) error {
	text = Printable(text)
	if err := r.Night.Note(JournalEntry{Kind: JournalLink, Host: host, Text: clipText(text)}); err != nil {
		return err
	}
	r.told(func(p Progress) { p.Event(host, Event{At: time.Now(), Kind: EventLink, Text: text}) })
	return nil
}

// countOf writes a number with its word.
func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
