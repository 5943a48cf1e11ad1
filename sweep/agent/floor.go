package agent

import (
	"context"
	"encoding/json"
	"path/filepath"

	"sweep/sweep"
)

// SelftestFile is the name of a file in an agent's folder: what the load generator was found to err by on this machine, at the event
// rates that the night has reached, in the order of the tests.
const SelftestFile = "selftest.json"

// Load of a test. A server's stream has some 20 events/s before anything is measured.
const (
	floorPerStream = 20.0
	floorStreams   = 1000 // at the most
	floorGrowth    = 1.5  // of the highest tested rate: beyond it the test is run again
	floorMost      = 100_000.0
)

// floor keeps what the load generator errs by.
type floor struct {
	path    string
	test    func(ctx context.Context, streams int, perS float64) (json.RawMessage, error) // nil: none is run
	results []json.RawMessage
	tested  float64 // highest rate, in events/s
	streams int
}

// begin tests the load generator once in a night, before the first server is started, for the largest of a job's loads.
func (f *floor) begin(ctx context.Context, job sweep.Job) error {
	if f.test == nil || f.tested > 0 {
		return nil
	}
	f.streams = 1
	for _, l := range job.Loads {
		f.streams = max(f.streams, min(l.Load.Concurrency(), floorStreams))
	}
	return f.run(ctx, floorPerStream*float64(f.streams))
}

// reached tests it again when a load had far more events a second than were tested, while no other load runs.
func (f *floor) reached(ctx context.Context, perS float64) error {
	if f.test == nil || f.tested == 0 || perS < floorGrowth*f.tested || f.tested >= floorMost {
		return nil
	}
	return f.run(ctx, min(perS, floorMost))
}

// run tests at a rate and keeps the result. A test that cannot be run costs the night nothing: then the floor is not known. The
// error is the disk's.
func (f *floor) run(ctx context.Context, perS float64) error {
	f.tested = perS
	result, err := f.test(ctx, f.streams, perS)
	if err != nil {
		return nil
	}
	f.results = append(f.results, result)
	return writeJSON(f.path, f.results)
}

// readFloor reads what an earlier start of the agent tested.
func readFloor(dir string, test func(context.Context, int, float64) (json.RawMessage, error)) *floor {
	f := &floor{path: filepath.Join(dir, SelftestFile), test: test, streams: 1}
	_ = readJSON(f.path, &f.results) // absent, or damaged: it is tested anew
	for _, r := range f.results {
		var one struct {
			Streams int     `json:"streams"`
			PerS    float64 `json:"events_per_s"`
		}
		if json.Unmarshal(r, &one) == nil {
			f.tested, f.streams = max(f.tested, one.PerS), max(f.streams, one.Streams)
		}
	}
	return f
}
