package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sweep/report"
	"sweep/sweep"
	"sweep/sweep/host"
)

func newAttachCmd(env *environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach [NIGHT]",
		Short: "Watch a night that runs, or take over one whose process is gone",
		Long: `attach shows a night that another process runs, for example with --detach, until it ends; Ctrl-C leaves it running. When
no process runs the night, attach takes it over: an agent that is still at work goes on with what it does, and what it made
meanwhile is kept. "sweep resume" does the same for hosts over SSH, and begins anew on this machine.`,
		Example: `  sweep attach
  sweep attach results/kimi-20261129T180000Z`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNights,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := aNight(args)
			if err != nil {
				return err
			}
			n, err := sweep.OpenNight(dir)
			if errors.Is(err, sweep.ErrNightBusy) {
				return watchNight(env, dir)
			}
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			if err := prepareAttach(env, n); err != nil {
				return errors.Join(err, n.Close())
			}
			return finishNight(env, n)
		},
	}
	env.formatFlag(cmd)
	return cmd
}

// prepareAttach makes an opened night ready to go on beside what is still at work for it.
func prepareAttach(env *environ, n *sweep.Night) error {
	if err := noteOpen(n, "attach"); err != nil {
		return exitWith(exitEnvironment, err)
	}
	use, err := choosePlan(env, n, "", true)
	if err != nil {
		return err
	}
	err = host.ReclaimOrphans(env.Ctx, n.Dir, func(name, what string) error {
		env.say("ending what an earlier start left: %s", what)
		return n.Note(sweep.JournalEntry{Kind: sweep.JournalReclaim, Host: name, Text: what})
	})
	if err == nil {
		err = use()
	}
	if err == nil {
		err = n.Reopen()
	}
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	return nil
}

// watchEvery is how often the files of a watched night are read.
const watchEvery = 300 * time.Millisecond

// watchNight shows a night that another process runs, until that process leaves it.
func watchNight(env *environ, dir string) error {
	ctx, stop := signal.NotifyContext(env.Ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := newWatch(dir, env.view(), time.Now)
	if err != nil {
		return err
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		owner, err := sweep.NightOwner(dir) // asked before the read: what it wrote until then is read below
		if err == nil {
			err = w.read()
		}
		if err != nil {
			w.story.End(sweep.Summary{})
			return err
		}
		if owner == nil {
			break
		}
		select {
		case <-ctx.Done():
			w.story.End(sweep.Summary{})
			env.say("the night goes on in process %d\ncome back: %s\nstop it: %s", owner.PID,
				sweep.ShellLine([]string{"sweep", "attach", dir}), sweep.ShellLine([]string{"sweep", "cancel", dir}))
			return nil
		case <-tick.C:
		}
	}
	w.story.End(sweep.Summary{})
	if w.story.recorded < w.story.planned {
		return exitWith(exitOther, fmt.Errorf("the night's process is gone: %d of %d cells have their result. Go on with: %s", w.story.recorded, w.story.planned, resumeCommand(dir)))
	}
	return showNight(env, dir, report.View{}, 0)
}

func newCancelCmd(env *environ) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "cancel [NIGHT]",
		Short: "Stop a night: its process, its agents, their servers",
		Long: `cancel stops a night as Ctrl-C does: loads end, servers are stopped, every result is kept. It returns when nothing of the
night runs any more. A night whose process is gone is stopped on its hosts.`,
		Example: `  sweep cancel
  sweep cancel results/kimi-20261129T180000Z --now`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNights,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := aNight(args)
			if err != nil {
				return err
			}
			n, err := sweep.OpenNight(dir)
			if errors.Is(err, sweep.ErrNightBusy) {
				return cancelOwner(env, dir, now)
			}
			if err != nil {
				return exitWith(exitEnvironment, err)
			}
			return errors.Join(cancelHosts(env, n, now), n.Close())
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "kill at once instead of stopping cleanly")
	return cmd
}

// cancelOwner asks the process that runs a night to stop it, and waits until it has.
func cancelOwner(env *environ, dir string, now bool) error {
	owner, err := sweep.NightOwner(dir)
	if err != nil || owner == nil {
		return err
	}
	if here, err := os.Hostname(); err != nil || here != owner.Host {
		return exitWith(exitEnvironment, fmt.Errorf("the night is run by process %d on %s: cancel it there", owner.PID, owner.Host))
	}
	p, err := os.FindProcess(owner.PID)
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	defer p.Release()
	signals := []os.Signal{os.Interrupt}
	if now {
		signals = append(signals, syscall.SIGTERM) // two of one kind that are pending together are one
	}
	for _, s := range signals {
		if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return exitWith(exitEnvironment, fmt.Errorf("stop process %d: %w", owner.PID, err))
		}
	}
	env.say("process %d stops the night", owner.PID)
	ctx, stop := signal.NotifyContext(env.Ctx, os.Interrupt)
	defer stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		again, err := sweep.NightOwner(dir)
		if err != nil {
			return err
		}
		if again == nil || again.PID != owner.PID {
			env.say("stopped; go on with: %s", resumeCommand(dir))
			return nil
		}
		select {
		case <-ctx.Done():
			return exitWith(exitInterrupted, nil)
		case <-tick.C:
		}
	}
}

// cancelTime bounds the clean stop of a night's hosts.
const cancelTime = 3 * time.Minute

// cancelHosts stops what still works for a night that no process runs, and brings here what it left.
func cancelHosts(env *environ, n *sweep.Night, now bool) error {
	if err := noteOpen(n, "cancel"); err != nil {
		return exitWith(exitEnvironment, err)
	}
	hosts, err := nightHosts(env, n, func(text string) { env.say("%s", text) }, env.Log)
	if err != nil {
		return exitWith(exitEnvironment, err)
	}
	ctx, cancel := context.WithTimeout(env.Ctx, cancelTime)
	defer cancel()
	var errs []error
	for _, h := range hosts { // those that are reached are stopped, whatever becomes of the others
		if err := cancelHost(ctx, n, h, now); err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Name(), err))
		}
	}
	closeHosts(ctx, hosts, false, env.Log)
	if err := errors.Join(errs...); err != nil {
		return exitWith(exitEnvironment, err)
	}
	env.say("nothing of the night runs; go on with: %s", resumeCommand(n.Dir))
	return nil
}

// cancelHost stops what still works for a night on one of its hosts.
func cancelHost(ctx context.Context, n *sweep.Night, h sweep.Host, now bool) error {
	if l, ok := h.(sweep.Linked); ok {
		if err := l.Open(ctx); err != nil {
			return err
		}
	}
	note := func(text string) error {
		return n.Note(sweep.JournalEntry{Kind: sweep.JournalStop, Host: h.Name(), Text: text})
	}
	if err := note("stopping the agent"); err != nil {
		return err
	}
	err := h.Cancel(ctx, now)
	if err == nil {
		err = note(sweep.AgentStopped)
	}
	if o, ok := h.(sweep.Outliving); ok {
		err = errors.Join(err, o.CatchUp(ctx))
	}
	return err
}
