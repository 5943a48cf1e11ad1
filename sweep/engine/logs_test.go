package engine

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sweep/sweep"
)

func TestSplitterPieces(t *testing.T) {
	in := "one\r\n\x00\x00[t] two\n\n 0%|\r 50%|\r100%|[t] three\n\x1b[1;33mfour\x1b[0m \x1b]0;title\x07five\nlast"
	type got struct {
		text   string
		line   int
		offset int64
	}
	want := []got{
		{"one", 1, 0}, {"[t] two", 2, 5}, {" 0%|", 4, 16}, {" 50%|", 4, 16}, {"100%|[t] three", 4, 16}, {"four five", 5, 42}, {"last", 6, 73},
	}
	var have []got
	var s splitter
	keep := func(p piece) { have = append(have, got{string(p.text), p.line, p.offset}) }
	s.feed([]byte(in), keep)
	s.close(keep)
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
	for _, w := range want { // an offset leads to the line that the number names
		if line := 1 + strings.Count(in[:w.offset], "\n"); line != w.line {
			t.Errorf("%q: offset %d is in line %d, not %d", w.text, w.offset, line, w.line)
		}
	}
}

func TestSplitterCutsGiantLines(t *testing.T) {
	giant := strings.Repeat("x", 3*maxPiece)
	var s splitter
	var lengths []int
	var last piece
	keep := func(p piece) { lengths = append(lengths, len(p.text)); last = p }
	for part := range strings.SplitAfterSeq("a\n"+giant+"\nb\n", "x") {
		s.feed([]byte(part), keep)
	}
	if want := []int{1, maxPiece, 1}; !reflect.DeepEqual(lengths, want) {
		t.Errorf("lengths %v, want %v", lengths, want)
	}
	if last.line != 3 || last.offset != int64(2+len(giant)+1) {
		t.Errorf("after a giant line: line %d at %d", last.line, last.offset)
	}
}

// logs returns every recorded log with its engine.
func logs(t testing.TB) map[string]*sweep.Engine {
	t.Helper()
	all := map[string]*sweep.Engine{}
	for folder, name := range map[string]string{"sglang": "sglang", "llamacpp": "llama.cpp"} {
		eng, ok := Lookup(name)
		if !ok {
			t.Fatalf("no engine %s", name)
		}
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.log"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no logs in %s: %v", folder, err)
		}
		for _, f := range files {
			all[f] = eng
		}
	}
	return all
}

func readAll(eng *sweep.Engine, chunks ...[]byte) []sweep.LogEvent {
	log := eng.NewLog()
	var events []sweep.LogEvent
	for _, c := range chunks {
		events = append(events, log.Feed(c)...)
	}
	return append(events, log.Close()...)
}

// A log gives the same events however its bytes arrive: at once, one by one, in random pieces.
func TestLogSplitAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for file, eng := range logs(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole := readAll(eng, data)
		single := make([][]byte, 0, len(data))
		for i := range data {
			single = append(single, data[i:i+1])
		}
		if got := readAll(eng, single...); !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: byte by byte: %d events, at once: %d", file, len(got), len(whole))
		}
		for range 2 {
			var parts [][]byte
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(5000))
				parts = append(parts, rest[:n])
				rest = rest[n:]
			}
			if got := readAll(eng, parts...); !reflect.DeepEqual(got, whole) {
				t.Errorf("%s: in random pieces: %d events, at once: %d", file, len(got), len(whole))
			}
		}
		checkPlaces(t, file, data, whole)
	}
}

// One cut at every place of a log's stretches with colours, bars and the end of a stack trace.
func TestLogEverySplit(t *testing.T) {
	eng, _ := Lookup("sglang")
	data, err := os.ReadFile("testdata/sglang/c_993.log")
	if err != nil {
		t.Fatal(err)
	}
	bars := bytes.Index(data, []byte("Memory pool end"))
	for _, part := range [][]byte{data[:1500], data[bars : bars+2000], data[len(data)-2000:]} {
		whole := readAll(eng, part)
		for i := range part {
			if got := readAll(eng, part[:i], part[i:]); !reflect.DeepEqual(got, whole) {
				t.Fatalf("cut at %d: other events", i)
			}
		}
	}
}

// checkPlaces holds that each event's line and offset lead to its text in the file.
func checkPlaces(t *testing.T, file string, data []byte, events []sweep.LogEvent) {
	t.Helper()
	for _, e := range events {
		if e.Offset > 0 && data[e.Offset-1] != '\n' {
			t.Errorf("%s: offset %d is not the start of a line", file, e.Offset)
			return
		}
		if n := 1 + bytes.Count(data[:e.Offset], []byte("\n")); n != e.Line {
			t.Errorf("%s: offset %d is in line %d, the event says %d", file, e.Offset, n, e.Line)
			return
		}
		line, _, _ := bytes.Cut(data[e.Offset:], []byte("\n"))
		if text := e.Evidence.Text; len(text) >= 20 && !strings.Contains(text, `\x`) && !bytes.Contains(plain(bytes.Clone(line)), []byte(text[:20])) {
			t.Errorf("%s:%d: %q is not in the line", file, e.Line, text[:20])
			return
		}
	}
}

func FuzzLog(f *testing.F) {
	for file := range logs(f) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 3000)], 100)
		f.Add(data[max(0, len(data)-3000):], 1000)
	}
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		for _, eng := range engines() {
			whole := readAll(eng, data)
			at = min(max(at, 0), len(data))
			if got := readAll(eng, data[:at], data[at:]); !reflect.DeepEqual(got, whole) {
				t.Errorf("cut at %d: other events", at)
			}
			checkPlaces(t, "fuzz", data, nil)
			a := sweep.Autopsy{Exit: &sweep.Exit{Code: 1}}
			for _, e := range whole {
				if strings.ContainsAny(e.Evidence.Text+e.Text+e.Sign.Detail, "\x00\x1b\n\r") {
					t.Errorf("control characters in %q %q", e.Evidence.Text, e.Text)
				}
				if e.Kind == sweep.LogSign {
					a.Signs = append(a.Signs, e)
				}
			}
			if eng.Verdict(a).Outcome == "" {
				t.Error("a dead server without an outcome")
			}
		}
	})
}
