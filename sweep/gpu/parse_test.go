package gpu

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden reads what nvidia-smi printed. h200_* were recorded on an NVIDIA H200 with driver
// 580.159.04 (h200_dead: a process in the 7 s after its end), the others follow the shapes that other drivers and machines are known to print.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if strings.Contains(string(b), "gpu_uuid") {
				got, err = parseProcesses(string(b))
			} else {
				got, err = parseDevices(string(b))
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.MarshalIndent(got, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".csv") + ".golden"
			if *update {
				if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(text)+"\n" {
				t.Errorf("got %s\nwant %s", text, want)
			}
		})
	}
}

func TestAbsentIsNotZero(t *testing.T) {
	b, err := os.ReadFile("testdata/gb10_unified.csv")
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDevices(string(b))
	if err != nil || len(d) != 1 || d[0].MemoryUsed != nil || d[0].MemoryTotal != nil || d[0].Power == nil || len(Used(d)) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.csv")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		devices, err := parseDevices(text)
		for _, d := range devices {
			if err != nil || d.UUID == "" || d.MemoryUsed != nil && *d.MemoryUsed < 0 {
				t.Errorf("%+v, %v", d, err)
			}
		}
		_, _ = parseProcesses(text)
		if m, err := parseMeminfo([]byte(text)); err == nil && m.Total < 0 {
			t.Errorf("%+v", m)
		}
	})
}
