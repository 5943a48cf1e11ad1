package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParts reads a machine whose first GPU is split: the texts follow what NVIDIA's MIG guide and public logs show.
func TestParts(t *testing.T) {
	const second = "MIG-7e8f9a0b-1111-5222-9333-ba9876543210"
	for name, want := range map[string]struct {
		log  string
		used int64 // MiB of the second part; −1: not known
	}{
		"whole":      {"mig_log.xml", 12298},
		"no log":     {"", -1},
		"cut short":  {"mig_list.txt", -1},
		"other form": {"mig_apps.csv", -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reader{Command: splitMachine(t, want.log)}
			devices, err := r.Devices(t.Context())
			if err != nil || len(devices) != 4 {
				t.Fatalf("%+v, %v", devices, err)
			}
			gpu, part, other := devices[0], devices[2], devices[3]
			if !gpu.Split() || gpu.Parent != "" || *gpu.MemoryUsed != 595*mib || other.Index != 1 || other.Parent != "" {
				t.Errorf("GPUs %+v, %+v", gpu, other)
			}
			if part.UUID != second || part.Parent != gpu.UUID || part.Index != 0 || part.Name != "NVIDIA H100 80GB HBM3 MIG 3g.40gb" || part.Split() || *part.Temperature != 31 {
				t.Errorf("part %+v", part)
			}
			if used := Used(devices[2:3])[second]; want.used >= 0 && used != want.used*mib || (part.MemoryUsed != nil) != (want.used >= 0) {
				t.Errorf("%d bytes in use: %v", used, part.MemoryUsed)
			}
			processes, err := r.Processes(t.Context())
			if err != nil || processes[0].UUID != gpu.UUID {
				t.Fatalf("%+v, %v", processes, err)
			}
			if known := len(processes) == 2; known != (want.used >= 0) || known && (processes[1].UUID != second || processes[1].PID != 41394 || *processes[1].Memory != 12000*mib) {
				t.Errorf("processes %+v", processes)
			}
		})
	}
}

// splitMachine is a nvidia-smi that prints the files of a split machine; log is what -q -x prints, "": it fails.
func splitMachine(t *testing.T, log string) []string {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	full := "cat " + filepath.Join(dir, log)
	if log == "" {
		full = "echo 'Failed to initialize NVML' >&2; exit 1"
	}
	script := "#!/bin/sh\ncase \"$*\" in\n--query-gpu=*) cat DIR/mig_gpus.csv;;\n--query-compute-apps=*) cat DIR/mig_apps.csv;;\n-L) cat DIR/mig_list.txt;;\n\"-q -x\") " + full + ";;\n*) exit 2;;\nesac\n"
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(script, "DIR", dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func FuzzParts(f *testing.F) {
	for _, file := range []string{"testdata/mig_list.txt", "testdata/mig_log.xml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		log, _ := parseLog(text)
		for _, p := range log.onParts(parseParts(text)) {
			if p.UUID == "" || p.Memory != nil && *p.Memory < 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}
