package sweep

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sweep/failpoint"
)

// The files of a night.
const (
	gridFile     = "grid.yaml"
	manifestFile = "manifest.json"
	journalFile  = "journal.jsonl"
	cellsFile    = "cells.jsonl"
	lockFile     = "lock"
)

// Night is one run of a grid, in one folder. The process that holds its lock is the only one that writes it.
type Night struct {
	Dir      string
	Manifest Manifest
	Plan     *Plan
	// Earlier gives the launches of earlier nights that a job's forecast can use; nil: there are none.
	Earlier func(Job) []Sighting
	// Deadline is when this run of the night has to end; zero: nothing bounds it. [Runner.Run] sets it.
	Deadline time.Time
	// Recovered names files that hold what a crash had left half written, or what was damaged from outside.
	Recovered []string

	engine  *Engine           // nil: its own command is not known
	handed  map[string]string // launch → host that it was last handed to, by processes before this one
	lock    *os.File
	journal *Journal
	ballast *ballast

	mu      sync.Mutex // guards what follows, and the order of journal and cells
	full    error      // set when the disk was full and the ballast has been used up
	cells   *lineFile
	records []Record
	have    map[cellID]int // index in records
	planned map[cellID]PlannedCell
}

// NightOptions say what a new night is to do.
type NightOptions struct {
	Root    string // folder of all nights: "results"
	Plan    *Plan
	Engine  *Engine
	Version string // of sweep
	// Override: the plan's repeats were asked for on the command line, so that a resume asks for as many.
	Override bool
	Imply    bool // a load that dies on memory implies the higher levels of its workload
	// SkipHeadroomGiB: skip launches whose forecast leaves less headroom, the baseline apart. nil: skip none.
	SkipHeadroomGiB *float64
	NoFlagCheck     bool      // do not hold flags against the server's own help
	Now             time.Time // start of the night
}

// CreateNight makes the folder of a new night: ROOT/NAME-20261129T180000Z. When it fails, nothing is left of it.
func CreateNight(o NightOptions) (n *Night, err error) {
	if err := os.MkdirAll(o.Root, 0o755); err != nil {
		return nil, fmt.Errorf("results directory: %w", err)
	}
	removeStumps(o.Root, time.Now())
	dir, err := makeNightDir(o.Root, o.Plan.Grid.Name+"-"+o.Now.UTC().Format("20060102T150405Z"))
	if err != nil {
		return nil, fmt.Errorf("results directory: %w", err)
	}
	failpoint.Hit("night.folder")
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close(), os.RemoveAll(dir))
			n = nil
		}
	}()
	n = &Night{Dir: dir, Plan: o.Plan, engine: o.Engine, Manifest: newManifest(o.Plan, o.Engine)}
	n.Manifest.Night, n.Manifest.Version, n.Manifest.Created = filepath.Base(dir), o.Version, o.Now
	n.Manifest.Override, n.Manifest.Imply = o.Override, o.Imply
	n.Manifest.SkipHeadroomGiB, n.Manifest.NoFlagCheck = o.SkipHeadroomGiB, o.NoFlagCheck
	if n.Manifest.Grid, err = filepath.Abs(o.Plan.Grid.Path); err != nil {
		return n, err
	}
	if err := n.takeLock(); err != nil {
		return n, err
	}
	failpoint.Hit("night.locked")
	if err := WriteFile(filepath.Join(dir, gridFile), o.Plan.Grid.Source, 0o644); err != nil {
		return n, err
	}
	if err := n.keepFiles(o.Plan.Grid); err != nil {
		return n, err
	}
	if err := n.Manifest.write(dir); err != nil {
		return n, err
	}
	if err := n.openFiles(); err != nil {
		return n, err
	}
	failpoint.Hit("night.made")
	return n, SyncDir(o.Root)
}

// makeNightDir makes a folder of that name, with a number behind it when the name is taken.
func makeNightDir(root, name string) (string, error) {
	for i := 1; ; i++ {
		dir := filepath.Join(root, name)
		if i > 1 {
			dir = fmt.Sprintf("%s-%d", dir, i)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil || !errors.Is(err, os.ErrExist) || i == 100 {
			return dir, err
		}
	}
}

// OpenNight takes an existing night to go on with it. Its plan is for the caller to set with
// [Night.Use], from the grid at [Night.GridPath], or with [Night.Replace].
func OpenNight(dir string) (n *Night, err error) {
	n = &Night{Dir: filepath.Clean(dir)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	if n.Manifest, err = ReadManifest(dir); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s is no night: it has no %s", dir, manifestFile)
		}
		return n, err
	}
	if err := n.takeLock(); err != nil {
		return n, err
	}
	return n, n.openFiles()
}

// Owner is who holds a night's lock.
type Owner struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Start time.Time `json:"start"` // when it took the lock
}

// ErrNightBusy says that another process has the night's lock.
var ErrNightBusy = errors.New("the night is in use")

