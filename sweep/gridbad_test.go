package sweep

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// goodGrid is the grid that the tests below spoil; what they add begins in line 5.
const goodGrid = `engine: sglang
model: /m
workloads: {w: {classes: {short: {share: 3, input: 100..200, output: 10}, long: {input: 1k, output: 20}}}}
load: [{workload: w, concurrency: [4, 8]}]
`

func testReader() GridReader {
	return GridReader{
		Engines:  []string{"sglang", "llamacpp"},
		Profiles: []string{"two-cards"},
		Home:     "/home/u",
		LookInto: lookIntoTests,
		Owned: func(engine string) map[string]string {
			if engine != "sglang" {
				return nil
			}
			return map[string]string{"port": "each launch takes a free one", "served-model-name": "each launch has its own"}
		},
	}
}

// firstLines are the problems without their excerpts.
func firstLines(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		line, _, _ := strings.Cut(p.String(), "\n")
		out = append(out, line)
	}
	return out
}

// badGrid is one way to spoil goodGrid: a text replaced in it, a text added after it, or a text in
// its place.
type badGrid struct {
	name     string
	old, new string
	add      string
	whole    string
	want     []string // first lines of all problems, without "grid.yaml"
}

func (b badGrid) text(t *testing.T) string {
	t.Helper()
	if b.whole != "" {
		return b.whole
	}
	if !strings.Contains(goodGrid, b.old) {
		t.Fatalf("the good grid has no %q", b.old)
	}
	return strings.Replace(goodGrid, b.old, b.new, 1) + b.add
}

func (b badGrid) check(t *testing.T) {
	t.Helper()
	grid, problems := testReader().ReadBytes("grid.yaml", []byte(b.text(t)))
	got := firstLines(problems)
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "grid.yaml")
	}
	if strings.Join(got, "\n") != strings.Join(b.want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(b.want, "\n"))
	}
	bad := false
	for _, w := range b.want {
		bad = bad || !strings.Contains(w, ": warning: ")
	}
	if (grid == nil) != bad {
		t.Errorf("the grid is %v, with problems %q", grid, got)
	}
}

func TestGoodGrid(t *testing.T) {
	t.Parallel()
	badGrid{}.check(t)
}

func TestBadGrids(t *testing.T) {
	t.Parallel()
	for _, table := range [][]badGrid{badYAML, badNames, badFlags, badAxes, badChoices, badLoads, badOwn, badAttach, badMeasures, badHosts} {
		for _, test := range table {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.check(t)
			})
		}
	}
}

// TestNotYet holds that the example with remote machines is refused for exactly that.
func TestNotYet(t *testing.T) {
	t.Parallel()
	grid, problems, err := ReadGrid("testdata/grid/kimi-k2.5-notyet.yaml")
	if err != nil || grid != nil {
		t.Fatalf("grid %v, error %v", grid, err)
	}
	want := []string{
		`testdata/grid/kimi-k2.5-notyet.yaml:15:15: the command of recover, "./recover-proxmox.sh", has no absolute path (begin it with / or ~/: it runs next to the GPUs, from another folder)`,
		`testdata/grid/kimi-k2.5-notyet.yaml:34:5: warning: unacceptable matches nothing: no config has kv-cache-dtype=fp8_e4m3 (fine if the list is meant for later grids)`,
	}
	if got := firstLines(problems); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s", strings.Join(got, "\n"))
	}
}

func TestProblemString(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200) + "HERE" + strings.Repeat("y", 200)
	for _, test := range []struct {
		name string
		in   Problem
		want string
	}{
		{"caret", Problem{File: "g.yaml", Line: 4, Col: 3, Text: "bad", Remedy: "write good", Source: "  nmae: 1"},
			"g.yaml:4:3: bad (write good)\n      nmae: 1\n      ^"},
		{"tab before it", Problem{File: "g.yaml", Line: 1, Col: 2, Text: "bad", Source: "\tx"}, "g.yaml:1:2: bad\n     x\n     ^"},
		{"escapes before it", Problem{File: "g.yaml", Line: 1, Col: 2, Text: "bad\x1b", Source: "\x1bx"}, "g.yaml:1:2: bad\\x1b\n    \\x1bx\n        ^"},
		{"the file", Problem{File: "g.yaml", Text: "bad", Warning: true}, "g.yaml: warning: bad"},
		{"past the end", Problem{File: "g.yaml", Line: 1, Col: 99, Text: "bad", Source: "ab"}, "g.yaml:1:99: bad\n    ab\n      ^"},
		{"long line", Problem{File: "g.yaml", Line: 1, Col: 201, Text: "bad", Source: long},
			"g.yaml:1:201: bad\n    …" + strings.Repeat("x", 55) + "HERE" + strings.Repeat("y", 51) + "…\n    " + strings.Repeat(" ", 56) + "^"},
	} {
		if got := test.in.String(); got != test.want {
			t.Errorf("%s:\n%s\nwant:\n%s", test.name, got, test.want)
		}
	}
}

func TestReadGridErrors(t *testing.T) {
	t.Parallel()
	if _, _, err := ReadGrid("testdata/grid/none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	if _, _, err := ReadGrid("testdata"); err == nil {
		t.Error("a folder gives no error")
	}
}
