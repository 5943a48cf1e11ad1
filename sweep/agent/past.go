package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep/failpoint"
	"sweep/sweep"
	"sweep/sweep/proc"
)

// past is what the disk knows of a job's earlier attempts.
type past struct {
	history   []sweep.LaunchResult // of this job, in order
	orphans   []int                // attempts of this job that nobody ended
	committed map[string]bool      // content keys that are measured
	runs      map[int][]sweep.LoadResult
	highest   int
	told      sweep.LaunchResult // of the latest attempt whose server said what it holds; zero: none did
}

// next takes the number of the next attempt.
func (p *past) next(first int) int {
	p.highest = max(p.highest+1, first, 1)
	return p.highest
}

func (p *past) add(r sweep.LaunchResult) {
	p.history = append(p.history, r)
	slices.SortFunc(p.history, func(a, b sweep.LaunchResult) int { return a.Attempt - b.Attempt })
}

// readPast reads the attempts of a launch. Those before the job's first attempt belong to an earlier
// submission: of them only measured loads count.
func readPast(out string, job sweep.Job) (*past, error) {
	p := &past{committed: map[string]bool{}, runs: map[int][]sweep.LoadResult{}}
	base := filepath.Join(out, filepath.FromSlash(filepath.Dir(job.Dir(1))))
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), "attempt=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 1 {
			continue
		}
		if err := p.read(filepath.Join(base, e.Name()), n, n >= job.Attempt); err != nil {
			return nil, err
		}
	}
	slices.Sort(p.orphans)
	return p, nil
}

func (p *past) read(dir string, n int, own bool) error {
	p.highest = max(p.highest, n)
	runs, err := readRuns(dir)
	if err != nil {
		return err
	}
	p.runs[n] = runs
	for _, r := range runs {
		if r.Outcome == sweep.OK {
			p.committed[r.ContentKey] = true
		}
	}
	for _, name := range []string{"launch.json", sweep.ReadyFile} {
		var r sweep.LaunchResult
		if err := readJSON(filepath.Join(dir, name), &r); err == nil && len(r.Facts) > 0 {
			if n > p.told.Attempt {
				p.told, p.told.Attempt = r, n
			}
			break
		}
	}
	if !own {
		return nil
	}
	var r sweep.LaunchResult
	switch err := readJSON(filepath.Join(dir, "launch.json"), &r); {
	case err == nil:
		p.add(r)
	case errors.Is(err, fs.ErrNotExist):
		p.orphans = append(p.orphans, n)
	default:
		return err
	}
	return nil
}

// readRuns reads the committed loads of an attempt.
func readRuns(dir string) ([]sweep.LoadResult, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var runs []sweep.LoadResult
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "load=") || strings.HasSuffix(e.Name(), partSuffix) {
			continue
		}
		var r sweep.LoadResult
		if err := readJSON(filepath.Join(dir, e.Name(), "run.json"), &r); err != nil || r.ContentKey == "" {
			continue // damaged: the load is measured again, in another attempt
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// adopt ends an attempt whose agent is gone: what is left of its server is ended, half-written loads are
// taken away, and launch.json says what was committed.
func adopt(out string, job sweep.Job, n int, p *past) (sweep.LaunchResult, error) {
	rel := job.Dir(n)
	dir := filepath.Join(out, filepath.FromSlash(rel))
	if _, err := proc.Reclaim(filepath.Join(dir, "owner.json"), 5*time.Second); err != nil && !errors.Is(err, proc.ErrDamaged) {
		return sweep.LaunchResult{}, fmt.Errorf("%s: what is left of its server cannot be ended: %w", rel, err)
	}
	if _, err := removeSharedOf(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return sweep.LaunchResult{}, fmt.Errorf("%s: what is left of its shared memory cannot be removed: %w", rel, err)
	}
	parts, err := filepath.Glob(filepath.Join(escapeGlob(dir), "load=*"+partSuffix))
	if err != nil {
		return sweep.LaunchResult{}, err
	}
	for _, part := range parts {
		if err := os.RemoveAll(part); err != nil {
			return sweep.LaunchResult{}, err
		}
	}
	r := sweep.LaunchResult{Schema: sweep.Schema, Job: job.ID, Role: job.Role, Config: job.Config.Key, Repeat: job.Repeat, Host: job.Host}
	var ready sweep.LaunchResult
	if err := readJSON(filepath.Join(dir, sweep.ReadyFile), &ready); err == nil {
		r = ready
	}
	var asked sweep.Job // not a copy of job, whose loads it would share
	if err := readJSON(filepath.Join(dir, "job.json"), &asked); err != nil {
		asked = job
		asked.Loads = next(job, p.history, nil)
	}
	r.Attempt, r.EndedAt = n, time.Now()
	r.Ending = sweep.Ending{Outcome: sweep.InfraLost, Detail: "the agent was gone before this launch ended"}
	var ends []loadEnd
	for _, lj := range asked.Loads {
		end := loadEnd{job: lj}
		for _, run := range p.runs[n] {
			if run.ContentKey == lj.ContentKey {
				end.ending, end.dir = run.Ending, lj.Dir()
			}
		}
		ends = append(ends, end)
	}
	r.Loads = settle(job, p.history, ends)
	failpoint.Hit("attempt.adopted")
	return r, writeJSON(filepath.Join(dir, "launch.json"), r)
}

var globSpecial = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapeGlob(s string) string { return globSpecial.Replace(s) }

// warmed remembers which engine versions have run on this host: their kernels are compiled.
type warmed struct {
	path string
	mu   sync.Mutex
	keys map[string]bool
}

func readWarmed(path string) (*warmed, error) {
	w := &warmed{path: path, keys: map[string]bool{}}
	err := readJSON(path, &w.keys)
	if disk := (*fs.PathError)(nil); errors.As(err, &disk) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || w.keys == nil { // missing or damaged: what is forgotten costs a longer warm-up, no more
		w.keys = map[string]bool{}
	}
	return w, nil
}

func (w *warmed) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[key]
}

func (w *warmed) add(key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[key] {
		return nil
	}
	w.keys[key] = true
	return writeJSON(w.path, w.keys)
}
