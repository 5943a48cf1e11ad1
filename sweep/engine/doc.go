// Package engine holds what differs between inference servers: how each is started, what its log
// and counters mean, and why a launch of it cannot work. Every server is one value of [sweep.Engine],
// made of data and pure functions; nothing here starts a process or opens a socket.
//
// The steps to use it:
//
//	eng, ok := engine.Lookup("sglang")
//	argv := append(command, eng.Argv(spec)...)    // plan and launch show and use the same
//	log := eng.NewLog()
//	for _, e := range log.Feed(bytes) { … }       // phases, progress, facts, signs
//	ending := eng.Verdict(autopsy)                // why it ended
//
// A new engine is one file with its argv, its grammar of log lines and its routes, and a folder of
// real logs in testdata.
package engine
