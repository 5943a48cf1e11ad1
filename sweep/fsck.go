package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fault is one thing that is wrong in a night's folder.
type Fault struct {
	File string `json:"file"`           // relative to the night
	Line int    `json:"line,omitempty"` // from 1; 0: the file as a whole
	Text string `json:"text"`           // what is wrong, and what that means
	Fix  string `json:"fix"`            // what mends it, or has mended it
	// Fixed: a check with repair has mended it.
	Fixed bool `json:"fixed"`
	// Mends: a check with repair mends it.
	Mends bool `json:"mends"`
}

// String is the fault as a person reads it.
func (f Fault) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s: %s; %s", place, f.Text, f.Fix)
}

// checkup is one check of a night.
type checkup struct {
	dir    string
	repair bool
	faults []Fault
	open   map[string]bool // launches with a planned cell that has no record
}

// Fsck holds the files of the night in dir against each other. With repair it mends what can be mended without a guess:
// damaged lines are taken out, and the file as it was is kept beside it; what only they said is measured again by a
// resume, unless the folders of the launches still have it. With repair the night must not be in use.
func Fsck(dir string, repair bool) ([]Fault, error) {
	c := &checkup{dir: filepath.Clean(dir), repair: repair, open: map[string]bool{}}
	m, manifestErr := ReadManifest(dir)
	if errors.Is(manifestErr, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, journalFile)); err != nil {
			return nil, fmt.Errorf("%s is no night: it has no %s", dir, manifestFile)
		}
	}
	if repair {
		n := &Night{Dir: c.dir}
		defer func() { _ = n.Close() }() // a lock that is given back
		if err := n.takeLock(); err != nil {
			return nil, err
		}
	}
	if manifestErr != nil {
		c.add(Fault{File: manifestFile, Text: manifestErr.Error() + ", so that nobody knows what the night was to do", Fix: "its results can still be reported; run its grid anew for the rest"})
	}
	if _, err := os.Stat(filepath.Join(dir, gridFile)); err != nil {
		c.add(Fault{File: gridFile, Text: "the night's own copy of its grid is gone", Fix: "resume it with --grid and the file that it was made from"})
	}
	entries, err := c.journal()
	if err == nil {
		err = c.cells(m, entries)
	}
	if err == nil {
		err = c.attempts()
	}
	return c.faults, err
}

func (c *checkup) add(f Fault) { c.faults = append(c.faults, f) }

