//go:build linux

package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"sweep/sweep/proc/proctest"
)

// The test's program is the client of the stand-in for a container runtime.
func TestMain(m *testing.M) {
	if code, is := proctest.Client(); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestKillStorm kills a night at every failpoint and at 40 random moments. SWEEP_TEST_SEED gives the moments again.
func TestKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred nights")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SWEEP_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s := storm{random: 40, seed: seed, once: true, parallel: 6, say: t.Logf}
	failed, err := s.run(t.Context())
	if err != nil || failed > 0 {
		t.Errorf("%d blows left something wrong: %v", failed, err)
	}
}
