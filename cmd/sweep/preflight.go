package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep/sweep"
	"sweep/sweep/agent"
	"sweep/sweep/search"
)

// helpCache is the folder in which helps of servers are kept; empty when this user has no place for such.
func helpCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sweep", "help")
}

// newSurvey is a look at this machine for an engine's launches. With ask, a server's help is run where none is kept.
func newSurvey(env *environ, eng *sweep.Engine, output string, ask bool) (agent.Survey, error) {
	self, err := os.Executable()
	if err != nil {
		return agent.Survey{}, exitWith(exitEnvironment, err)
	}
	return agent.Survey{
		Self: self, Engine: eng, Out: output, Cache: helpCache(), Ask: ask,
		Asking: func(command string) { env.say("reading the server's flags: %s", command) },
	}, nil
}

// checkNight refuses a night that cannot go well: flags that the engine does not know are the grid's fault
// (exit code 2, at their place in the file), what each launch needs and is not there is the machine's (3). Where
// the server gives no help, the night does without as well.
func checkNight(env *environ, o *sweep.NightOptions, earlier []sweep.Sighting) error {
	plan, eng := o.Plan, o.Engine
	s, err := newSurvey(env, eng, o.Root, true)
	if err != nil {
		return err
	}
	s.Earlier, s.NoFlagCheck = earlier, o.NoFlagCheck
	found := env.surveyHosts(plan, plan.Probes(eng), func(jobs []sweep.Job) []sweep.Finding { return s.Look(env.Ctx, jobs) }, earlier, surveyFlags{ask: true, noFlagCheck: o.NoFlagCheck})
	if env.Ctx.Err() != nil {
		return exitWith(exitInterrupted, nil)
	}
	if err := refuseFlags(env, plan.Grid, found); err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(f sweep.Finding) bool {
		return f.Check == agent.CheckCommand && f.Level == sweep.LevelMissing && !f.Blocks
	}) {
		return nil // the first launch says it
	}
	var blocks []string
	for _, f := range found {
		if f.Blocks {
			blocks = append(blocks, findingLine(f))
		} else if f.Check == agent.CheckFlags && f.Level == sweep.LevelWarning {
			env.say("%s", findingLine(f))
			o.NoFlagCheck = o.NoFlagCheck || f.Flag == "" // asking again would take as long
		}
	}
	if len(blocks) == 0 {
		return nil
	}
	return exitWith(exitEnvironment, fmt.Errorf("no night was started: %s\nsee all that it needs with: %s",
		strings.Join(blocks, "; "), sweep.ShellLine([]string{"sweep", "doctor", plan.Grid.Path})))
}

// findingLine is a finding in one line: "model: /m: no such folder".
func findingLine(f sweep.Finding) string {
	line := f.Text
	if !strings.HasPrefix(line, f.Check+" ") {
		line = f.Check + ": " + line
	}
	if f.Host != "" {
		line = f.Host + ": " + line
	}
	return line
}

// refuseFlags says each flag that the engine does not take at its place in the grid.
func refuseFlags(env *environ, g *sweep.Grid, found []sweep.Finding) error {
	said := 0
	for _, f := range found {
		if f.Level != sweep.LevelFlags {
			continue
		}
		p := g.Problem(f.Flag, f.Text, "")
		if _, err := fmt.Fprintln(env.Stderr, p); err != nil {
			return err
		}
		said++
	}
	if said == 0 {
		return nil
	}
	return exitWith(exitUsage, errors.New(g.Path+" cannot run: "+plural(said, "problem")+" with flags; where the server's help is wrong, go on with --no-flag-check"))
}

// mostEarlier is how many launches of earlier nights go along with a job.
const mostEarlier = 20

// useEarlier has a night's forecasts begin with what earlier nights have seen.
func useEarlier(n *sweep.Night, eng *sweep.Engine) {
	if eng.Memory == nil {
		return
	}
	seen := slices.DeleteFunc(search.LookAll(filepath.Dir(n.Dir)), func(s sweep.Sighting) bool {
		return strings.HasPrefix(s.Launch, filepath.Base(n.Dir)+"/") // the agent reads its own night itself
	})
	n.Earlier = func(j sweep.Job) []sweep.Sighting {
		return search.Relatives(eng.Memory, seen, sweep.SightingOf(j), mostEarlier)
	}
}
