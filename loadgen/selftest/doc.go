// Package selftest measures the load generator itself on this machine: it drives load at a server whose timing is known, in
// a process of its own, and holds what the client measured against what the server wrote. What is left is the error floor of
// every number that the client gives here.
//
// The steps to use it:
//
//	r, err := selftest.Run(ctx, selftest.Options{Concurrency: 200, EventsPerS: 10000, Serve: []string{self, "selftest", "--serve"}})
//	selftest.Serve(os.Stdin, os.Stdout)        // what that command does
//
// A test ends within 45 s. It wants a core for the client and one for the server; what else runs meanwhile shows in the numbers, as
// it would in a measurement.
package selftest
