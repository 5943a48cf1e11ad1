package sweep

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// openCells opens cells.jsonl. Lines that are damaged, that are not what the journal announced, or that count no more,
// are taken out; the file as it was is kept beside it. Their cells are found again in the folders of their launches, or run again.
func (n *Night) openCells(sums map[cellID]string) (err error) {
	path := filepath.Join(n.Dir, cellsFile)
	cells, data, err := openLineFile(path)
	if err != nil {
		return err
	}
	n.cells = cells
	read := readRecords(data).announced(sums)
	var aside string
	if len(read.lines) == read.whole {
		aside, err = cells.cut(len(data)-len(read.torn), read.torn)
	} else if aside, err = keepAside(path, "damaged", data); err == nil {
		err = n.replaceCells(bytes.Join(read.lines, nil))
	}
	if err != nil {
		return err
	}
	n.noteAside(aside)
	n.setRecords(read.records)
	n.setPlanned()
	return nil
}

// replaceCells puts other lines into cells.jsonl, in one step.
func (n *Night) replaceCells(data []byte) error {
	path := filepath.Join(n.Dir, cellsFile)
	if err := WriteFile(path, data, 0o644); err != nil {
		return err
	}
	cells, _, err := openLineFile(path)
	if err != nil {
		return err
	}
	err = n.cells.Close()
	n.cells = cells
	return err
}

func (n *Night) noteAside(name string) {
	if name != "" {
		n.Recovered = append(n.Recovered, name)
	}
}

// ReadRecords reads the records of the night in dir. It needs no lock: a line that is being written is left
// out, and so is one that is damaged.
func ReadRecords(dir string) ([]Record, error) {
	data, err := os.ReadFile(filepath.Join(dir, cellsFile))
	if err != nil {
		return nil, err
	}
	return readRecords(data).records, nil
}

// recordLines is what stands in a file of records.
type recordLines struct {
	records []Record
	lines   [][]byte // of the records
	whole   int      // lines with an end: more than records when some are damaged or stand there twice
	torn    []byte   // a last line without its end
}

// readRecords reads lines of records. Of two for one cell and repeat the later one counts.
func readRecords(data []byte) recordLines {
	var read recordLines
	at := map[cellID]int{}
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			read.torn = line
			break
		}
		read.whole++
		var r Record
		if json.Unmarshal(line, &r) != nil || r.Cell == "" || r.Outcome == "" {
			continue
		}
		id := cellID{r.Cell, r.Repeat}
		if i, twice := at[id]; twice {
			read.records[i], read.lines[i] = r, line
			continue
		}
		at[id] = len(read.records)
		read.records, read.lines = append(read.records, r), append(read.lines, line)
	}
	return read
}

// announced leaves out the lines that differ from what was announced: a byte that a disk has changed must not become
// a result. Where the journal knows records, one that it does not know is none; a record that an older version announced
// without a checksum is taken as it stands.
func (r recordLines) announced(sums map[cellID]string) recordLines {
	good := recordLines{whole: r.whole, torn: r.torn}
	for i, rec := range r.records {
		sum, known := sums[cellID{rec.Cell, rec.Repeat}]
		if len(sums) == 0 || known && (sum == "" || sum == lineSum(r.lines[i])) {
			good.records, good.lines = append(good.records, rec), append(good.lines, r.lines[i])
		}
	}
	return good
}
