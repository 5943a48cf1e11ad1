package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sweep/failpoint"
)

// JournalKind is the kind of a journal entry.
type JournalKind string

// The kinds.
const (
	JournalOpen    JournalKind = "open"    // a process takes the night: Text says which
	JournalSubmit  JournalKind = "submit"  // jobs are about to be handed to a host: Host, Jobs
	JournalRecord  JournalKind = "record"  // a record is about to be written: Cell, Repeat, Attempt, Outcome
	JournalRetire  JournalKind = "retire"  // a record leaves cells.jsonl, its cell will run again: Cell, Repeat, Attempt, Outcome, Text says why
	JournalReclaim JournalKind = "reclaim" // something of ours that was still alive is about to be ended: Host, Text
	JournalLost    JournalKind = "lost"    // a host's agent is gone: Host, Text
	JournalStop    JournalKind = "stop"    // the night is about to be stopped from outside: Text
	JournalLink    JournalKind = "link"    // the link to a host went down, or is up again: Host, Text
	JournalClock   JournalKind = "clock"   // a host's clock was compared with this machine's: Host, Text
	JournalSleep   JournalKind = "sleep"   // this machine slept: Host, Text
	JournalGrid    JournalKind = "grid"    // the night's grid is about to be replaced: Text says what changes
	JournalRepair  JournalKind = "repair"  // damaged lines were taken out and the rest was numbered anew: Text says which
	JournalEnd     JournalKind = "end"     // the process leaves the night: Code
)

// JournalEntry is one line of journal.jsonl. It is on disk before the effect that it announces.
type JournalEntry struct {
	Schema  int         `json:"schema"`
	Seq     int64       `json:"seq"` // from 1, without gaps
	At      time.Time   `json:"at"`
	Kind    JournalKind `json:"kind"`
	Host    string      `json:"host,omitempty"`
	Jobs    []string    `json:"jobs,omitempty"` // Job.ID of each
	Cell    string      `json:"cell,omitempty"`
	Repeat  int         `json:"repeat,omitempty"`
	Attempt int         `json:"attempt,omitempty"`
	Outcome Outcome     `json:"outcome,omitempty"`
	Sum     string      `json:"sum,omitempty"`  // of a record: the checksum of its line in cells.jsonl
	Code    int         `json:"code,omitempty"` // exit code
	Text    string      `json:"text,omitempty"`
}

// maxJournalLine bounds one line, in bytes: larger data belong in files of their own.
const maxJournalLine = 64 << 10

// Journal is the night's append-only diary. One process writes it.
type Journal struct {
	file *lineFile
	seq  int64
}

// OpenJournal opens or creates the journal at path and returns what it holds. A torn last line, as a
// crash leaves it, is cut off and kept beside the journal; aside is the name of that file, "" without one.
func OpenJournal(path string) (j *Journal, entries []JournalEntry, aside string, err error) {
	file, data, err := openLineFile(path)
	if err != nil {
		return nil, nil, "", fmt.Errorf("journal: %w", err)
	}
	entries, good, err := ReadJournal(data)
	if err == nil {
		aside, err = file.cut(good, data[good:])
	}
	if err != nil {
		return nil, nil, "", errors.Join(fmt.Errorf("journal %s: %w", path, err), file.Close())
	}
	return &Journal{file: file, seq: int64(len(entries))}, entries, aside, nil
}

// Ended reports whether whoever last had the night in dir left it by itself: its journal ends with that, or there is none.
func Ended(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, journalFile))
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	entries, good, err := ReadJournal(data)
	if err != nil || good < len(data) {
		return false, nil // a resume mends it, or says what does
	}
	entries = slices.DeleteFunc(entries, func(e JournalEntry) bool { return e.Kind == JournalRepair })
	return len(entries) > 0 && entries[len(entries)-1].Kind == JournalEnd, nil
}

// ReadJournal reads a journal's bytes: the entries of its good lines and how many bytes those take. What
// follows them is a torn last line. A bad line with good ones after it is an error: that is no crash of
// ours but damage, and guessing would lose results.
func ReadJournal(data []byte) (entries []JournalEntry, good int, err error) {
	for line := range bytes.Lines(data) {
		e, lineErr := parseJournalLine(line, int64(len(entries))+1)
		if lineErr == nil {
			entries = append(entries, e)
			good += len(line)
			continue
		}
		rest := data[good+len(line):]
		for later := range bytes.Lines(rest) {
			if _, err := parseJournalLine(later, 0); err == nil {
				return entries, good, fmt.Errorf("line %d is damaged (%w) and good lines follow it: the file was changed from outside; see what is wrong with sweep fsck, and mend it with sweep fsck --repair", len(entries)+1, lineErr)
			}
		}
		return entries, good, nil
	}
	return entries, good, nil
}

// lineSum is the checksum of a line without its end.
func lineSum(line []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(bytes.TrimSuffix(line, []byte("\n")), castagnoli))
}

