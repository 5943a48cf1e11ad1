package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
)

// recoveryFile keeps, in an agent's folder, what was done to get devices back: limits hold for a whole night, whoever
// the agent is.
const recoveryFile = "recovery.json"

// How often the rungs that touch more than our own processes may be tried.
const (
	rungsANight = 3
	rungEvery   = 30 * time.Minute
)

// hookTime bounds the user's recover hook.
const hookTime = 10 * time.Minute

// rung is one step of the recovery ladder.
type rung string

// The rungs, lowest first.
const (
	rungWait  rung = "wait"       // for the driver to give memory back
	rungKill  rung = "kill again" // what is proved to be ours
	rungReset rung = "gpu-reset"  // by nvidia-smi; only when the grid asks for it
	rungHook  rung = "recover"    // the user's own command; only when the grid has one
)

// recovery is recovery.json.
type recovery struct {
	path  string
	every time.Duration // between two tries of one rung

	Tried []tried `json:"tried"`
	Lost  string  `json:"lost,omitempty"` // why the devices were given up; empty: they were not
	// Restarted is the boot id by which a restart of the machine after a try was proved.
	Restarted string `json:"restarted,omitempty"`
}

// tried is one rung that was begun. It is on disk before the rung runs.
type tried struct {
	At     time.Time `json:"at"`
	Rung   rung      `json:"rung"`
	BootID string    `json:"boot_id"` // of the machine then: a rung that restarts it is proved by another one
	Reason string    `json:"reason"`
}

// readRecovery reads what is kept; a file that is missing or damaged holds nothing. A machine that was started again
// since has its devices back until a gate says otherwise.
func (a *agent) readRecovery(bootID string) (*recovery, error) {
	r := &recovery{path: filepath.Join(a.opt.Dir, recoveryFile), every: rungEvery}
	if err := readJSON(r.path, r); err != nil {
		r.Tried, r.Lost = nil, ""
	}
	if len(r.Tried) == 0 || r.Tried[len(r.Tried)-1].BootID == bootID || r.Restarted == bootID {
		return r, nil
	}
	r.Restarted, r.Lost = bootID, ""
	text := fmt.Sprintf("the machine was started again since %s was tried: its boot id is another one", r.Tried[len(r.Tried)-1].Rung)
	return r, errors.Join(writeJSON(r.path, r), a.events.emit(sweep.Event{Kind: sweep.EventRecover, Text: text}))
}

// times is how often a rung was begun.
func (r *recovery) times(which rung) int {
	n := 0
	for _, t := range r.Tried {
		if t.Rung == which {
			n++
		}
	}
	return n
}

// mayTry says why a rung may not be tried now; "" when it may.
func (r *recovery) mayTry(which rung, now time.Time) string {
	if n := r.times(which); n >= rungsANight {
		return fmt.Sprintf("it was tried %d times in this night", n)
	}
	for _, t := range r.Tried {
		if t.Rung == which && now.Sub(t.At) < r.every {
			return fmt.Sprintf("it was last tried at %s, less than %s ago", t.At.Format(time.TimeOnly), r.every)
		}
	}
	return ""
}

// begin puts on disk that a rung is about to be tried.
func (r *recovery) begin(which rung, bootID, reason string) error {
	r.Tried = append(r.Tried, tried{At: time.Now(), Rung: which, BootID: bootID, Reason: reason})
	return writeJSON(r.path, r)
}

// giveUp puts on disk that the devices are given up, or with "" that they are not any more.
func (r *recovery) giveUp(why string) error {
	if r.Lost == why {
		return nil
	}
	r.Lost = why
	return writeJSON(r.path, r)
}

// runHook runs the user's command next to the GPUs, in a process group of its own that is killed at its time limit. What it printed
// goes into the error.
func (l *launch) runHook(ctx context.Context, uuids []string, reason string, level int) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	argv := l.job.Recover.Hook
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(append([]string{}, l.agent.opt.Environ...),
		"SWEEP_HOST="+l.job.Host, "SWEEP_GPU_UUIDS="+strings.Join(uuids, ","), "SWEEP_REASON="+reason, fmt.Sprintf("SWEEP_LEVEL=%d", level))
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %s and was killed", hookTime)
	}
	text := strings.TrimSpace(string(out[:min(len(out), 2000)]))
	return fmt.Errorf("recover hook %s: %w: %s", argv[0], err, sweep.Printable(text))
}

// resettable are the devices of the launch that are to be reset: those that are not back at the baseline, or all when
// the driver does not say.
func resettable(over map[string]int64, devices []gpu.Device) []string {
	var uuids []string
	for _, d := range devices {
		if _, dirty := over[d.UUID]; dirty || len(over) == 0 {
			uuids = append(uuids, d.UUID)
		}
	}
	return uuids
}
