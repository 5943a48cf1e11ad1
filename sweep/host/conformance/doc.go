// Package conformance is the suite that each kind of host passes.
//
// The steps to use it, in a host's test:
//
//	func TestMain(m *testing.M) { … conformance.Agent(dir, night) … }  // the test binary is the agent
//	conformance.Run(t, conformance.Subject{New: …, Alive: …})
package conformance
