package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/search"
)

func newPlanCmd(env *environ) *cobra.Command {
	var output string
	var connect bool
	cmd := &cobra.Command{
		Use:   "plan GRID",
		Short: "Show each launch with its exact command line, and how long the night takes",
		Long: `plan reads a grid and shows what "sweep run" would do, in order: each start of a server with its exact
command line, the number of starts and cells, and how long they take. It starts nothing and needs no GPU.

Of hosts over SSH it says what they get to do, and connects to none of them: --connect has each look at itself as well, for
which sweep is copied there. "sweep doctor" does that too, and says all that was found.`,
		Example: `  sweep plan grids/mine.yaml
  sweep plan grids/mine.yaml --connect
  sweep plan grids/mine.yaml --format json | jq -r '.launches[].config'`,
		Args:              oneArg("grid"),
		ValidArgsFunction: completeGrids,
		RunE: func(_ *cobra.Command, args []string) error {
			plan, eng, err := gridOf(env, args[0], 0)
			if err != nil {
				return err
			}
			return showPlan(env, plan, eng, output, connect)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to the hosts over SSH, and say what they lack or refuse")
	env.acceptFlag(cmd)
	env.formatFlag(cmd)
	return cmd
}

// showPlan writes a plan with what launches of earlier nights, and a look at this machine, say of it. With connect its hosts
// over SSH are looked at as well.
func showPlan(env *environ, plan *sweep.Plan, eng *sweep.Engine, output string, connect bool) error {
	earlier := search.LookAll(output)
	postpone(plan, eng, earlier)
	look := foresee(plan, eng, earlier)
	s, err := newSurvey(env, eng, output, false)
	if err != nil {
		return err
	}
	s.Earlier = earlier
	look.survey(env.lookAtHosts(plan, plan.Probes(eng), func(jobs []sweep.Job) []sweep.Finding { return s.Look(env.Ctx, jobs) }, earlier, connect), plan)
	look.looked = connect
	return writePlan(env.Stdout, plan, look, env.Format, time.Now())
}

// plannedLaunch is one launch as plan shows it.
type plannedLaunch struct {
	Launch       int      `json:"launch"` // from 1
	Config       string   `json:"config"`
	Repeat       int      `json:"repeat"`
	Role         string   `json:"role"` // measure or drift
	Host         string   `json:"host"`
	Baseline     bool     `json:"baseline"`
	Unacceptable string   `json:"unacceptable,omitempty"` // the reason
	Loads        []string `json:"loads"`
	Argv         []string `json:"argv"`
	Attached     string   `json:"attached,omitempty"` // URL of a server that somebody else runs
	// Forecast is from launches of earlier nights; ForecastFrom are the launches of this plan from which it will be made.
	Forecast     *sweep.Forecast `json:"forecast,omitempty"`
	ForecastFrom []int           `json:"forecast_from,omitempty"`
	Refused      string          `json:"refused,omitempty"` // why its host refuses the config
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
	Deadline  *time.Time      `json:"ends_by,omitempty"` // by until or budget, if it began now
	Hosts     []plannedHost   `json:"hosts"`
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
		SecondsLo: lo.Seconds(), SecondsHi: hi.Seconds(), Hosts: plannedHosts(plan),
	}
	hosts := plan.HostOf()
	for i, l := range plan.Launches {
		spec := sweep.ServerSpec{Model: g.Model, ServedName: fmt.Sprintf("%s-%d", g.Name, i+1), Host: exampleHost, Port: sweep.UsualPort, Settings: l.Config.Settings}
		p := plannedLaunch{
			Launch: i + 1, Config: l.Config.Key, Repeat: l.Repeat, Role: string(l.Role), Host: hosts[i].Name, Baseline: l.Config.Baseline,
			Unacceptable: l.Config.Unacceptable, Argv: g.Container.Line(g.Workdir, append(append([]string{}, command...), eng.Argv(spec)...)),
		}
		for _, load := range l.Loads {
			p.Loads = append(p.Loads, load.String())
		}
		if g.Attach != "" {
			p.Argv, p.Attached = nil, g.Attach
		}
		night.Launches = append(night.Launches, p)
	}
	return night, nil
}

// writePlan writes a plan that would begin now, in one of the four formats.
func writePlan(w io.Writer, plan *sweep.Plan, look planLook, format string, now time.Time) error {
	night, err := planned(plan)
	if err != nil {
		return err
	}
	look.into(&night)
	if d := plan.Grid.Deadline(now); !d.IsZero() {
		d = d.Round(time.Second) // without the monotonic reading
		night.Deadline = &d
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

var planColumns = []string{"launch", "config", "repeat", "role", "host", "marks", "loads", "outlook", "command"}

func (l plannedLaunch) cells() []string {
	return []string{
		strconv.Itoa(l.Launch), l.Config, strconv.Itoa(l.Repeat), l.Role, l.Host, l.marks(), strings.Join(l.Loads, " "),
		strings.Join(l.outlook(), "; "), l.command(),
	}
}

// command is the launch's command line, or what stands in its place.
func (l plannedLaunch) command() string {
	if l.Attached != "" {
		return "attached to " + l.Attached + ": nothing is started, stopped or signalled"
	}
	return sweep.ShellLine(l.Argv)
}

func (n plannedNight) csv(w io.Writer) error {
	rows := [][]string{planColumns}
	for _, l := range n.Launches {
		rows = append(rows, l.cells())
	}
	return writeFields(w, rows)
}

func (n plannedNight) markdown(plan *sweep.Plan, now time.Time) string {
	var b strings.Builder
	words := func(s string) string { return sweep.EscapeMarkdown(sweep.Printable(s)) }
	fmt.Fprintf(&b, "%s on %s, %s\n\n", words(n.Name), words(n.Engine), planSize(plan))
	b.WriteString("| " + strings.Join(planColumns, " | ") + " |\n" + strings.Repeat("| --- ", len(planColumns)) + "|\n")
	for _, l := range n.Launches {
		cells := l.cells()
		last := len(cells) - 1
		for _, c := range cells[:last] {
			b.WriteString("| " + words(c) + " ")
		}
		b.WriteString("| " + codeCell(cells[last]) + " |\n")
	}
	for _, line := range n.hostLines() {
		fmt.Fprintf(&b, "\n%s\n", words(line))
	}
	fmt.Fprintf(&b, "\n%s\n", planTime(plan, now))
	for _, line := range n.lacking() {
		fmt.Fprintf(&b, "\n%s\n", words(line))
	}
	return b.String()
}

// codeCell is a command line in a cell of a Markdown table, between more backticks than stand in it.
func codeCell(command string) string {
	fence := "`"
	for strings.Contains(command, fence) {
		fence += "`"
	}
	space := ""
	if strings.HasPrefix(command, "`") || strings.HasSuffix(command, "`") {
		space = " "
	}
	return fence + space + strings.ReplaceAll(sweep.Printable(command), "|", `\|`) + space + fence
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
	for i, line := range n.hostLines() {
		word := "hosts"
		if i > 0 {
			word = ""
		}
		fmt.Fprintf(&b, "%-7s %s\n", word, sweep.Printable(line))
	}
	for i, l := range g.Loads {
		word := "loads"
		if i > 0 {
			word = ""
		}
		fmt.Fprintf(&b, "%-7s %s\n", word, l)
	}
	for _, w := range g.Workloads {
		for i, line := range w.Own() {
			name := w.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-7s %s\n", name, sweep.Printable(line))
		}
	}
	if g.Attach == "" {
		fmt.Fprintf(&b, "each launch takes a free port and a served name of its own; %d and %s-N stand for them\n", sweep.UsualPort, n.Name)
	}
	digits := len(strconv.Itoa(len(n.Launches)))
	for i, l := range n.Launches {
		if i == 0 || l.Repeat != n.Launches[i-1].Repeat {
			fmt.Fprintf(&b, "\nrepeat %d\n", l.Repeat)
		}
		fmt.Fprintf(&b, "%*d  %s", digits+2, l.Launch, l.Config)
		if marks := l.marks(); marks != "" {
			fmt.Fprintf(&b, "  (%s)", sweep.Printable(marks))
		}
		if n.several() {
			fmt.Fprintf(&b, "  on %s", sweep.Printable(l.Host))
		}
		if len(l.Loads) < len(g.Loads) {
			fmt.Fprintf(&b, "  %s", strings.Join(l.Loads, " "))
		}
		fmt.Fprintf(&b, "\n%*s  %s\n", digits+2, "", sweep.Printable(l.command()))
		for _, line := range l.outlook() {
			fmt.Fprintf(&b, "%*s  %s\n", digits+2, "", sweep.Printable(line))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", planTime(plan, now))
	for _, line := range n.lacking() {
		fmt.Fprintf(&b, "%s\n", sweep.Printable(line))
	}
	return printableLines(b.String()) + "\n"
}

// planTime says how long a plan takes and when it would be done.
func planTime(plan *sweep.Plan, now time.Time) string {
	lo, hi := plan.Estimate()
	startLo, startHi := plan.StartRange()
	windows := rough(plan.Grid.Measure.WindowMin)
	if most := rough(plan.WindowHi()); most != windows {
		windows += " to " + most
	}
	text := fmt.Sprintf("%s, %s: %s to %s (windows of %s; a start is taken to last %s to %s)\nbegun now, done between %s and %s",
		plural(len(plan.Launches), "start"), plural(plan.Cells(), "cell"), rough(lo), rough(hi),
		windows, rough(startLo), rough(startHi), clockTime(now, now.Add(lo)), clockTime(now, now.Add(hi)))
	return text + planDeadline(plan.Grid, now, lo, hi)
}

// planDeadline says when a night that began now would end at the latest; empty: nothing bounds it.
func planDeadline(g *sweep.Grid, now time.Time, lo, hi time.Duration) string {
	end := g.Deadline(now)
	if end.IsZero() {
		return ""
	}
	key := "until"
	if g.Budget > 0 {
		key = "budget"
	}
	text := fmt.Sprintf("\nit ends by %s (%s): no start that would not be done by then, and its cells are skipped.deadline", clockTime(now, end), key)
	switch left := end.Sub(now); {
	case lo > left:
		text += "; there is not time for all of it"
	case hi > left:
		text += "; there may not be time for all of it"
	}
	return text
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
