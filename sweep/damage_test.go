package sweep

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// TestDamagedRecords damages cells.jsonl of a whole night in many ways: each time the night is whole again
// after a resume, no cell is measured a second time, and the file as it was is kept.
func TestDamagedRecords(t *testing.T) {
	tests := []struct {
		name  string
		bend  func(lines [][]byte) [][]byte
		aside int // files kept
	}{
		{"untouched", func(l [][]byte) [][]byte { return l }, 0},
		{"empty", func([][]byte) [][]byte { return nil }, 0},
		{"a byte", func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte(`{"`), []byte(`{r`), 1); return l }, 1},
		{"zeros", func(l [][]byte) [][]byte {
			l[2] = append(bytes.Repeat([]byte{0}, 200), '\n')
			return l
		}, 1},
		{"twice", func(l [][]byte) [][]byte { return append(l, l[0]) }, 1},
		{"torn", func(l [][]byte) [][]byte { l[len(l)-1] = l[len(l)-1][:30]; return l }, 1},
		{"garbage", func([][]byte) [][]byte { return [][]byte{[]byte("\xff\xfe\n\n\x1b[2J")} }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.run(t.Context(), t.Context()); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(w.dir, cellsFile)
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, bytes.Join(tt.bend(bytes.SplitAfter(data, []byte("\n"))[:testCells]), nil), 0o600); err != nil {
					t.Fatal(err)
				}
				s, err := w.run(t.Context(), t.Context())
				if err != nil || s.Recorded != testCells || s.Outcomes[OK] != testCells {
					t.Errorf("%+v, %v", s, err)
				}
				seen := map[cellID]bool{}
				for _, r := range w.records() {
					if seen[cellID{r.Cell, r.Repeat}] || r.Values["output_throughput"] != 100 {
						t.Errorf("%s: %v", r.Cell, r.Values)
					}
					seen[cellID{r.Cell, r.Repeat}] = true
				}
				for cell, n := range w.hosts[0].measured {
					if n != 1 {
						t.Errorf("%s was measured %d times", cell, n)
					}
				}
				kept, err := filepath.Glob(path + ".*")
				if err != nil || len(kept) != tt.aside {
					t.Errorf("kept: %s, %v", strings.Join(kept, " "), err)
				}
			})
		})
	}
}
