package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"sweep/sweep"
)

func TestTableGolden(t *testing.T) {
	_, s := kimi(2).read(t)
	golden(t, "kimi.txt", []byte(tableText(t, s, Options{})))
	golden(t, "kimi-80.txt", []byte(tableText(t, s, Options{Width: 80})))
	_, s = nights()["unfinished"].read(t)
	golden(t, "unfinished.txt", []byte(tableText(t, s, Options{})))
}

func TestMarkdownGolden(t *testing.T) {
	_, s := kimi(1).read(t)
	var b bytes.Buffer
	if err := WriteMarkdown(&b, s, []Picture{{Name: "throughput-synth", Title: "what it shows", Workload: "synth"}}, View{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "kimi.md", b.Bytes())
}

// Every table of every shape of night fits a terminal, or has lost all columns that it can do without.
func TestTablesFit(t *testing.T) {
	for name, spec := range nights() {
		_, s := spec.read(t)
		for _, blk := range s.document(nil, View{}) {
			if blk.table == nil {
				continue
			}
			for _, width := range []int{80, 100, 160} {
				text, dropped, err := blk.table.terminal(width, false)
				if err != nil {
					t.Fatal(err)
				}
				can := 0
				for _, c := range blk.table.columns {
					if c.drop > 0 {
						can++
					}
				}
				widest := 0
				for line := range strings.Lines(text) {
					line = strings.TrimSuffix(line, "\n")
					widest = max(widest, twwidth.Width(line))
					if strings.HasSuffix(line, " ") {
						t.Errorf("%s: trailing space: %q", name, line)
					}
				}
				if widest > width && len(dropped) < can {
					t.Errorf("%s: %d columns on a terminal of %d, and only %d of %d table columns dropped", name, widest, width, len(dropped), can)
				}
			}
			whole, dropped, err := blk.table.terminal(0, false)
			if err != nil || len(dropped) > 0 || strings.Contains(whole, "…") {
				t.Errorf("%s: without a limit something is left out or cut: %v %v", name, dropped, err)
			}
		}
	}
}

func TestNarrowTerminalsLoseColumnsNotDigits(t *testing.T) {
	_, s := nights()["eight"].read(t)
	wide, narrow := tableText(t, s, Options{}), tableText(t, s, Options{Width: 80})
	if strings.Contains(wide, "not shown") {
		t.Error("columns are missing although there is no limit")
	}
	if !strings.Contains(narrow, "(not shown for lack of width:") || strings.Contains(narrow, "  ITL p99") {
		t.Errorf("80 columns: the missing columns are not named:\n%s", narrow)
	}
	best, ok := s.Sheets[0].Best.Best.Median(throughput())
	if number := commas(best, 0); !ok || !strings.Contains(narrow, number+" (3)") {
		t.Errorf("the best's number %s is not whole at 80 columns", number)
	}
}

func TestColourOnlyWhenAsked(t *testing.T) {
	_, s := kimi(1).read(t)
	if text := tableText(t, s, Options{Width: 120}); strings.Contains(text, "\x1b") {
		t.Error("escape sequences without being asked")
	}
	coloured, bare := tableText(t, s, Options{Color: true}), tableText(t, s, Options{})
	for code := range strings.SplitSeq("\x1b[1;32m \x1b[31m \x1b[2m \x1b[1m \x1b[0m", " ") {
		coloured = strings.ReplaceAll(coloured, code, "")
	}
	trim := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		return b.String()
	}
	if trim(coloured) != trim(bare) {
		t.Error("colour changes more than colour")
	}
}

func TestWriteErrorsAreSeen(t *testing.T) {
	n, s := kimi(1).read(t)
	for name, f := range map[string]func() error{
		"table":    func() error { return WriteTable(broken{}, s, Options{}) },
		"markdown": func() error { return WriteMarkdown(broken{}, s, nil, View{}) },
		"csv":      func() error { return WriteCSV(broken{}, n) },
		"json":     func() error { return WriteJSON(broken{}, s) },
	} {
		if err := f(); !errors.Is(err, errBroken) {
			t.Errorf("%s on a full disk: %v", name, err)
		}
	}
}

