package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// put writes a night's files by name and returns its folder.
func put(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func lineOf(t testing.TB, r sweep.Record) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func cell(config, mem string, load sweep.Load, repeat int, tps float64) sweep.Record {
	return sweep.Record{
		Cell: config + "/" + load.String(), Role: sweep.RoleMeasure, Config: config, Load: load, Repeat: repeat, Attempt: 1, Engine: "sglang",
		Axes: sweep.Params{{Name: "mem-fraction-static", Value: mem}}, ContentKey: "k-" + mem,
		Ending: sweep.Ending{Outcome: sweep.OK}, Values: sweep.Values{"output_throughput": tps},
	}
}

func TestReadTornAndBadLines(t *testing.T) {
	l8, l16 := load("w", "c", 8), load("w", "c", 16)
	a := lineOf(t, cell("mem-fraction-static=0.80", "0.80", l8, 1, 100))
	b := lineOf(t, cell("mem-fraction-static=0.80", "0.80", l16, 1, 150))
	tests := []struct {
		name     string
		cells    string
		records  int
		problems []string // each must be in one problem, in order
	}{
		{"whole", a + b, 2, nil},
		{"torn last line", a + b[:len(b)/2], 1, []string{"last line (2) is cut short"}},
		{"last line whole but without its newline", a + strings.TrimSuffix(b, "\n"), 2, nil},
		{"a line that is no record", a + "hello\n" + b, 2, []string{"cells.jsonl:2: not a record"}},
		{"an object that is no record", `{"schema":1}` + "\n" + b, 1, []string{"cells.jsonl:1: not a record"}},
		{"blank lines", "\n" + a + "\n\n" + b, 2, nil},
		{"escapes in a bad line stay visible", "\x1b[31m\n", 0, []string{`cells.jsonl:1`}},
		{"empty", "", 0, nil},
	}
	for _, tt := range tests {
		n, err := Read(put(t, map[string]string{CellsFile: tt.cells}))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if len(n.Records) != tt.records || len(n.Problems) != len(tt.problems) {
			t.Errorf("%s: %d records, problems %q; want %d and %q", tt.name, len(n.Records), n.Problems, tt.records, tt.problems)
			continue
		}
		for i, p := range tt.problems {
			if !strings.Contains(n.Problems[i], p) || strings.Contains(n.Problems[i], "\x1b") {
				t.Errorf("%s: problem %q, want %q", tt.name, n.Problems[i], p)
			}
		}
	}
}

func TestReadLastRecordOfACellCounts(t *testing.T) {
	l := load("w", "c", 8)
	first, second := cell("c", "0.80", l, 1, 100), cell("c", "0.80", l, 1, 200)
	first.Outcome = sweep.InfraLost
	other := cell("c", "0.80", l, 2, 300)
	n, err := Read(put(t, map[string]string{CellsFile: lineOf(t, first) + lineOf(t, other) + lineOf(t, second)}))
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Records) != 2 || n.Records[0].Values["output_throughput"] != 200 || n.Repeats != 2 {
		t.Errorf("records %+v, repeats %d; want the second record of repeat 1, then repeat 2", n.Records, n.Repeats)
	}
}

func TestReadPlan(t *testing.T) {
	l := load("w", "c", 8)
	manifest := func(contentKey string) string {
		data, err := json.Marshal(map[string]any{
			"configs":   []sweep.Config{{Key: "b", Baseline: true}, {Key: "a"}},
			"loads":     []sweep.Load{l},
			"repeats":   2,
			"workloads": []sweep.Workload{{Name: "w"}},
			"cells": []map[string]any{
				{"cell": "a/" + l.String(), "repeat": 1, "content_key": contentKey, "role": "measure"},
				{"cell": "b/" + l.String() + "@drift", "repeat": 1, "role": "drift"},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	line := lineOf(t, cell("a", "0.80", l, 1, 100))
	tests := []struct {
		name, manifest string
		records        int
		configs        string
		asked          int
		problem        string
	}{
		{"planned", manifest("k-0.80"), 1, "b a", 1, ""},
		{"made before the grid was changed", manifest("another"), 0, "b a", 1, "made before the grid was changed"},
		{"broken plan", "{", 1, "a", 1, "what has not run yet is not known"},
	}
	for _, tt := range tests {
		n, err := Read(put(t, map[string]string{CellsFile: line, ManifestFile: tt.manifest}))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var keys []string
		for _, c := range n.Configs {
			keys = append(keys, c.Key)
		}
		problems := strings.Join(n.Problems, "; ")
		if len(n.Records) != tt.records || strings.Join(keys, " ") != tt.configs || n.Asked != tt.asked {
			t.Errorf("%s: %d records, configs %v, %d asked; want %d, %s, %d", tt.name, len(n.Records), keys, n.Asked, tt.records, tt.configs, tt.asked)
		}
		if tt.problem == "" && problems != "" || !strings.Contains(problems, tt.problem) {
			t.Errorf("%s: problems %q, want %q", tt.name, problems, tt.problem)
		}
	}
}

func TestReadRefusesWhatIsNoNight(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no night") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	night := func(name string, age time.Duration) string {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, CellsFile)
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	if err := os.WriteFile(filepath.Join(root, "README.md"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Find(root); err == nil || !strings.Contains(err.Error(), "neither a night") {
		t.Errorf("no nights: %v", err)
	}
	old := night("kimi-20261128T180000Z", 0)
	want := night("demo-20261129T180000Z", 48*time.Hour) // newer by its name, older by its file
	if got, newest, err := Find(root); got != want || !newest || err != nil {
		t.Errorf("Find(results) = %q, %v, %v; want %q", got, newest, err, want)
	}
	if got, newest, err := Find(old); got != old || newest || err != nil {
		t.Errorf("Find(night) = %q, %v, %v; want it itself", got, newest, err)
	}
	for path, want := range map[string]string{filepath.Join(root, "none"): "there is no folder", filepath.Join(root, "README.md"): "is a file"} {
		if _, _, err := Find(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%s): %v, want %q", path, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	l := load("w", "a", 8, "b", 2)
	r := cell("c", "0.80", l, 1, 100)
	r.Notes, r.Detail = []string{"hicache inert: no hits"}, preflight300
	f.Add(lineOf(f, r))
	f.Add(lineOf(f, r)[:40])
	f.Add(`{"cell":"c","config":"c","workload":"w","axes":["x"],"x":"1","outcome":"ok","output_throughput":-0}` + "\n")
	f.Add(`{"cell":"c","config":"c","workload":"w","outcome":"ok","pools":[{"class":"a","concurrency":-3}],"output_throughput":1e300}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Read(put(t, map[string]string{CellsFile: text}))
		if err != nil {
			t.Fatal(err)
		}
		s := Summarize(n)
		var out strings.Builder
		if err := WriteTable(&out, s, Options{Width: 80}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
			t.Errorf("a control character reached the terminal: %q", out.String()[i:min(len(out.String()), i+10)])
		}
		for _, d := range s.drawings() {
			if d.skip == "" {
				record(d)
			}
		}
		if slices.ContainsFunc(s.Sheets, func(sh *Sheet) bool { return sh.Best != nil && sh.Best.Unfit != "" }) {
			t.Error("a config that may not be best was named best")
		}
	})
}
