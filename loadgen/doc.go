// Package loadgen drives classes of streaming requests at one inference server and says what each
// request saw. It knows nothing of sweeps and can be used alone.
//
// The steps to use it:
//
//	one, err := loadgen.Probe(ctx, spec, loadgen.Ask{Input: 32, Output: 1})   // one request: does it answer as asked?
//	result, err := loadgen.Run(ctx, spec)                                     // hold the pools through warm-up and window
//	recording, err := loadgen.ReadRecord(file, func(r *loadgen.Record) error {…})   // what spec.Record received: every event
//	result, err = loadgen.Summarize(file, …)                                  // the numbers again, or of several processes
//
// Each class has its own closed pool, so a slow class cannot crowd out a fast one, or its own planned [Arrivals], which go on
// whatever becomes of those before. Warm-up requests flow into the measured ones without draining, and requests are
// sent until the window closes.
//
// On Linux, plain HTTP goes the fast way: threads of their own over epoll, and events stamped by the kernel when their
// bytes came to the host. [Result.Client] and [Result.Stamps] say whether it was so, [Result.Evidence] what the client
// observed of itself, and [Result.Verdict] whether the numbers can be trusted.
package loadgen
