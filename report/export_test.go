package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"sweep/sweep"
)

// What benchstat reads of the export has the same medians as the report: its own packages read and summarize it here.
func TestGoBenchMedians(t *testing.T) {
	n, s := kimi(3).read(t)
	var b bytes.Buffer
	if err := WriteGoBench(&b, n); err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{}
	r := benchfmt.NewReader(&b, "export")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			if len(rec.Config) > 0 {
				t.Fatalf("a setting of the file, %v: two nights would stand in tables of their own", rec.Config)
			}
			for _, v := range rec.Values {
				if v.Unit == "out-tok/s" {
					key := string(rec.Name.Full())
					values[key] = append(values[key], v.Value)
				}
			}
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, sheet := range s.Sheets {
		for _, row := range sheet.Rows {
			for _, q := range row.Squares {
				want, ok := q.Median(throughput())
				if !ok || row.Config.Label != "" {
					continue
				}
				mem, _ := row.Config.Axes.Get("mem-fraction-static")
				hi, _ := row.Config.Axes.Get("hicache-size")
				name := fmt.Sprintf("Sweep/mem-fraction-static=%s/hicache-size=%s/workload=%s/load=%s", mem, hi, sheet.Workload, benchLoad(q.Load))
				got := benchmath.AssumeNothing.Summary(benchmath.NewSample(values[name], &benchmath.DefaultThresholds), 0.95)
				if math.Abs(got.Center-want) > 1e-9 {
					t.Errorf("%s: benchstat has %g, the report %g", name, got.Center, want)
				}
				checked++
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d medians compared", checked)
	}
	for in, want := range map[string]string{"a b/c=d": "a_b_c_d", "mem-8": "mem_8", "0.80": "0.80", "x-y": "x-y"} {
		if got := benchName(in); got != want {
			t.Errorf("benchName(%q) = %q, want %q", in, got, want)
		}
	}
}

// rawNight is a small night with its requests.
func rawNight(t testing.TB) *Night {
	t.Helper()
	spec := nightSpec{name: "raw", repeats: 2, plan: true, raw: true, axes: []sweep.Axis{axis("mem-fraction-static", "0.80", "0.90")}, loads: ladder(16, 64)}
	n, err := Read(spec.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The other tools' numbers, by hand from the requests; and read back by our own import.
func TestBenchServingRoundTrip(t *testing.T) {
	n := rawNight(t)
	var b bytes.Buffer
	if err := WriteBenchServing(&b, n); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
	if len(lines) != len(n.Records) {
		t.Fatalf("%d lines for %d records", len(lines), len(n.Records))
	}
	r := n.Records[0]
	first, last, output, completed := math.Inf(1), 0.0, 0.0, 0
	var ttft []float64
	if err := n.EachRequest(r, func(q *Request) {
		first, last = min(first, q.SentS), max(last, q.EndS)
		if q.Outcome == "ok" {
			completed++
			output += q.OutputTokens
			ttft = append(ttft, q.TTFT)
		}
	}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(lines[0], &got); err != nil {
		t.Fatal(err)
	}
	near(t, "duration", got["duration"].(float64), last-first, 1e-9)
	near(t, "output_throughput", got["output_throughput"].(float64), output/(last-first), 1e-9)
	near(t, "completed", got["completed"].(float64), float64(completed), 0)
	slices.Sort(ttft)
	near(t, "median_ttft_ms", got["median_ttft_ms"].(float64), (ttft[(len(ttft)-1)/2]+ttft[len(ttft)/2])/2, 1e-9)
	near(t, "ours beside it", got["sweep_output_throughput"].(float64), r.Values["output_throughput"], 1e-9)
	if _, ok := got["p99_itl_ms"]; ok {
		t.Error("a percentile of gaps that nobody kept")
	}
	if order := bytes.Index(lines[0], []byte(`"tag"`)); order != 1 {
		t.Error("the keys are not in the tool's order")
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "sglang.jsonl")
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	im, err := Import(dir, "back", []string{file}, time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC))
	if err != nil || im.Records != len(n.Records) {
		t.Fatalf("%+v, %v", im, err)
	}
	back, err := Read(im.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if back.Repeats != 2 || len(back.Configs) != 2 || len(back.Loads) != 2 {
		t.Errorf("read back: %d repeats, %d configs, %d loads", back.Repeats, len(back.Configs), len(back.Loads))
	}
	near(t, "read back", back.Records[0].Values["output_throughput"], got["output_throughput"].(float64), 1e-9)
	if len(back.Records[0].Notes) != 1 || !strings.Contains(back.Records[0].Notes[0], "by its own definitions") {
		t.Errorf("notes %q", back.Records[0].Notes)
	}
}

func TestVLLMRoundTrip(t *testing.T) {
	n := rawNight(t)
	runs, err := VLLMRuns(n)
	if err != nil || len(runs) != len(n.Records) {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	dir := filepath.Join(t.TempDir(), "experiment")
	for _, run := range runs {
		path := filepath.Join(dir, filepath.FromSlash(run.Path))
		if !filepath.IsLocal(run.Path) {
			t.Fatalf("a run would be written to %s", run.Path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, run.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := "SERVE--mem-fraction-static=0.80-BENCH--chat-chat=16/run=0.json"; runs[0].Path != want {
		t.Errorf("path %s, want %s", runs[0].Path, want)
	}
	im, err := Import(t.TempDir(), "vllm", []string{dir}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(im.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Summarize(back)
	if len(s.Sheets) != 1 || len(s.Sheets[0].Rows) != 2 || len(s.Sheets[0].Loads) != 2 || back.Repeats != 2 {
		t.Fatalf("%d sheets, %d repeats, configs %+v", len(s.Sheets), back.Repeats, back.Configs)
	}
	if v, ok := s.Sheets[0].Rows[1].Config.Axes.Get("mem-fraction-static"); !ok || v != "0.90" {
		t.Errorf("axes %v", s.Sheets[0].Rows[1].Config.Axes)
	}
	if _, ok := s.Sheets[0].Rows[0].Squares[0].Median(metric("p99_ttft_ms")); !ok {
		t.Error("latencies are lost")
	}
}

func TestParquet(t *testing.T) {
	n := rawNight(t)
	dir := t.TempDir()
	cells, requests := filepath.Join(dir, "cells.parquet"), filepath.Join(dir, "requests.parquet")
	toFile := func(path string, f func(io.Writer) error) {
		t.Helper()
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	toFile(cells, func(w io.Writer) error { return WriteCellsParquet(w, n) })
	count := 0
	toFile(requests, func(w io.Writer) (err error) {
		count, err = WriteRequestsParquet(w, n)
		return err
	})
	rows, err := parquet.ReadFile[parquetRequest](requests)
	if err != nil || len(rows) != count || count != 8*400 {
		t.Fatalf("%d rows of %d, %v", len(rows), count, err)
	}
	i := 0
	for _, r := range n.all() {
		if err := n.eachRequest(r, true, func(q *Request) {
			row := rows[i]
			i++
			if row.Cell != r.Cell || row.Class != q.Class || row.ID != q.ID || row.TTFT == nil || *row.TTFT != q.TTFT || row.PromptTokens == nil || *row.PromptTokens != 1000 || row.CachedTokens != nil {
				t.Fatalf("row %d is %+v, the request %+v", i, row, q)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(cells)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil || file.NumRows() != int64(len(n.Records)) {
		t.Fatalf("cells: %v", err)
	}
	names := map[string]bool{}
	for _, c := range file.Root().Columns() {
		names[c.Name()] = true
	}
	for _, want := range []string{"cell", "output_throughput", "mem_fraction_static", "pools", "output_throughput_per_gpu"} {
		if !names[want] {
			t.Errorf("cells.parquet has no column %s", want)
		}
	}
	testPython(t, n.Dir, cells, requests)
}

// testPython reads the files as results/README.md says, with what Python has of pandas and DuckDB.
func testPython(t *testing.T, night, cells, requests string) {
	t.Helper()
	python := os.Getenv("SWEEP_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.Command(python, "-c", "import duckdb").Run() != nil {
		if os.Getenv("SWEEP_PYTHON") != "" {
			t.Error("SWEEP_PYTHON is set, and it has no duckdb")
		}
		t.Log("no Python with duckdb here: not tried")
		return
	}
	script := `
import duckdb, sys
night, cells, requests = sys.argv[1:]
lines = duckdb.sql(f"select config, load, repeat, outcome, output_throughput, p99_ttft_ms from '{night}/cells.jsonl' where role = 'measure' order by all").fetchall()
again = duckdb.sql(f"select config, load, cast(repeat as bigint), outcome, output_throughput, p99_ttft_ms from '{cells}' where role = 'measure' order by all").fetchall()
assert lines == again and len(lines) == 8, (lines, again)
raw = duckdb.sql(f"select class, count(*), quantile_cont(ttft_ms, 0.99) from read_json('{night}/launches/**/requests.jsonl', hive_partitioning = true, union_by_name = true) where phase = 'window' and outcome = 'ok' group by class").fetchall()
packed = duckdb.sql(f"select class, count(*), quantile_cont(ttft_ms, 0.99) from '{requests}' where phase = 'window' and outcome = 'ok' group by class").fetchall()
assert raw == packed and raw[0][1] == 8 * 359, (raw, packed)
print("same")
`
	out, err := exec.Command(python, "-c", script, night, cells, requests).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "same" {
		t.Errorf("DuckDB: %v\n%s", err, out)
	}
}

func TestJSONLHasDerivedNumbers(t *testing.T) {
	n := rawNight(t)
	n.SetPrice(8)
	var b bytes.Buffer
	if err := WriteJSONL(&b, n); err != nil {
		t.Fatal(err)
	}
	var first map[string]any
	line, _, _ := bytes.Cut(b.Bytes(), []byte("\n"))
	if err := json.Unmarshal(line, &first); err != nil {
		t.Fatal(err)
	}
	near(t, "per GPU", first["output_throughput_per_gpu"].(float64), n.Records[0].Values["output_throughput"]/8, 1e-9)
	if _, ok := first["usd_per_million_output_tokens"]; !ok {
		t.Error("the price is not there")
	}
}
