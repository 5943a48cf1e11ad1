package sweep

import (
	"encoding/json"
	"maps"
	"math"
	"time"
)

// Values are named numbers: flat snake_case names with the unit in the name. What is not known is absent.
type Values map[string]float64

// Number reports whether v is a number that can be known and written.
func Number(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// MarshalJSON leaves out what is no number: a server that reports an infinite gauge must not cost the
// load its record, and JSON has no form for it.
func (v Values) MarshalJSON() ([]byte, error) {
	numbers := maps.Clone(map[string]float64(v))
	maps.DeleteFunc(numbers, func(_ string, x float64) bool { return !Number(x) })
	return json.Marshal(numbers)
}

// PhaseTime is how long one phase of a start took.
type PhaseTime struct {
	Phase   Phase   `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// LaunchResult is launch.json: one attempt at one launch. It is written last, so a folder without
// it belongs to an attempt that did not end.
type LaunchResult struct {
	Schema  int    `json:"schema"`
	Job     string `json:"job"` // Job.ID
	Role    Role   `json:"role"`
	Config  string `json:"config"` // Config.Key
	Repeat  int    `json:"repeat"`
	Attempt int    `json:"attempt"`
	Host    string `json:"host"`

	Argv          []string `json:"argv"`               // redacted
	Attached      string   `json:"attached,omitempty"` // URL of a server that somebody else runs
	EngineVersion string   `json:"engine_version,omitempty"`
	GPU           string   `json:"gpu,omitempty"` // as the driver names it
	GPUCount      int      `json:"gpu_count"`
	Containment   string   `json:"containment,omitempty"`  // how the tree was held: cgroup, cgroup-hybrid, cgroup-v1, systemd-scope, subreaper
	MemoryGuard   string   `json:"memory_guard,omitempty"` // what kept it from taking all of the host's memory: cgroup or watchdog
	MemoryMax     int64    `json:"memory_max,omitempty"`   // its limit of host memory in bytes, where a control group held it

	Ending // of the launch: ok when it served all its loads and stopped cleanly
	// Effective are the server's settings by its own word, of an attached one: nobody else says with what it runs.
	Effective     map[string]string `json:"effective,omitempty"`
	Facts         Values            `json:"facts,omitempty"`          // kv_tokens, weights_gib, headroom_gib, host_pool_tokens, …
	Notes         []string          `json:"notes,omitempty"`          // "simulated ×20", effective values that differ, …
	Phases        []PhaseTime       `json:"phases,omitempty"`         // of the start, in order
	Times         Values            `json:"times,omitempty"`          // start_s, stop_s, harness_s (what sweep itself added), …
	Loads         []LoadEnding      `json:"loads"`                    // every load of the job that this attempt was given, each once
	MachineBefore map[string]any    `json:"machine_before,omitempty"` // devices, and host memory in bytes, before the start
	MachineAfter  map[string]any    `json:"machine_after,omitempty"`  // the same after the stop

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// LoadEnding says what became of one load in one attempt.
type LoadEnding struct {
	Cell  string `json:"cell"`
	State string `json:"state"` // "done": its Ending stands; "left": another attempt of the same job holds it
	Dir   string `json:"dir,omitempty"`
	Ending
}

// LoadResult is run.json: what one load gave on one server. It appears with its folder, by one rename.
type LoadResult struct {
	Schema     int    `json:"schema"`
	Cell       string `json:"cell"`
	ContentKey string `json:"content_key"`
	Load       Load   `json:"load"`
	Repeat     int    `json:"repeat"`
	Attempt    int    `json:"attempt"`
	Ending
	Seconds       float64        `json:"load_s,omitempty"` // all of it, warm-up and commit included
	WindowSeconds float64        `json:"window_s,omitempty"`
	WindowOpened  time.Time      `json:"window_opened_at,omitzero"` // absent when it never did
	Steady        *bool          `json:"steady,omitempty"`
	Verdict       string         `json:"verdict,omitempty"`     // valid, suspect or client_bound: of the load generator on itself
	VerdictWhy    []string       `json:"verdict_why,omitempty"` // what speaks against the numbers
	Client        string         `json:"client,omitempty"`      // how requests travelled: epoll, net.Conn or net/http
	Stamps        string         `json:"stamps,omitempty"`      // who stamped events: kernel or user
	Values        Values         `json:"values,omitempty"`      // metrics, counts and signals by the names of results/README.md
	Definitions   Values         `json:"definitions,omitempty"` // latencies of the window by the other definitions in use
	FullRun       *FullRunResult `json:"full_run,omitempty"`    // the same from the first request to the last
	Failures      map[string]int `json:"failures,omitempty"`    // requests by kind of failure
	Notes         []string       `json:"notes,omitempty"`
	StartedAt     time.Time      `json:"started_at"`
	EndedAt       time.Time      `json:"ended_at"`
}

// FullRunResult is what a load gave from its first request to its last: the start burst, the warm-up and what the window's
// end cut are in it.
type FullRunResult struct {
	Seconds float64 `json:"span_s"`
	Verdict string  `json:"verdict,omitempty"`
	Values  Values  `json:"values,omitempty"` // counts, rates and latencies, by class too
	Client  Values  `json:"client,omitempty"` // what the load generator observed of itself
}

// FullRun begins the names of a record's values that are of the full run.
const FullRun = "full_"

// ReadyFile is the name of a file in an attempt's folder: a [LaunchResult] with all that is known once the
// server is proved ready (argv, engine version, devices, facts, notes, phases), without an outcome and loads.
// With it a committed load has its record at once, and keeps its facts when nobody is left to write launch.json.
const ReadyFile = "ready.json"
