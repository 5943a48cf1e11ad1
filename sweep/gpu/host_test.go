package gpu

import (
	"os"
	"path/filepath"
	"testing"
)

const meminfo = "MemTotal:       131981020 kB\nMemFree:        130149384 kB\nMemAvailable:   131307028 kB\nSwapFree: 99999999 kB\nHugePages_Total:       0\n"

const (
	memTotal     = 131981020 * 1024
	memAvailable = 131307028 * 1024
)

func TestHostMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  Memory
	}{
		{"no limit", map[string]string{"/proc/self/cgroup": "0::/\n"}, Memory{memTotal, memAvailable, ""}},
		{"no control groups", nil, Memory{memTotal, memAvailable, ""}},
		{"version 2, limit above", map[string]string{
			"/proc/self/cgroup":                                    "0::/user.slice/run-1.scope\n",
			"/sys/fs/cgroup/user.slice/memory.max":                 "2000\n",
			"/sys/fs/cgroup/user.slice/memory.current":             "1500\n",
			"/sys/fs/cgroup/user.slice/memory.stat":                "anon 1\ninactive_file 700\n",
			"/sys/fs/cgroup/user.slice/run-1.scope/memory.max":     "max\n",
			"/sys/fs/cgroup/user.slice/run-1.scope/memory.current": "5\n",
		}, Memory{2000, 1200, "/sys/fs/cgroup/user.slice"}},
		{"version 2 in a container", map[string]string{
			"/proc/self/cgroup":             "0::/kubepods/pod7\n", // not mounted under this name
			"/sys/fs/cgroup/memory.max":     "4000",
			"/sys/fs/cgroup/memory.current": "5000",
		}, Memory{4000, 0, "/sys/fs/cgroup"}},
		{"version 1", map[string]string{
			"/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/job\n0::/\n",
			"/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "3000\n",
			"/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000\n",
			"/sys/fs/cgroup/memory/job/memory.stat":           "inactive_file 1\ntotal_inactive_file 100\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"/sys/fs/cgroup/memory/memory.usage_in_bytes":     "7\n",
		}, Memory{3000, 2100, "/sys/fs/cgroup/memory/job"}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("/proc/meminfo", meminfo)
		for name, text := range tt.files {
			write(name, text)
		}
		got, err := (&HostReader{root: root}).HostMemory(t.Context())
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestHostMemoryOfACommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(file, []byte(meminfo), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := (&HostReader{Meminfo: smi(t, "file", file)}).HostMemory(t.Context())
	if want := (Memory{memTotal, memAvailable, ""}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (&HostReader{Meminfo: smi(t, "garbage")}).HostMemory(t.Context()); err == nil {
		t.Errorf("garbage gives %+v", got)
	}
}
