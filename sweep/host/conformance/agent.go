package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// What the suite's agent does with a job, by the key of the job's config.
const (
	Works = "works" // does the job
	Dies  = "dies"  // ends in the middle without a word
	Waits = "waits" // works on it until it is told to stop; then writes aborted
	Deaf  = "deaf"  // works on it and obeys no signal
	Fails = "fails" // says that it failed itself, and ends
)

// Agent does what an agent does, without servers: it works through DIR/queue, writes events and
// folders. It is the main of the process that a host under test starts; the result is its exit code.
func Agent(dir, out string) int {
	if err := work(dir, out); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

func work(dir, out string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	self, err := proc.Self()
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "agent.json"), self); err != nil {
		return err
	}
	for {
		name, job, err := next(dir)
		if err != nil {
			return err
		}
		if name == "" {
			return say(dir, sweep.Event{Kind: sweep.EventDone})
		}
		stopped, err := do(dir, out, job, signals)
		if stopped || err != nil {
			return err
		}
		if err := write(filepath.Join(dir, "queue", name+".done"), struct{}{}); err != nil {
			return err
		}
	}
}

// next is the first job of the queue that is not done.
func next(dir string) (string, sweep.Job, error) {
	var job sweep.Job
	files, err := filepath.Glob(filepath.Join(dir, "queue", "*.json"))
	if err != nil {
		return "", job, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, err := os.Stat(filepath.Join(dir, "queue", name+".done")); err == nil {
			continue
		}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &job)
		}
		return name, job, err
	}
	return "", job, nil
}

// do makes one attempt at a job.
func do(dir, out string, j sweep.Job, signals <-chan os.Signal) (stopped bool, err error) {
	event := sweep.Event{Job: j.ID, Attempt: j.Attempt, Dir: j.Dir(j.Attempt)}
	tell := func(kind sweep.EventKind) {
		event.Kind = kind
		err = errors.Join(err, say(dir, event))
	}
	folder := filepath.Join(out, filepath.FromSlash(event.Dir))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return false, err
	}
	if err := write(filepath.Join(folder, "job.json"), j); err != nil {
		return false, err
	}
	result := sweep.LaunchResult{Schema: sweep.Schema, Job: j.ID, Attempt: j.Attempt, Ending: sweep.Ending{Outcome: sweep.OK}}
	tell(sweep.EventLaunch)
	switch j.Config.Key {
	case Dies:
		os.Exit(7)
	case Fails:
		event.Text = "the machine does not give what is needed"
		tell(sweep.EventError)
		return true, err
	case Waits:
		<-signals
		result.Outcome, stopped = sweep.Aborted, true
	case Deaf:
		for range signals {
			fmt.Fprintln(os.Stderr, "a signal that nobody hears")
		}
	}
	if e := write(filepath.Join(folder, "launch.json"), result); e != nil {
		return stopped, errors.Join(err, e)
	}
	tell(sweep.EventEnd)
	return stopped, err
}

func say(dir string, e sweep.Event) error {
	e.At = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func write(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
