package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// sharing says which host runs what once a host has failed or is away: its launches go to hosts with the same devices.
type sharing struct {
	mu      sync.Mutex
	changed chan struct{}     // closed, and made anew, with each change
	idle    map[string]bool   // hosts without anything to do
	failed  map[string]bool   // hosts that are left aside
	away    map[string]bool   // hosts that were not reached so far
	stays   map[string]bool   // launches that a host may be at work on although it is not reached: nobody else runs them
	given   map[string]int    // how often launches were given to a host
	moved   map[string]string // launch → the host that took it over
}

func newSharing() *sharing {
	return &sharing{
		changed: make(chan struct{}), idle: map[string]bool{}, failed: map[string]bool{}, away: map[string]bool{},
		stays: map[string]bool{}, given: map[string]int{}, moved: map[string]string{},
	}
}

// hostOf is where a cell runs.
func (s *sharing) hostOf(c PlannedCell) string {
	if s == nil { // nothing runs yet
		return c.Host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to, ok := s.moved[c.Launch]; ok {
		return to
	}
	return c.Host
}

// wait says that a host has done what it was given, as often as it had been given something, and waits until it gets
// more (true), or no host can fail any more.
func (s *sharing) wait(ctx context.Context, host string, given int, all []Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle[host] = true
	s.change()
	for {
		if s.given[host] > given {
			return true
		}
		if !slices.ContainsFunc(all, func(h Host) bool { return !s.idle[h.Name()] && !s.failed[h.Name()] }) {
			return false
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			s.mu.Lock()
			return false
		case <-changed:
		}
		s.mu.Lock()
	}
}

func (s *sharing) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// setAside leaves a host aside and gives its launches to others, in turn. It reports false, and moves nothing, where
// none of them has the same devices.
func (s *sharing) setAside(host string, launches []string, specs []HostSpec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[host] = true
	defer s.change()
	var others, absent []string
	for _, h := range twins(host, specs) {
		switch {
		case s.failed[h]:
		case s.away[h]:
			absent = append(absent, h)
		default:
			others = append(others, h)
		}
	}
	if len(others) == 0 {
		others = absent
	}
	if len(others) == 0 {
		return false
	}
	for n, launch := range launches {
		to := others[n%len(others)]
		s.moved[launch] = to
		s.given[to]++
		s.idle[to] = false
	}
	return true
}

// elsewhere reports whether another host could take over what a host gives up.
func (s *sharing) elsewhere(host string, specs []HostSpec) bool {
	if s == nil { // nothing runs yet
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(twins(host, specs), func(h string) bool { return !s.failed[h] && !s.away[h] })
}

// takeBack gives a host that was left aside, for want of another one, its launches again.
func (s *sharing) takeBack(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, host)
	s.change()
}

// twins are the hosts whose devices are the same as those of a host, which is not among them.
func twins(host string, specs []HostSpec) []string {
	i := slices.IndexFunc(specs, func(h HostSpec) bool { return h.Name == host })
	var names []string
	for j, h := range specs {
		if i >= 0 && i != j && slices.Equal(h.GPUs, specs[i].GPUs) && h.Simulate == specs[i].Simulate {
			names = append(names, h.Name)
		}
	}
	return names
}

// take gives a host that has nothing to do a launch of one with the same devices that is away, and with a baseline its
// drift check, which is of use only on the same machine. missing are the cells that have no record.
func (s *sharing) take(host string, missing []PlannedCell, specs []HostSpec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	like := twins(host, specs)
	i := slices.IndexFunc(missing, func(c PlannedCell) bool { return s.free(c, like) })
	if i < 0 {
		return false
	}
	for _, c := range missing {
		if s.free(c, like) && c.Config == missing[i].Config && c.Repeat == missing[i].Repeat {
			s.moved[c.Launch] = host
		}
	}
	s.idle[host] = false
	return true
}

// free reports whether a cell is one of these hosts', which is away and cannot be at work on it.
func (s *sharing) free(c PlannedCell, hosts []string) bool {
	owner := c.Host
	if to, ok := s.moved[c.Launch]; ok {
		owner = to
	}
	return s.away[owner] && !s.failed[owner] && !s.stays[c.Launch] && slices.Contains(hosts, owner)
}

// keep says that a launch is with a host, as an earlier process left it; stays: nobody else may run it.
func (s *sharing) keep(launch, host string, stays bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved[launch], s.stays[launch] = host, stays
}

// staying reports whether a launch is one that nobody else may run.
func (s *sharing) staying(launch string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stays[launch]
}

// setAway says that a host is not reached, or is now.
func (s *sharing) setAway(host string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[host] = away
	s.change()
}

// othersRest reports whether no other host has anything to do, and gives the channel that the next change closes.
func (s *sharing) othersRest(host string, all []Host) (rest bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(all, func(h Host) bool {
		name := h.Name()
		return name != host && !s.idle[name] && !s.failed[name] && !s.away[name]
	}), s.changed
}

// leave says that a host that is away has nothing left to come back for.
func (s *sharing) leave(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[host] = true
	s.change()
}

// times is how often launches were given to a host.
func (s *sharing) times(host string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[host]
}

// leftAside gives the launches of a host that failed to others. nil: they go on with them, or the host cannot be reached
// any more, which does not end the night for others.
func (r *Runner) leftAside(host string, cause error) error {
	launches := r.launchesOf(host)
	gone := (*LinkError)(nil)
	alone := len(r.Hosts) == 1
	switch moved := r.share.setAside(host, launches, r.Night.Manifest.Hosts); {
	case moved:
	case errors.As(cause, &gone) && !alone:
		return r.unreached(host, gone, len(launches))
	default:
		return cause
	}
	if cause == nil {
		cause = ErrAgentLost
	}
	text := fmt.Sprintf("left aside, %d launches go to other hosts: %s", len(launches), Printable(cause.Error()))
	if err := r.Night.Note(JournalEntry{Kind: JournalLost, Host: host, Text: clipText(text)}); err != nil {
		return err
	}
	r.told(func(p Progress) { p.Lost(host, errors.New(text), true) })
	return nil
}

// launchesOf are the launches with missing cells that are a host's, in order.
func (r *Runner) launchesOf(host string) []string {
	var launches []string
	for _, c := range r.Night.Missing() {
		if r.share.hostOf(c) == host && !slices.Contains(launches, c.Launch) {
			launches = append(launches, c.Launch)
		}
	}
	return launches
}

// clipText bounds a text that goes into the journal.
func clipText(s string) string {
	const most = 2000
	if len(s) <= most {
		return s
	}
	return s[:most]
}
