//go:build !failpoints

package main

import (
	"context"
	"encoding/json"

	"sweep/loadgen/selftest"
)

// errorFloor runs a short selftest of the load generator, against a server in a process of its own.
func errorFloor(self string) func(context.Context, int, float64) (json.RawMessage, error) {
	return func(ctx context.Context, streams int, perS float64) (json.RawMessage, error) {
		r, err := selftest.Run(ctx, selftest.Options{Concurrency: streams, EventsPerS: perS, Quick: true, Serve: []string{self, "selftest", "--serve"}})
		if err != nil {
			return nil, err
		}
		return json.Marshal(r)
	}
}
