package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// The files of a night that a report reads.
const (
	CellsFile    = "cells.jsonl"
	ManifestFile = "manifest.json"
	GridFile     = "grid.yaml"
)

// Night is what a report knows of one night.
type Night struct {
	Dir  string // the night's folder
	Name string // its last element

	// Records of role measure, one for each cell and repeat, in the order of cells.jsonl. Where a cell
	// was recorded more than once in a repeat (a resumed night), the last line counts.
	Records []sweep.Record
	Drift   []sweep.Record // the baseline once more at the end of each repeat

	Configs   []sweep.Config   // as planned, baseline first; without a plan in order of appearance
	Loads     []sweep.Load     // as planned; without a plan by workload and level
	Workloads []sweep.Workload // as planned; empty without a plan
	Axes      []string         // server axes in the order of the grid, and settings of included configs
	Repeats   int              // as planned; without a plan the highest that was recorded
	Asked     int              // records of role measure that the night is to have; without a plan configs × loads × repeats
	Planned   bool             // the night's plan was read, so what has not run yet is known

	Price      float64 // of one host with its devices, in dollars an hour; 0: not known
	AcceptEdge bool    // a config that died at a higher load may be named best
	Version    string  // of the sweep that ran it
	Hosts      []sweep.HostSpec

	// Confirmation is what became of the night's candidates when they were measured again; nil: they were not.
	Confirmation *Confirmation

	// Runs is what is known of the steady state of each measured run.
	Runs map[RunID]Steadiness

	Problems []string // what could not be read, each one sentence

	order map[RunID]int // of the records in cells.jsonl
	index nightIndex
}

// RunID names one record of a night.
type RunID struct {
	Cell   string
	Repeat int
}

// manifest is the part of manifest.json that a report uses; each key may be absent.
type manifest struct {
	Version   string           `json:"version"`
	Hosts     []sweep.HostSpec `json:"hosts"`
	Price     float64          `json:"price_per_hour"`
	Edge      bool             `json:"accept_edge"`
	Configs   []sweep.Config   `json:"configs"`
	Loads     []sweep.Load     `json:"loads"`
	Workloads []sweep.Workload `json:"workloads"`
	Repeats   int              `json:"repeats"`
	Cells     []struct {
		Cell       string     `json:"cell"`
		Repeat     int        `json:"repeat"`
		ContentKey string     `json:"content_key"`
		Role       sweep.Role `json:"role"`
	} `json:"cells"`
}

// Find returns the night that path means: path itself, or the newest night in it when it is a folder
// of nights. newest is true in the second case.
func Find(path string) (dir string, newest bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, fmt.Errorf("report: there is no folder %s", path)
	case err != nil:
		return "", false, fmt.Errorf("report: %w", err)
	case !info.IsDir():
		return "", false, fmt.Errorf("report: %s is a file; a night is a folder with %s in it", path, CellsFile)
	case isNight(path):
		return path, false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false, fmt.Errorf("report: %w", err)
	}
	var best string
	var when time.Time
	for _, e := range entries {
		p := filepath.Join(path, e.Name())
		if !e.IsDir() || !isNight(p) {
			continue
		}
		if t := nightTime(p); best == "" || t.After(when) || t.Equal(when) && p > best {
			best, when = p, t
		}
	}
	if best == "" {
		return "", false, fmt.Errorf("report: %s is neither a night (a folder with %s) nor a folder of nights", path, CellsFile)
	}
	return best, true, nil
}