var errBroken = errors.New("no space left")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestHostileTexts(t *testing.T) {
	l := load("w", "c", 8)
	r := cell("c", "0.80", l, 1, 100)
	r.Ending = sweep.Ending{Outcome: sweep.CrashLoad, Phase: sweep.PhaseLoad, Cause: "cuda", Detail: "<script>alert(1)</script> | \x1b]0;owned\x07 `x` [a](b) \u202e",
		Evidence: &sweep.Evidence{File: "server.log", Line: 3, Text: "=cmd|' /C calc'!A0\nsecond"}}
	r.Axes = sweep.Params{{Name: "mem-fraction-static", Value: "a|b\x1b[31m"}}
	n, err := Read(put(t, map[string]string{CellsFile: lineOf(t, r)}))
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(n)
	var md bytes.Buffer
	if err := WriteMarkdown(&md, s, nil, View{}); err != nil {
		t.Fatal(err)
	}
	text := tableText(t, s, Options{}) + md.String()
	if strings.ContainsAny(text, "\x1b\x07") || strings.Contains(text, "\u202e") {
		t.Error("a control character came through")
	}
	for _, bad := range []string{"<script>", " `x`", "[a](b)", "| `"} {
		if strings.Contains(md.String(), bad) {
			t.Errorf("Markdown holds %q unescaped:\n%s", bad, md.String())
		}
	}
	for line := range strings.Lines(md.String()) {
		if strings.HasPrefix(line, "| c") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") < 3 {
			t.Errorf("a bar in a value breaks the row %q", line)
		}
	}
}

