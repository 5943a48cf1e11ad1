//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sweep/report"
	"sweep/sweep"
	"sweep/sweep/proc"
)

// night is what a night left, as far as it must not depend on how often it was killed.
type night struct {
	took   time.Duration
	cells  []string // "CELL repeat 1 measured"
	report []string // one line for each cell of the report, with the facts that do not waver
}

// read reads the bed's night and its report.
func (b *bed) read() (night, error) {
	var n night
	dir := b.night()
	if dir == "" {
		return n, errors.New("there is no night")
	}
	data, err := os.ReadFile(filepath.Join(dir, "cells.jsonl"))
	if err != nil {
		return n, err
	}
	for line := range bytes.Lines(data) { // each line counts: a cell that stands there twice is wrong
		var r sweep.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return n, fmt.Errorf("cells.jsonl: %w: %s", err, line)
		}
		n.cells = append(n.cells, fmt.Sprintf("%s repeat %d %s", r.Cell, r.Repeat, word(r.Outcome)))
	}
	slices.Sort(n.cells)
	n.report, err = reportOf(dir)
	return n, err
}

// word is an outcome; a measurement that was withheld because this machine was busy counts as measured.
func word(o sweep.Outcome) string {
	if o == sweep.OK || o == sweep.ClientBound {
		return "measured"
	}
	return string(o)
}

// steadyFacts are the values of a report that no load on this machine changes.
var steadyFacts = []string{"kv_tokens", "weights_gib"}

