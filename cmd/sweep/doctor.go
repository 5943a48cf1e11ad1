package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/search"
)

func newDoctorCmd(env *environ) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor [GRID]",
		Short: "Look for all that a night needs on this machine, and say what is missing",
		Long: `doctor looks at this machine for all that the launches of a grid need: the command, its environment, the model and its
tokenizer, GPUs, memory, disk and ports. It holds the flags against the server's own help, and does the arithmetic of
each config. It starts no server; for a grid with containers it starts one of the grid's image that only sleeps, finds its
processes and ends it. Without a grid it looks at the machine alone.

It ends with exit code 3 when something is missing, and with 2 when the server does not know a flag. Configs that are
refused do not count: a night skips them and says why.`,
		Example: `  sweep doctor grids/mine.yaml
  sweep doctor --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeGrids,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := examine(env, args, output)
			if err != nil {
				return err
			}
			if err := writeFindings(env.Stdout, found, env.Format); err != nil {
				return err
			}
			return judge(found)
		},
	}
	outputFlag(cmd, &output)
	env.acceptFlag(cmd)
	env.formatFlag(cmd)
	return cmd
}

// examine looks at this machine for a grid's launches, or for nothing in particular.
func examine(env *environ, args []string, output string) ([]sweep.Finding, error) {
	if len(args) == 0 {
		s, err := newSurvey(env, nil, output, false)
		if err != nil {
			return nil, err
		}
		return append(s.Look(env.Ctx, nil), commandsHere()...), nil
	}
	plan, eng, err := gridOf(env, args[0], 0)
	if err != nil {
		return nil, err
	}
	s, err := newSurvey(env, eng, output, true)
	if err != nil {
		return nil, err
	}
	s.Prove = true
	s.Earlier = search.LookAll(output)
	return env.surveyHosts(plan, plan.Probes(eng), func(jobs []sweep.Job) []sweep.Finding { return s.Look(env.Ctx, jobs) }, s.Earlier, surveyFlags{ask: true}), nil
}

// commandsHere says which engines' own commands are on PATH. A grid may name others.
func commandsHere() []sweep.Finding {
	var found []sweep.Finding
	for _, name := range engine.Names() {
		e, _ := engine.Lookup(name)
		text := "not found on PATH: a grid for it has to name its command"
		if path, err := exec.LookPath(e.Command[0]); err == nil {
			text = path
			if len(e.Command) > 1 {
				text += ", which a grid without a command starts as: " + strings.Join(e.Command, " ")
			}
		}
		found = append(found, sweep.Finding{Check: name, Level: sweep.LevelOK, Text: text})
	}
	return found
}

// judge gives what was found its exit code.
func judge(found []sweep.Finding) error {
	missing, flags := 0, 0
	for _, f := range found {
		switch f.Level {
		case sweep.LevelMissing:
			missing++
		case sweep.LevelFlags:
			flags++
		}
	}
	switch {
	case missing > 0:
		return exitWith(exitEnvironment, errors.New(plural(missing, "thing")+" missing"))
	case flags > 0:
		return exitWith(exitUsage, errors.New(plural(flags, "flag")+" that the server does not take"))
	}
	return nil
}

var findingColumns = []string{"result", "check", "about", "says"}

func findingCells(f sweep.Finding) []string {
	level := string(f.Level)
	if f.Level == sweep.LevelFlags {
		level = "wrong"
	}
	about := aboutConfigs(f.Configs)
	if f.Host != "" {
		about = strings.TrimSpace(f.Host + " " + about)
	}
	return []string{level, f.Check, about, f.Text}
}

// aboutConfigs names the configs of a finding; of many only the first.
func aboutConfigs(keys []string) string {
	switch n := len(keys); n {
	case 0:
		return ""
	case 1:
		return keys[0]
	default:
		return fmt.Sprintf("%s and %d more", keys[0], n-1)
	}
}

// writeFindings writes what was found in one of the four formats.
func writeFindings(w io.Writer, found []sweep.Finding, format string) error {
	switch format {
	case "json":
		if found == nil {
			found = []sweep.Finding{}
		}
		return writeJSON(w, found)
	case "csv":
		rows := [][]string{findingColumns}
		for _, f := range found {
			rows = append(rows, findingCells(f))
		}
		return writeFields(w, rows)
	case "markdown":
		return writeFindingRows(w, found)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range found {
		cells := findingCells(f)
		if cells[2] != "" {
			cells[3] = cells[2] + ": " + cells[3]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", cells[0], sweep.Printable(cells[1]), sweep.Printable(cells[3])) // an error stays in table
	}
	return table.Flush()
}

// writeFields writes rows as CSV, each field printable and none of them a formula.
func writeFields(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, field := range row {
			safe[i] = sweep.PrintableField(field)
		}
		_ = out.Write(safe) // an error stays in out
	}
	out.Flush()
	return out.Error()
}

func writeFindingRows(w io.Writer, found []sweep.Finding) error {
	var b strings.Builder
	row := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + sweep.EscapeMarkdown(sweep.Printable(c)) + " ")
		}
		b.WriteString("|\n")
	}
	row(findingColumns)
	b.WriteString(strings.Repeat("| --- ", len(findingColumns)) + "|\n")
	for _, f := range found {
		row(findingCells(f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
