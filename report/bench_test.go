package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"sweep/sweep"
)

// bigNight is a night of 10,000 records with 100 requests each.
func bigNight(b *testing.B) string {
	b.Helper()
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprintf("0.%03d", 700+i))
	}
	spec := nightSpec{
		name: "big", repeats: 5, plan: true, loads: []sweep.Load{load("chat", "chat", 16), load("chat", "chat", 64)},
		axes: []sweep.Axis{axis("mem-fraction-static", values...), axis("hicache-size", "off", "16", "32", "48", "64")},
	}
	dir := spec.write(b)
	var requests bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&requests, `{"id":"chat/%d/%d","class":"chat","phase":"window","sent_s":%d.25,"ttft_ms":%d.5,"tpot_ms":31.25,"e2e_ms":9123.5,"max_itl_ms":88.1,"end_s":%d.5,"requested_input":512,"requested_output":256,"prompt_tokens":512,"output_tokens":256,"chunks":256,"outcome":"ok"}`+"\n", i, i, i, 100+i, i+9)
	}
	for _, r := range spec.records() {
		folder := filepath.Join(dir, filepath.FromSlash(r.Dir), "load="+r.Load.String())
		if err := os.MkdirAll(folder, 0o777); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "requests.jsonl"), requests.Bytes(), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// The report of 10,000 records with a million requests, and their export: beyond reading at most 5 s and 400 MB, and 2 s.
func BenchmarkBigNight(b *testing.B) {
	dir := bigNight(b)
	for b.Loop() {
		began := time.Now()
		n, err := Read(dir)
		if err != nil {
			b.Fatal(err)
		}
		read := time.Since(began)
		if len(n.Records) != 10_000 {
			b.Fatalf("%d records", len(n.Records))
		}
		began = time.Now()
		if _, err := WriteFolder(n, Summarize(n), PageOptions{}); err != nil {
			b.Fatal(err)
		}
		written := time.Since(began)
		began = time.Now()
		requests, err := WriteRequestsParquet(io.Discard, n)
		if err != nil || requests != 1_000_000 {
			b.Fatal(requests, err)
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		b.ReportMetric(read.Seconds(), "read-s")
		b.ReportMetric(written.Seconds(), "report-s")
		b.ReportMetric(time.Since(began).Seconds(), "parquet-s")
		b.ReportMetric(float64(mem.Sys)/(1<<20), "MiB-from-system")
	}
}
