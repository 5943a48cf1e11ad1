package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sweep/report"
	"sweep/sweep"
	"sweep/sweep/engine"
)

// gridOf reads a grid and expands it; repeats, when not 0, replaces the grid's own.
func gridOf(env *environ, path string, repeats int) (*sweep.Plan, *sweep.Engine, error) {
	grid, err := loadGrid(env, path)
	if err != nil {
		return nil, nil, err
	}
	if repeats > 0 {
		if err := grid.SetRepeats(repeats); err != nil {
			return nil, nil, exitWith(exitUsage, fmt.Errorf("--repeats %d: %w", repeats, err))
		}
	}
	plan, err := grid.Plan()
	if err != nil {
		return nil, nil, exitWith(exitUsage, err)
	}
	e, ok := engine.Lookup(grid.Engine)
	if !ok {
		return nil, nil, exitWith(exitUsage, fmt.Errorf("unknown engine %q", grid.Engine))
	}
	return plan, e, nil
}

// startNight makes a new night and runs it to its end.
func startNight(env *environ, o sweep.NightOptions) error {
	o.Version, o.Now = version(), time.Now()
	n, err := sweep.CreateNight(o)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			hint = "; choose another folder with -o"
		}
		return exitWith(exitEnvironment, fmt.Errorf("no night was started: %w%s", err, hint))
	}
	if err := noteOpen(n, "start"); err != nil {
		err = errors.Join(err, n.Close(), os.RemoveAll(n.Dir)) // nothing is in it yet
		return exitWith(exitEnvironment, fmt.Errorf("no night was started: %w", err))
	}
	return finishNight(env, n)
}

// finishNight runs what is missing in a night, writes its report, closes it, and says how it ended.
func finishNight(env *environ, n *sweep.Night) error {
	summary, err := runNight(env, n)
	err = errors.Join(err, n.Close())
	if err != nil {
		return exitWith(exitEnvironment, fmt.Errorf("%w\n%d of %d cells have their result; nothing of them is lost. When the cause is gone, go on with: %s",
			err, summary.Recorded, summary.Planned, resumeCommand(n.Dir)))
	}
	if summary.Interrupted {
		env.say("interrupted: %d of %d cells have their result. Go on with: %s", summary.Recorded-summary.Outcomes[sweep.Aborted], summary.Planned, resumeCommand(n.Dir))
		return exitWith(exitInterrupted, nil)
	}
	if err := showNight(env, n.Dir, report.View{}, 0); err != nil {
		return err
	}
	if code := summary.Code(); code != exitOK {
		fmt.Fprintln(env.Stderr, unanswered(summary)) // also to who wants to hear only what is wrong
		return exitWith(code, nil)
	}
	return nil
}

// unanswered says why a night that ran to its end has exit code 1.
func unanswered(s sweep.Summary) string {
	var words []string
	n := s.Planned - s.Recorded
	if n > 0 {
		words = append(words, fmt.Sprintf("no record %d", n))
	}
	for _, o := range slices.Sorted(maps.Keys(s.Outcomes)) {
		if !o.Result() {
			n += s.Outcomes[o]
			words = append(words, fmt.Sprintf("%s %d", o, s.Outcomes[o]))
		}
	}
	return fmt.Sprintf("exit code %d: %d of %s ended without a result (%s)", exitOther, n, plural(s.Planned, "cell"), strings.Join(words, ", "))
}

// noteOpen says in the night's journal who takes the night.
func noteOpen(n *sweep.Night, what string) error {
	return n.Note(sweep.JournalEntry{Kind: sweep.JournalOpen, Text: fmt.Sprintf("%s by process %d, sweep %s", what, os.Getpid(), version())})
}

func resumeCommand(dir string) string { return sweep.ShellLine([]string{"sweep", "resume", dir}) }

// runNight runs what is missing in a night, with signals and progress.
func runNight(env *environ, n *sweep.Night) (sweep.Summary, error) {
	progress, log := env.progress()
	hosts, err := nightHosts(env, n, progress.said, log)
	if err != nil {
		return n.Summary(), err
	}
	if eng, ok := engine.Lookup(n.Manifest.Engine); ok {
		useEarlier(n, eng)
	}
	ctx, now, done := env.interruptible(progress)
	defer done()
	r := &sweep.Runner{Night: n, Hosts: hosts, Progress: progress, Log: log}
	if err := r.Open(ctx); err != nil { // now somebody may still be there to hear what is wrong
		return n.Summary(), err
	}
	if err := env.announce(n.Dir); err != nil {
		return n.Summary(), err
	}
	summary, err := r.Run(ctx, now)
	closeHosts(ctx, hosts, err == nil && !summary.Interrupted && summary.Recorded == summary.Planned, log)
	return summary, err
}

