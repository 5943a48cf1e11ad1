package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/agent"
	"sweep/sweep/engine"
	"sweep/sweep/host"
)

// newRelayCmd is the process on a host at the end of a link. A workstation starts it; nobody types it.
func newRelayCmd(env *environ) *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:    "relay --root DIR",
		Short:  "Answer a workstation over standard input and output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			r := &host.Relay{Root: root, Agent: []string{self, "agent"}, Handle: map[string]func(context.Context, json.RawMessage) (any, error){
				surveyRequest: func(ctx context.Context, args json.RawMessage) (any, error) { return surveyHere(ctx, self, root, args) },
			}}
			host.Prune(self)
			return r.Serve(env.Ctx, env.Stdin, env.Stdout)
		},
	}
	cmd.Flags().StringVar(&root, "root", "", "folder of this host's nights")
	_ = cmd.MarkFlagRequired("root") // fails only for a flag that does not exist
	return cmd
}

// surveyRequest asks a host to look at itself.
const surveyRequest = "survey"

// surveyArgs are what a look at a host is about.
type surveyArgs struct {
	Engine      string           `json:"engine"`
	Jobs        []sweep.Job      `json:"jobs"`
	Earlier     []sweep.Sighting `json:"earlier,omitempty"`
	NoFlagCheck bool             `json:"no_flag_check,omitempty"`
	Ask         bool             `json:"ask,omitempty"`
	Env         []string         `json:"env,omitempty"` // names that the workstation will send values of
}

// surveyHere looks at this machine for a workstation.
func surveyHere(ctx context.Context, self, root string, raw json.RawMessage) ([]sweep.Finding, error) {
	var args surveyArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	e, ok := engine.Lookup(args.Engine)
	if !ok {
		return nil, fmt.Errorf("unknown engine %q", args.Engine)
	}
	s := agent.Survey{Self: self, Engine: e, Out: root, Cache: helpCache(), Ask: args.Ask, Earlier: args.Earlier, NoFlagCheck: args.NoFlagCheck, Environ: os.Environ()}
	for _, name := range args.Env {
		if _, set := os.LookupEnv(name); !set {
			s.Environ = append(s.Environ, name+"=sent-with-the-jobs")
		}
	}
	found := s.Look(ctx, args.Jobs)
	if found == nil {
		found = []sweep.Finding{}
	}
	return found, nil
}
