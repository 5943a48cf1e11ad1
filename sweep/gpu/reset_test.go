package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reset that the persistence mode blocks is tried again with it off, and the mode is on again afterwards, whatever came of it.
func TestReset(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode  string // persistence mode
		works string // how the reset goes: "always", "never", or only with the mode "off"
		want  string
		fails bool
	}{
		"at once":       {"Enabled", "always", "--gpu-reset -i GPU-a,GPU-b", false},
		"mode off":      {"Enabled", "off", "--gpu-reset -i GPU-a,GPU-b|query|-pm 0 -i GPU-a|--gpu-reset -i GPU-a,GPU-b|-pm 1 -i GPU-a", false},
		"never":         {"Enabled", "never", "--gpu-reset -i GPU-a,GPU-b|query|-pm 0 -i GPU-a|--gpu-reset -i GPU-a,GPU-b|-pm 1 -i GPU-a", true},
		"mode not on":   {"Disabled", "never", "--gpu-reset -i GPU-a,GPU-b|query", true},
		"mode not told": {"[N/A]", "never", "--gpu-reset -i GPU-a,GPU-b|query", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := `#!/bin/sh
cd ` + dir + `
case "$1" in
--query-gpu=*) echo query >> calls; printf 'index, uuid, persistence_mode\n0, GPU-a, ` + c.mode + `\n1, GPU-b, Disabled\n2, GPU-c, Enabled\n' ;;
-pm) echo "$*" >> calls; if [ "$2" = 0 ]; then touch off; else rm -f off; fi ;;
*) echo "$*" >> calls
   if [ ` + c.works + ` = always ] || { [ ` + c.works + ` = off ] && [ -e off ]; }; then exit 0; fi
   echo 'GPU 00000000:01:00.0 is currently in use by another process.'; exit 255 ;;
esac
`
			smi := filepath.Join(dir, "nvidia-smi")
			if err := os.WriteFile(smi, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			err := (&Reader{Command: []string{smi}}).Reset(t.Context(), []string{"GPU-a", "GPU-b"})
			calls, readErr := os.ReadFile(filepath.Join(dir, "calls"))
			if got := strings.ReplaceAll(strings.TrimSpace(string(calls)), "\n", "|"); readErr != nil || got != c.want || (err != nil) != c.fails {
				t.Errorf("%v after %s, want %s", err, got, c.want)
			}
			if c.fails && !strings.Contains(err.Error(), "in use by another process") {
				t.Errorf("the driver's words are lost: %v", err)
			}
		})
	}
	if err := (&Reader{}).Reset(t.Context(), nil); err == nil {
		t.Error("a reset of nothing")
	}
}
