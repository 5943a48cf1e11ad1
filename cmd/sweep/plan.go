package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/engine"
)

func newPlanCmd(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan GRID",
		Short: "Show each launch with its exact command line, and how long the night takes",
		Long: `plan reads a grid and shows what "sweep run" would do, in order: each start of a server with its exact
command line, the number of starts and cells, and how long they take. It starts nothing and needs no GPU.`,
		Example: `  sweep plan grids/mine.yaml
  sweep plan grids/mine.yaml --format json | jq -r '.launches[].config'`,
		Args:              oneArg("grid"),
		ValidArgsFunction: completeGrids,
		RunE: func(_ *cobra.Command, args []string) error {
			plan, err := loadPlan(env, args[0])
			if err != nil {
				return err
			}
			return writePlan(env.Stdout, plan, env.Format, time.Now())
		},
	}
	env.formatFlag(cmd)
	return cmd
}

// plannedLaunch is one launch as plan shows it.
type plannedLaunch struct {
	Launch       int      `json:"launch"` // from 1
	Config       string   `json:"config"`
	Repeat       int      `json:"repeat"`
	Role         string   `json:"role"` // measure or drift
	Baseline     bool     `json:"baseline"`
	Unacceptable string   `json:"unacceptable,omitempty"` // the reason
	Loads        []string `json:"loads"`
	Argv         []string `json:"argv"`
}

// marks says in words what is special about a launch.
func (l plannedLaunch) marks() string {
	var marks []string
	if l.Role == string(sweep.RoleDrift) {
		marks = append(marks, "baseline again, for drift")
	} else if l.Baseline {
		marks = append(marks, "baseline")
	}
	if l.Unacceptable != "" {
		marks = append(marks, "not acceptable: "+l.Unacceptable)
	}
	return strings.Join(marks, "; ")
}

// plannedNight is a plan as JSON shows it.
type plannedNight struct {
	Grid      string          `json:"grid"`
	Name      string          `json:"name"`
	Engine    string          `json:"engine"`
	Starts    int             `json:"starts"`
	Cells     int             `json:"cells"`
	SecondsLo float64         `json:"estimate_min_s"`
	SecondsHi float64         `json:"estimate_max_s"`
	Launches  []plannedLaunch `json:"launches"`
}

// exampleHost is where a launch listens, so that a line can be pasted and tried.
const exampleHost = "127.0.0.1"

// planned turns a plan into what is shown.
func planned(plan *sweep.Plan) (plannedNight, error) {
	g := plan.Grid
	eng, ok := engine.Lookup(g.Engine)
	if !ok {
		return plannedNight{}, exitWith(exitUsage, fmt.Errorf("unknown engine %q", g.Engine))
	}
	command := g.Command
	if len(command) == 0 {
		command = eng.Command
	}
	lo, hi := plan.Estimate()
	night := plannedNight{
		Grid: g.Path, Name: g.Name, Engine: g.Engine, Starts: len(plan.Launches), Cells: plan.Cells(),
		SecondsLo: lo.Seconds(), SecondsHi: hi.Seconds(),
	}
	for i, l := range plan.Launches {
		spec := sweep.ServerSpec{Model: g.Model, ServedName: fmt.Sprintf("%s-%d", g.Name, i+1), Host: exampleHost, Port: sweep.UsualPort, Settings: l.Config.Settings}
		p := plannedLaunch{
			Launch: i + 1, Config: l.Config.Key, Repeat: l.Repeat, Role: string(l.Role), Baseline: l.Config.Baseline,
			Unacceptable: l.Config.Unacceptable, Argv: append(append([]string{}, command...), eng.Argv(spec)...),
		}
		for _, load := range l.Loads {
			p.Loads = append(p.Loads, load.String())
		}
		night.Launches = append(night.Launches, p)
	}
	return night, nil
}

// writePlan writes a plan that would begin now, in one of the four formats.
func writePlan(w io.Writer, plan *sweep.Plan, format string, now time.Time) error {
	night, err := planned(plan)
	if err != nil {
		return err
	}
	switch format {
	case "json":
		return writeJSON(w, night)
	case "csv":
		return night.csv(w)
	case "markdown":
		_, err = io.WriteString(w, night.markdown(plan, now))
	default:
		_, err = io.WriteString(w, night.text(plan, now))
	}
	return err
}

