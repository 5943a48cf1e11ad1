package proc

// order is a line from the caller to a supervisor. The first holds the start.
type order struct {
	Start      *Spec    `json:"start,omitempty"`
	Supervisor []string `json:"supervisor,omitempty"` // argv of the supervisor, to start the server's shim with
	Signal     int      `json:"signal,omitempty"`     // for the launched process
	Kill       bool     `json:"kill,omitempty"`       // the whole tree
}

// event is a line from a supervisor to the caller: started or failed, then exit, then gone.
type event struct {
	Started    *Identity  `json:"started,omitempty"` // the launched process
	Supervisor *Identity  `json:"supervisor,omitempty"`
	Group      *Group     `json:"group,omitempty"`
	Container  *Container `json:"container,omitempty"` // it runs
	Failed     string     `json:"failed,omitempty"`    // the start failed: why
	Command    bool       `json:"command,omitempty"`   // … because the command cannot be executed
	Exit       *Exit      `json:"exit,omitempty"`      // the launched process ended
	Gone       *gone      `json:"gone,omitempty"`      // everything ended
}

// gone is what a supervisor leaves behind.
type gone struct {
	Killed   []Process `json:"killed,omitempty"`
	Stuck    []Process `json:"stuck,omitempty"`
	LogError string    `json:"log_error,omitempty"`
	OOMKills *int      `json:"oom_kills,omitempty"` // by the counter of the tree's control group; nil: nothing counts
	Starved  *Starved  `json:"starved,omitempty"`
	Left     string    `json:"left,omitempty"` // a control group that could not be removed, and why
}
