package sweep

import "fmt"

// Schema is the version of every JSON object that a night holds.
const Schema = 1

// Job is all that an agent needs for one launch. It knows nothing of grids; it holds no secrets,
// only references to them.
type Job struct {
	Schema   int    `json:"schema"`
	Night    string `json:"night"` // the night's name
	ID       string `json:"id"`    // of the launch
	Role     Role   `json:"role"`
	Config   Config `json:"config"`
	Repeat   int    `json:"repeat"`
	Attempt  int    `json:"attempt"` // number of the first attempt that this job may make
	Engine   string `json:"engine"`
	Model    string `json:"model"`
	Host     string `json:"host"`
	Simulate string `json:"simulate,omitempty"` // profile of a simulated machine: device and memory probes read it

	Command []string `json:"command"`           // argv prefix
	Workdir string   `json:"workdir,omitempty"` // of the server
	Env     Params   `json:"env,omitempty"`     // added to the agent's own; ${env:NAME} is resolved by the agent
	GPUs    []string `json:"gpus,omitempty"`    // nil: all

	Loads  []LoadJob `json:"loads"`
	Limits Limits    `json:"limits"`
	Imply  bool      `json:"imply"` // a load that dies on memory implies the higher levels of its workload
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