// journal checks journal.jsonl and returns its good entries.
func (c *checkup) journal() ([]JournalEntry, error) {
	path := filepath.Join(c.dir, journalFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		c.add(Fault{File: journalFile, Text: "it is gone", Fix: "a resume begins a new one; no result is lost with it"})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []JournalEntry
	number, damaged, at := 0, 0, len(c.faults)
	for line := range bytes.Lines(data) {
		number++
		e, err := parseJournalLine(line, 0)
		last := len(entries) == 0 || e.Seq == entries[len(entries)-1].Seq+1
		switch {
		case err == nil && last && (len(entries) > 0 || e.Seq == 1):
			entries = append(entries, e)
		case err == nil && len(entries) > 0 && e.Seq <= entries[len(entries)-1].Seq:
			damaged++
			c.add(Fault{File: journalFile, Line: number, Text: fmt.Sprintf("entry %d stands there again", e.Seq)})
		case err == nil:
			c.add(Fault{File: journalFile, Line: number, Text: fmt.Sprintf("entries are missing before number %d", e.Seq)})
			damaged++
			entries = append(entries, e)
		default:
			damaged++
			c.add(Fault{File: journalFile, Line: number, Text: err.Error()})
		}
	}
	if damaged == 0 {
		return entries, nil
	}
	fixed, fix := false, "the rest is kept and numbered anew with --repair"
	if c.repair {
		aside, err := repairJournal(path, data, entries, damaged)
		if err != nil {
			return nil, err
		}
		fixed, fix = true, "taken out; the file as it was is "+filepath.Base(aside)
	}
	for i := at; i < len(c.faults); i++ {
		c.faults[i].Mends, c.faults[i].Fixed, c.faults[i].Fix = true, fixed, fix
	}
	return entries, nil
}

// repairJournal writes a journal of the good entries, numbered anew, that says at its end what it has lost.
func repairJournal(path string, was []byte, entries []JournalEntry, damaged int) (aside string, err error) {
	if aside, err = keepAside(path, "damaged", was); err != nil {
		return "", err
	}
	fresh := filepath.Join(filepath.Dir(path), "."+journalFile+".repair")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	j, _, _, err := OpenJournal(fresh)
	if err != nil {
		return "", err
	}
	entries = append(slices.Clone(entries), JournalEntry{Kind: JournalRepair, Text: fmt.Sprintf("%d lines were damaged, twice or missing; as it was: %s", damaged, filepath.Base(aside))})
	for _, e := range entries {
		if err := j.Append(e); err != nil {
			return "", errors.Join(err, j.Close(), os.Remove(fresh))
		}
	}
	if err := errors.Join(j.Close(), os.Rename(fresh, path)); err != nil {
		return "", err
	}
	return aside, SyncDir(filepath.Dir(path))
}

// cells checks cells.jsonl, and holds it against the manifest and the journal.
func (c *checkup) cells(m Manifest, entries []JournalEntry) error {
	path := filepath.Join(c.dir, cellsFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	read := readRecords(data).announced(recordSums(entries))
	c.recordLines(data, recordSums(entries))
	if (len(read.lines) < read.whole || len(read.torn) > 0) && c.repair {
		aside, err := keepAside(path, "damaged", data)
		if err == nil {
			err = WriteFile(path, bytes.Join(read.lines, nil), 0o644)
		}
		if err != nil {
			return err
		}
		for i := range c.faults {
			if f := &c.faults[i]; f.File == cellsFile {
				f.Fixed, f.Fix = true, "taken out; the file as it was is "+filepath.Base(aside)
			}
		}
	}
	announced := map[cellID]bool{}
	for _, e := range entries {
		switch e.Kind {
		case JournalRecord:
			announced[cellID{e.Cell, e.Repeat}] = true
		case JournalRetire:
			delete(announced, cellID{e.Cell, e.Repeat})
		}
	}
	planned := map[cellID]bool{}
	for _, p := range m.Cells {
		planned[p.id()] = true
	}
	for _, r := range read.records {
		id := cellID{r.Cell, r.Repeat}
		if len(planned) > 0 && !planned[id] {
			c.add(Fault{File: cellsFile, Text: fmt.Sprintf("%s, repeat %d, has a record and is not planned", r.Cell, r.Repeat), Fix: "a report shows it; take the line out if it should not"})
		}
		delete(announced, id)
	}
	have := map[cellID]bool{}
	for _, r := range read.records {
		have[cellID{r.Cell, r.Repeat}] = true
	}
	for _, p := range m.Cells {
		if !have[p.id()] {
			c.open[p.Launch] = true
		}
	}
	for _, e := range entries {
		if id := (cellID{e.Cell, e.Repeat}); e.Kind == JournalRecord && announced[id] {
			delete(announced, id)
			c.add(Fault{File: cellsFile, Text: fmt.Sprintf("the record of %s, repeat %d, was announced and is not there", e.Cell, e.Repeat), Fix: "a resume finds it in the folder of its launch, or measures it again"})
		}
	}
	return nil
}

// recordLines names the lines of cells.jsonl that are no records, or stand there twice.
func (c *checkup) recordLines(data []byte, sums map[cellID]string) {
	const fix = "taken out with --repair, as a resume does; its cell is found in its launch's folder or runs again"
	number := 0
	seen := map[cellID]int{}
	for line := range bytes.Lines(data) {
		number++
		var r Record
		text := ""
		err := json.Unmarshal(line, &r)
		id := cellID{r.Cell, r.Repeat}
		sum, known := sums[id]
		switch {
		case line[len(line)-1] != '\n':
			text = "the last line has no end, as a crash leaves it"
		case err != nil:
			text = "it is no record: " + err.Error()
		case r.Cell == "" || r.Outcome == "":
			text = "it is no record: it has no cell or outcome"
		case len(sums) > 0 && !known:
			text = fmt.Sprintf("the journal knows of no record of %s, repeat %d", r.Cell, r.Repeat)
		case sum != "" && sum != lineSum(line):
			text = fmt.Sprintf("the record of %s, repeat %d, is not the one that was announced: its checksum differs", r.Cell, r.Repeat)
		case seen[id] > 0:
			text = fmt.Sprintf("%s, repeat %d, stands in line %d already; the later line counts", r.Cell, r.Repeat, seen[id])
		}
		if text != "" {
			c.add(Fault{File: cellsFile, Line: number, Text: text, Fix: fix, Mends: true})
		} else {
			seen[id] = number
		}
	}
}

// attempts checks the folders of the launches.
func (c *checkup) attempts() error {
	return filepath.WalkDir(filepath.Join(c.dir, "launches"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case strings.HasSuffix(name, partSuffix):
			return c.part(path, rel, d)
		case d.IsDir() && strings.HasPrefix(name, "attempt="):
			launch := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(rel)), "launches/")
			if _, err := os.Stat(filepath.Join(path, "launch.json")); errors.Is(err, fs.ErrNotExist) && c.open[launch] {
				c.add(Fault{File: rel, Text: "this launch has not ended: it goes on, or whoever made it is gone", Fix: "a resume ends what is left of it and runs what it has not measured"})
			}
		case !d.IsDir() && slices.Contains([]string{"launch.json", "job.json", ReadyFile, "run.json"}, name):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var v map[string]any
			if err := json.Unmarshal(data, &v); err != nil {
				c.add(Fault{File: rel, Text: "it is damaged: " + err.Error(), Fix: "a resume passes it over, and cells that need it run again"})
			}
		}
		return nil
	})
}

// part is what was being written when its writer was killed.
func (c *checkup) part(path, rel string, d fs.DirEntry) error {
	f := Fault{File: rel, Text: "it is half written", Fix: "taken away with --repair, or by a resume", Mends: true}
	if c.repair {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		f.Fixed, f.Fix = true, "taken away"
	}
	c.add(f)
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// partSuffix marks what is being written; a rename takes it away.
const partSuffix = ".part"

// RemoveParts takes away what was being written in the night in dir when its writers were killed. Nothing of the night
// may run any more.
func RemoveParts(dir string) error {
	for _, part := range []string{"launches", "agents", "."} {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case strings.HasSuffix(d.Name(), partSuffix):
				if err := os.RemoveAll(path); err != nil {
					return err
				}
				if d.IsDir() {
					return fs.SkipDir
				}
			case part == "." && d.IsDir() && path != filepath.Join(dir, part):
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
