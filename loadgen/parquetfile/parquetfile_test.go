package parquetfile

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sweep/loadgen"
	"sweep/loadgen/mock"
)

// What a run recorded is in the file, row by row.
func TestWrite(t *testing.T) {
	server := &mock.Server{Answer: func(r mock.Request) []mock.Step {
		if r.Number == 3 {
			return mock.Answer(502, "bad")
		}
		return mock.Stream(r, mock.Timing{First: time.Millisecond, Gap: 100 * time.Microsecond})
	}}
	url, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var record bytes.Buffer
	spec := loadgen.Spec{
		URL: url, Route: "/v1/completions", Model: "m", Vocabulary: []int{1, 2, 3}, Record: &record,
		Classes: []loadgen.Class{{Name: "a", Concurrency: 4, Input: loadgen.Range{Min: 3, Max: 9}, Output: loadgen.Range{Min: 2, Max: 6}}},
		Window:  loadgen.Window{Max: 20 * time.Second, Requests: map[string]int{"a": 150}, Exactly: true},
	}
	if _, err := loadgen.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	var want []Row
	if _, err := loadgen.ReadRecord(bytes.NewReader(record.Bytes()), func(r *loadgen.Record) error {
		want = append(want, row(r))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	n, err := Write(&file, &record)
	if err != nil || n != 150 || len(want) != 150 {
		t.Fatalf("%d rows of %d, %v", n, len(want), err)
	}
	rows := make([]Row, 200)
	got, err := parquet.NewGenericReader[Row](bytes.NewReader(file.Bytes())).Read(rows)
	if got != n || err != nil && err != io.EOF {
		t.Fatalf("read %d rows, %v", got, err)
	}
	failed := 0
	for i, r := range rows[:got] {
		w := want[i]
		if r.ID != w.ID || r.Outcome != w.Outcome || *r.EndNS != *w.EndNS || (r.TTFTNS == nil) != (w.TTFTNS == nil) || len(r.ChunkAtNS) != len(w.ChunkAtNS) || len(r.ChunkKind) != len(w.ChunkKind) || r.RequestedOutput != w.RequestedOutput {
			t.Fatalf("row %d:\ngot  %+v\nwant %+v", i, r, w)
		}
		for j := range r.ChunkAtNS {
			if r.ChunkAtNS[j] != w.ChunkAtNS[j] || r.ChunkKind[j] != w.ChunkKind[j] || r.ChunkTokens[j] != w.ChunkTokens[j] || r.ChunkExact[j] != w.ChunkExact[j] {
				t.Fatalf("row %d, event %d differs", i, j)
			}
		}
		if r.Outcome != "ok" {
			failed++
			if r.TTFTNS != nil || r.PromptTokens != nil || r.Kind != "http_502" {
				t.Errorf("a refusal has %+v", r)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d failed", failed)
	}
}
