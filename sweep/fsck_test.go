package sweep

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// wholeNight runs a night of fake launches to its end.
func wholeNight(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if _, err := w.run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) file(name string) (path string, data []byte) {
	w.t.Helper()
	path = filepath.Join(w.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return path, data
}

func (w *world) write(path string, data []byte) {
	w.t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// sound opens the night and checks that its records are those of a whole one, each measured once.
func (w *world) sound(what string) {
	w.t.Helper()
	s, err := w.run(w.t.Context(), w.t.Context())
	if err != nil || s.Recorded != testCells || s.Outcomes[OK] != testCells {
		w.t.Fatalf("%s: %+v, %v", what, s, err)
	}
	for cell, n := range w.hosts[0].measured {
		if n != 1 {
			w.t.Fatalf("%s: %s was measured %d times", what, cell, n)
		}
	}
}

// TestJournalTruncatedAnywhere cuts the journal at each byte of its last record. The night goes on, with all its records.
func TestJournalTruncatedAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wholeNight(t)
		path, whole := w.file(journalFile)
		last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
		for cut := last; cut <= len(whole); cut++ {
			w.write(path, whole[:cut])
			faults, err := Fsck(w.dir, false)
			if torn := cut > last && cut < len(whole); err != nil || torn != (len(faults) > 0) {
				t.Fatalf("cut at %d of %d: faults %v, %v", cut-last, len(whole)-last, faults, err)
			}
			n, err := OpenNight(w.dir)
			if err != nil {
				t.Fatalf("cut at %d of %d: %v", cut-last, len(whole)-last, err)
			}
			if got := len(n.Records()); got != testCells {
				t.Fatalf("cut at %d of %d: %d records", cut-last, len(whole)-last, got)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestJournalWithAnyByteChanged changes each byte of the journal in turn. No entry is invented; the night opens with all
// its records, or says what is wrong and does so once it is mended.
func TestJournalWithAnyByteChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wholeNight(t)
		path, whole := w.file(journalFile)
		was, _, err := ReadJournal(whole)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for at := range whole {
			for _, flip := range []byte{1, 0x20, 0xff}[at%3 : at%3+1] { // another bit from byte to byte
				bent := bytes.Clone(whole)
				bent[at] ^= flip
				got, good, err := ReadJournal(bent)
				if len(got) > len(was) || good > len(bent) || err == nil && good == len(bent) {
					t.Fatalf("byte %d ^ %#x: %d entries, %d good bytes, %v", at, flip, len(got), good, err)
				}
				for i, e := range got {
					if !reflect.DeepEqual(e, was[i]) {
						t.Fatalf("byte %d ^ %#x made the entry %+v", at, flip, e)
					}
				}
				if err == nil || at%97 != 0 { // each way through the disk is tried for some
					continue
				}
				refused++
				w.write(path, bent)
				if _, err := OpenNight(w.dir); err == nil || !strings.Contains(err.Error(), "sweep fsck") {
					t.Fatalf("byte %d: opened: %v", at, err)
				}
				if faults, err := Fsck(w.dir, false); err != nil || len(faults) == 0 || faults[0].Line == 0 || faults[0].Fixed {
					t.Fatalf("byte %d: faults %v, %v", at, faults, err)
				}
				if faults, err := Fsck(w.dir, true); err != nil || slices.ContainsFunc(faults, func(f Fault) bool { return !f.Fixed }) {
					t.Fatalf("byte %d: mended %v, %v", at, faults, err)
				}
				if faults, err := Fsck(w.dir, false); err != nil || len(faults) > 0 {
					t.Fatalf("byte %d: after it was mended %v, %v", at, faults, err)
				}
				w.sound(fmt.Sprintf("byte %d", at))
			}
		}
		if refused < 20 {
			t.Errorf("only %d changes in the middle were tried on disk", refused)
		}
	})
}

// TestRecordWithAnyByteChanged changes each byte of a record in cells.jsonl in turn: it never becomes another result.
// The cell is found again in the folder of its launch.
func TestRecordWithAnyByteChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wholeNight(t)
		path, whole := w.file(cellsFile)
		_, journal := w.file(journalFile)
		entries, _, err := ReadJournal(journal)
		if err != nil {
			t.Fatal(err)
		}
		was := readRecords(whole)
		first := bytes.IndexByte(whole, '\n') + 1
		for at := range first {
			bent := bytes.Clone(whole)
			bent[at] ^= 1
			read := readRecords(bent).announced(recordSums(entries))
			for _, line := range read.lines {
				if !slices.ContainsFunc(was.lines, func(l []byte) bool { return bytes.Equal(l, line) }) {
					t.Fatalf("byte %d made the record %s", at, line)
				}
			}
			if len(read.records) != testCells-1 && at != first-1 {
				t.Fatalf("byte %d: %d records", at, len(read.records))
			}
		}
		digit := bytes.Index(whole, []byte(`"output_throughput":100`))
		bent := bytes.Clone(whole)
		bent[digit+len(`"output_throughput":`)] = '9'
		w.write(path, bent)
		faults, err := Fsck(w.dir, false)
		if err != nil || !slices.ContainsFunc(faults, func(f Fault) bool { return strings.Contains(f.Text, "its checksum differs") }) {
			t.Errorf("faults %v, %v", faults, err)
		}
		w.sound("a changed digit")
		for _, r := range w.records() {
			if r.Values["output_throughput"] != 100 {
				t.Errorf("%s: %v tok/s", r.Cell, r.Values["output_throughput"])
			}
		}
		if kept, err := filepath.Glob(path + ".damaged-*"); err != nil || len(kept) != 1 {
			t.Errorf("kept %v, %v", kept, err)
		}
	})
}

func TestFsckNamesWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wholeNight(t)
		if faults, err := Fsck(w.dir, false); err != nil || len(faults) > 0 {
			t.Errorf("a whole night: %v, %v", faults, err)
		}
		path, cells := w.file(cellsFile)
		lines := bytes.SplitAfter(cells, []byte("\n"))
		w.write(path, slices.Concat(lines[0], []byte("{}\n"), bytes.Join(lines[2:], nil), lines[0], []byte(`{"torn`)))
		attempt := filepath.Join(w.dir, "launches", "a=1", "repeat=1", "attempt=1")
		w.write(filepath.Join(attempt, "launch.json"), []byte("{"))
		part := filepath.Join(attempt, "load=w,c=2.part")
		if err := os.Mkdir(part, 0o700); err != nil {
			t.Fatal(err)
		}
		faults, err := Fsck(w.dir, false)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, f := range faults {
			text = append(text, f.String())
		}
		all := strings.Join(text, "\n")
		for _, want := range []string{
			"cells.jsonl:2: it is no record: it has no cell or outcome", "stands in line 1 already", "the last line has no end",
			"was announced and is not there", "attempt=1/launch.json: it is damaged", "load=w,c=2.part: it is half written",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is missing in\n%s", want, all)
			}
		}
		if _, after := w.file(cellsFile); !bytes.Contains(after, []byte("{}\n")) {
			t.Error("a check without repair changed a file")
		}
		if _, err := Fsck(w.dir, true); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(part); err == nil {
			t.Error("a half-written folder is still there")
		}
		n, err := OpenNight(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Fsck(w.dir, true); err == nil || !strings.Contains(err.Error(), "in use by process") {
			t.Errorf("a night in use: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Fsck(t.TempDir(), false); err == nil || !strings.Contains(err.Error(), "is no night") {
			t.Errorf("no night: %v", err)
		}
	})
}

// TestFsckOfACutLaunch: a launch whose agent was killed in its middle is named as long as it matters; once a resume has run what
// it had not measured, its folder is no fault.
func TestFsckOfACutLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.hosts[0]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h.dies = func(string) bool { // at the first step; the runner goes with it, and no Cancel of it is obeyed
			cancel()
			h.queue = nil
			return true
		}
		if _, err := w.run(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		attempts, err := filepath.Glob(filepath.Join(w.dir, "launches", "*", "*", "attempt=*"))
		if err != nil || len(attempts) != 1 {
			t.Fatalf("attempts %v, %v", attempts, err)
		}
		for _, repair := range []bool{false, true} { // there is nothing to mend: what it has measured counts
			faults, err := Fsck(w.dir, repair)
			if err != nil || len(faults) != 1 || faults[0].Fixed || !strings.Contains(faults[0].String(), "attempt=1: this launch has not ended: it goes on, or whoever made it is gone; a resume ends what is left of it") {
				t.Errorf("repair %v: %v, %v", repair, faults, err)
			}
		}
		h.dies = nil
		if s, err := w.run(t.Context(), t.Context()); err != nil || s.Outcomes[OK] != testCells {
			t.Fatalf("%+v, %v", s, err)
		}
		if faults, err := Fsck(w.dir, false); err != nil || len(faults) > 0 {
			t.Errorf("after a resume: %v, %v", faults, err)
		}
		if _, err := os.Stat(attempts[0]); err != nil {
			t.Errorf("the attempt went away: %v", err)
		}
	})
}
