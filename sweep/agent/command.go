package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sweep/sweep"
)

// EnvironmentError says that this machine does not give what a launch needs, whatever its settings
// are: no such command, no such folder, a full disk. It ends the agent, as each launch would fail alike.
type EnvironmentError struct {
	What string // one sentence: what is missing, and what would be right
	Err  error  // may be nil
}

// Error is the sentence.
func (e *EnvironmentError) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *EnvironmentError) Unwrap() error { return e.Err }

// resolveCommand gives the argv prefix that starts a server: "sweep" is this very program, other names
// are looked up on PATH. A path with a slash is taken from workdir, as the server's own folder.
func resolveCommand(command []string, self, workdir string) ([]string, error) {
	if len(command) == 0 {
		return nil, &EnvironmentError{What: "the grid has no command and its engine has none either"}
	}
	if workdir != "" {
		if info, err := os.Stat(workdir); err != nil || !info.IsDir() {
			return nil, &EnvironmentError{What: fmt.Sprintf("workdir %s: no such folder on this machine", workdir)}
		}
	}
	argv := slices.Clone(command)
	if argv[0] == "sweep" {
		argv[0] = self
		return argv, nil
	}
	name := argv[0]
	if strings.ContainsRune(name, os.PathSeparator) && !filepath.IsAbs(name) && workdir != "" {
		name = filepath.Join(workdir, name)
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, &EnvironmentError{What: fmt.Sprintf("command %s", argv[0]), Err: err}
		}
		argv[0] = abs
		return argv, nil
	case strings.ContainsRune(name, os.PathSeparator):
		if info, statErr := os.Stat(name); statErr == nil && info.IsDir() {
			return nil, &EnvironmentError{What: fmt.Sprintf("command %s is a folder: name the program in it", argv[0])}
		} else if statErr == nil {
			return nil, &EnvironmentError{What: fmt.Sprintf("command %s cannot be executed: make it executable (chmod +x)", argv[0])}
		}
		return nil, &EnvironmentError{What: fmt.Sprintf("command %s: no such file on this machine", argv[0])}
	}
	return nil, &EnvironmentError{What: fmt.Sprintf("command %s: not found on PATH; install it, or name its full path under command: in the grid", argv[0])}
}

var envRef = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// environment is what a server gets: the agent's own variables, the engine's, the job's.
type environment struct {
	All     []string // KEY=VALUE, each key once
	Added   []string // KEY=VALUE as a shell would take it, with secrets by reference; for command.sh
	Secrets []string // values that may reach no file
}

// leastSecret is from how many bytes on the value of a variable that only looks like a secret's is one:
// "false", "enabled" and numbers would tear holes into every log.
const leastSecret = 8

// serverEnvironment resolves the job's variables. A reference to a variable that is not set is an
// [EnvironmentError].
func serverEnvironment(own, engine []string, job sweep.Params, devices string) (environment, error) {
	var e environment
	values := map[string]string{}
	var order []string
	set := func(name, value string) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	for _, kv := range own {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			set(name, value)
			if sweep.SecretName(name) && len(value) >= leastSecret {
				e.Secrets = append(e.Secrets, value)
			}
		}
	}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	add := func(name, value, shell string) {
		e.Added = append(e.Added, name+"="+shell)
		set(name, value)
	}
	for _, kv := range engine {
		name, value, _ := strings.Cut(kv, "=")
		add(name, value, sweep.ShellWord(value))
	}
	for _, p := range job {
		value, shell, secrets, err := expandRefs(p, lookup)
		if err != nil {
			return environment{}, err
		}
		e.Secrets = append(e.Secrets, secrets...)
		add(p.Name, value, shell)
	}
	if devices != "" {
		add("CUDA_VISIBLE_DEVICES", devices, sweep.ShellWord(devices))
	}
	for _, name := range order {
		e.All = append(e.All, name+"="+values[name])
	}
	return e, nil
}

func expandRefs(p sweep.Param, lookup func(string) (string, bool)) (value, shell string, secrets []string, err error) {
	var v, sh strings.Builder
	at := 0
	for _, m := range envRef.FindAllStringSubmatchIndex(p.Value, -1) {
		name := p.Value[m[2]:m[3]]
		got, ok := lookup(name)
		if !ok {
			return "", "", nil, &EnvironmentError{What: fmt.Sprintf("env %s refers to ${env:%s}, which is not set on this machine", p.Name, name)}
		}
		literal := p.Value[at:m[0]]
		v.WriteString(literal + got)
		if literal != "" {
			sh.WriteString(sweep.ShellWord(literal))
		}
		sh.WriteString(`"${` + name + `:?}"`)
		if got != "" {
			secrets = append(secrets, got)
		}
		at = m[1]
	}
	rest := p.Value[at:]
	v.WriteString(rest)
	if rest != "" || sh.Len() == 0 {
		sh.WriteString(sweep.ShellWord(rest))
	}
	return v.String(), sh.String(), secrets, nil
}

// commandScript is command.sh: what a person pastes to start the same server by hand.
func commandScript(argv, added []string, workdir string) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# starts the server of this launch as sweep did; secrets are taken from your environment\n")
	if workdir != "" {
		b.WriteString("cd " + sweep.ShellWord(workdir) + " &&\n")
	}
	if len(added) > 0 {
		b.WriteString("env")
		for _, kv := range added {
			b.WriteString(" \\\n  " + kv)
		}
		b.WriteString(" \\\n")
	}
	for i, a := range argv {
		switch {
		case i == 0:
		case strings.HasPrefix(a, "--"):
			b.WriteString(" \\\n  ")
		default:
			b.WriteString(" ")
		}
		b.WriteString(sweep.ShellWord(a))
	}
	b.WriteString("\n")
	return b.String()
}