// reportOf is what "sweep report --format json" says of each cell.
func reportOf(dir string) ([]string, error) {
	n, err := report.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var out bytes.Buffer
	if err := report.WriteJSON(&out, report.Summarize(n)); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var r struct {
		Recorded, Asked, Repeats int
		Workloads                []struct {
			Workload, Baseline string
			Configs            []struct {
				Config string
				Loads  []struct {
					Load     string
					Repeats  int
					Outcomes map[sweep.Outcome]int
					Medians  map[string]float64
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	lines := []string{fmt.Sprintf("%d of %d, %d repeats", r.Recorded, r.Asked, r.Repeats)}
	for _, w := range r.Workloads {
		for _, c := range w.Configs {
			for _, l := range c.Loads {
				var line strings.Builder
				fmt.Fprintf(&line, "%s (base %s): %s %s ×%d:", w.Workload, w.Baseline, c.Config, l.Load, l.Repeats)
				for o, n := range l.Outcomes {
					fmt.Fprintf(&line, " %s %d", word(o), n)
				}
				for _, name := range steadyFacts {
					if v, ok := l.Medians[name]; ok {
						fmt.Fprintf(&line, " %s=%g", name, v)
					}
				}
				lines = append(lines, line.String())
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// wrong lists all in which a night differs from the undisturbed one, and all that it left behind.
func (b *bed) wrong(got, want night) []string {
	var wrong []string
	if !slices.Equal(got.cells, want.cells) {
		wrong = append(wrong, fmt.Sprintf("cells\n  %s\n want\n  %s", strings.Join(got.cells, "\n  "), strings.Join(want.cells, "\n  ")))
	}
	if !slices.Equal(got.report, want.report) {
		wrong = append(wrong, fmt.Sprintf("report\n  %s\n want\n  %s", strings.Join(got.report, "\n  "), strings.Join(want.report, "\n  ")))
	}
	wrong = append(wrong, b.journal()...)
	wrong = append(wrong, b.faults()...)
	wrong = append(wrong, b.committed()...)
	_, left := b.processes()
	for end := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, left = b.processes() // a supervisor leaves a moment after it has reported
	}
	wrong = append(wrong, left...)
	wrong = append(wrong, b.openPorts()...)
	if b.daemon != nil && len(b.daemon.Containers()) > 0 {
		wrong = append(wrong, fmt.Sprintf("containers are left: %v", b.daemon.Containers()))
	}
	return append(wrong, b.leftFiles()...)
}

// faults is what sweep fsck finds in the night.
func (b *bed) faults() []string {
	faults, err := sweep.Fsck(b.night(), false)
	if err != nil {
		return []string{"fsck: " + err.Error()}
	}
	var wrong []string
	for _, f := range faults {
		wrong = append(wrong, "fsck: "+f.String())
	}
	return wrong
}

// journal checks that the journal is whole and that each cell's last word in it is one record.
func (b *bed) journal() []string {
	data, err := os.ReadFile(filepath.Join(b.night(), "journal.jsonl"))
	if err != nil {
		return []string{err.Error()}
	}
	entries, good, err := sweep.ReadJournal(data)
	if err != nil || good != len(data) {
		return []string{fmt.Sprintf("journal: %d of %d bytes are good: %v", good, len(data), err)}
	}
	if last := entries[len(entries)-1]; last.Kind != sweep.JournalEnd {
		return []string{"journal: its last entry is " + string(last.Kind)}
	}
	return nil
}

// committed checks that no cell was measured twice: of each content key one committed folder at most.
func (b *bed) committed() []string {
	var wrong []string
	seen := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(b.night(), "launches", "*", "*", "attempt=*", "load=*", "run.json"))
	for _, file := range files {
		var r sweep.LoadResult
		data, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(data, &r) != nil {
			wrong = append(wrong, file+" cannot be read")
			continue
		}
		if r.Outcome == sweep.OK && seen[r.ContentKey] != "" {
			wrong = append(wrong, fmt.Sprintf("%s was measured twice: %s and %s", r.Cell, seen[r.ContentKey], file))
		}
		if r.Outcome == sweep.OK {
			seen[r.ContentKey] = file
		}
	}
	return wrong
}

var portFlag = regexp.MustCompile(`--port '?(\d+)`)

// openPorts lists the ports of the night on which something of it still listens; another night may have taken them by now.
func (b *bed) openPorts() []string {
	var wrong []string
	var ours []int
	found, _ := b.processes()
	for _, id := range found {
		ours = append(ours, id.PID)
	}
	files, _ := filepath.Glob(filepath.Join(b.night(), "launches", "*", "*", "attempt=*", "command.sh"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		m := portFlag.FindSubmatch(data)
		if m == nil {
			continue
		}
		port, err := strconv.Atoi(string(m[1]))
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if left, _, err := proc.Listening(port, ours); left || err != nil {
			wrong = append(wrong, fmt.Sprintf("port %d is left open: %v", port, err))
		}
	}
	return wrong
}

// leftFiles lists half-written files and folders, locks that are held, and temporary files.
func (b *bed) leftFiles() []string {
	var wrong []string
	if left, err := os.ReadDir(filepath.Join(b.dir, "tmp")); err != nil || len(left) > 0 {
		wrong = append(wrong, fmt.Sprintf("temporary files: %v, %v", left, err))
	}
	err := filepath.WalkDir(b.night(), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(d.Name(), ".part"), d.Name() == "ballast":
			wrong = append(wrong, path+" is left")
		case d.Name() == "lock":
			wrong = append(wrong, held(path)...)
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	folders, _ := filepath.Glob(filepath.Join(b.dir, "results", "*"))
	for _, folder := range folders { // one that is empty goes away when it is a minute old
		if files, _ := os.ReadDir(folder); folder != b.night() && len(files) > 0 {
			wrong = append(wrong, folder+" is left")
		}
	}
	shm, _ := filepath.Glob("/dev/shm/*")
	for _, path := range shm {
		if strings.Contains(path, filepath.Base(b.night())) {
			wrong = append(wrong, path+" is left")
		}
	}
	return append(wrong, b.controlGroups()...)
}

var groupPath = regexp.MustCompile(`"(/sys/fs/cgroup/[^"]+)"`)

// controlGroups lists the control groups that the night's owner files name and that are still there.
func (b *bed) controlGroups() []string {
	var wrong []string
	owners, _ := filepath.Glob(filepath.Join(b.night(), "launches", "*", "*", "attempt=*", "owner.json"))
	for _, file := range owners {
		data, _ := os.ReadFile(file)
		for _, m := range groupPath.FindAllSubmatch(data, -1) {
			if _, err := os.Stat(string(m[1])); err == nil {
				wrong = append(wrong, fmt.Sprintf("control group %s is left", m[1]))
			}
		}
	}
	return wrong
}

// held says when somebody has the lock on a file.
func held(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return []string{fmt.Sprintf("the lock %s is held: %v", path, err)}
	}
	return nil
}
