package main

import (
	"github.com/spf13/cobra"

	"sweep/sweep/simulate"
)

// newSimulateCmd is `sweep simulate`: everything after it belongs to the simulator, which has the flags of the programs that it stands for.
func newSimulateCmd(env *environ) *cobra.Command {
	return &cobra.Command{
		Use:   "simulate {sglang|nvidia-smi|meminfo|profiles} [flags]",
		Short: "A simulated SGLang server on simulated GPUs",
		Long: "A simulated SGLang server on simulated GPUs: it takes SGLang's own flags, prints its log, answers its routes and\n" +
			"fails in its ways. `sweep simulate profiles` lists the machines.",
		Example: "  sweep simulate sglang --profile llama-8b-24gb --speedup 20 --model-path any --port 30000\n" +
			"  sweep simulate nvidia-smi --profile llama-8b-24gb --query-gpu=index,memory.used --format=csv\n" +
			"  sweep simulate meminfo --profile kimi-k2.5-8xrtx6000",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return []string{
				"sglang\ta server, with SGLang's own flags", "nvidia-smi\tthe devices", "meminfo\tthe host's memory", "profiles\tthe machines",
			}, cobra.ShellCompDirectiveNoFileComp
		},
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			env.began = true
			if code := simulate.Main(cmd.Context(), args, env.Stdin, env.Stdout, env.Stderr); code != 0 {
				return exitWith(code, nil)
			}
			return nil
		},
	}
}
