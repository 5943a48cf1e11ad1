package sweep

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// retire takes the records that why names a reason for out of cells.jsonl, so that their cells run
// again. The journal keeps what they were; the attempts' folders stay.
func (n *Night) retire(why func(Record) string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, err := os.ReadFile(filepath.Join(n.Dir, cellsFile))
	if err != nil {
		return err
	}
	read := readRecords(data) // the lines as they were announced, not as they would be written now
	var keep []Record
	var file bytes.Buffer
	for i, r := range read.records {
		if reason := why(r); reason != "" {
			err := n.journal.Append(JournalEntry{
				Kind: JournalRetire, Host: r.Host, Cell: r.Cell, Repeat: r.Repeat, Attempt: r.Attempt, Outcome: r.Outcome, Text: reason,
			})
			if err != nil {
				return err
			}
			continue
		}
		keep = append(keep, r)
		file.Write(read.lines[i])
	}
	if len(keep) == len(read.records) {
		return nil
	}
	if err := n.replaceCells(file.Bytes()); err != nil {
		return err
	}
	n.setRecords(keep)
	return nil
}

// Reopen retires the records that do not stand, so that their cells run again: what was aborted, and
// what failed for a reason outside the config. It is for a resume, once nothing of the night runs any more.
func (n *Night) Reopen() error {
	return n.retire(func(r Record) string {
		if r.Outcome.Final() {
			return ""
		}
		return "not final: " + string(r.Outcome)
	})
}

// Use sets the plan that an opened night goes on with.
func (n *Night) Use(plan *Plan, engine *Engine) { n.Plan, n.engine = plan, engine }

// Replace gives the night another grid: records of cells that are gone or changed are retired.
func (n *Night) Replace(plan *Plan, engine *Engine) error {
	next := newManifest(plan, engine)
	old := n.Manifest
	next.Night, next.Version, next.Created = old.Night, old.Version, old.Created
	next.Override, next.Imply = old.Override, old.Imply
	next.SkipHeadroomGiB, next.NoFlagCheck = old.SkipHeadroomGiB, old.NoFlagCheck
	var err error
	if next.Grid, err = filepath.Abs(plan.Grid.Path); err != nil {
		return err
	}
	changes := old.Changes(next)
	if err := n.Note(JournalEntry{Kind: JournalGrid, Text: fmt.Sprintf("%s: %d cells new, changed or gone", next.Grid, len(changes))}); err != nil {
		return err
	}
	gone := map[cellID]string{}
	for _, c := range changes {
		gone[cellID{c.Cell, c.Repeat}] = c.Kind + " in the new grid"
	}
	if err := n.retire(func(r Record) string { return gone[cellID{r.Cell, r.Repeat}] }); err != nil {
		return err
	}
	if err := WriteFile(n.GridPath(), plan.Grid.Source, 0o644); err != nil {
		return err
	}
	if err := n.keepFiles(plan.Grid); err != nil {
		return err
	}
	if err := next.write(n.Dir); err != nil {
		return err
	}
	n.Manifest = next
	n.Use(plan, engine)
	n.setPlanned()
	return nil
}

// Compare lists how a plan's cells differ from those that the night was started with.
func (n *Night) Compare(plan *Plan, engine *Engine) []Change {
	return n.Manifest.Changes(newManifest(plan, engine))
}
