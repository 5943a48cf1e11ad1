package sweep

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Engine is what differs between inference servers, as data and pure functions. A new engine is one
// file in package engine and its logs.
type Engine struct {
	Name    string   // as in grids
	Command []string // argv prefix when the grid has none

	// Argv builds the arguments after the command: what we own first, then the settings, then what
	// they imply. It is pure; plan shows exactly this.
	Argv func(ServerSpec) []string
	// Owned names the flags that a grid may not set, each with the reason.
	Owned map[string]string
	// Environ is added to the server's environment, for every launch.
	Environ []string
	// Preflight says why a launch cannot work on a machine, before anything is started. nil: no problem.
	Preflight func(settings []Setting, m Machine) *Ending
	// ModelForm says how a model of this engine lies on disk, so that it can be looked at before a launch. Empty: that
	// is not known.
	ModelForm ModelForm
	// Devices is how many devices a launch with these settings needs; 0: none. nil: that is not known.
	Devices func([]Setting) int
	// Help lists arguments behind the command that make it print all of its flags: each list is tried in turn
	// until one does. nil: the flags are not known before a launch.
	Help [][]string
	// Memory says how the settings divide device memory. nil: there are no forecasts.
	Memory *MemoryRule

	// NewLog returns a reader for one server's log.
	NewLog func() LogReader
	// Verdict names the end of a server from all that is known of it.
	Verdict func(Autopsy) Ending
	// Stall is how long a phase may stay without progress, where that differs from the grid's limit.
	Stall map[Phase]time.Duration

	Health   string // path; 200 means ready to be asked for its models
	Models   string // path; its body must name our served model
	Generate string // path of the streaming route that loads use, speaking OpenAI completions
	// Body holds fields that each request carries beside model, prompt, max_tokens and stream.
	Body map[string]any
	// TokenIDs: the route takes a list of token ids as the prompt.
	TokenIDs bool

	// Flush empties the prefix cache and reports an error unless the server confirms. nil: the engine has no such thing.
	Flush func(ctx context.Context, get Getter) error
	// Inspect asks a ready server for its facts, version and effective settings.
	Inspect func(ctx context.Context, get Getter) (Inspection, error)
	// Sample reads the server's counters and gauges under the names of the constants that begin with Signal; absent where it has none.
	Sample func(ctx context.Context, get Getter) (Values, error)
	// Vocabulary returns ordinary text tokens of the served model, never special, added or out of range. An
	// empty result means that prompts are text.
	Vocabulary func(ctx context.Context, get Getter, model string) ([]int, error)
}

// ModelForm is how a model lies on disk.
type ModelForm string

// The forms.
const (
	ModelFolder ModelForm = "folder" // config.json, weights and a tokenizer in one folder, or an id of a hub
	ModelGGUF   ModelForm = "gguf"   // one file that holds all
)

// Getter asks the server that was launched: method, path with query, body (nil for none). It returns the status and at most 16 MiB
// of the body.
type Getter func(ctx context.Context, method, path string, body []byte) (status int, reply []byte, err error)

// ServerSpec is what an engine's argv is built from.
type ServerSpec struct {
	Model      string
	ServedName string // unique for each launch, so that we know our server when it answers
	Host       string
	Port       int // first of a block of PortBlock ports that belong to the launch
	Settings   []Setting
}

// UsualPort stands for a launch's port in command lines for a person: SGLang's default.
const UsualPort = 30000

// PortBlock is how many consecutive ports a launch owns.
const PortBlock = 20

// Machine is what preflight knows of a host.
type Machine struct {
	Name               string // host's name in the night
	MemAvailableBytes  int64  // the lesser of MemAvailable and what the cgroup leaves; 0: not known
	MemTotalBytes      int64
	GPUCount           int
	GPUName            string
	GPUMemoryBytes     int64 // of the smallest; 0: not known
	UnifiedGPUHostPool bool
	WeightBytes        int64     // of the checkpoint's files, all ranks together; 0: not known
	Forecast           *Forecast // of this launch; nil: none
}

// Inspection is what a ready server says of itself.
type Inspection struct {
	Version string
	Facts   Values
	Notes   []string
	// FirstTokensCounted: SignalDecodeTokens includes the first token of each request, which comes out of its prefill.
	FirstTokensCounted bool
	// Effective holds the server's resolved flags by their own names, where it tells them.
	Effective map[string]string
}

// Differences says in a note each where a flag's effective value is not the one that was asked.
func (i Inspection) Differences(settings []Setting) []string {
	var notes []string
	for n, s := range settings {
		if slices.ContainsFunc(settings[n+1:], func(later Setting) bool { return later.Name == s.Name }) {
			continue
		}
		got, ok := i.Effective[s.Name]
		if asked := s.Value(); ok && !sameFlagValue(asked, got) {
			notes = append(notes, fmt.Sprintf("%s: asked %s, in effect %s", s.Name, Printable(asked), Printable(got)))
		}
	}
	return notes
}

// Mislabelled says in a note each where an axis says that something is off and the server has it on, or the
// reverse: such a cell's number belongs to another config. Only plain axes are held against the flag of their name.
func (i Inspection) Mislabelled(axes Params) []string {
	var notes []string
	for _, a := range axes {
		got, ok := i.Effective[a.Name]
		if ok && isOffValue(a.Value) != isOffValue(got) {
			notes = append(notes, fmt.Sprintf("mislabelled: %s is %s here, but in effect %s: this is the number of another config", a.Name, Printable(a.Value), Printable(got)))
		}
	}
	return notes
}

// isOffValue reports the texts of a flag that is not in effect.
func isOffValue(v string) bool {
	switch strings.ToLower(v) {
	case "off", "false", "null", "0", "none", "no":
		return true
	}
	return false
}

