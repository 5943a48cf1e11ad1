package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
)

// roundTrip is that of the link in TestSameNightFarAway: from one town to the next.
const roundTrip = 20 * time.Millisecond

// TestSameNightFarAway runs a whole grid here, and then over SSH behind a link with a round trip of 20 ms: the same cells,
// requests, outcomes and facts, and beside them the figures of both. It takes twice as long as its grid:
//
//	SWEEP_FAR_NIGHT=$PWD/grids/kimi-k2.5-sim.yaml go test ./cmd/sweep -run TestSameNightFarAway -v -timeout 1h
func TestSameNightFarAway(t *testing.T) {
	path := os.Getenv("SWEEP_FAR_NIGHT")
	if path == "" {
		t.Skip("SWEEP_FAR_NIGHT names no grid")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	night := func(grid func(b *bed) string) (*bed, []sweep.Record, time.Duration) {
		b := newBed(t)
		b.grid(grid(b))
		began := time.Now()
		code, said := b.run("run", "grid.yaml")
		took := time.Since(began)
		if code != exitOK && code != exitOther {
			t.Fatalf("exit code %d: %s", code, said)
		}
		b.nothingLeft()
		records, err := sweep.ReadRecords(b.night())
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(records, func(x, y sweep.Record) int { return cmp.Or(cmp.Compare(x.Cell, y.Cell), x.Repeat-y.Repeat) })
		return b, records, took
	}
	here, near, took := night(func(*bed) string { return string(text) })
	there, far, tookFar := night(func(b *bed) string {
		s := b.server(sshtest.Options{})
		return strings.Replace(string(text), "\n  - simulate:", fmt.Sprintf("\n  - ssh: %s\n    ssh_config: %s\n    simulate:", sshtest.Target, s.Far(roundTrip)), 1)
	})
	if far[0].Host != sshtest.Target {
		t.Fatalf("the second night ran on %s: the grid has to name its host as grids/kimi-k2.5-sim.yaml does", far[0].Host)
	}
	if got, want := there.cells(), here.cells(); !slices.Equal(got, want) {
		t.Errorf("cells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := requests(far), requests(near); !slices.Equal(got, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := there.tokens(), here.tokens(); !slices.Equal(got, want) {
		t.Errorf("facts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := there.launchFiles(), here.launchFiles(); !slices.Equal(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	starts, _ := filepath.Glob(filepath.Join(here.night(), "launches", "*", "*", "attempt=*"))
	t.Logf("the night took %v here and %v over a link of %v, in %d attempts at a launch\n%s", took.Round(time.Second), tookFar.Round(time.Second), roundTrip, len(starts), sideBySide(near, far))
}

// requests says what each record's load was made of: the same key is the same command line, load and prompts.
func requests(records []sweep.Record) []string {
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprint(r.Cell, " ", r.Repeat, " ", r.ContentKey))
	}
	return lines
}

// sideBySide is a table of the same cells in two nights.
func sideBySide(near, far []sweep.Record) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "cell\tKV tokens\toutcome\ttok/s\tover SSH\t\tmedian TTFT ms\tover SSH\tp99 ITL ms\tover SSH")
	value := func(r sweep.Record, name, format string) string {
		if v, ok := r.Values[name]; ok {
			return fmt.Sprintf(format, v)
		}
		return "–"
	}
	for i, r := range near {
		if i >= len(far) {
			break
		}
		ratio := "–"
		if a, b := r.Values["output_throughput"], far[i].Values["output_throughput"]; a > 0 && b > 0 {
			ratio = fmt.Sprintf("%+.1f %%", 100*(b/a-1))
		}
		outcome := string(r.Outcome)
		if far[i].Outcome != r.Outcome {
			outcome += " / " + string(far[i].Outcome)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Cell, value(r, "kv_tokens", "%.0f"), outcome,
			value(r, "output_throughput", "%.0f"), value(far[i], "output_throughput", "%.0f"), ratio,
			value(r, "median_ttft_ms", "%.1f"), value(far[i], "median_ttft_ms", "%.1f"), value(r, "p99_itl_ms", "%.2f"), value(far[i], "p99_itl_ms", "%.2f"))
	}
	_ = w.Flush() // into memory
	return b.String()
}
