package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestHostThatFails: what a failed host had still to do is done by another one with the same devices, nothing is
// measured twice, and the records say where.
func TestHostThatFails(t *testing.T) {
	for name, says := range map[string]string{"fails itself": "no such command", "lost again and again": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "local", "local-2", "local-3")
				bad := w.hosts[1]
				steps := 0
				bad.says = says
				bad.dies = func(step string) bool {
					steps++
					return steps > 3
				}
				s, err := w.run(t.Context(), t.Context())
				if err != nil || s.Code() != 0 || s.Outcomes[OK] != testCells {
					t.Fatalf("%+v, %v", s, err)
				}
				seen := map[string]int{}
				for _, h := range w.hosts {
					for cell, n := range h.measured {
						seen[cell] += n
					}
				}
				for cell, n := range seen {
					if n != 1 {
						t.Errorf("%s was measured %d times", cell, n)
					}
				}
				hosts := map[string]int{}
				for _, r := range w.records() {
					hosts[r.Host]++
				}
				if hosts["local-2"] > 3 || hosts["local"] == 0 || hosts["local-3"] == 0 {
					t.Errorf("records by host: %v", hosts)
				}
				if !slices.ContainsFunc(w.heard.lost, func(l string) bool { return strings.HasPrefix(l, "local-2 true") }) {
					t.Errorf("told: %v", w.heard.lost)
				}
			})
		})
	}
}

// TestDevicesGivenUp: what a host had still to do when it gave its devices up is done by another one with the same devices.
func TestDevicesGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "local", "local-2", "local-3")
		w.hosts[1].lost = true
		s, err := w.run(t.Context(), t.Context())
		if err != nil || s.Code() != 0 || s.Outcomes[OK] != testCells {
			t.Fatalf("%+v, %v", s, err)
		}
		if len(w.hosts[1].measured) > 0 {
			t.Errorf("measured on devices that were given up: %v", w.hosts[1].measured)
		}
		if !slices.Contains(w.heard.lost, "local-2 true") {
			t.Errorf("told: %v", w.heard.lost)
		}
		journal, err := os.ReadFile(filepath.Join(w.dir, journalFile))
		if err != nil || !strings.Contains(string(journal), " launches go to other hosts: left for another host: the devices were given up") {
			t.Errorf("journal %s, %v", journal, err)
		}
	})
}

// TestAllDevicesGivenUp: where no host is left that has such devices, each cell says what became of it, and the night's table is
// complete.
func TestAllDevicesGivenUp(t *testing.T) {
	for _, hosts := range [][]string{{"local"}, {"local", "local-2"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, hosts...)
			for _, h := range w.hosts {
				h.lost = true
			}
			s, err := w.run(t.Context(), t.Context())
			if err != nil || s.Recorded != testCells || s.Outcomes[InfraGPU] != testCells {
				t.Errorf("%d hosts: %+v, %v", len(hosts), s, err)
			}
		})
	}
}

// TestHostWithoutSuccessor: where no other host has the same devices, a host's failure is the night's.
func TestHostWithoutSuccessor(t *testing.T) {
	s := newSharing()
	specs := []HostSpec{{Name: "a", GPUs: []string{"0"}}, {Name: "b", GPUs: []string{"0", "1"}}, {Name: "c", GPUs: []string{"0"}, Simulate: "x"}}
	if s.setAside("a", []string{"l"}, specs) {
		t.Error("a launch went to a host with other devices")
	}
	if s.hostOf(PlannedCell{Launch: "l", Host: "a"}) != "a" {
		t.Error("it was moved")
	}
}
