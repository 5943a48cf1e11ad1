package sweep

import "strings"

// Outcome is how a cell ended, as one word. An outcome is data: an error means that sweep itself failed.
type Outcome string

// The outcomes. Those of the families oom, kv, host and bad are results: they say something of the
// config and are not tried again.
const (
	OK Outcome = "ok" // measured

	OOMWeights Outcome = "oom.weights" // device memory ran out; the word says what was being allocated
	OOMKV      Outcome = "oom.kv"
	OOMGraph   Outcome = "oom.graph"
	OOMWarmup  Outcome = "oom.warmup"
	OOMPrefill Outcome = "oom.prefill"
	OOMDecode  Outcome = "oom.decode"

	KVTooSmall  Outcome = "kv.too_small" // no room for a KV pool after the weights, or the pool cannot hold one request
	KVExhausted Outcome = "kv.exhausted" // the server died on its own KV accounting, not on device memory

	HostShort  Outcome = "host.short"  // host memory refused
	HostKilled Outcome = "host.killed" // the kernel's OOM killer, proved

	BadFlag  Outcome = "bad.flag"  // the engine refuses the flags
	BadModel Outcome = "bad.model" // the model cannot be read
	BadGPU   Outcome = "bad.gpu"   // the device is not supported

	BusyGPU  Outcome = "busy.gpu"  // somebody else holds the device
	BusyPort Outcome = "busy.port" // somebody else holds the port

	HangStart  Outcome = "hang.start"  // no progress of any kind for the limit of the phase
	HangLoad   Outcome = "hang.load"   // no byte from the server while requests were open
	SlowStart  Outcome = "slow.start"  // the hard limit passed while it still made progress
	CrashStart Outcome = "crash.start" // it died otherwise, before it was ready
	CrashLoad  Outcome = "crash.load"  // it died otherwise, under load

	LoadFailed   Outcome = "load.failed"   // it lived, but more than the allowed share of requests failed
	LoadRejected Outcome = "load.rejected" // it lives and refuses by rule
	ClientBound  Outcome = "client.bound"  // the load generator was the limit; the number is withheld

	InfraSSH  Outcome = "infra.ssh" // ours, or the machine's
	InfraDisk Outcome = "infra.disk"
	InfraLost Outcome = "infra.lost"
	InfraGPU  Outcome = "infra.gpu"

	SkippedPreflight Outcome = "skipped.preflight" // not run: arithmetic says that it cannot work
	SkippedImplied   Outcome = "skipped.implied"   // not run: another cell's result implies its own
	SkippedDeadline  Outcome = "skipped.deadline"  // not run: it would not have ended in time
	SkippedBreaker   Outcome = "skipped.breaker"   // not run: too many failures in a row

	Aborted Outcome = "aborted" // stopped from outside: the user, or a supervisor's SIGTERM
)

// Family is the part of the word before its dot: "oom" of "oom.prefill", "ok" of "ok".
func (o Outcome) Family() string {
	family, _, _ := strings.Cut(string(o), ".")
	return family
}

// Result reports whether the outcome is an answer to the question that its cell asked, so that a
// resumed night does not ask again.
func (o Outcome) Result() bool {
	switch o.Family() {
	case "ok", "oom", "kv", "host", "skipped":
		return true
	}
	return false
}

// Final reports whether a resumed night leaves the cell as it is: a result, or a failure that would
// only happen again.
func (o Outcome) Final() bool {
	switch o.Family() {
	case "infra", "busy", "aborted", "":
		return false
	}
	return o != SkippedDeadline && o != SkippedBreaker
}

// Attempts is how many launches may be spent on a cell before this outcome stands.
func (o Outcome) Attempts() int {
	switch o {
	case BusyGPU, BusyPort, InfraSSH, InfraDisk, InfraLost, InfraGPU:
		return 3
	case KVExhausted, HangStart, HangLoad, CrashStart, CrashLoad, LoadFailed:
		return 2
	}
	return 1
}

// Implies reports whether this outcome of a load implies that higher levels of the same workload in
// the same config would end so too.
func (o Outcome) Implies() bool { return o.Family() == "oom" || o.Family() == "kv" }

// Phase is a part of a launch's life.
type Phase string

// The phases in order.
const (
	PhaseGate      Phase = "gate"
	PhaseLaunch    Phase = "launch"
	PhaseDist      Phase = "dist"
	PhaseWeights   Phase = "weights"
	PhaseKV        Phase = "kv"
	PhaseGraph     Phase = "graph"
	PhaseHostCache Phase = "host_cache"
	PhaseWarmup    Phase = "warmup"
	PhaseReady     Phase = "ready"
	PhaseLoad      Phase = "load"
	PhaseStop      Phase = "stop"
)

// Evidence is the line that a verdict rests on.
type Evidence struct {
	File   string `json:"file,omitempty"`   // relative to the night
	Line   int    `json:"line,omitempty"`   // from 1
	Offset int64  `json:"offset,omitempty"` // bytes from the start of the file to the start of the line
	Text   string `json:"text,omitempty"`   // the line, cut to 500 bytes
}

// Exit is how the launched process ended.
type Exit struct {
	Code   int    `json:"code"`             // exit code, or −1 when a signal ended it
	Signal int    `json:"signal,omitempty"` // number of that signal
	By     string `json:"by,omitempty"`     // who sent it: "sweep", "server" (it ended itself), "outside", or "" when not known
}

// Ending is an outcome with all that explains it.
type Ending struct {
	Outcome   Outcome   `json:"outcome"`
	Phase     Phase     `json:"phase,omitempty"`
	Cause     string    `json:"cause,omitempty"`      // of a crash: nccl, watchdog, cuda, detokenizer, killed, unknown
	Detail    string    `json:"detail,omitempty"`     // one sentence that a person can act on
	ImpliedBy string    `json:"implied_by,omitempty"` // of skipped.*: the cell or the rule
	Evidence  *Evidence `json:"evidence,omitempty"`
	Exit      *Exit     `json:"exit,omitempty"`
}
