package sweep

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func openJournal(t *testing.T, path string) (*Journal, []JournalEntry, string) {
	t.Helper()
	j, entries, aside, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, entries, aside
}

// journalBytes is a journal of n entries.
func journalBytes(t testing.TB, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, _, _, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := j.Append(JournalEntry{Kind: JournalRecord, Cell: "a=1/w,c=2", Repeat: i + 1, Outcome: OK}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	for start := range 3 {
		j, entries, aside := openJournal(t, path)
		if len(entries) != start || aside != "" {
			t.Fatalf("start %d: %d entries, aside %q", start, len(entries), aside)
		}
		if err := j.Append(JournalEntry{Kind: JournalOpen, Text: "start"}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, entries, _ := openJournal(t, path)
	for i, e := range entries {
		if e.Seq != int64(i+1) || e.Schema != Schema || e.At.IsZero() || e.Kind != JournalOpen {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
}

func TestJournalCutsTornTail(t *testing.T) {
	whole := journalBytes(t, 3)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for cut := 1; cut < len(lines[2]); cut++ {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		torn := lines[2][:cut]
		if err := os.WriteFile(path, slices.Concat(lines[0], lines[1], torn), 0o600); err != nil {
			t.Fatal(err)
		}
		j, entries, aside := openJournal(t, path)
		if len(entries) != 2 {
			t.Fatalf("cut at %d: %d entries", cut, len(entries))
		}
		if kept, err := os.ReadFile(aside); err != nil || !bytes.Equal(kept, torn) {
			t.Errorf("cut at %d: kept %q (%v), want %q", cut, kept, err, torn)
		}
		if err := j.Append(JournalEntry{Kind: JournalEnd}); err != nil {
			t.Fatal(err)
		}
		_, entries, aside = openJournal(t, path)
		if len(entries) != 3 || aside != "" {
			t.Errorf("cut at %d: after the next append %d entries, aside %q", cut, len(entries), aside)
		}
	}
}

func TestJournalRefusesDamage(t *testing.T) {
	lines := bytes.SplitAfter(journalBytes(t, 4), []byte("\n"))
	flipped := bytes.Replace(lines[1], []byte(`"repeat":2`), []byte(`"repeat":3`), 1)
	tests := []struct {
		name string
		data []byte
		says string
	}{
		{"flipped", slices.Concat(lines[0], flipped, lines[2], lines[3]), "line 2 is damaged (wrong checksum)"},
		{"lost line", slices.Concat(lines[0], lines[2], lines[3]), "number 3 where 2 is due"},
		{"glued", slices.Concat(lines[0], lines[1][:20], lines[2], lines[3]), "line 2 is damaged"},
		{"twice", slices.Concat(lines[0], lines[1], lines[1], lines[2]), "number 2 where 3 is due"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := OpenJournal(path)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "good lines follow") {
				t.Errorf("error %v, want one with %q", err, tt.says)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, tt.data) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func FuzzReadJournal(f *testing.F) {
	whole := journalBytes(f, 3)
	f.Add(whole, 5, byte(1))
	f.Add(whole[:len(whole)-7], 0, byte(0))
	f.Add([]byte("\n{}\n"), 0, byte(255))
	f.Fuzz(func(t *testing.T, data []byte, at int, flip byte) {
		entries, good, err := ReadJournal(data)
		if good > len(data) || good > 0 && data[good-1] != '\n' {
			t.Fatalf("%d good bytes of %d do not end a line", good, len(data))
		}
		for i, e := range entries {
			if e.Seq != int64(i+1) {
				t.Fatalf("entry %d has number %d", i, e.Seq)
			}
		}
		if again, n, err := ReadJournal(data[:good]); err != nil || n != good || len(again) != len(entries) {
			t.Fatalf("the good part reads as %d entries, %d bytes, %v", len(again), n, err)
		}
		// One flipped byte never makes an entry that was not written.
		if err == nil && good > 0 && flip != 0 {
			bent := bytes.Clone(data[:good])
			bent[(at%good+good)%good] ^= flip
			bentEntries, _, _ := ReadJournal(bent)
			for i, e := range bentEntries {
				if i >= len(entries) || e.Text != entries[i].Text || e.Cell != entries[i].Cell || e.Outcome != entries[i].Outcome {
					t.Fatalf("a flipped byte made the entry %+v", e)
				}
			}
		}
	})
}

// badDisk fails in the ways that disks fail.
type badDisk struct {
	diskFile
	room     int // bytes that can still be written
	writeErr error
	syncErr  error
	cutErr   error
}

func (b *badDisk) Write(p []byte) (int, error) {
	if len(p) <= b.room {
		b.room -= len(p)
		return b.diskFile.Write(p)
	}
	n, err := b.diskFile.Write(p[:b.room])
	b.room = 0
	return n, errors.Join(err, b.writeErr)
}

func (b *badDisk) Sync() error { return errors.Join(b.syncErr, b.diskFile.Sync()) }

func (b *badDisk) Truncate(size int64) error {
	if b.cutErr != nil {
		return b.cutErr
	}
	return b.diskFile.Truncate(size)
}

func TestJournalOnBadDisk(t *testing.T) {
	const room = 50 // less than an entry
	tests := []struct {
		name   string
		bad    badDisk
		broken bool // nothing may be written afterwards
		lines  int  // that the file holds at the end
	}{
		{"full", badDisk{room: room, writeErr: syscall.ENOSPC}, false, 2},
		{"short write without an error", badDisk{room: room}, false, 2},
		{"full and cannot be cut", badDisk{room: room, writeErr: syscall.ENOSPC, cutErr: syscall.EIO}, true, 1},
		{"sync fails", badDisk{room: 1 << 20, syncErr: syscall.EIO}, true, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			j, _, _ := openJournal(t, path)
			if err := j.Append(JournalEntry{Kind: JournalOpen}); err != nil {
				t.Fatal(err)
			}
			good := j.file.file
			tt.bad.diskFile = good
			j.file.file = &tt.bad
			if err := j.Append(JournalEntry{Kind: JournalEnd, Text: "on a bad disk"}); err == nil {
				t.Fatal("no error from a bad disk")
			}
			j.file.file = good // the disk works again
			err := j.Append(JournalEntry{Kind: JournalEnd})
			if tt.broken != (err != nil) {
				t.Errorf("append afterwards: %v, want an error: %t", err, tt.broken)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			entries, _, err := ReadJournal(data)
			if err != nil || len(entries) != tt.lines {
				t.Errorf("%d entries (%v), want %d", len(entries), err, tt.lines)
			}
		})
	}
}

func TestRecordsTornAndTwice(t *testing.T) {
	line := `{"cell":"a/w,c=1","repeat":1,"outcome":"ok","workload":"w"}` + "\n"
	later := strings.Replace(line, "ok", "oom.kv", 1)
	other := strings.Replace(line, "c=1", "c=2", 1)
	tests := []struct {
		name, data string
		outcomes   string
		whole      int
		torn       string
	}{
		{"empty", "", "", 0, ""},
		{"one", line, "ok", 1, ""},
		{"torn tail", line + line[:20], "ok", 1, line[:20]},
		{"damaged inside", line[:20] + "\n" + line, "ok", 2, ""},
		{"zeros", "\x00\x00\x00\n" + line + "\x00\x00", "ok", 2, "\x00\x00"},
		{"no record", "{}\nnull\n7\n" + line, "ok", 4, ""},
		{"the later one counts", line + other + later, "oom.kv ok", 3, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := readRecords([]byte(tt.data))
			var outcomes []string
			for _, r := range read.records {
				outcomes = append(outcomes, string(r.Outcome))
			}
			if got := strings.Join(outcomes, " "); got != tt.outcomes || read.whole != tt.whole || string(read.torn) != tt.torn {
				t.Errorf("%q of %d lines, torn %q", got, read.whole, read.torn)
			}
			if again := readRecords(bytes.Join(read.lines, nil)); len(again.records) != len(read.records) || again.whole != len(read.records) {
				t.Errorf("its lines give %d records of %d lines", len(again.records), again.whole)
			}
		})
	}
}

// TestEnded: a night whose every cell has a record is still to be cleaned up when whoever wrote the last one was killed.
func TestEnded(t *testing.T) {
	end, open, repair := JournalEntry{Kind: JournalEnd}, JournalEntry{Kind: JournalOpen}, JournalEntry{Kind: JournalRepair}
	for name, c := range map[string]struct {
		entries []JournalEntry
		torn    string
		want    bool
	}{
		"ended":                  {[]JournalEntry{open, end}, "", true},
		"killed":                 {[]JournalEntry{open, end, open}, "", false},
		"ended, then mended":     {[]JournalEntry{open, end, repair}, "", true},
		"killed while it writes": {[]JournalEntry{open, end}, `{"torn`, false},
		"empty":                  {nil, "", false},
	} {
		dir := t.TempDir()
		j, _, _ := openJournal(t, filepath.Join(dir, journalFile))
		for _, e := range c.entries {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		_, err := j.file.file.Write([]byte(c.torn))
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := Ended(dir); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := Ended(t.TempDir()); err != nil || !got {
		t.Errorf("without a journal: %v, %v", got, err)
	}
}
