package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"sweep/sweep"
	"sweep/sweep/proc"
	"sweep/sweep/search"
)

// Survey looks at this machine for all that launches need, and starts none.
type Survey struct {
	Self    string        // path of this program: it is its own simulator
	Engine  *sweep.Engine // of the jobs; nil: there are none
	Environ []string      // what servers inherit; nil: this process's own
	Out     string        // folder in which nights get theirs; empty: not looked at
	Cache   string        // folder of kept helps; empty: none are kept
	// Ask: run the server's --help where no kept one will do. That takes up to a minute.
	Ask bool
	// Prove: run the image of a grid with containers, which only sleeps, to see that starting, owning and killing work here.
	Prove   bool
	Asking  func(command string) // told before; may be nil
	Earlier []sweep.Sighting     // launches of earlier nights

	NoFlagCheck bool // do not hold flags against the server's own help
}

// The names of what is looked at.
const (
	CheckCommand   = "command"
	CheckWorkdir   = "workdir"
	CheckEnv       = "env"
	CheckFlags     = "flags"
	CheckModel     = "model"
	CheckTokenizer = "tokenizer"
	CheckGPUs      = "GPUs"
	CheckHost      = "host memory"
	CheckConfigs   = "configs"
	CheckShm       = "/dev/shm"
	CheckDisk      = "results directory"
	CheckPorts     = "ports"
	CheckContainer = "container"
	CheckAttached  = "attached server"
)

// survey is one run of [Survey.Look] for the jobs of one host.
type survey struct {
	Survey
	jobs    []sweep.Job
	host    string
	view    view
	env     environment
	model   modelFiles
	found   []sweep.Finding
	devices int // that the largest job needs
}

// Look looks for all that the jobs need, host after host; without jobs, at the machine itself. It does not
// stop at the first thing that is missing.
func (s Survey) Look(ctx context.Context, jobs []sweep.Job) []sweep.Finding {
	if s.Environ == nil {
		s.Environ = os.Environ()
	}
	var hosts []string
	for _, j := range jobs {
		if !slices.Contains(hosts, j.Host) {
			hosts = append(hosts, j.Host)
		}
	}
	if len(jobs) == 0 {
		return (&survey{Survey: s}).look(ctx)
	}
	var found []sweep.Finding
	for _, host := range hosts {
		one := &survey{Survey: s}
		for _, j := range jobs {
			if j.Host == host {
				one.jobs = append(one.jobs, j)
			}
		}
		if len(hosts) > 1 {
			one.host = host
		}
		found = append(found, sweep.Merge(one.look(ctx), len(one.jobs))...)
	}
	return found
}

// add notes something about all jobs.
func (s *survey) add(check string, level sweep.Level, format string, args ...any) {
	s.found = append(s.found, sweep.Finding{Check: check, Level: level, Host: s.host, Text: fmt.Sprintf(format, args...)})
}

// block notes something missing without which every launch would go its way to the same failure. An agent that
// finds no command, folder or variable ends by itself at once.
func (s *survey) block(check, format string, args ...any) {
	s.add(check, sweep.LevelMissing, format, args...)
	s.found[len(s.found)-1].Blocks = true
}

func (s *survey) look(ctx context.Context) []sweep.Finding {
	if len(s.jobs) > 0 && s.jobs[0].Attach != "" {
		s.lookAtAttached(ctx)
		s.lookAtDisk()
		return s.found
	}
	real := len(s.jobs) == 0 || !simulated(s.jobs[0])
	if len(s.jobs) > 0 {
		prefix := s.lookAtCommand(ctx)
		s.lookAtEnv()
		if prefix != nil {
			s.lookAtFlags(ctx, prefix)
		}
		s.lookAtModel()
	}
	s.lookAtMachine(ctx)
	s.lookAtConfigs()
	if real {
		s.lookAtShm()
	}
	s.lookAtDisk()
	if port, err := proc.FreeBlock(sweep.PortBlock, 0); errors.Is(err, errors.ErrUnsupported) {
		s.add(CheckPorts, sweep.LevelMissing, "servers are started on Linux only, and this is %s", runtime.GOOS)
	} else if err != nil {
		s.add(CheckPorts, sweep.LevelMissing, "no %d free ports in a row: %v", sweep.PortBlock, err)
	} else {
		s.add(CheckPorts, sweep.LevelOK, "%d free in a row from %d on", sweep.PortBlock, port)
	}
	return s.found
}

// lookAtCommand resolves the command; nil when it cannot run.
func (s *survey) lookAtCommand(ctx context.Context) []string {
	j := s.jobs[0]
	if j.Container != nil {
		s.lookAtContainer(ctx)
		return nil
	}
	workdir := j.Workdir
	if workdir != "" {
		if info, err := os.Stat(workdir); err != nil || !info.IsDir() {
			s.add(CheckWorkdir, sweep.LevelMissing, "workdir %s: no such folder on this machine", workdir)
			workdir = ""
		} else {
			s.add(CheckWorkdir, sweep.LevelOK, "%s", workdir)
		}
	}
	prefix, err := resolveCommand(j.Command, s.Self, workdir)
	if err != nil {
		s.add(CheckCommand, sweep.LevelMissing, "%v", err)
		s.add(CheckFlags, sweep.LevelWarning, "not held against the server's own help, as the command is missing")
		return nil
	}
	s.add(CheckCommand, sweep.LevelOK, "%s", sweep.ShellLine(prefix))
	if workdir != j.Workdir {
		return nil
	}
	return prefix
}

