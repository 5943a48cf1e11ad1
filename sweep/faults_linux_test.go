package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// faultEntries is how many entries the helper tries to append.
const faultEntries = 6

// TestFaultHelper is no test but the process whose disk fails: it appends entries to the journal that the environment
// names and says of each whether it is on disk.
func TestFaultHelper(t *testing.T) {
	path := os.Getenv("SWEEP_FAULT_JOURNAL")
	if path == "" {
		t.Skip("started by TestJournalUnderInjectedFaults")
	}
	runtime.LockOSThread() // strace counts the calls of each thread apart
	defer runtime.UnlockOSThread()
	j, _, _, err := OpenJournal(path)
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	for i := range faultEntries {
		if err := j.Append(JournalEntry{Kind: JournalOpen, Text: fmt.Sprint("entry ", i+1)}); err != nil {
			fmt.Printf("lost %d: %v\n", i+1, err)
		} else {
			fmt.Printf("kept %d\n", i+1)
		}
	}
	fmt.Println("closed:", j.Close())
}

// TestJournalUnderInjectedFaults has the kernel refuse what a process does with its journal. What was said to be on disk
// is there afterwards, in order; what was not may be there only when a failed fsync left it open.
func TestJournalUnderInjectedFaults(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("strace is not installed: .ci/setup does that")
	}
	if out, err := exec.Command(strace, "-f", "-e", "trace=fsync", "-o", "/dev/null", "/bin/true").CombinedOutput(); err != nil {
		t.Skipf("nothing can be traced here: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, inject string
		kept         string // numbers of the entries that must be said to be kept
		says         string
		open         int // number of the entry that may be in the file although it was lost
	}{
		{"EIO on the third fsync", "fsync:error=EIO:when=3", "1 2", "unusable since its disk failed: sync", 3},
		{"EIO on the third fsync and on every later one", "fsync:error=EIO:when=3+", "1 2", "input/output error", 3},
		{"ENOSPC on the fourth write", "write:error=ENOSPC:when=4", "1 2 3 5 6", "no space left on device", 0},
		{"EROFS from the second write on", "write:error=EROFS:when=2+", "1", "read-only file system", 0},
		{"EDQUOT, and nothing can be taken back", "write,ftruncate:error=EDQUOT:when=2+", "1", "disk quota exceeded", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			calls, _, _ := strings.Cut(tt.inject, ":")
			cmd := exec.Command(strace, "-f", "-o", "/dev/null", "-P", path, "-e", "trace="+calls, "-e", "inject="+tt.inject, self, "-test.run=^TestFaultHelper$", "-test.v")
			cmd.Env = append(os.Environ(), "SWEEP_FAULT_JOURNAL="+path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var kept []string
			for line := range strings.Lines(string(out)) {
				if number, ok := strings.CutPrefix(line, "kept "); ok {
					kept = append(kept, strings.TrimSpace(number))
				}
			}
			if strings.Join(kept, " ") != tt.kept || !strings.Contains(string(out), tt.says) {
				t.Errorf("kept %v, want %s; said\n%s", kept, tt.kept, out)
			}
			checkKept(t, path, kept, tt.open)
		})
	}
}

// checkKept reads a journal as a later start does, and checks that it holds the entries of these numbers and, at its
// end, at most the one whose fate nobody knows.
func checkKept(t *testing.T, path string, kept []string, open int) {
	t.Helper()
	j, entries, _, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var got []string
	for _, e := range entries {
		got = append(got, strings.TrimPrefix(e.Text, "entry "))
	}
	want := strings.Join(kept, " ")
	if text := strings.Join(got, " "); text != want && text != strings.TrimSpace(fmt.Sprint(want, " ", open)) {
		t.Errorf("the file holds %v, want %s", got, want)
	}
	if err := j.Append(JournalEntry{Kind: JournalEnd}); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

// TestJournalOnFullTmpfs fills a disk in the middle of a record, makes room, and goes on.
func TestJournalOnFullTmpfs(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	j, _, _, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	appendOne := func(n int) error {
		err := j.Append(JournalEntry{Kind: JournalOpen, Text: fmt.Sprint("entry ", n), Cell: strings.Repeat("x", 700)})
		if err == nil {
			kept = append(kept, fmt.Sprint(n))
		}
		return err
	}
	n := 1
	for ; ; n++ {
		if err := appendOne(n); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size()%4096 == 0 {
		t.Errorf("the file ends at %d bytes, which is no middle of a record: %v", info.Size(), err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(n + 1); err != nil {
		t.Errorf("after room was made: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	checkKept(t, path, kept, 0)
}

// TestJournalAtTheFileSizeLimit lets a record end at the limit of the process for the size of files.
func TestJournalAtTheFileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, _, _, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	appendOne := func(n int) error {
		err := j.Append(JournalEntry{Kind: JournalOpen, Text: fmt.Sprint("entry ", n)})
		if err == nil {
			kept = append(kept, fmt.Sprint(n))
		}
		return err
	}
	if err := appendOne(1); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(info.Size() + info.Size()/2), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	full := appendOne(2)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(full, unix.EFBIG) {
		t.Errorf("error %v, want %v", full, unix.EFBIG)
	}
	if err := appendOne(3); err != nil {
		t.Errorf("after the limit was lifted: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	checkKept(t, path, kept, 0)
}

// TestBallast: on a disk that is full the last records are written in the room that was kept, and the night says that
// it cannot go on.
func TestBallast(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t)
	w.root = root
	n := w.open()
	reserve, err := os.Stat(filepath.Join(n.Dir, ballastFile))
	if err != nil || reserve.Size() < 32<<10 {
		t.Fatalf("no ballast: %v", err)
	}
	filler, err := os.Create(filepath.Join(root, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	written := 0
	for _, c := range n.Missing() {
		if ok, err := n.record(n.blankRecord(c, Ending{Outcome: Aborted, Detail: strings.Repeat("x", 300)})); err != nil || !ok {
			t.Fatalf("record %d: %t, %v", written+1, ok, err)
		}
		written++
	}
	if err := n.outOfRoom(); !errors.Is(err, errBallast) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the night may go on: %v", err)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, ballastFile)); err == nil {
		t.Error("the ballast is still there")
	}
	if err := errors.Join(n.Close(), filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	if got := len(w.records()); got != testCells || written != testCells {
		t.Errorf("%d records on disk, %d written, want %d", got, written, testCells)
	}
	n = w.open()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, ballastFile)); err == nil {
		t.Error("a closed night keeps its ballast")
	}
}
