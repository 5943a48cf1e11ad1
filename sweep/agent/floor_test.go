package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sweep/sweep"
)

// The load generator is tested once at a night's start, again when a load has far more events than were tested, and not again by an
// agent that goes on.
func TestFloor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var asked []string
	test := func(_ context.Context, streams int, perS float64) (json.RawMessage, error) {
		asked = append(asked, fmt.Sprintf("%d at %g", streams, perS))
		return json.Marshal(map[string]any{"streams": streams, "events_per_s": perS})
	}
	job := sweep.Job{Loads: []sweep.LoadJob{
		{Load: sweep.Load{Pools: []sweep.Pool{{Concurrency: 8}}}}, {Load: sweep.Load{Pools: []sweep.Pool{{Concurrency: 40}, {Concurrency: 10}}}},
	}}
	f := readFloor(dir, test)
	for _, err := range []error{f.begin(t.Context(), job), f.begin(t.Context(), job), f.reached(t.Context(), 1400), f.reached(t.Context(), 1600), f.reached(t.Context(), 1700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f = readFloor(dir, test)
	if err := errors.Join(f.begin(t.Context(), job), f.reached(t.Context(), 2000), f.reached(t.Context(), 1e9)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"50 at 1000", "50 at 1600", "50 at 100000"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	var kept []struct {
		PerS float64 `json:"events_per_s"`
	}
	if err := readJSON(filepath.Join(dir, SelftestFile), &kept); err != nil || len(kept) != 3 || kept[2].PerS != 1e5 {
		t.Errorf("%v, %v", kept, err)
	}
	// A test that fails is no failure of the night; without one nothing is written.
	other := t.TempDir()
	f = readFloor(other, func(context.Context, int, float64) (json.RawMessage, error) { return nil, errors.New("no core") })
	if err := f.begin(t.Context(), job); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(other, SelftestFile)); err == nil {
		t.Error("a result of a test that failed")
	}
}
