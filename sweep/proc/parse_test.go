package proc

import (
	"errors"
	"strings"
	"testing"
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
