package engine

// Words for programs that stand beside a verdict.
const (
	noteDegraded   = "degraded"         // a slower mode or regime
	noteLeak       = "accounting_leak"  // the server's own count of its KV pool did not add up
	notePressure   = "kv_pressure"      // retracted, preempted or full, and the server lives
	noteSlow       = "slow_start"       // it became ready, after much compiling or much time
	noteRestarted  = "restarted"        // several lives in one log
	noteCompanion  = "companion_killed" // the kernel killed a process that is not the server's
	textJIT        = "compiling DeepGEMM kernels; minutes on the first start"
	slowStart      = 600 // seconds from a life's first line to ready that count as slow
	slowCompile    = 300 // seconds of compiling that count as slow
	slowSilences   = 2   // times that the server says it waits for something slow
	fullUsage      = 0.9 // share of the KV pool that counts as full while requests wait
	hangingSilence = 120 // seconds without a heartbeat that count as a hang when nothing follows
)
