package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLingers puts stand-ins for systemd's programs first on PATH, as no test can have a systemd of its own.
func TestLingers(t *testing.T) {
	if os.Geteuid() == 0 {
		argv, err := lingers(t.Context(), []string{"agent"})
		if err != nil || !slices.Equal(argv, []string{"agent"}) {
			t.Errorf("as root: %q, %v", argv, err)
		}
		t.Skip("root's processes are spared: the rest needs another user")
	}
	for _, c := range []struct {
		name, bus, login string
		want             []string
		wrong            string
	}{
		{"ends nothing", "echo b false", "exit 0", []string{"agent"}, ""},
		{"no bus", "exit 1", "exit 0", []string{"agent"}, ""},
		{"ends all", "echo b true", "exit 0", []string{"systemd-run", "--user", "--scope", "--quiet", "--collect", "--", "agent"}, ""},
		{"refuses", "echo b true", "echo 'Access denied'; exit 1", nil, "loginctl enable-linger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"busctl": c.bus, "loginctl": c.login, "systemd-run": "exit 0"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			argv, err := lingers(t.Context(), []string{"agent"})
			if !slices.Equal(argv, c.want) || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q, %v", argv, err)
			}
		})
	}
}
