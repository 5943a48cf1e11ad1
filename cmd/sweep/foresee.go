package main

import (
	"fmt"
	"slices"
	"strings"

	"sweep/sweep"
	"sweep/sweep/agent"
	"sweep/sweep/search"
)

// planLook is what can be said of a plan's launches before they run.
type planLook struct {
	forecasts []*sweep.Forecast    // of each launch, from earlier nights; nil: none
	basis     [][]int              // of each launch without one: the launches before it that it will be forecast from
	refused   map[[2]string]string // host and config → why it cannot work there
	lacks     map[string][]string  // host → what it lacks, by names of checks
	away      map[string]string    // host → why it was not reached
	looked    bool                 // hosts over SSH were looked at as well
}

// foresee makes the forecasts of a plan's launches from launches of earlier nights.
func foresee(plan *sweep.Plan, eng *sweep.Engine, earlier []sweep.Sighting) planLook {
	look := planLook{forecasts: make([]*sweep.Forecast, len(plan.Launches)), basis: make([][]int, len(plan.Launches))}
	jobs := plannedJobs(plan, eng)
	var before []sweep.Sighting
	for i, j := range jobs {
		asked := sweep.SightingOf(j)
		cell := search.CellBytes(eng.Memory, j)
		enough := 2
		if cell > 0 {
			enough = 1
		}
		if look.forecasts[i] = search.Forecast(eng.Memory, earlier, asked, cell); look.forecasts[i] == nil && j.Repeat == 1 && j.Role == sweep.RoleMeasure {
			look.basis[i] = search.Basis(eng.Memory, before, asked, enough)
		}
		before = append(before, asked)
	}
	return look
}

// plannedJobs are the plan's launches as jobs without loads.
func plannedJobs(plan *sweep.Plan, eng *sweep.Engine) []sweep.Job {
	probes := plan.Probes(eng)
	hosts := plan.HostOf()
	jobs := make([]sweep.Job, len(plan.Launches))
	for i, l := range plan.Launches {
		at := slices.IndexFunc(probes, func(j sweep.Job) bool { return j.Host == hosts[i].Name && j.Config.Key == l.Config.Key })
		jobs[i] = probes[at]
		jobs[i].ID, jobs[i].Repeat, jobs[i].Role = l.ID(), l.Repeat, l.Role
	}
	return jobs
}

// postpone puts the launches last, in each repeat, that are not expected to start. On several hosts each keeps
// its place: the order there decides which host a launch is given to, and a resume must find the same.
func postpone(plan *sweep.Plan, eng *sweep.Engine, earlier []sweep.Sighting) {
	if len(earlier) == 0 || eng.Memory == nil || len(plan.Grid.Hosts) > 1 {
		return
	}
	why := map[string]bool{}
	look := foresee(plan, eng, earlier)
	for i, l := range plan.Launches {
		why[l.ID()] = look.forecasts[i].Hopeless(0) != ""
	}
	plan.Postpone(func(l sweep.Launch) bool { return why[l.ID()] })
}

// survey adds what a look at the hosts says. What names no host is about the only one that was looked at.
func (look *planLook) survey(found []sweep.Finding, plan *sweep.Plan) {
	look.refused, look.lacks, look.away = map[[2]string]string{}, map[string][]string{}, map[string]string{}
	for _, f := range found {
		keys := f.Configs
		if keys == nil {
			for _, c := range plan.Configs {
				keys = append(keys, c.Key)
			}
		}
		where := f.Host
		for _, h := range plan.Grid.Hosts {
			if where == "" && h.SSH == nil {
				where = h.Name
			}
		}
		switch f.Level {
		case sweep.LevelRefused, sweep.LevelFlags:
			for _, key := range keys {
				if at := [2]string{where, key}; look.refused[at] == "" {
					look.refused[at] = f.Text
				}
			}
		case sweep.LevelMissing:
			if f.Check == checkSSH {
				look.away[where] = f.Text
			} else if f.Check != agent.CheckConfigs && !slices.Contains(look.lacks[where], f.Check) {
				look.lacks[where] = append(look.lacks[where], f.Check)
			}
		}
	}
}

// into gives each planned launch what was seen of it.
func (look *planLook) into(night *plannedNight) {
	for i := range night.Hosts {
		h := &night.Hosts[i]
		h.Lacks, h.Away = look.lacks[h.Host], look.away[h.Host]
		h.Looked = look.refused != nil && h.Away == "" && (h.SSH == "" || look.looked)
	}
	for i := range night.Launches {
		l := &night.Launches[i]
		l.Refused = look.refused[[2]string{l.Host, l.Config}]
		if i < len(look.forecasts) {
			l.Forecast = look.forecasts[i]
			for _, n := range look.basis[i] {
				l.ForecastFrom = append(l.ForecastFrom, n+1)
			}
		}
	}
}

// outlook says in words what is expected of a launch, in as many lines.
func (l plannedLaunch) outlook() []string {
	var lines []string
	if l.Refused != "" {
		lines = append(lines, "not started: "+l.Refused)
	}
	switch {
	case l.Forecast != nil:
		text := "forecast: " + l.Forecast.String()
		if why := l.Forecast.Hopeless(littleHeadroom); why != "" && l.Forecast.Hopeless(0) == "" {
			text += "; that is little: a server may say that it is ready, and run out of memory in its first large prefill"
		} else if why != "" {
			text += "; it is not expected to start"
		}
		lines = append(lines, text)
	case len(l.ForecastFrom) > 0:
		numbers := make([]string, len(l.ForecastFrom))
		for i, n := range l.ForecastFrom {
			numbers[i] = fmt.Sprint(n)
		}
		lines = append(lines, "to be forecast from "+launchesWord(numbers))
	}
	return lines
}

// littleHeadroom is less than what a prefill of ordinary size takes, in GiB.
const littleHeadroom = 1

func launchesWord(numbers []string) string {
	if len(numbers) == 1 {
		return "launch " + numbers[0]
	}
	last := len(numbers) - 1
	return "launches " + strings.Join(numbers[:last], ", ") + " and " + numbers[last]
}
