package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// Request is by which route a workload's requests go, and which fields each carries: the engine's, and over them the workload's.
func Request(e *sweep.Engine, w sweep.Workload) (route string, body map[string]any, err error) {
	route, body = e.Generate, maps.Clone(e.Body)
	if w.API != "" {
		if route, err = loadgen.Route(w.API); err != nil {
			return "", nil, err
		}
	}
	if body == nil {
		body = map[string]any{}
	}
	own := maps.Clone(w.Body)
	if w.API == "generate" { // what OpenAI's routes have beside the prompt belongs into sampling_params here
		delete(body, "stream_options")
		sampling := maps.Clone(body)
		if more, ok := own["sampling_params"].(map[string]any); ok {
			maps.Copy(sampling, more)
			delete(own, "sampling_params")
		}
		body = map[string]any{"sampling_params": sampling}
	}
	maps.Copy(body, own)
	return route, body, nil
}

// Files reads the files that workloads name, each content once. The zero value is not usable.
type Files struct {
	open    func(*sweep.File) (string, error) // where a file lies
	prompts map[string][]loadgen.Prompt
	traces  map[string][]loadgen.TraceRequest
}

// NewFiles reads each file from the path that path gives.
func NewFiles(path func(*sweep.File) (string, error)) *Files {
	return &Files{path, map[string][]loadgen.Prompt{}, map[string][]loadgen.TraceRequest{}}
}

// keptFiles reads a night's copies.
func keptFiles(night string) *Files {
	return NewFiles(func(f *sweep.File) (string, error) {
		return filepath.Join(night, filepath.FromSlash(f.Kept())), nil
	})
}

// classes joins a workload's classes with the levels of one load.
func (fs *Files) classes(w sweep.Workload, load sweep.Load) ([]loadgen.Class, error) {
	var list []loadgen.Class
	for _, pool := range load.Pools {
		for _, c := range w.Classes {
			if c.Name != pool.Class {
				continue
			}
			lc, err := fs.Class(c, w.SLO)
			if err == nil {
				lc.Concurrency = pool.Concurrency
				lc.Arrivals, err = fs.arrivals(load.Arrivals, pool.Rate)
			}
			if err != nil {
				return nil, fmt.Errorf("class %s: %w", c.Name, err)
			}
			list = append(list, lc)
		}
	}
	return list, nil
}

// Class is a class without its level.
func (fs *Files) Class(c sweep.Class, slo []sweep.Objective) (loadgen.Class, error) {
	lc := loadgen.Class{Name: c.Name, Input: loadgen.Range(c.Input), Output: loadgen.Range(c.Output), Natural: c.Natural}
	if c.SharedPrefix != nil {
		lc.Prefix = &loadgen.Prefix{Groups: c.SharedPrefix.Groups, Tokens: c.SharedPrefix.Tokens}
	}
	for _, list := range [][]sweep.Objective{c.SLO, slo} {
		for _, o := range list {
			lc.SLO = append(lc.SLO, loadgen.Objective(o))
		}
	}
	if s := c.Session; s != nil {
		lc.Session = &loadgen.Session{Turns: loadgen.Range(s.Turns), Input: loadgen.Range(s.Input), Think: s.Think}
	}
	var err error
	lc.Prompts, err = readOnce(fs, fs.prompts, c.Prompts, loadgen.ReadPrompts)
	return lc, err
}

// readOnce reads a file whose content is not known yet.
func readOnce[T any](fs *Files, known map[string][]T, f *sweep.File, read func(io.Reader) ([]T, error)) ([]T, error) {
	if f == nil {
		return nil, nil
	}
	if list, ok := known[f.SHA256]; ok {
		return list, nil
	}
	path, err := fs.open(f)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, &EnvironmentError{What: "the night's copy of " + f.Name + " cannot be read", Err: err}
	}
	defer func() { _ = file.Close() }() // only read from
	h := sha256.New()
	list, err := read(io.TeeReader(file, h))
	if err == nil {
		_, err = io.Copy(h, file) // what the reader did not need
	}
	if err == nil && hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		err = errors.New("its content is not what the night was planned with")
	}
	if err != nil {
		return nil, &EnvironmentError{What: "the night's copy of " + f.Name, Err: err}
	}
	known[f.SHA256] = list
	return list, nil
}

// arrivals is the plan of one class at a rate; nil for a closed load.
func (fs *Files) arrivals(a *sweep.Arrivals, rate float64) (*loadgen.Arrivals, error) {
	if a == nil {
		return nil, nil
	}
	la := &loadgen.Arrivals{Law: a.Law, Rate: rate, Shape: a.Shape}
	switch {
	case a.Trace != nil:
		list, err := readOnce(fs, fs.traces, a.Trace, loadgen.ReadTrace)
		if err != nil {
			return nil, err
		}
		la.Rate, la.Requests = 0, stretch(list, rate)
	case a.Ramp > 0:
		la.Stages = []loadgen.Stage{{For: a.Ramp, From: 0, To: rate}} // its last rate stays
	case a.Steps > 0:
		for i := range a.Steps {
			at := rate * float64(i+1) / float64(a.Steps)
			la.Stages = append(la.Stages, loadgen.Stage{For: a.Each, From: at, To: at})
		}
	}
	return la, nil
}

// TraceRate is the mean rate of a trace, in requests/s; 0 when all of it is one moment.
func TraceRate(list []loadgen.TraceRequest) float64 {
	if len(list) < 2 || list[len(list)-1].At <= 0 {
		return 0
	}
	return float64(len(list)-1) / list[len(list)-1].At.Seconds()
}

// stretch scales the times of a trace to another mean rate.
func stretch(list []loadgen.TraceRequest, rate float64) []loadgen.TraceRequest {
	factor := TraceRate(list) / rate
	out := make([]loadgen.TraceRequest, len(list))
	for i, r := range list {
		r.At = time.Duration(float64(r.At) * factor)
		out[i] = r
	}
	return out
}