// progress chooses how the night is told, and returns a logger that does not tear its display.
func (env *environ) progress() (*story, *slog.Logger) {
	s := newStory(env.view(), time.Now)
	level := slog.LevelWarn
	if env.Verbose {
		level = slog.LevelDebug
	}
	return s, slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: level}))
}

// view is how a story is shown here.
func (env *environ) view() view {
	switch _, onTerminal := terminal(env.Stderr); {
	case env.Quiet:
		return quietView{env.Stderr}
	case onTerminal && env.Getenv("TERM") != "dumb":
		return newBarView(env.Stderr)
	}
	return newLineView(env.Stderr, time.Now)
}

// interruptible returns two contexts: the first signal ends ctx, which stops the night cleanly; the
// second ends now, which kills everything at once. done gives the signals back.
func (env *environ) interruptible(s *story) (ctx, now context.Context, done func()) {
	ctx, cancel := context.WithCancel(env.Ctx)
	now, kill := context.WithCancel(context.WithoutCancel(env.Ctx))
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	pipe := make(chan os.Signal, 1) // a reader of ours that went away must not end the night, nor its terminal
	signal.Notify(pipe, syscall.SIGPIPE, syscall.SIGHUP)
	end := onSignals(func(n int, sig os.Signal) {
		switch n {
		case 0:
			s.interrupted(fmt.Sprintf("%v: stopping the server and closing the night; once more stops at once", sig))
			cancel()
		case 1:
			s.interrupted(fmt.Sprintf("%v: killing what is left", sig))
			kill()
		}
	}, signals...)
	return ctx, now, func() {
		end()
		signal.Stop(pipe)
		cancel()
		kill()
	}
}

// showNight writes the report of a night: its table to standard output, its files into the night, and
// as the last line where they are.
func showNight(env *environ, dir string, view report.View, price float64) error {
	n, err := report.Read(dir)
	if err != nil {
		return err
	}
	if price > 0 {
		n.SetPrice(price)
	}
	if err := n.Check(view); err != nil {
		return exitWith(exitUsage, err)
	}
	files, filesErr := report.WriteFolder(n, report.Summarize(n), report.PageOptions{Version: version(), Made: time.Now()}) // the table is shown also where its files cannot be written
	err = env.printNight(n.Filtered(view.Filter), files.Pictures, view)
	if err := errors.Join(filesErr, err); err != nil {
		return err
	}
	for _, reason := range files.Skipped {
		env.say("not drawn: %s", reason)
	}
	env.say("report: %s, with summary.md and %s beside it; see it again with: %s",
		files.Page, plural(2*len(files.Pictures), "picture"), sweep.ShellLine([]string{"sweep", "report", dir}))
	return nil
}

// printNight writes what is asked for of a night to standard output.
func (env *environ) printNight(n *report.Night, pictures []report.Picture, view report.View) error {
	s := report.Summarize(n)
	pivot := view.Rows != ""
	switch env.Format {
	case "markdown":
		return report.WriteMarkdown(env.Stdout, s, pictures, view)
	case "csv":
		if pivot {
			return report.WriteCrosstabCSV(env.Stdout, s, view)
		}
		return report.WriteCSV(env.Stdout, n)
	case "json":
		if pivot {
			return report.WriteCrosstabJSON(env.Stdout, s, view)
		}
		return report.WriteJSON(env.Stdout, s)
	}
	width, _ := terminal(env.Stdout)
	return report.WriteTable(env.Stdout, s, report.Options{Width: width, Color: env.colorOn(env.Stdout), View: view})
}

// say writes one line to a person, unless only problems are wanted.
func (env *environ) say(format string, args ...any) {
	if !env.Quiet {
		fmt.Fprintln(env.Stderr, printableLines(fmt.Sprintf(format, args...)))
	}
}

// outputFlag gives cmd the flag for the folder of all nights.
func outputFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVarP(dir, "output-dir", "o", "results", "folder in which the night gets a folder of its own")
	_ = cmd.MarkFlagDirname("output-dir") // completion only
}