func TestCSV(t *testing.T) {
	n, _ := kimi(2).read(t)
	n.Records[0].Detail = "=1+2"
	n.Records[1].Detail = "-danger"
	n.Records[2].Axes = sweep.Params{{Name: "mem-fraction-static", Value: "-1"}, {Name: "hicache-size", Value: "off"}}
	var b bytes.Buffer
	if err := WriteCSV(&b, n); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, k := range rows[0] {
		if _, twice := at[k]; twice {
			t.Errorf("key %s stands twice", k)
		}
		at[k] = i
	}
	if want := len(n.Records) + len(n.Drift); len(rows)-1 != want {
		t.Fatalf("%d rows, want %d", len(rows)-1, want)
	}
	for i, r := range append(append([]sweep.Record{}, n.Records...), n.Drift...) {
		var flat map[string]any
		if err := json.Unmarshal([]byte(lineOf(t, r)), &flat); err != nil {
			t.Fatal(err)
		}
		for k, v := range flat {
			col, ok := at[k]
			if !ok {
				t.Fatalf("key %s of cells.jsonl is no column", k)
			}
			if s, ok := v.(string); ok && strings.TrimPrefix(rows[i+1][col], "'") != s {
				t.Errorf("row %d: %s is %q, want %q", i, k, rows[i+1][col], s)
			}
			if f, ok := v.(float64); ok && rows[i+1][col] != string(mustJSON(t, f)) {
				t.Errorf("row %d: %s is %q, want %v", i, k, rows[i+1][col], f)
			}
		}
	}
	for row, want := range map[int]string{1: "'=1+2", 2: "'-danger"} {
		if got := rows[row][at["detail"]]; got != want {
			t.Errorf("detail %q, want %q: a spreadsheet would run it", got, want)
		}
	}
	if got := rows[3][at["mem_fraction_static"]]; got != "-1" {
		t.Errorf("a negative number became %q", got)
	}
	if rows[1][at["short_concurrency"]] != "" {
		t.Error("what is absent is not an empty field")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestJSON(t *testing.T) {
	_, s := kimi(1).read(t)
	var b bytes.Buffer
	if err := WriteJSON(&b, s); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Workloads []struct {
			Workload, Best string
			Configs        []struct {
				Config, Unfit string
				Loads         []struct {
					Outcomes map[string]int
					Medians  map[string]float64
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Workloads) != 2 || out.Workloads[1].Best != "mem-fraction-static=0.88,hicache-size=48" {
		t.Fatalf("workloads %+v", out.Workloads)
	}
	for _, c := range out.Workloads[1].Configs {
		if c.Config == "mem-fraction-static=0.93,hicache-size=48" {
			if c.Loads[1].Outcomes["oom.prefill"] != 1 || c.Unfit == "" {
				t.Errorf("0.93: %+v", c)
			}
			if _, ok := c.Loads[1].Medians["output_throughput"]; ok {
				t.Error("a load that died has a throughput")
			}
			if c.Loads[1].Medians["kv_tokens"] == 0 {
				t.Error("the facts of a launch that died are lost")
			}
		}
	}
}

func TestWriteFolder(t *testing.T) {
	n, s := nights()["two"].read(t)
	dir := filepath.Join(n.Dir, "report")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "summary.md"), []byte("of yesterday"), 0o666); err != nil {
		t.Fatal(err)
	}
	files, err := WriteFolder(n, s, PageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := "cells.csv heatmap.png heatmap.svg index.html knee.png knee.svg latency.png latency.svg pareto.png pareto.svg summary.md throughput.png throughput.svg"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("files %s\nwant  %s", got, want)
	}
	md, err := os.ReadFile(files.Summary)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range files.Pictures {
		if !strings.Contains(string(md), "("+p.Name+".png)") {
			t.Errorf("summary.md does not show %s", p.Name)
		}
	}
	if !strings.Contains(string(md), "```sh\npython -m sglang.launch_server") || strings.Contains(string(md), "yesterday") {
		t.Error("summary.md is old, or has no command to paste")
	}
}

// With several workloads each has pictures of its own; without a server axis there is no map, and it says so.
func TestPictureNames(t *testing.T) {
	for night, want := range map[string]string{
		"kimi-1": "throughput-short-only heatmap-short-only latency-short-only knee-short-only pareto-short-only " +
			"throughput-synth heatmap-synth latency-synth knee-synth pareto-synth memory-edge",
		"no-axis": "throughput (no map of chat: the grid has no server axis) latency knee pareto",
	} {
		_, s := nights()[night].read(t)
		var got []string
		for _, d := range s.drawings() {
			switch {
			case d.skip == "":
				got = append(got, d.Name)
			case strings.Contains(d.skip, "no map"):
				got = append(got, "("+d.skip+")")
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: pictures %q, want %q", night, strings.Join(got, " "), want)
		}
	}
}

func TestCommandFromLaunch(t *testing.T) {
	l := load("w", "c", 8)
	r := cell("c", "0.80", l, 1, 100)
	r.Dir = "launches/c/repeat=1/attempt=1"
	dir := put(t, map[string]string{CellsFile: lineOf(t, r)})
	launch := filepath.Join(dir, filepath.FromSlash(r.Dir))
	if err := os.MkdirAll(launch, 0o777); err != nil {
		t.Fatal(err)
	}
	data := mustJSON(t, sweep.LaunchResult{Argv: []string{"llama-server", "-m", "/a b/it's.gguf"}})
	if err := os.WriteFile(filepath.Join(launch, "launch.json"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	n, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := `llama-server -m '/a b/it'\''s.gguf'`
	if text := tableText(t, Summarize(n), Options{}); !strings.Contains(text, want) {
		t.Errorf("no command %s in\n%s", want, text)
	}
	for _, bad := range []string{"../x", "/etc", ""} {
		if argv := n.launchArgv(bad); argv != nil {
			t.Errorf("launchArgv(%q) left the night: %v", bad, argv)
		}
	}
}

// BenchmarkReport2000 reads, pivots and writes all of a night of 2,000 cells.
func BenchmarkReport2000(b *testing.B) {
	spec := nights()["forty"]
	spec.repeats = 5
	dir := spec.write(b)
	for b.Loop() {
		n, err := Read(dir)
		if err != nil {
			b.Fatal(err)
		}
		if len(n.Records) != 2000 {
			b.Fatalf("%d records", len(n.Records))
		}
		if _, err := WriteFolder(n, Summarize(n), PageOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
