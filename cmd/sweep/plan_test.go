package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// golden compares got with a file of testdata/plan; with UPDATE_GOLDEN set it writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "plan", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is now:\n%s\nwant:\n%s", name, got, want)
	}
}

// runSweep runs the whole program in this process.
func runSweep(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"sweep"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestPlanGolden holds every format of a plan that begins on a known evening.
func TestPlanGolden(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 29, 23, 55, 0, 0, time.UTC)
	for _, test := range []struct{ format, file string }{
		{"table", "night.table"}, {"markdown", "night.md"}, {"csv", "night.csv"}, {"json", "night.json"},
	} {
		plan, eng, err := gridOf(&environ{Stderr: io.Discard}, "testdata/plan/night.yaml", 0)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := writePlan(&b, plan, foresee(plan, eng, nil), test.format, evening); err != nil {
			t.Fatal(err)
		}
		golden(t, test.file, b.String())
	}
}

// TestPlanCommand holds that the command writes the plan and nothing else to standard output.
func TestPlanCommand(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runSweep(t, "plan", "--format", "csv", "testdata/plan/night.yaml")
	want, err := os.ReadFile("testdata/plan/night.csv")
	if err != nil {
		t.Fatal(err)
	}
	if code != exitOK || stdout != string(want) || stderr != "" {
		t.Errorf("exit code %d, standard error %q, standard output:\n%s", code, stderr, stdout)
	}
}

func TestValidateCommand(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runSweep(t, "validate", "testdata/plan/bad.yaml")
	if code != exitUsage || stdout != "" {
		t.Errorf("a bad grid: exit code %d, standard output %q", code, stdout)
	}
	golden(t, "bad.stderr", stderr)

	for _, test := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // stderr: a part of it
	}{
		{"good", []string{"testdata/plan/night.yaml"}, exitOK, "ok: 5 configs × 2 loads × 1 repeat: 6 starts, 11 cells\n", ""},
		{
			"good and bad", []string{"testdata/plan/night.yaml", "testdata/plan/bad.yaml"}, exitUsage,
			"testdata/plan/night.yaml: ok: 5 configs × 2 loads × 1 repeat: 6 starts, 11 cells\n", "bad.yaml cannot run: 7 problems",
		},
		{"missing", []string{"testdata/plan/none.yaml"}, exitUsage, "", "cannot read grid testdata/plan/none.yaml"},
		{"folder", []string{"testdata"}, exitUsage, "", "cannot read grid testdata"},
		{"no grid", nil, exitUsage, "", "which grid"},
	} {
		code, stdout, stderr := runSweep(t, append([]string{"validate"}, test.args...)...)
		if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, standard output %q, standard error %q", test.name, code, stdout, stderr)
		}
	}
}

func TestRough(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   time.Duration
		want string
	}{
		{50 * time.Millisecond, "0.05 s"},
		{time.Second, "1 s"},
		{90 * time.Second, "90 s"},
		{10 * time.Minute, "10 min"},
		{119 * time.Minute, "119 min"},
		{160 * time.Minute, "2 h 40 min"},
		{26 * time.Hour, "26 h"},
	} {
		if got := rough(test.in); got != test.want {
			t.Errorf("%s: %s, want %s", test.in, got, test.want)
		}
	}
}

func TestClockTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{3*time.Hour + 10*time.Minute, "21:10"},
		{7*time.Hour + 40*time.Minute, "01:40 tomorrow"},
		{40 * time.Hour, "10:00 on Tue 1 Dec"},
	} {
		if got := clockTime(now, now.Add(test.after)); got != test.want {
			t.Errorf("%s later: %s, want %s", test.after, got, test.want)
		}
	}
}

func TestPlanSaysWhenTheNightEnds(t *testing.T) {
	now := time.Date(2026, 11, 29, 18, 0, 0, 0, time.Local)
	tests := []struct {
		grid   sweep.Grid
		lo, hi time.Duration
		want   string
	}{
		{sweep.Grid{}, time.Hour, 2 * time.Hour, ""},
		{sweep.Grid{Until: "07:30"}, time.Hour, 2 * time.Hour, "\nit ends by 07:30 tomorrow (until): no start"},
		{sweep.Grid{Until: "07:30"}, time.Hour, 20 * time.Hour, "; there may not be time for all of it"},
		{sweep.Grid{Budget: 90 * time.Minute}, 2 * time.Hour, 3 * time.Hour, "\nit ends by 19:30 (budget): no start"},
		{sweep.Grid{Budget: 90 * time.Minute}, 2 * time.Hour, 3 * time.Hour, "; there is not time for all of it"},
	}
	for _, tt := range tests {
		got := planDeadline(&tt.grid, now, tt.lo, tt.hi)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.grid, got, tt.want)
		}
	}
}
