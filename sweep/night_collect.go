package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// attempts lists the numbers of a launch's attempts that have a folder, ascending.
func (n *Night) attempts(launch string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(n.Dir, "launches", filepath.FromSlash(launch)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "attempt=")
		if number, err := strconv.Atoi(text); ok && err == nil && number > 0 {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// attemptFolder is what one attempt left on disk.
type attemptFolder struct {
	dir     string // relative to the night
	attempt int
	job     *Job
	ready   *LaunchResult // with the facts, when the server was ready
	launch  *LaunchResult // nil: the attempt did not end, or not yet
	runs    map[string]*LoadResult
}

// readAttempt reads an attempt's folder. A folder that is not there is empty.
func (n *Night) readAttempt(launch string, attempt int) (attemptFolder, error) {
	a := attemptFolder{dir: Job{ID: launch}.Dir(attempt), attempt: attempt, runs: map[string]*LoadResult{}}
	path := filepath.Join(n.Dir, filepath.FromSlash(a.dir))
	var errs []error
	a.job = readJSON[Job](filepath.Join(path, "job.json"), &errs)
	a.ready = readJSON[LaunchResult](filepath.Join(path, ReadyFile), &errs)
	a.launch = readJSON[LaunchResult](filepath.Join(path, "launch.json"), &errs)
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "load=") && e.IsDir() {
			if run := readJSON[LoadResult](filepath.Join(path, e.Name(), "run.json"), &errs); run != nil {
				a.runs[run.Cell] = run
			}
		}
	}
	return a, errors.Join(errs...)
}

// readJSON reads a file that may be missing.
func readJSON[T any](path string, errs *[]error) *T {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var v T
	if err != nil {
		*errs = append(*errs, err)
		return nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %w: %w", path, errDamaged, err))
		return nil
	}
	return &v
}

// errDamaged is a file of an attempt that cannot be understood: its cells run again.
var errDamaged = errors.New("damaged")

// ending says how a cell ended in this attempt, as far as that stands. While the launch goes on it
// stands only for a committed load whose outcome is never tried again; with over, nobody is left to
// end the launch, and what is committed counts although its facts may be unknown.
func (a attemptFolder) ending(cell string, over bool) (Ending, bool) {
	if a.launch != nil {
		for _, l := range a.launch.Loads {
			if l.Cell == cell && l.State == "done" {
				return l.Ending, true
			}
		}
		return Ending{}, false
	}
	run := a.runs[cell]
	if run == nil || run.Outcome == "" || run.Outcome.Attempts() > 1 || !over && a.ready == nil {
		return Ending{}, false
	}
	return run.Ending, true
}

// asked reports whether the attempt was told to measure just this: same cell, same content.
func (a attemptFolder) asked(c PlannedCell) bool {
	if a.job == nil {
		return false
	}
	return slices.ContainsFunc(a.job.Loads, func(l LoadJob) bool { return l.Cell == c.Cell && l.ContentKey == c.ContentKey })
}

// recordOf makes the record of a cell from what an attempt left.
func (n *Night) recordOf(c PlannedCell, a attemptFolder, ending Ending) Record {
	r := n.blankRecord(c, ending)
	r.Attempt, r.Dir = a.attempt, a.dir
	if a.job != nil && a.job.Host != "" {
		r.Host = a.job.Host // another one where the planned host had failed
	}
	launch := a.launch
	if launch == nil {
		launch = a.ready
	}
	if launch != nil {
		r.GPU, r.GPUCount, r.EngineVersion = launch.GPU, launch.GPUCount, launch.EngineVersion
		r.Attached, r.Effective = launch.Attached, launch.Effective
		if r.Command == "" {
			r.Command = ShellLine(launch.Argv)
		}
		maps.Copy(r.Values, launch.Facts)
		maps.Copy(r.Values, launch.Times)
		r.Notes = append(r.Notes, launch.Notes...)
		r.StartedAt, r.EndedAt = launch.StartedAt, launch.EndedAt
	}
	if run := a.runs[c.Cell]; run != nil {
		maps.Copy(r.Values, run.Values)
		if run.WindowSeconds > 0 {
			r.Values["window_s"] = run.WindowSeconds
		}
		r.Steady, r.Failures = run.Steady, run.Failures
		r.Verdict, r.VerdictWhy, r.Client, r.Stamps = run.Verdict, run.VerdictWhy, run.Client, run.Stamps
		for _, note := range run.Notes {
			if !slices.Contains(r.Notes, note) {
				r.Notes = append(r.Notes, note)
			}
		}
		r.StartedAt, r.EndedAt = run.StartedAt, run.EndedAt
	}
	return r
}

// blankRecord is the record of a cell of which nothing is known but how it ended.
func (n *Night) blankRecord(c PlannedCell, ending Ending) Record {
	r := Record{
		Night: n.Manifest.Night, Cell: c.Cell, ContentKey: c.ContentKey, Role: c.Role, Config: c.Config, Load: c.Load,
		Repeat: c.Repeat, Host: c.Host, Engine: n.Manifest.Engine, Model: n.Manifest.Model, Ending: ending, Values: Values{},
	}
	for _, config := range n.Manifest.Configs {
		if config.Key == c.Config {
			r.Axes, r.Baseline, r.Unacceptable = config.Axes, config.Baseline, config.Unacceptable
			r.Command = n.command(config)
		}
	}
	return r
}

// command is a config's command line for a person: with the usual port and the model's own name instead of
// those that kept one launch apart from all others. "" when the engine is not known.
func (n *Night) command(c Config) string {
	if n.engine == nil || n.engine.Argv == nil || n.Plan.Grid.Attach != "" {
		return ""
	}
	command := n.Plan.Grid.Command
	if len(command) == 0 {
		command = n.engine.Command
	}
	model := n.Plan.Grid.Model
	return ShellLine(n.Plan.Grid.Container.Line(n.Plan.Grid.Workdir, slices.Concat(command, n.engine.Argv(ServerSpec{
		Model: model, ServedName: path.Base(model), Host: "127.0.0.1", Port: UsualPort, Settings: c.Settings,
	}))))
}

// collect makes records of what the attempts of a launch left, for cells that have none, and returns
// them. since is the first attempt that this process asked for: of earlier ones, and of attempts that
// nobody ended (over), only what is final counts. Damaged files are logged and count as absent.
func (n *Night) collect(launch string, since int, over bool, log *slog.Logger) ([]Record, error) {
	var missing []PlannedCell
	for _, c := range n.Missing() {
		if c.Launch == launch {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	numbers, err := n.attempts(launch)
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, number := range slices.Backward(numbers) {
		a, err := n.readAttempt(launch, number)
		if errors.Is(err, errDamaged) {
			log.Warn("files of an attempt cannot be read; cells that need them run again", "err", err)
		} else if err != nil {
			return records, err
		}
		for _, c := range missing {
			ending, ok := a.ending(c.Cell, over)
			if !ok || !a.asked(c) || !ending.Outcome.Final() && (number < since || a.launch == nil) {
				continue
			}
			r := n.recordOf(c, a, ending)
			wrote, err := n.record(r)
			if err != nil {
				return records, err
			}
			if wrote {
				records = append(records, r)
			}
		}
	}
	return records, nil
}
