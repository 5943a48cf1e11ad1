// Package host holds the places where launches run. Each implements [sweep.Host] and passes the suite in
// package conformance.
//
// The steps to use it:
//
//	h := &host.Local{ID: "local", Night: dir, Self: self}
//	err := h.Submit(ctx, jobs)               // writes the queue and starts the agent
//	err = h.Follow(ctx, 0, fn)               // until the queue is done
//	report, err := host.Reclaim(ctx, dir)    // before a resume: end what a crash left behind
package host
