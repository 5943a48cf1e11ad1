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
	EventError    EventKind = "error"    // the agent itself failed: Text
)

// Event is one line of an agent's events.jsonl.
type Event struct {
	At      time.Time `json:"at"`
	Kind    EventKind `json:"kind"`
	Job     string    `json:"job,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Dir     string    `json:"dir,omitempty"` // relative to the night
	Cell    string    `json:"cell,omitempty"`
	Phase   Phase     `json:"phase,omitempty"`
	Text    string    `json:"text,omitempty"` // one line for a person, free of control characters
	Outcome Outcome   `json:"outcome,omitempty"`
	Done    float64   `json:"done,omitempty"` // share of the phase or load, 0 to 1, where it is known
}