// lookAtEnv resolves the variables one by one, so that each missing one is named.
func (s *survey) lookAtEnv() {
	j := s.jobs[0]
	var whole sweep.Params
	for _, p := range j.Env {
		if _, err := serverEnvironment(s.Environ, nil, sweep.Params{p}, ""); err != nil {
			s.add(CheckEnv, sweep.LevelMissing, "%v", err)
			continue
		}
		whole = append(whole, p)
	}
	env, err := serverEnvironment(s.Environ, s.Engine.Environ, whole, "")
	if err != nil {
		s.add(CheckEnv, sweep.LevelMissing, "%v", err)
		return
	}
	s.env = env
	if len(j.Env) > 0 && len(whole) == len(j.Env) {
		s.add(CheckEnv, sweep.LevelOK, "all %d variables can be set", len(whole))
	}
}

// lookAtFlags holds each config's settings against the server's own help.
func (s *survey) lookAtFlags(ctx context.Context, prefix []string) {
	if s.Engine.Help == nil || s.NoFlagCheck {
		return
	}
	call := helpCall{engine: s.Engine, argv: prefix, workdir: s.jobs[0].Workdir, env: s.env.All, key: s.env.Added, cache: s.Cache}
	ask := s.Ask
	if simulated(s.jobs[0]) {
		call.cache, ask = "", true // it takes no time
	}
	flags, kept := call.kept()
	if !kept {
		if !ask {
			return
		}
		if s.Asking != nil && call.cache != "" {
			s.Asking(sweep.ShellLine(append(slices.Clone(prefix), call.engine.Help[0]...)))
		}
		var err error
		if flags, err = call.ask(ctx); err != nil {
			if errors.As(err, new(unstartable)) {
				s.found = append(s.found, sweep.Finding{Check: CheckCommand, Level: sweep.LevelMissing, Host: s.host, Blocks: true,
					Text: fmt.Sprintf("command %s cannot start: %v", sweep.ShellLine(prefix), err)})
			}
			s.add(CheckFlags, sweep.LevelWarning, "not held against the server's own help: %v", err)
			return
		}
	}
	bad := 0
	for _, j := range s.jobs {
		problems, now, err := call.flagProblems(ctx, j.Config.Settings, flags, !kept || !ask)
		if err != nil {
			s.add(CheckFlags, sweep.LevelWarning, "not held against the server's own help: %v", err)
			return
		}
		flags = now
		for _, p := range problems {
			level := sweep.LevelFlags
			if p.Vague {
				level = sweep.LevelWarning
			} else {
				bad++
			}
			s.found = append(s.found, sweep.Finding{Check: CheckFlags, Level: level, Host: s.host, Configs: []string{j.Config.Key}, Flag: p.Flag, Text: flagText(p)})
		}
	}
	if bad == 0 {
		s.add(CheckFlags, sweep.LevelOK, "each is one of the %d that this %s knows", len(flags.Known), s.Engine.Name)
	}
}

// lookAtModel looks for the model and its tokenizer.
func (s *survey) lookAtModel() {
	j := s.jobs[0]
	if simulated(j) {
		s.add(CheckModel, sweep.LevelOK, "%s is only a name: the server is simulated", j.Model)
		return
	}
	if s.Engine.ModelForm == "" {
		return
	}
	s.model = lookAtModel(j, s.Engine.ModelForm, s.env.All)
	switch m := s.model; {
	case m.problem != "":
		s.block(CheckModel, "%s", m.problem)
	case m.remote != "":
		s.add(CheckModel, sweep.LevelWarning, "model %s %s", j.Model, m.remote)
	case m.weights > 0:
		s.add(CheckModel, sweep.LevelOK, "%s, %.1f GB of weights", m.place, float64(m.weights)/1e9)
	default:
		s.add(CheckModel, sweep.LevelOK, "%s", m.place)
	}
	if s.Engine.ModelForm != sweep.ModelFolder { // the model holds its own
		return
	}
	if text := tokenizerProblem(j, s.model); text != "" {
		s.add(CheckTokenizer, sweep.LevelMissing, "%s", text)
	} else if s.model.place == "" {
		s.lacksUnlessRemote()
	} else {
		s.add(CheckTokenizer, sweep.LevelOK, "readable")
	}
}

// lacksUnlessRemote: a tokenizer comes with its model.
func (s *survey) lacksUnlessRemote() {
	if s.model.problem != "" {
		s.add(CheckTokenizer, sweep.LevelMissing, "not readable, as the model is missing")
	}
}

// lookAtConfigs does the arithmetic of each config.
func (s *survey) lookAtConfigs() {
	refused, seen := 0, s.Earlier
	for _, j := range s.jobs {
		if s.Engine.Preflight == nil {
			return
		}
		m := s.view.forPreflight(s.host) // the only host needs no name
		m.WeightBytes = s.model.weights
		if len(s.view.Devices) > 0 {
			asked := sweep.SightingOf(j)
			asked.GPU, asked.GPUCount = s.view.Devices[0].Name, len(s.view.Devices)
			m.Forecast = search.Forecast(s.Engine.Memory, seen, asked, search.CellBytes(s.Engine.Memory, j))
		}
		e := s.Engine.Preflight(j.Config.Settings, m)
		if e == nil {
			continue
		}
		refused++
		s.found = append(s.found, sweep.Finding{Check: CheckConfigs, Level: sweep.LevelRefused, Host: s.host, Configs: []string{j.Config.Key}, Text: e.Detail})
	}
	switch n := len(s.jobs); {
	case n == 0:
	case refused == 0:
		s.add(CheckConfigs, sweep.LevelOK, "arithmetic refuses none of %d", n)
	case refused == n:
		s.add(CheckConfigs, sweep.LevelMissing, "none of the %d can work on this machine", n)
	}
}
