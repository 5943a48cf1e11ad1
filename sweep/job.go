package sweep

import (
	"fmt"
	"time"
)

// Schema is the version of every JSON object that a night holds.
const Schema = 1

// Job is all that an agent needs for one launch. It knows nothing of grids; it holds no secrets,
// only references to them.
type Job struct {
	Schema  int    `json:"schema"`
	Night   string `json:"night"` // the night's name
	ID      string `json:"id"`    // of the launch
	Role    Role   `json:"role"`
	Config  Config `json:"config"`
	Repeat  int    `json:"repeat"`
	Attempt int    `json:"attempt"` // number of the first attempt that this job may make
	Engine  string `json:"engine"`
	Model   string `json:"model"`
	Host    string `json:"host"`
	// Submission numbers the hand-over to the host, ascending in a night: the journal entry that announced it.
	Submission int64  `json:"submission,omitempty"`
	Simulate   string `json:"simulate,omitempty"` // profile of a simulated machine: device and memory probes read it

	Command []string `json:"command"`           // argv prefix
	Workdir string   `json:"workdir,omitempty"` // of the server
	// Container: Command and Workdir are those inside. nil: the server is a program of the host.
	Container *Container `json:"container,omitempty"`
	Env       Params     `json:"env,omitempty"`  // added to the agent's own; ${env:NAME} is resolved by the agent
	GPUs      []string   `json:"gpus,omitempty"` // nil: all

	Strangers Strangers `json:"strangers,omitempty"`
	Recover   Recover   `json:"recover,omitzero"`
	// Elsewhere: another host has the same devices. An agent that gives its own up leaves its launches for that one.
	Elsewhere bool `json:"elsewhere,omitempty"`

	Attach    string `json:"attach,omitempty"`     // URL of a server that somebody else runs: nothing is started
	AttachKey string `json:"attach_key,omitempty"` // environment variable of the agent that holds its API key
	Flush     bool   `json:"flush,omitempty"`      // its prefix cache may be emptied between loads

	Loads  []LoadJob `json:"loads"`
	Limits Limits    `json:"limits"`
	// Remaining is what was left of the night's time when the job was handed over: its file's age on the host goes
	// off. No launch starts that would not end by then. nil: nothing bounds the night.
	Remaining *time.Duration `json:"remaining_ns,omitempty"`
	Imply     bool           `json:"imply"` // a load that dies on memory implies the higher levels of its workload

	// SkipHeadroomGiB: do not start the launch when its forecast leaves less headroom. nil: start it whatever
	// the forecast.
	SkipHeadroomGiB *float64   `json:"skip_headroom_gib,omitempty"`
	NoFlagCheck     bool       `json:"no_flag_check,omitempty"` // flags are not held against the server's own help
	Earlier         []Sighting `json:"earlier,omitempty"`       // launches of earlier nights that a forecast can use
}

// LoadJob is one load to run on a launch's server.
type LoadJob struct {
	Cell       string   `json:"cell"`        // Launch.CellKey
	ContentKey string   `json:"content_key"` // hash of all that decides the measurement; a resume trusts it
	Load       Load     `json:"load"`
	Workload   Workload `json:"workload"`
	Measure    Measure  `json:"measure"`
	Seed       uint64   `json:"seed"` // of lengths, prompts and order; the same for a load in every config of a repeat
}

// Dir is the load's folder below the attempt's: "load=synth,short=150,long=32".
func (l LoadJob) Dir() string { return "load=" + l.Load.String() }

// Dir is the folder of one attempt, relative to the night: "launches/ID/attempt=1".
func (j Job) Dir(attempt int) string { return fmt.Sprintf("launches/%s/attempt=%d", j.ID, attempt) }

func launchID(config string, repeat int, role Role) string {
	if role == RoleDrift {
		config += "@drift"
	}
	return fmt.Sprintf("%s/repeat=%d", config, repeat)
}
