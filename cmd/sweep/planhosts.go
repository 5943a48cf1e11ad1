package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/host"
)

// plannedHost is what a plan has for one host.
type plannedHost struct {
	Host      string   `json:"host"`
	SSH       string   `json:"ssh,omitempty"`       // how it is reached; absent: this machine
	Transport string   `json:"transport,omitempty"` // native or openssh
	Lease     float64  `json:"lease_s,omitempty"`   // how long it works on without hearing of this machine
	Program   string   `json:"program,omitempty"`   // folder on the host that sweep is copied to
	Nights    string   `json:"nights,omitempty"`    // folder on the host that its part of the night is in
	Starts    int      `json:"starts"`
	Cells     int      `json:"cells"`
	Looked    bool     `json:"looked_at"`       // false: nothing is known of what it lacks
	Away      string   `json:"away,omitempty"`  // why it was not reached
	Lacks     []string `json:"lacks,omitempty"` // by names of checks
}

// lookAtHosts has each host looked at that a plan's launches are for: this machine, and with connect those over SSH.
func (env *environ) lookAtHosts(plan *sweep.Plan, probes []sweep.Job, here func([]sweep.Job) []sweep.Finding, earlier []sweep.Sighting, connect bool) []sweep.Finding {
	if connect {
		return env.surveyHosts(plan, probes, here, earlier, surveyFlags{})
	}
	local := slices.DeleteFunc(slices.Clone(probes), func(j sweep.Job) bool { return overLink(plan, j.Host) })
	if len(local) == 0 {
		return nil
	}
	return here(local)
}

// overLink reports whether a host is reached over SSH.
func overLink(plan *sweep.Plan, name string) bool {
	return slices.ContainsFunc(plan.Grid.Hosts, func(h sweep.HostSpec) bool { return h.Name == name && h.SSH != nil })
}

// plannedHosts is what a plan has for each of its hosts.
func plannedHosts(plan *sweep.Plan) []plannedHost {
	var hosts []plannedHost
	add := func(spec sweep.HostSpec) *plannedHost {
		i := slices.IndexFunc(hosts, func(h plannedHost) bool { return h.Host == spec.Name })
		if i < 0 {
			i = len(hosts)
			hosts = append(hosts, newPlannedHost(plan.Grid, spec))
		}
		return &hosts[i]
	}
	for _, spec := range plan.Grid.Hosts {
		add(spec)
	}
	for i, spec := range plan.HostOf() {
		h := add(spec)
		h.Starts++
		h.Cells += len(plan.Launches[i].Loads)
	}
	return hosts
}

func newPlannedHost(g *sweep.Grid, spec sweep.HostSpec) plannedHost {
	h := plannedHost{Host: spec.Name}
	if s := spec.SSH; s != nil {
		h.SSH, h.Transport = s.Target, cmp.Or(s.Transport, "native")
		h.Program, h.Nights = host.Folders(s.Dir)
		switch {
		case s.Lease > 0:
			h.Lease = s.Lease.Seconds()
		case g.Until == "" && g.Budget == 0: // else it ends with the night
			h.Lease = host.DefaultLease.Seconds()
		}
	}
	return h
}

// String says what the night does with the host.
func (h plannedHost) String() string {
	what := fmt.Sprintf("%s, %s", plural(h.Starts, "start"), plural(h.Cells, "cell"))
	if h.Starts == 0 {
		what = "nothing to do"
	}
	if h.SSH == "" {
		return fmt.Sprintf("%s: this machine, %s", h.Host, what)
	}
	how := "over SSH to " + h.SSH
	if h.Transport != "native" {
		how += " by your own ssh"
	}
	alone := "until an hour after the night's end"
	if h.Lease > 0 {
		alone = "for " + rough(time.Duration(h.Lease*float64(time.Second)))
	}
	return fmt.Sprintf("%s: %s, %s; it works alone with this machine off, %s at most; sweep is copied to %s, the night is in %s until all of it is here", h.Host, how, what, alone, h.Program, h.Nights)
}

// several reports whether a plan has to say which host a launch is on.
func (n plannedNight) several() bool {
	return len(n.Hosts) > 1 || len(n.Hosts) == 1 && n.Hosts[0].SSH != ""
}

// hostLines are the plan's lines about its hosts; none where all of it is on this machine.
func (n plannedNight) hostLines() []string {
	if !n.several() {
		return nil
	}
	var lines []string
	for _, h := range n.Hosts {
		lines = append(lines, h.String())
	}
	return lines
}

// lacking says what hosts lack, a line each; none: nothing that is known.
func (n plannedNight) lacking() []string {
	var lines, unseen []string
	see := func(verb string) string { return sweep.ShellLine([]string{"sweep", verb, n.Grid}) }
	for _, h := range n.Hosts {
		name := "this machine"
		if h.SSH != "" || len(n.Hosts) > 1 {
			name = h.Host
		}
		switch {
		case h.Away != "":
			lines = append(lines, fmt.Sprintf("%s was not reached: %s", name, h.Away))
		case h.SSH != "" && !h.Looked:
			unseen = append(unseen, name)
		case len(h.Lacks) > 0:
			lines = append(lines, fmt.Sprintf("%s lacks what the night needs (%s); see: %s", name, strings.Join(h.Lacks, ", "), see("doctor")))
		}
	}
	if len(unseen) > 0 {
		lines = append(lines, fmt.Sprintf("nothing was connected: what %s may lack or refuse is shown with --connect, and by: %s", strings.Join(unseen, ", "), see("doctor")))
	}
	return lines
}