// isNight: a night that was only just begun has a plan and no records yet.
func isNight(dir string) bool {
	for _, name := range []string{CellsFile, ManifestFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// nightTime is the time in a night's name ("demo-20261129T180000Z"), else that of its last change.
func nightTime(dir string) time.Time {
	name := filepath.Base(dir)
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if t, err := time.Parse("20060102T150405Z", name[i+1:]); err == nil {
			return t
		}
	}
	if info, err := os.Stat(filepath.Join(dir, CellsFile)); err == nil {
		return info.ModTime()
	}
	if info, err := os.Stat(dir); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// Read reads the night in dir, finished or not. Lines that cannot be read are left out and named in
// Problems; only a folder that is no night is an error.
func Read(dir string) (*Night, error) {
	if !isNight(dir) {
		return nil, fmt.Errorf("report: %s is no night: it has neither %s nor %s", dir, CellsFile, ManifestFile)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	n := &Night{Dir: dir, Name: filepath.Base(abs)}
	data, err := os.ReadFile(filepath.Join(dir, CellsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("report: %w", err)
	}
	n.take(n.planned(n.parse(data)))
	n.readRuns()
	n.Confirmation = n.readConfirmation()
	return n, nil
}

// parse reads the lines of cells.jsonl.
func (n *Night) parse(data []byte) []sweep.Record {
	var records []sweep.Record
	for number := 1; len(data) > 0; number++ {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r sweep.Record
		err := json.Unmarshal(line, &r)
		if err == nil && (r.Cell == "" || r.Config == "" || r.Load.Workload == "") {
			err = errors.New("it has no cell, config or workload")
		}
		switch {
		case err == nil:
			records = append(records, r)
		case !ended:
			n.problem("%s: the last line (%d) is cut short, as when its writer was killed; it is left out", CellsFile, number)
		default:
			n.problem("%s:%d: not a record, left out: %v", CellsFile, number, err)
		}
	}
	return records
}

func (n *Night) problem(format string, args ...any) {
	n.Problems = append(n.Problems, sweep.Printable(fmt.Sprintf(format, args...)))
}

// planned reads the night's plan and returns the records that belong to it: a night resumed with a changed
// grid may hold others.
func (n *Night) planned(records []sweep.Record) []sweep.Record {
	data, err := os.ReadFile(filepath.Join(n.Dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return records
	}
	var m manifest
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		n.problem("%s: %v; what has not run yet is not known", ManifestFile, err)
		return records
	}
	n.Configs, n.Loads, n.Workloads, n.Repeats = m.Configs, m.Loads, m.Workloads, m.Repeats
	n.Price, n.AcceptEdge, n.Version, n.Hosts = m.Price, m.Edge, m.Version, m.Hosts
	n.Planned = len(m.Configs) > 0 && len(m.Loads) > 0
	if len(m.Cells) == 0 {
		return records
	}
	keys := map[RunID]string{}
	for _, c := range m.Cells {
		keys[RunID{c.Cell, c.Repeat}] = c.ContentKey
		if c.Role != sweep.RoleDrift {
			n.Asked++
		}
	}
	all := len(records)
	records = slices.DeleteFunc(records, func(r sweep.Record) bool {
		key, ok := keys[RunID{r.Cell, r.Repeat}]
		return !ok || key != "" && r.ContentKey != "" && key != r.ContentKey
	})
	if left := all - len(records); left > 0 {
		n.problem("%s of %s: made before the grid was changed, left out", plural(left, "record"), CellsFile)
	}
	return records
}

// take sorts the records into the night and completes the plan with what they show.
func (n *Night) take(records []sweep.Record) {
	at := map[RunID]int{}
	var kept []sweep.Record
	for _, r := range records {
		k := RunID{r.Cell, r.Repeat}
		if i, ok := at[k]; ok {
			kept[i] = r
			continue
		}
		at[k] = len(kept)
		kept = append(kept, r)
	}
	n.order = map[RunID]int{}
	for i, r := range kept {
		n.order[RunID{r.Cell, r.Repeat}] = i
		if n.Price > 0 && r.Values != nil {
			r.Values["price_per_hour"] = n.Price
		}
		if r.Role == sweep.RoleDrift {
			n.Drift = append(n.Drift, r)
		} else {
			n.Records = append(n.Records, r)
		}
	}
	n.addMissing()
	if n.Asked == 0 {
		n.Asked = len(n.Configs) * len(n.Loads) * n.Repeats
	}
	for _, c := range n.Configs {
		for _, p := range c.Axes {
			if !slices.Contains(n.Axes, p.Name) {
				n.Axes = append(n.Axes, p.Name)
			}
		}
	}
}

// addMissing adds the configs and loads that only the records know.
func (n *Night) addMissing() {
	configs, loads := map[string]bool{}, map[string]bool{}
	for _, c := range n.Configs {
		configs[c.Key] = true
	}
	for _, l := range n.Loads {
		loads[l.String()] = true
	}
	for _, r := range n.Records {
		if !configs[r.Config] {
			configs[r.Config] = true
			c := sweep.Config{Key: r.Config, Axes: r.Axes, Baseline: r.Baseline, Unacceptable: r.Unacceptable}
			if r.Config != r.Axes.String() {
				c.Label = r.Config
			}
			n.Configs = append(n.Configs, c)
		}
		if !loads[r.Load.String()] {
			loads[r.Load.String()] = true
			n.Loads = append(n.Loads, r.Load)
		}
		n.Repeats = max(n.Repeats, r.Repeat)
	}
	n.Repeats = max(n.Repeats, 1)
	if !n.Planned {
		slices.SortStableFunc(n.Configs, func(a, b sweep.Config) int { return before(a.Baseline, b.Baseline) })
	}
	order := map[string]int{}
	for i, l := range n.Loads {
		if _, ok := order[l.Workload]; !ok {
			order[l.Workload] = i
		}
	}
	slices.SortStableFunc(n.Loads, func(a, b sweep.Load) int {
		if d := order[a.Workload] - order[b.Workload]; d != 0 {
			return d
		}
		return cmp.Compare(a.Level(), b.Level())
	})
}

// SetPrice says what one host costs in an hour, in dollars.
func (n *Night) SetPrice(perHour float64) {
	n.Price = perHour
	for _, r := range n.Records {
		if r.Values != nil {
			r.Values["price_per_hour"] = perHour
		}
	}
}

// before orders true before false.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
