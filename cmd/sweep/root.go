package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sweep/sweep"
	"sweep/sweep/host"
)

// The exit codes.
const (
	exitOK          = 0   // every cell ended in a result
	exitOther       = 1   // some cells ended otherwise
	exitUsage       = 2   // the command line or the grid is wrong
	exitEnvironment = 3   // the machine does not give what is needed: disk, permission, a program
	exitCompare     = 4   // compare --fail-on found a difference
	exitInterrupted = 130 // stopped by a signal; the night can be resumed
)

// environ is all of the outside world that a command may touch, and the flags that every command has.
type environ struct {
	Ctx    context.Context
	Args   []string // the program's name first
	Stdin  io.Reader
	Stdout io.Writer // data only
	Stderr io.Writer // everything said to a person
	Getenv func(string) string

	Color   string // auto, always or never
	Format  string // table, markdown, csv or json: of commands that call formatFlag
	Quiet   bool   // only problems
	Verbose bool   // also what only helps to find a fault
	Log     *slog.Logger

	keyring   *host.Keyring // of all hosts that are reached over SSH
	program   *host.Binary  // this program for such hosts
	acceptNew bool          // keys of unknown hosts are taken

	began bool // a command's own work has begun: an error from now on is no usage error
}

// exitError is an error with the exit code that it asks for.
type exitError struct {
	code int
	err  error // nil: everything has been said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith gives err the exit code that it asks for. A nil err ends the program with that code and says nothing more.
func exitWith(code int, err error) error { return &exitError{code, err} }

// usageErrorf is a mistake on the command line: exit code 2.
func usageErrorf(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

// terminal reports whether w is a terminal, and its width in columns (0: not one).
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return width, true
}

// colorOn reports whether what is written to w may hold colours.
func (env *environ) colorOn(w io.Writer) bool {
	switch env.Color {
	case "always":
		return true
	case "never":
		return false
	}
	_, ok := terminal(w)
	return ok && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
}

// formatFlag gives cmd the flag --format, whose value is then in env.Format.
func (env *environ) formatFlag(cmd *cobra.Command) {
	enumFlag(cmd, &env.Format, "format", "table", []string{"table", "markdown", "csv", "json"}, "how to write the result")
}

func newRootCmd(env *environ) *cobra.Command {
	root := &cobra.Command{
		Use:   "sweep",
		Short: "Find the server settings that serve an LLM best on your GPUs",
		Long: `sweep runs every config of a grid on your GPUs: it starts the server, waits until it is really ready,
drives short and long prompts at it, names how each config ended, and writes tables and plots that compare them.

Exit codes: 0 every cell ended in a result (out of memory is one) · 1 some ended otherwise · 2 usage or grid ·
3 environment · 4 compare --fail-on found a loss · 130 interrupted, with the command that goes on`,
		Example: `  sweep demo                     a whole night in about a minute, on simulated GPUs
  sweep help grid > mine.yaml    every key of a grid with what it means, to keep what you need
  sweep validate mine.yaml       all that is wrong with it
  sweep plan mine.yaml           each launch with its exact command line
  sweep run mine.yaml            run it
  sweep resume results/          go on where the newest unfinished night stopped
  sweep status                   how the newest night stands
  sweep report results/          tables, plots and the page of the newest night
  sweep confirm results/         measure its candidates again before one is called best
  sweep compare A B --fail-on 5% what got better or worse between two nights
  sweep load --url URL …         drive load at any server, without a night
  sweep explain log server.log   why a server ended, with or without a night`,
		Version:                    version(),
		Args:                       cobra.ArbitraryArgs,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetVersionTemplate("sweep {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	enumFlag(root, &env.Color, "color", "auto", []string{"auto", "always", "never"}, "when to use colours")
	root.PersistentFlags().AddFlag(root.Flags().Lookup("color"))
	root.PersistentFlags().BoolVarP(&env.Quiet, "quiet", "q", false, "say only what is wrong")
	root.PersistentFlags().BoolVarP(&env.Verbose, "verbose", "v", false, "say also what only helps to find a fault")
	root.MarkFlagsMutuallyExclusive("quiet", "verbose")
	root.AddCommand(
		newValidateCmd(env), newPlanCmd(env), newDoctorCmd(env), newRunCmd(env), newResumeCmd(env), newStatusCmd(env), newAttachCmd(env), newCancelCmd(env), newLogsCmd(env), newFsckCmd(env), newReportCmd(env), newConfirmCmd(env), newCompareCmd(env), newExportCmd(env), newImportCmd(env),
		newDemoCmd(env), newLoadCmd(env), newSelftestCmd(env), newExplainCmd(env), newSchemaCmd(env),
		newVersionCmd(env), newSimulateCmd(env), newAgentCmd(env), newRelayCmd(env), newSuperviseCmd(env), newGridTopic(env),
	)
	wrapCommands(root, env)
	return root
}

// wrapCommands has each command say when its own work begins, so that errors before it are usage errors.
func wrapCommands(cmd *cobra.Command, env *environ) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			env.began = c.HasParent()
			env.Log = env.logger()
			return inner(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapCommands(sub, env)
	}
}

func (env *environ) logger() *slog.Logger {
	level := slog.LevelInfo
	if env.Quiet {
		level = slog.LevelWarn
	}
	if env.Verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: level}))
}

// execute runs the command line and returns the exit code.
func execute(env *environ) int {
	root := newRootCmd(env)
	root.SetArgs(env.Args[1:])
	err := root.ExecuteContext(env.Ctx)
	if err == nil {
		return exitOK
	}
	code := exitUsage
	if env.began {
		code = exitEnvironment
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
		if e.err == nil {
			return code
		}
	}
	fmt.Fprintf(env.Stderr, "sweep: %s\n", printableLines(err.Error()))
	return code
}

// printableLines makes each line of a message safe for a terminal and keeps the lines.
func printableLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = sweep.Printable(line)
	}
	return strings.Join(lines, "\n")
}
