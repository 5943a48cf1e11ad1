package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sweep/sweep"
)

// enumValue is a flag whose value is one of a few words.
type enumValue struct {
	value   *string
	allowed []string
}

func (e enumValue) String() string {
	if e.value == nil {
		return ""
	}
	return *e.value
}

func (e enumValue) Type() string { return strings.Join(e.allowed, "|") }

func (e enumValue) Set(s string) error {
	if slices.Contains(e.allowed, s) {
		*e.value = s
		return nil
	}
	message := "want one of " + strings.Join(e.allowed, ", ")
	if near := sweep.Nearest(s, e.allowed); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(message)
}

// enumFlag gives cmd a flag whose value is one of allowed.
func enumFlag(cmd *cobra.Command, value *string, name, def string, allowed []string, usage string) {
	*value = def
	cmd.Flags().Var(enumValue{value, allowed}, name, usage)
	err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added one line above
	}
}

// flagError says what is wrong with a flag and which known one is near.
func flagError(cmd *cobra.Command, err error) error {
	message := err.Error()
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := sweep.Nearest(e.GetSpecifiedName(), known); near != "" {
			message += fmt.Sprintf("; did you mean --%s?", near)
		}
	}
	return usageErrorf("%s\nRun '%s --help' for its flags.", message, cmd.CommandPath())
}

// oneArg wants just one argument, and says what it would be.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return noArg(cmd, what)
		}
		if len(args) > 1 {
			return usageErrorf("%s takes one %s, not %d\nUsage: %s", cmd.Name(), what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// someArgs wants at least one argument.
func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return noArg(cmd, what)
		}
		return nil
	}
}

func noArg(cmd *cobra.Command, what string) error {
	next := ""
	if what == "grid" {
		next = "\n'sweep help grid' prints one to begin with."
	}
	return usageErrorf("%s which %s? None is given.\nUsage: %s%s", cmd.Name(), what, cmd.UseLine(), next)
}

func unknownCommand(root *cobra.Command, name string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown command %q", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		fmt.Fprintf(&b, "; did you mean %q?", near[0])
	}
	b.WriteString("\nRun 'sweep --help' for the commands.")
	return usageErrorf("%s", b.String())
}

// released is the version of a release build. The linker writes it, and nothing else does.
var released string

// version is what a release build was given, else the module's version as built, with the commit where it is known.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}

func newVersionCmd(env *environ) *cobra.Command {
	var held bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := fmt.Fprintln(env.Stdout, "sweep", version()); err != nil || !held {
				return err
			}
			return listPrograms(env.Stdout)
		},
	}
	cmd.Flags().BoolVar(&held, "programs", false, "also the programs for hosts over SSH that this build holds, with their SHA-256")
	return cmd
}