var planColumns = []string{"launch", "config", "repeat", "role", "marks", "loads", "command"}

func (l plannedLaunch) cells() []string {
	return []string{
		strconv.Itoa(l.Launch), l.Config, strconv.Itoa(l.Repeat), l.Role, l.marks(), strings.Join(l.Loads, " "), sweep.ShellLine(l.Argv),
	}
}

func (n plannedNight) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(planColumns); err != nil {
		return err
	}
	for _, l := range n.Launches {
		if err := out.Write(l.cells()); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (n plannedNight) markdown(plan *sweep.Plan, now time.Time) string {
	var b strings.Builder
	row := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(sweep.Printable(c), "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "%s on %s, %s\n\n", n.Name, sweep.Printable(n.Engine), planSize(plan))
	row(planColumns)
	b.WriteString(strings.Repeat("| --- ", len(planColumns)) + "|\n")
	for _, l := range n.Launches {
		cells := l.cells()
		cells[len(cells)-1] = "`" + cells[len(cells)-1] + "`"
		row(cells)
	}
	fmt.Fprintf(&b, "\n%s\n", planTime(plan, now))
	return b.String()
}

// text is the plan for a terminal: each launch with its command line below it, whole.
func (n plannedNight) text(plan *sweep.Plan, now time.Time) string {
	g := plan.Grid
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, %s\n", n.Name, sweep.Printable(n.Engine), planSize(plan))
	if g.Workdir != "" {
		fmt.Fprintf(&b, "in      %s\n", sweep.Printable(g.Workdir))
	}
	for _, p := range g.Env {
		fmt.Fprintf(&b, "with    %s=%s\n", p.Name, sweep.Printable(p.Value))
	}
	for i, l := range g.Loads {
		word := "loads"
		if i > 0 {
			word = ""
		}
		fmt.Fprintf(&b, "%-7s %s\n", word, l)
	}
	fmt.Fprintf(&b, "each launch takes a free port and a served name of its own; %d and %s-N stand for them\n", sweep.UsualPort, n.Name)
	digits := len(strconv.Itoa(len(n.Launches)))
	for i, l := range n.Launches {
		if i == 0 || l.Repeat != n.Launches[i-1].Repeat {
			fmt.Fprintf(&b, "\nrepeat %d\n", l.Repeat)
		}
		fmt.Fprintf(&b, "%*d  %s", digits+2, l.Launch, l.Config)
		if marks := l.marks(); marks != "" {
			fmt.Fprintf(&b, "  (%s)", sweep.Printable(marks))
		}
		if len(l.Loads) < len(g.Loads) {
			fmt.Fprintf(&b, "  %s", strings.Join(l.Loads, " "))
		}
		fmt.Fprintf(&b, "\n%*s  %s\n", digits+2, "", sweep.Printable(sweep.ShellLine(l.Argv)))
	}
	fmt.Fprintf(&b, "\n%s\n", planTime(plan, now))
	return b.String()
}

// planTime says how long a plan takes and when it would be done.
func planTime(plan *sweep.Plan, now time.Time) string {
	lo, hi := plan.Estimate()
	startLo, startHi := plan.StartRange()
	windows := rough(plan.Grid.Measure.WindowMin)
	if most := rough(plan.WindowHi()); most != windows {
		windows += " to " + most
	}
	return fmt.Sprintf("%s, %s: %s to %s (windows of %s; a start is taken to last %s to %s)\nbegun now, done between %s and %s",
		plural(len(plan.Launches), "start"), plural(plan.Cells(), "cell"), rough(lo), rough(hi),
		windows, rough(startLo), rough(startHi), clockTime(now, now.Add(lo)), clockTime(now, now.Add(hi)))
}

// rough writes a time as a person would say it, with no more figures than an estimate has.
func rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 10*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

// clockTime writes a moment by the clock, with the day where it is not today's.
func clockTime(now, t time.Time) string {
	switch day := t.Format(time.DateOnly); {
	case day == now.Format(time.DateOnly):
		return t.Format("15:04")
	case day == now.AddDate(0, 0, 1).Format(time.DateOnly):
		return t.Format("15:04") + " tomorrow"
	}
	return t.Format("15:04 on Mon 2 Jan")
}