// recordSums are the checksums of the records that stand, by the journal's last word on each.
func recordSums(entries []JournalEntry) map[cellID]string {
	sums := map[cellID]string{}
	for _, e := range entries {
		switch id := (cellID{e.Cell, e.Repeat}); e.Kind {
		case JournalRecord:
			sums[id] = e.Sum
		case JournalRetire:
			delete(sums, id)
		}
	}
	return sums
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumLength is that of `,"crc":"01234567"}` and a newline.
const checksumLength = len(`,"crc":"01234567"}`) + 1

// parseJournalLine reads one line with its newline. want is the sequence number that it must have; 0: any.
func parseJournalLine(line []byte, want int64) (JournalEntry, error) {
	var e JournalEntry
	if len(line) > maxJournalLine {
		return e, errors.New("too long")
	}
	n := len(line) - checksumLength
	if n < 1 || line[len(line)-1] != '\n' || !bytes.HasPrefix(line[n:], []byte(`,"crc":"`)) || !bytes.HasSuffix(line, []byte("\"}\n")) {
		return e, errors.New("incomplete")
	}
	if string(line[n+len(`,"crc":"`):len(line)-len("\"}\n")]) != fmt.Sprintf("%08x", crc32.Checksum(line[:n], castagnoli)) {
		return e, errors.New("wrong checksum")
	}
	if err := json.Unmarshal(append(bytes.Clone(line[:n]), '}'), &e); err != nil {
		return e, err
	}
	if want != 0 && e.Seq != want {
		return e, fmt.Errorf("number %d where %d is due", e.Seq, want)
	}
	return e, nil
}

// Append writes an entry and waits until it is on disk. Schema, sequence number and, unless set, the time are filled in.
// After a failed write nothing of the entry is in the file; after a failed sync nobody knows, and the journal takes no more.
func (j *Journal) Append(e JournalEntry) error {
	e.Schema, e.Seq = Schema, j.seq+1
	if e.At.IsZero() {
		e.At = time.Now()
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	body = body[:len(body)-1] // without the brace that the checksum's key comes before
	line := fmt.Appendf(body, `,"crc":"%08x"}`+"\n", crc32.Checksum(body, castagnoli))
	if len(line) > maxJournalLine {
		return fmt.Errorf("journal: an entry of %d bytes is longer than %d", len(line), maxJournalLine)
	}
	if err := j.file.appendLine(line); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.seq++
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// diskFile is what a lineFile needs of an *os.File; tests put a failing disk in its place.
type diskFile interface {
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Name() string
}

// lineFile is an append-only file of lines whose end is always at the end of a line: a write that
// fails or is cut short is taken back, so that the next line never glues itself to a stump.
type lineFile struct {
	file   diskFile
	size   int64 // of the good lines
	broken error // set when the file's state is no longer known: nothing is written from then on
}

// openLineFile opens or creates a file for appending and returns what it holds.
func openLineFile(path string) (*lineFile, []byte, error) {
	_, statErr := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(f)
	if err == nil && errors.Is(statErr, os.ErrNotExist) {
		err = SyncDir(filepath.Dir(path)) // the new name must outlive a power cut as its lines do
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &lineFile{file: f, size: int64(len(data))}, data, nil
}

// cut ends the file at good; the torn bytes behind it are kept in a file beside it, whose name is returned.
func (l *lineFile) cut(good int, torn []byte) (aside string, err error) {
	if len(torn) == 0 {
		return "", nil
	}
	if aside, err = keepAside(l.file.Name(), "torn", torn); err != nil {
		return "", err
	}
	if err := l.file.Truncate(int64(good)); err != nil {
		return "", err
	}
	l.size = int64(good)
	return aside, l.file.Sync()
}

// keepAside keeps bytes that are about to leave the file at path in a file beside it, whose name is returned.
func keepAside(path, why string, data []byte) (aside string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"."+why+"-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

// appendLine writes one line in one write and waits until it is on disk.
func (l *lineFile) appendLine(line []byte) error {
	if l.broken != nil {
		return l.broken
	}
	failpoint.At("line.due", l.file.Name())
	n, err := l.file.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		if cutErr := l.file.Truncate(l.size); cutErr != nil {
			l.broken = fmt.Errorf("%s: unusable since a failed write could not be taken back: %w", l.file.Name(), cutErr)
			return errors.Join(err, l.broken)
		}
		return err
	}
	failpoint.At("line.written", l.file.Name())
	if err := l.file.Sync(); err != nil {
		// The kernel may have dropped the pages and called them clean: a second sync would prove nothing.
		l.broken = fmt.Errorf("%s: unusable since its disk failed: %w", l.file.Name(), err)
		return l.broken
	}
	failpoint.At("line.synced", l.file.Name())
	l.size += int64(len(line))
	return nil
}

// Close closes the file.
func (l *lineFile) Close() error { return l.file.Close() }