// sameFlagValue compares a flag's text with the server's: numbers by value, off and false alike.
func sameFlagValue(asked, got string) bool {
	a, errA := strconv.ParseFloat(asked, 64)
	g, errG := strconv.ParseFloat(got, 64)
	return asked == got || errA == nil && errG == nil && a == g || isOffValue(asked) && isOffValue(got)
}

// Signals that Sample may return. Names ending in _total only grow.
const (
	SignalRunning        = "running"                     // requests being served
	SignalQueued         = "queued"                      // requests waiting
	SignalTokenUsage     = "token_usage"                 // share of the KV pool held by running requests, 0 to 1
	SignalGenThroughput  = "gen_throughput"              // tokens/s as the server says
	SignalDecodeTokens   = "decode_tokens_total"         // tokens decoded, counted as the work happens
	SignalFinishedTokens = "finished_tokens_total"       // tokens generated, counted at a request's end
	SignalFinished       = "finished_total"              // requests ended
	SignalPromptTokens   = "prompt_tokens_total"         // prompt tokens, counted at a request's end
	SignalRetractions    = "retractions_total"           // requests pushed out of the batch for lack of KV pool
	SignalCachedDevice   = "cached_tokens_device_total"  // prompt tokens found in the device's prefix cache
	SignalCachedHost     = "cached_tokens_host_total"    // prompt tokens found in the host's prefix cache
	SignalCachedStorage  = "cached_tokens_storage_total" // prompt tokens found in a storage below the host's tier
	SignalLoadBack       = "load_back_tokens_total"      // tokens copied from the host's tier to the device's
)

// LogReader turns a server's output into events. Bytes may be split anywhere; memory is bounded.
type LogReader interface {
	// Feed reads the next bytes. The events' Line and Offset refer to all bytes fed so far.
	Feed(p []byte) []LogEvent
	// Close reads what is left of an unfinished line.
	Close() []LogEvent
}

// RankReader is a [LogReader] that keeps the ranks of a server apart.
type RankReader interface {
	// ByRank gives each fact so far by the rank that told it: " TP0" without the space, empty for the only one.
	ByRank() map[string]map[string]float64
}

// LogKind is the kind of a log event.
type LogKind int

// The kinds.
const (
	LogPhase      LogKind = iota + 1 // a phase begins on one rank: Phase. Ranks do not go in step: a launch is as far as its furthest rank
	LogProgress                      // work goes on in a phase: Text for a person ("weights 62/64 · 1.8/s")
	LogFact                          // the engine says a number of itself: Name, Value
	LogSign                          // a line that may explain an end: Sign; Phase when the line or the stack above it names one
	LogBatch                         // a line about the running batch: Text is "prefill" or "decode", Values
	LogReady                         // the engine says that it is ready; proof is elsewhere
	LogNote                          // something for the record that is no failure: Text
	LogStart                         // a new life: the server was started again and writes to the same log
	LogRequest                       // an HTTP request was answered: Text is "generate", "probe" or "other", Value the status
	LogRetraction                    // requests were pushed out of the batch for lack of KV pool
	LogSilence                       // the server itself says that nothing moves: Value is for how long, in seconds (0: not said)
)

// LogEvent is one thing that a log says.
type LogEvent struct {
	Kind   LogKind
	Phase  Phase
	Text   string
	Name   string
	Value  float64 // of a fact; of progress, the share that is done (0: not known)
	Values Values
	Sign   Sign
	Rank   string // " TP0" without the space; empty for one rank
	// Clock is the line's own time stamp in seconds, comparable within one log only; 0: the line has none.
	Clock float64
	Evidence
}

// Sign is a line's meaning for a verdict.
type Sign struct {
	Outcome  Outcome // "" when it depends on the phase: an out-of-memory line
	Cause    string
	Detail   string
	Priority int    // lower explains more; among equals the earlier line counts
	Effect   bool   // a consequence of another failure: never a cause
	Step     string // "prefill" or "decode", from the stack above the line; "" when it does not say
	Flag     string // the flag that was refused, as the server writes it; "" when it names none
}

// Autopsy is all that is known of a server's end.
type Autopsy struct {
	Signs     []LogEvent // of kind LogSign, in order
	Phases    []LogEvent // of kind LogPhase and LogReady, in order
	LastBatch string     // "prefill" or "decode", from the last batch line; "" before the first
	Ready     bool       // our own readiness check had passed
	Loading   bool       // a load was running
	Exit      *Exit      // nil: it still runs
	OOMKills  int        // growth of the containment's oom_kill counter
	Kernel    []OOMKill  // what the kernel's log says of processes that it killed for lack of host memory
	Hang      bool       // no progress for the limit of the phase
	Slow      bool       // the hard limit passed
	Foreign   bool       // a stranger held device memory meanwhile
	Last      *Evidence  // the last line of the log
	Phase     Phase      // of the launch when it ended
}

// OOMKill is a line of the kernel's log: its OOM killer ended a process.
type OOMKill struct {
	PID  int
	Name string // as the kernel writes it, at most 15 bytes
	Ours bool   // it belonged to the server's tree
	Evidence
}

// phaseOrder is the order in which a launch goes through its phases.
var phaseOrder = []Phase{PhaseGate, PhaseLaunch, PhaseDist, PhaseWeights, PhaseKV, PhaseGraph, PhaseHostCache, PhaseWarmup, PhaseReady, PhaseLoad, PhaseStop}

// Before reports whether this phase comes before another in a launch's life.
func (p Phase) Before(q Phase) bool {
	return slices.Index(phaseOrder, p) < slices.Index(phaseOrder, q)
}
