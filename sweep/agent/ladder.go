package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/gpu"
	"sweep/sweep/proc"
)

// afterRung is how long the driver may take to give memory back after a rung.
const afterRung = 5 * time.Second

// ladder gets back devices that do not come back by themselves: each rung is said in an event, which is on disk,
// before it runs, and only a passed gate proves that one helped.
type ladder struct {
	launch   *launch
	baseline gpu.Baseline
	reason   string           // why it is climbed
	over     map[string]int64 // at the last look; empty when the driver could not be asked
}

// climb goes up the ladder until the devices are clean, and gives them up at its end. The ending is nil when they are clean.
func (l *launch) climb(ctx context.Context, baseline gpu.Baseline, reason string) (*sweep.Ending, error) {
	r := l.agent.recovery
	c := &ladder{launch: l, baseline: baseline, reason: reason, over: baseline.Over(l.before.Devices)}
	if r.Lost != "" { // this look says that they did not come back
		return l.forgone(ctx, r.Lost)
	}
	for _, step := range []struct {
		which rung
		run   func(context.Context) (string, error)
	}{{rungWait, c.wait}, {rungKill, c.killAgain}, {rungReset, c.reset}, {rungHook, c.hook}} {
		result, err := step.run(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fullDisk(err)
		}
		if result == "" {
			return nil, c.tell("%s helped: the devices are clean", step.which)
		}
		c.reason = join(c.reason, fmt.Sprintf("%s: %s", step.which, result))
	}
	if err := r.giveUp(c.reason); err != nil {
		return nil, fullDisk(err)
	}
	if err := c.tell("given up: %s", c.reason); err != nil {
		return nil, err
	}
	return l.forgone(ctx, c.reason)
}

// forgone is the ending of every launch on devices that were given up: nothing more is tried for it here, and where another
// host has the same devices it is left for that one.
func (l *launch) forgone(ctx context.Context, why string) (*sweep.Ending, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e := sweep.Ending{Outcome: sweep.InfraGPU, Phase: sweep.PhaseGate, Detail: "the devices were given up: " + why}
	if l.job.Elsewhere {
		return &e, &givenUpError{e}
	}
	l.final = true
	return &e, nil
}

// givenUpError ends an agent whose devices were given up while another host has such devices.
type givenUpError struct{ ending sweep.Ending }

// Error says why they were.
func (e *givenUpError) Error() string { return e.ending.Detail }

// tell puts a rung on disk before it runs.
func (c *ladder) tell(format string, args ...any) error {
	return fullDisk(c.launch.emit(sweep.Event{Kind: sweep.EventRecover, Text: fmt.Sprintf(format, args...)}))
}

// clean waits for the devices, at most for limit; nil when they are clean.
func (c *ladder) clean(ctx context.Context, limit time.Duration) error {
	l := c.launch
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if len(c.baseline) == 0 { // the driver has never said what the devices hold
		_, err := l.machine.gpus.Devices(ctx)
		return err
	}
	report, err := gpu.WaitBaseline(ctx, l.machine.gpus, c.baseline)
	c.over = report.Over
	return err
}

// still says what is wrong after a rung; "" when nothing is.
func (c *ladder) still(ctx context.Context, limit time.Duration) string {
	switch err := c.clean(ctx, limit); {
	case err == nil:
		return ""
	case errors.Is(err, gpu.ErrDirty):
		return "it did not help"
	default:
		return "the driver does not answer: " + sweep.Printable(err.Error())
	}
}

func (c *ladder) wait(ctx context.Context) (string, error) {
	limit := c.launch.agent.opt.GateTime
	if err := c.tell("%s up to %s: %s", rungWait, limit, c.reason); err != nil {
		return "", err
	}
	return c.still(ctx, limit), nil
}

// killAgain ends whatever of the night's launches on this host is proved to be ours and lives: nothing of it should.
func (c *ladder) killAgain(ctx context.Context) (string, error) {
	l := c.launch
	if err := c.tell("%s whatever is proved to be of an earlier launch", rungKill); err != nil {
		return "", err
	}
	owners, err := filepath.Glob(filepath.Join(escapeGlob(l.agent.opt.Out), "launches", "*", "*", "*", "owner.json"))
	if err != nil {
		return "", err
	}
	found, stuck := 0, 0
	for _, path := range owners {
		var job sweep.Job
		if err := readJSON(filepath.Join(filepath.Dir(path), "job.json"), &job); err != nil || job.Host != l.job.Host {
			continue
		}
		report, err := proc.Reclaim(path, 0)
		if err != nil && !errors.Is(err, proc.ErrDamaged) {
			l.note("kill again: " + err.Error())
		}
		found, stuck = found+len(report.Found), stuck+len(report.Stuck)
	}
	if found == 0 {
		return "nothing of ours lives", nil
	}
	if text := c.still(ctx, max(l.agent.opt.GateTime/4, afterRung)); text != "" {
		return fmt.Sprintf("%d processes, of which %d outlived SIGKILL; %s", found, stuck, text), nil
	}
	return "", nil
}

// begin puts a rung that touches more than our processes on disk, in the count and as an event.
func (c *ladder) begin(which rung, format string, args ...any) error {
	boot, err := proc.Self()
	if err != nil {
		return err
	}
	if err := c.launch.agent.recovery.begin(which, boot.BootID, c.reason); err != nil {
		return err
	}
	failpoint.Hit("rung.counted")
	return c.tell("%s: %s", which, fmt.Sprintf(format, args...))
}

func (c *ladder) reset(ctx context.Context) (string, error) {
	l := c.launch
	if !l.job.Recover.Reset {
		return "not asked for (gpu_reset: on)", nil
	}
	if i := slices.IndexFunc(l.before.Devices, func(d gpu.Device) bool { return d.Parent != "" || d.Split() }); i >= 0 {
		return deviceName(l.before.Devices[i]) + " is not reset: a split GPU (MIG) cannot be, nor a part by itself", nil
	}
	if why := l.agent.recovery.mayTry(rungReset, time.Now()); why != "" {
		return why, nil
	}
	l.others.look(ctx)
	if list := l.others.since(time.Time{}); len(list) > 0 {
		return "not done, as it would end somebody else's work: " + strangersText(list), nil
	}
	uuids := resettable(c.over, l.before.Devices)
	if err := c.begin(rungReset, "%v", uuids); err != nil {
		return "", err
	}
	if err := l.machine.gpus.Reset(ctx, uuids); err != nil {
		return sweep.Printable(err.Error()), nil
	}
	return c.still(ctx, max(l.agent.opt.GateTime/4, afterRung)), nil
}

func (c *ladder) hook(ctx context.Context) (string, error) {
	l := c.launch
	if len(l.job.Recover.Hook) == 0 {
		return "the grid has none", nil
	}
	if why := l.agent.recovery.mayTry(rungHook, time.Now()); why != "" {
		return why, nil
	}
	if err := c.begin(rungHook, "%v", l.job.Recover.Hook); err != nil {
		return "", err
	}
	if err := l.runHook(ctx, resettable(c.over, l.before.Devices), c.reason, l.agent.recovery.times(rungHook)); err != nil {
		return l.clean(err.Error()), nil
	}
	return c.still(ctx, l.agent.opt.GateTime), nil
}
