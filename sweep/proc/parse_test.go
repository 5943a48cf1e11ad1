package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const statTail = " 7 8 9 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 5 0 9001 1000000 321 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0\n"

func TestParseStat(t *testing.T) {
	t.Parallel()
	for _, comm := range []string{"python3", "sglang::schedul", "a b", "(a) R 1 x)", "", ")"} {
		s, err := parseStat([]byte("42 (" + comm + ") S" + statTail))
		want := stat{pid: 42, comm: comm, state: 'S', ppid: 7, session: 9, ticks: 110, threads: 5, start: 9001, rssPages: 321}
		if err != nil || s != want {
			t.Errorf("%q: %+v, %v", comm, s, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (x", "42 x) S 1", "42 (x) S 1 2 3", "42 (x) SS" + statTail, "x (y) S" + statTail, "42 (x) S" + strings.Replace(statTail, "9001", "-", 1), "0 (x) S" + statTail} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q gives %+v", bad, s)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a b) S" + statTail))
	f.Add([]byte("42 ((a) R 1 x)) Z" + statTail))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err == nil && (s.pid <= 0 || s.state == 0) {
			t.Errorf("%q gives %+v", line, s)
		}
	})
}

func TestTailLines(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/log"
	long := strings.Repeat("y", 3*maxLine)
	text := "one\r\ntwo\n\rbar 1\rbar 2\n" + long + "\nlast"
	if err := os.WriteFile(path, []byte("skip\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	tail := NewTail(path, 5)
	defer tail.Close()
	want := []Line{
		{5, 1, "one", false}, {10, 2, "two", false}, {14, 3, "", true}, {15, 3, "bar 1", true}, {21, 3, "bar 2", false},
		{27, 4, long[:maxLine], false}, {28 + 3*maxLine, 5, "last", false},
	}
	for _, w := range want {
		got, err := tail.Next(t.Context(), done)
		if err != nil || got != w {
			t.Errorf("got %.60v, %v, want %.60v", got, err, w)
		}
	}
	if _, err := tail.Next(t.Context(), done); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestTailGrows writes a file a byte at a time under a virtual clock.
func TestTailGrows(t *testing.T) {
	path := t.TempDir() + "/log"
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Second) // the file is not there yet
			f, err := os.Create(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for _, b := range []byte("a\r\nbb\nc") {
				_, _ = f.Write([]byte{b})
				time.Sleep(3 * tailPoll)
			}
		}()
		tail := NewTail(path, 0)
		defer tail.Close()
		began := time.Now()
		var got []string
		for {
			line, err := tail.Next(t.Context(), done)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line.Text)
			if len(got) == 2 {
				if d := time.Since(began); d > time.Second+17*tailPoll {
					t.Errorf("second line after %v", d)
				}
			}
		}
		if strings.Join(got, "|") != "a|bb|c" {
			t.Errorf("lines %q", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := NewTail(path+"x", 0).Next(ctx, make(chan struct{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a file that never comes: %v", err)
		}
	})
}

func TestSampleSince(t *testing.T) {
	t.Parallel()
	old := Sample{BytesRead: 1000, MemoryPeak: 1000, CompilerTicks: 5, LogBytes: 10, CPU: time.Second}
	tests := []struct {
		change func(*Sample)
		kind   string
	}{
		{func(*Sample) {}, ""},
		{func(s *Sample) { s.CPU += time.Hour; s.Processes = 9 }, ""}, // processes that spin
		{func(s *Sample) { s.BytesRead += 5000 }, ""},                 // our own probes
		{func(s *Sample) { s.BytesRead += leastRead }, "reading"},
		{func(s *Sample) { s.MemoryPeak += leastMemory }, "memory"},
		{func(s *Sample) { s.CompilerTicks++ }, "compiling"},
		{func(s *Sample) { s.LogBytes++ }, "log"},
	}
	for _, tt := range tests {
		now := old
		tt.change(&now)
		if kind, ok := now.Since(old); kind != tt.kind || ok != (tt.kind != "") {
			t.Errorf("%+v: %q, %v, want %q", now, kind, ok, tt.kind)
		}
	}
}

// limited takes n bytes and refuses the rest until it is given room.
type limited struct {
	b    []byte
	room int
}

var errFull = errors.New("no space left on device")

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.room)
	l.b = append(l.b, p[:n]...)
	l.room -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestCapLog(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"fits", []string{"0123456789\n"}, "0123456789\n"},
		{"head and tail meet", []string{"0123456789ab", "cdef\ngh\n"}, "0123456789abcdef\ngh\n"},
		{"cut", []string{"0123456789ab", strings.Repeat("x", 40), "yy\nlast\n"}, "0123456789ab\n[sweep: 43 bytes of output are cut here]\nlast\n"},
		{"no line in the tail", []string{"0123456789a\n", strings.Repeat("x", 40)}, "0123456789a\n[sweep: 32 bytes of output are cut here]\nxxxxxxxx"},
	}
	for _, tt := range tests {
		var out limited
		out.room = 1 << 20
		c := newCapLog(&out, 12, 8)
		for _, w := range tt.writes {
			_, _ = c.Write([]byte(w))
		}
		c.finish()
		if string(out.b) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, out.b, tt.want)
		}
	}
	t.Run("full disk", func(t *testing.T) {
		out := limited{room: 10}
		c := newCapLog(&out, 1000, 10)
		_, _ = c.Write([]byte("0123456789abc\n"))
		_, _ = c.Write([]byte("lost\n"))
		out.room = 1000
		_, _ = c.Write([]byte("kept\n"))
		want := "0123456789\n[sweep: 9 bytes of output are missing here: no space left on device]\nkept\n"
		if string(out.b) != want || !errors.Is(c.err, errFull) {
			t.Errorf("%q, %v", out.b, c.err)
		}
	})
}
