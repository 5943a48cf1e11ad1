// Package loadgen drives classes of streaming requests at one inference server and says what each
// request saw. It knows nothing of sweeps and can be used alone.
//
// The steps to use it:
//
//	one, err := loadgen.Probe(ctx, spec, loadgen.Ask{Input: 32, Output: 1})   // one request: does it answer as asked?
//	result, err := loadgen.Run(ctx, spec)                                     // hold the pools through warm-up and window
//
// Each class has its own closed pool, so a slow class cannot crowd out a fast one. Warm-up requests
// flow into the measured ones without draining, and requests are sent until the window closes.
package loadgen