func (n *Night) takeLock() error {
	f, err := os.OpenFile(filepath.Join(n.Dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	n.lock = f
	ok, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if !ok {
		var o Owner
		data, _ := io.ReadAll(f)
		if json.Unmarshal(data, &o) != nil {
			return fmt.Errorf("%s: %w by another process", n.Dir, ErrNightBusy)
		}
		return fmt.Errorf("%s: %w by process %d on %s since %s", n.Dir, ErrNightBusy, o.PID, o.Host, o.Start.Format(time.DateTime))
	}
	host, _ := os.Hostname()
	data, err := json.Marshal(Owner{PID: os.Getpid(), Host: host, Start: time.Now().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

func (n *Night) openFiles() (err error) {
	var aside string
	var entries []JournalEntry
	if n.journal, entries, aside, err = OpenJournal(filepath.Join(n.Dir, journalFile)); err != nil {
		return err
	}
	n.noteAside(aside)
	n.handed = handedTo(entries)
	if err := n.openCells(recordSums(entries)); err != nil {
		return err
	}
	n.ballast = loadBallast(n.Dir)
	return nil
}

func (n *Night) setRecords(records []Record) {
	n.records, n.have = nil, map[cellID]int{}
	for i, r := range records {
		n.records = append(n.records, r.bare())
		n.have[cellID{r.Cell, r.Repeat}] = i
	}
}

// bare is the record with what the night itself asks of it.
func (r Record) bare() Record {
	r.Axes, r.Values, r.Failures, r.Notes = nil, nil, nil, nil
	r.Command, r.Evidence, r.Exit, r.Steady = "", nil, nil, nil
	return r
}

func (n *Night) setPlanned() {
	n.planned = map[cellID]PlannedCell{}
	for _, c := range n.Manifest.Cells {
		n.planned[c.id()] = c
	}
}

// GridPath is the night's own copy of its grid.
func (n *Night) GridPath() string { return filepath.Join(n.Dir, gridFile) }

// Records returns the records so far, in the order in which they came, without what only a report needs: their values,
// notes and evidence are in cells.jsonl, and a night of many cells must not keep them all in memory.
func (n *Night) Records() []Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Record(nil), n.records...)
}

// Missing lists the planned cells without a record, in the order of the plan.
func (n *Night) Missing() []PlannedCell {
	n.mu.Lock()
	defer n.mu.Unlock()
	var missing []PlannedCell
	for _, c := range n.Manifest.Cells {
		if _, ok := n.have[c.id()]; !ok {
			missing = append(missing, c)
		}
	}
	return missing
}

// record writes the record of a planned cell; it reports false when the cell has one already or is not planned.
func (n *Night) record(r Record) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := cellID{r.Cell, r.Repeat}
	if _, ok := n.have[id]; ok {
		return false, nil
	}
	if _, ok := n.planned[id]; !ok {
		return false, nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("record of %s: %w", r.Cell, err)
	}
	entry := JournalEntry{Kind: JournalRecord, Host: r.Host, Cell: r.Cell, Repeat: r.Repeat, Attempt: r.Attempt, Outcome: r.Outcome, Sum: lineSum(line)}
	if err := n.withBallast(func() error { return n.journal.Append(entry) }); err != nil {
		return false, err
	}
	line = append(line, '\n')
	if err := n.withBallast(func() error { return n.cells.appendLine(line) }); err != nil {
		return false, fmt.Errorf("record of %s: %w", r.Cell, err)
	}
	n.have[id] = len(n.records)
	n.records = append(n.records, r.bare())
	return true, nil
}

// Note writes an entry to the night's journal.
func (n *Night) Note(e JournalEntry) error {
	_, err := n.note(e)
	return err
}

// note writes an entry and returns its number.
func (n *Night) note(e JournalEntry) (seq int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	err = n.withBallast(func() error { return n.journal.Append(e) })
	return n.journal.seq, err
}

// outOfRoom is why the night cannot go on although all is written: its reserve on the disk is used up.
func (n *Night) outOfRoom() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.full
}

// Close gives the night's files and lock back.
func (n *Night) Close() error {
	if n == nil {
		return nil
	}
	var errs []error
	n.ballast.drop()
	if n.journal != nil {
		errs = append(errs, n.journal.Close())
	}
	if n.cells != nil {
		errs = append(errs, n.cells.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}

// Nights lists the folders below root that hold a night, the newest first.
func Nights(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	created := map[string]time.Time{}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if m, err := ReadManifest(dir); err == nil {
			created[dir] = m.Created
		}
	}
	return slices.SortedFunc(maps.Keys(created), func(a, b string) int {
		return cmp.Or(created[b].Compare(created[a]), cmp.Compare(b, a))
	}), nil
}

// NightOwner is who works on the night in dir now; nil: nobody does.
func NightOwner(dir string) (*Owner, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if free, err := tryLock(f); err != nil || free {
		return nil, err
	}
	var o Owner
	data, err := io.ReadAll(f)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil { // it has just taken the lock
		return &Owner{}, nil
	}
	return &o, nil
}
