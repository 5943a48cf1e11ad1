package sweep

import (
	"context"
	"time"
)

// Host is where launches run. An implementation hands a queue of jobs to an agent that works through
// it alone, and brings back what the agent made.
type Host interface {
	// Name is the host's name in the night.
	Name() string
	// Submit hands over the jobs and starts an agent unless one is at work.
	Submit(ctx context.Context, jobs []Job) error
	// Follow calls fn for each event of the agent from the given offset on, until its queue is done
	// (nil), the agent is gone without finishing ([ErrAgentLost]), or ctx ends. next is the offset to go on from.
	Follow(ctx context.Context, from int64, fn func(e Event, next int64) error) error
	// Fetch makes an attempt's folder (Job.Dir) present and complete in the night.
	Fetch(ctx context.Context, dir string) error
	// Cancel asks the agent to stop: it ends its load, stops its server and writes aborted. With now it
	// kills at once. It returns when nothing of the agent is left, or an error says what is.
	Cancel(ctx context.Context, now bool) error
}

// Outliving is a [Host] whose agent may have gone on while no process followed it.
type Outliving interface {
	Host
	// CatchUp brings here what the agent made meanwhile.
	CatchUp(ctx context.Context) error
	// Working lists the jobs that an agent at work still has to do, the one it works on among them; none when no
	// agent is at work.
	Working(ctx context.Context) ([]Job, error)
}

// Linked is a [Host] at the end of a link.
type Linked interface {
	Host
	// Open makes one try to reach the host; where that fails it is a [*LinkError]. A host that is reached stays so: what
	// is asked of it later waits for a link that went down.
	Open(ctx context.Context) error
}

// LinkError is a host that cannot be reached.
type LinkError struct {
	Err   error
	Final bool // no further try can help: its key is not trusted, it lets nobody in, it cannot run sweep
}

// Error implements error.
func (e *LinkError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *LinkError) Unwrap() error { return e.Err }

// EventKind is the kind of an agent's event.
type EventKind string

// The kinds, in the order of a launch's life.
const (
	EventLaunch   EventKind = "launch"   // an attempt begins: Dir is its folder
	EventPhase    EventKind = "phase"    // a phase of the start begins, or moves on: Text
	EventReady    EventKind = "ready"    // proved ready
	EventLoad     EventKind = "load"     // a load begins
	EventProgress EventKind = "progress" // of the load: Text, Done of Total
	EventCommit   EventKind = "commit"   // a load's folder has appeared: Dir
	EventEnd      EventKind = "end"      // launch.json is written: Dir
	EventDone     EventKind = "done"     // the queue is empty, the agent ends
	EventRecover  EventKind = "recover"  // a step is about to be taken to get devices back, or what came of it: Text
	EventError    EventKind = "error"    // the agent itself failed: Text. With the outcome infra.gpu it gave its devices up and leaves its launches for another host
	EventLink     EventKind = "link"     // not from an agent: what became of the way to the host: Text
)

// Event is one line of an agent's events.jsonl.
type Event struct {
	At      time.Time `json:"at"`
	Kind    EventKind `json:"kind"`
	Job     string    `json:"job,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	// Submission is that of the job, or of the last job that the agent took: what an agent said before the
	// hand-over that is followed has a lower one. Clocks may be set back; this number is not.
	Submission int64   `json:"submission,omitempty"`
	Dir        string  `json:"dir,omitempty"` // relative to the night
	Cell       string  `json:"cell,omitempty"`
	Phase      Phase   `json:"phase,omitempty"`
	Text       string  `json:"text,omitempty"` // one line for a person, free of control characters
	Outcome    Outcome `json:"outcome,omitempty"`
	Done       float64 `json:"done,omitempty"` // share of the phase or load, 0 to 1, where it is known
}
