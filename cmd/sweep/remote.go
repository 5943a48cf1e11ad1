package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sweep/sweep"
	"sweep/sweep/host"
)

// sshHost is a host of a grid that is reached over SSH. night is the folder of a night; empty: it is only looked at.
func (env *environ) sshHost(spec sweep.HostSpec, night string) (*host.SSH, error) {
	binary, err := env.hostProgram()
	if err != nil {
		return nil, err
	}
	if env.keyring == nil {
		env.keyring = &host.Keyring{Ask: env.askPassphrase()}
	}
	s := spec.SSH
	return &host.SSH{
		ID: spec.Name, Night: night, Target: s.Target, Transport: s.Transport, Config: s.Config, HostKey: s.HostKey, Dir: s.Dir, Lease: s.Lease,
		AcceptNew: env.acceptNew, Binary: binary, Keys: env.keyring, Log: env.Log,
		Say: func(text string) { env.say("%s", text) },
	}, nil
}

// acceptFlag gives cmd the flag that takes the key of a host that is not known yet.
func (env *environ) acceptFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&env.acceptNew, "accept-new", false, "take the key of a host over SSH that is not known yet, and remember it")
}

// askPassphrase asks for a key's passphrase on the terminal; nil where there is none.
func (env *environ) askPassphrase() func(string) ([]byte, error) {
	f, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func(file string) ([]byte, error) {
		fmt.Fprintf(env.Stderr, "passphrase of %s: ", sweep.Printable(file))
		phrase, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(env.Stderr)
		return phrase, err
	}
}

// hostProgram is this program for hosts: those that a release build holds, and on Linux its own file.
func (env *environ) hostProgram() (host.Binary, error) {
	if env.program != nil {
		return *env.program, nil
	}
	b, err := carriedPrograms()
	if err != nil {
		return b, err
	}
	if runtime.GOOS == "linux" && b.Sums[runtime.GOARCH] == "" {
		self, err := os.Executable()
		if err != nil {
			return b, err
		}
		self = sweep.LastingExecutable(self)
		sum, err := sumFile(self)
		if err != nil {
			return b, err
		}
		carried := b.Open
		b.Sums[runtime.GOARCH] = sum
		b.Open = func(arch string) (io.ReadCloser, int64, error) {
			if arch != runtime.GOARCH {
				return carried(arch)
			}
			f, err := os.Open(self)
			if err != nil {
				return nil, 0, err
			}
			info, err := f.Stat()
			return f, info.Size(), err
		}
	}
	env.program = &b
	return b, nil
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// mostSightings bounds what is sent along to a look at a host.
const mostSightings = 200

// surveyFlags say how hosts over SSH look at themselves.
type surveyFlags struct {
	ask         bool // a server's help is run where none is kept
	noFlagCheck bool
}

// surveyHost has a host look at itself for the jobs that are meant for it.
func (env *environ) surveyHost(spec sweep.HostSpec, engine string, jobs []sweep.Job, earlier []sweep.Sighting, how surveyFlags) ([]sweep.Finding, error) {
	h, err := env.sshHost(spec, "")
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := h.Open(env.Ctx); err != nil {
		return nil, err
	}
	args := surveyArgs{Engine: engine, Jobs: jobs, Earlier: earlier[max(0, len(earlier)-mostSightings):], NoFlagCheck: how.noFlagCheck, Ask: how.ask}
	for _, j := range jobs {
		for _, p := range j.Env {
			for _, name := range sweep.EnvReferences(p.Value) {
				if _, set := os.LookupEnv(name); set && !slices.Contains(args.Env, name) {
					args.Env = append(args.Env, name)
				}
			}
		}
	}
	var found []sweep.Finding
	if err := h.Ask(env.Ctx, surveyRequest, args, &found); err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Host = spec.Name
		found[i].Text = sweep.Printable(found[i].Text)
	}
	return found, nil
}

// surveyHosts looks at every host that a plan's probes are for: at this machine by the given look, at others over SSH.
// A host that cannot be reached is itself a finding; it blocks a night when no other host is reached.
func (env *environ) surveyHosts(plan *sweep.Plan, probes []sweep.Job, here func([]sweep.Job) []sweep.Finding, earlier []sweep.Sighting, how surveyFlags) []sweep.Finding {
	local := probes
	var found, away []sweep.Finding // away: of hosts that are not reached, as others may be
	for _, spec := range plan.Grid.Hosts {
		if spec.SSH == nil {
			continue
		}
		var theirs []sweep.Job
		local = slices.DeleteFunc(slices.Clone(local), func(j sweep.Job) bool { return j.Host == spec.Name })
		for _, j := range probes {
			if j.Host == spec.Name {
				theirs = append(theirs, j)
			}
		}
		more, err := env.surveyHost(spec, plan.Grid.Engine, theirs, earlier, how)
		if err != nil {
			more = []sweep.Finding{{Check: checkSSH, Level: sweep.LevelMissing, Host: spec.Name, Blocks: true, Text: sweep.Printable(err.Error())}}
		}
		if gone := (*sweep.LinkError)(nil); errors.As(err, &gone) {
			away = append(away, more...)
		} else {
			found = append(found, more...)
		}
	}
	if len(local) > 0 {
		found = append(here(local), found...)
	}
	for i := range away {
		away[i].Blocks = len(away) == len(plan.Grid.Hosts) // else the night goes on without it, and says so
	}
	return append(found, away...)
}

// checkSSH is the name of the look at a link.
const checkSSH = "ssh"

// noteFor writes what a link has to say into a night's journal.
func noteFor(n *sweep.Night, name string) func(kind, text string) error {
	return func(kind, text string) error {
		return n.Note(sweep.JournalEntry{Kind: sweep.JournalKind(kind), Host: name, Text: text})
	}
}

// nightHosts makes the hosts that a night's manifest names. Each agent is this very program.
func nightHosts(env *environ, n *sweep.Night, say func(string), log *slog.Logger) ([]sweep.Host, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(n.Dir)
	if err != nil {
		return nil, err
	}
	var hosts []sweep.Host
	for _, h := range n.Manifest.Hosts {
		if h.SSH == nil {
			hosts = append(hosts, &host.Local{ID: h.Name, Night: dir, Agent: []string{self, "agent"}})
			continue
		}
		s, err := env.sshHost(h, dir)
		if err != nil {
			return nil, err
		}
		s.Say, s.Log, s.Note = say, log, noteFor(n, h.Name)
		if n.Plan != nil {
			s.End = n.Plan.Grid.Deadline(time.Now())
		}
		hosts = append(hosts, s)
	}
	return hosts, nil
}

// closeHosts ends the links. A night that is complete is taken away from its hosts.
func closeHosts(ctx context.Context, hosts []sweep.Host, complete bool, log *slog.Logger) {
	for _, h := range hosts {
		s, ok := h.(*host.SSH)
		if !ok {
			continue
		}
		if complete && s.Reached() {
			if err := s.Clean(ctx); err != nil {
				log.Warn("the night stays on the host", "host", h.Name(), "err", err)
			}
		}
		s.Close()
	}
}
