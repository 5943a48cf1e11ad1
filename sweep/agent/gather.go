package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// loadFiles are what the load generator writes while a load runs. It writes them itself, in pieces of at most a second, so that
// they are good as far as they go when the agent is killed.
type loadFiles struct {
	requests *os.File // one line for each request that ended
	record   *os.File // every event of every request
}

// recordFile is the name of the binary record in a load's folder.
const recordFile = "chunks.rec"

func openLoadFiles(dir string) (f loadFiles, err error) {
	open := func(name string) *os.File {
		if err != nil {
			return nil
		}
		var file *os.File
		file, err = os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return file
	}
	f.requests, f.record = open("requests.jsonl"), open(recordFile)
	return f, err
}

// close puts both on disk.
func (f loadFiles) close() error {
	return errors.Join(f.requests.Sync(), f.requests.Close(), f.record.Sync(), f.record.Close())
}

// gather puts the run's numbers into the result. Those of a load that did not end well are withheld,
// save the counts and what the server said: a rate out of a broken run is no measurement.
func (l *launch) gather(m *measurement, withhold bool) {
	r := &m.result
	r.Values = m.sampler.signals()
	if free, ok := l.watch.lowestFree(); ok {
		r.Values["headroom_min_gib"] = free
	}
	maps.Copy(r.Values, l.memory.peak())
	r.Failures, r.Steady = m.run.Failures, m.run.Steady
	r.WindowSeconds, r.WindowOpened = m.run.Window.Seconds(), m.run.Opened
	r.Verdict, r.VerdictWhy = m.run.Verdict, m.run.Why
	r.Client, r.Stamps = m.run.Client, m.run.Stamps
	r.Notes = append(r.Notes, m.run.Notes...)
	if s := r.Values["client_max_silence_s"]; s > silenceMark.Seconds() {
		r.Notes = append(r.Notes, fmt.Sprintf("not one byte reached the client for %.0f s in the window", s))
	}
	if r.Outcome == sweep.ClientBound {
		if r.Verdict != loadgen.ClientBound {
			r.Verdict, r.VerdictWhy = loadgen.ClientBound, append([]string{r.Detail}, r.VerdictWhy...)
		}
	}
	if l.hostTier && !withhold {
		if note := hostProof(m.job, l.result.Facts, r.Values); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	values, whole := maps.Clone(m.run.Values), maps.Clone(m.run.Whole)
	if withhold {
		r.Steady = nil
		broken := func(name string, _ float64) bool { return !counts[strings.TrimPrefix(name, classPrefix(m.job, name))] }
		maps.DeleteFunc(values, broken)
		maps.DeleteFunc(whole, broken)
		delete(r.Values, "client_server_ratio")
	} else {
		r.Definitions = sweep.Values(m.run.Definitions)
	}
	maps.Copy(r.Values, values)
	for name, v := range m.run.Evidence {
		r.Values[clientPrefix+name] = v
	}
	for name, v := range whole {
		if classPrefix(m.job, name) == "" {
			r.Values[sweep.FullRun+name] = v
		}
	}
	r.FullRun = &sweep.FullRunResult{Seconds: m.run.Span.Seconds(), Verdict: m.run.WholeVerdict, Values: sweep.Values(whole), Client: sweep.Values(m.run.WholeEvidence)}
	if m.run.Span > 0 {
		r.Values[sweep.FullRun+"s"] = m.run.Span.Seconds()
	}
}

// clientPrefix begins the names of what the load generator observed of itself.
const clientPrefix = "client_"

// silenceMark is how long the whole client may be without a byte before a person is told.
const silenceMark = 10 * time.Second

// counts are the values that stand even when a load did not end well.
var counts = map[string]bool{"sent": true, "completed": true, "failed": true, "rejected": true, "prompt_tokens": true, "output_tokens": true}

func classPrefix(lj sweep.LoadJob, name string) string {
	for _, c := range lj.Workload.Classes {
		if strings.HasPrefix(name, c.Name+"_") {
			return c.Name + "_"
		}
	}
	return ""
}
