package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"time"

	"sweep/sweep"
)

// Timeline is one run over time, in seconds since the start of its load. What is not known is NaN.
type Timeline struct {
	T        []float64 // of each scrape
	Rate     []float64 // tokens a second that the client received since the scrape before
	Running  []float64
	Queued   []float64
	Usage    []float64 // of the KV pool, 0 to 1
	Retracts []float64 // times at which the server had pushed requests out since the scrape before
	Open     float64   // of the window; NaN: it never opened, or is not known
	Close    float64
}

// shortestStep is the shortest time between scrapes that gives a rate, in seconds: those at the ends of a window come right after others.
const shortestStep = 0.25

// Timelines reads the runs of one attempt, by Load.String().
func (n *Night) Timelines(r sweep.Record) (map[string]*Timeline, error) {
	path := n.path(r, "metrics.jsonl")
	if path == "" {
		return nil, nil
	}
	out := map[string]*Timeline{}
	last := map[*Timeline]struct{ t, tokens, retracted float64 }{}
	err := eachLine(path, func(line []byte) {
		nan := math.NaN()
		t, tokens, running, queued, usage, retracted := nan, nan, nan, nan, nan, nan
		var load []byte
		ok := scanFlat(line, func(key, value []byte) {
			switch string(key) {
			case "t":
				t = numberOf(value)
			case "load":
				load = unquoted(value)
			case "client_tokens":
				tokens = numberOf(value)
			case "running":
				running = numberOf(value)
			case "queued":
				queued = numberOf(value)
			case "token_usage":
				usage = numberOf(value)
			case "retractions_total":
				retracted = numberOf(value)
			}
		})
		if !ok || math.IsNaN(t) || len(load) == 0 {
			return
		}
		tl := out[string(load)]
		if tl == nil {
			tl = &Timeline{Open: nan, Close: nan}
			out[string(load)] = tl
			last[tl] = struct{ t, tokens, retracted float64 }{t, tokens, retracted}
		}
		was := last[tl]
		if retracted > was.retracted {
			tl.Retracts = append(tl.Retracts, t)
			was.retracted = retracted
			last[tl] = was
		}
		rate := nan
		if len(tl.T) > 0 {
			if t-was.t < shortestStep {
				return
			}
			rate = (tokens - was.tokens) / (t - was.t)
		}
		last[tl] = struct{ t, tokens, retracted float64 }{t, tokens, was.retracted}
		tl.T = append(tl.T, t)
		tl.Rate = append(tl.Rate, rate)
		tl.Running, tl.Queued, tl.Usage = append(tl.Running, running), append(tl.Queued, queued), append(tl.Usage, usage)
	})
	return out, err
}

// Timeline reads one record's run; nil when nothing is known of it.
func (n *Night) Timeline(r sweep.Record) (*Timeline, error) {
	all, err := n.Timelines(r)
	if err != nil {
		return nil, err
	}
	tl := all[r.Load.String()]
	if tl != nil {
		n.place(tl, r)
	}
	return tl, nil
}

// place puts the start of the load at zero, finds the window, and returns the start in Unix seconds.
func (n *Night) place(tl *Timeline, r sweep.Record) (start float64) {
	start = tl.T[0]
	if !r.StartedAt.IsZero() {
		start = unix(r.StartedAt)
	}
	for i := range tl.T {
		tl.T[i] -= start
	}
	for i := range tl.Retracts {
		tl.Retracts[i] -= start
	}
	length, ok := r.Values["window_s"]
	if !ok || length <= 0 {
		return start
	}
	if opened := n.windowOpened(r); !opened.IsZero() {
		tl.Open = unix(opened) - start
		tl.Close = tl.Open + length
		return start
	}
	// Older nights do not say when: requests that were cut show when it closed.
	closed := math.NaN()
	err := n.EachRequest(r, func(q *Request) {
		if q.Outcome == "cancelled" && !(q.EndS >= closed) {
			closed = q.EndS
		}
	})
	if err == nil && !math.IsNaN(closed) {
		tl.Open, tl.Close = closed-length, closed
	}
	return start
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// windowOpened is when the run's window opened; zero where run.json does not say.
func (n *Night) windowOpened(r sweep.Record) time.Time {
	path := n.loadPath(r, "run.json")
	if path == "" {
		return time.Time{}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}
	}
	var run struct {
		Opened time.Time `json:"window_opened_at"`
	}
	if json.Unmarshal(data, &run) != nil {
		return time.Time{}
	}
	return run.Opened
}

// window are the samples of a series whose whole step lies inside the window.
func (tl *Timeline) window(series []float64) []float64 {
	var in []float64
	for i, t := range tl.T {
		if i > 0 && tl.T[i-1] >= tl.Open-shortestStep && t <= tl.Close+shortestStep && !math.IsNaN(series[i]) {
			in = append(in, series[i])
		}
	}
	return in
}

// Steadiness judges the run within its window.
func (tl *Timeline) Steadiness() Steadiness {
	if tl == nil || math.IsNaN(tl.Open) {
		return Steadiness{}
	}
	return CheckSteady(tl.window(tl.Rate), tl.window(tl.Usage))
}

// readRuns judges each measured run and adds what only the raw files know.
func (n *Night) readRuns() {
	n.Runs = map[RunID]Steadiness{}
	byDir := map[string][]*sweep.Record{}
	var dirs []string
	for _, list := range [][]sweep.Record{n.Records, n.Drift} {
		for i := range list {
			r := &list[i]
			if r.Outcome != sweep.OK || n.path(*r) == "" {
				continue
			}
			if byDir[r.Dir] == nil {
				dirs = append(dirs, r.Dir)
			}
			byDir[r.Dir] = append(byDir[r.Dir], r)
		}
	}
	for _, dir := range dirs {
		records := byDir[dir]
		timelines, err := n.Timelines(*records[0])
		if err != nil {
			n.problem("%v", err)
			continue
		}
		power := n.powers(*records[0])
		for _, r := range records {
			tl := timelines[r.Load.String()]
			if tl == nil {
				continue
			}
			start := n.place(tl, *r)
			n.Runs[RunID{r.Cell, r.Repeat}] = tl.Steadiness()
			if _, known := r.Values["power_w"]; !known && r.Values != nil {
				if w, ok := power.mean(start+tl.Open, start+tl.Close); ok {
					r.Values["power_w"] = w
				}
			}
		}
	}
}

// powerLine is the power of all devices of a host together, in watts, over time.
type powerLine struct{ t, watts []float64 }

func (p powerLine) mean(from, to float64) (watts float64, ok bool) {
	sum, count := 0.0, 0
	for i, t := range p.t {
		if t >= from && t <= to {
			sum, count = sum+p.watts[i], count+1
		}
	}
	if count == 0 {
		return 0, false
	}
	return sum / float64(count), true
}

// powers reads gpu.jsonl of a record's attempt.
func (n *Night) powers(r sweep.Record) powerLine {
	var p powerLine
	key := []byte(`"power_w":`)
	err := eachLine(n.path(r, "gpu.jsonl"), func(line []byte) {
		t, gpus := math.NaN(), []byte(nil)
		scanFlat(line, func(k, v []byte) {
			switch string(k) {
			case "t":
				t = numberOf(v)
			case "gpus":
				gpus = v
			}
		})
		total, seen := 0.0, false
		for {
			_, rest, found := bytes.Cut(gpus, key)
			end := bytes.IndexAny(rest, ",}")
			if !found || end < 0 {
				break
			}
			if v := numberOf(bytes.TrimSpace(rest[:end])); !math.IsNaN(v) {
				total, seen = total+v, true
			}
			gpus = rest
		}
		if seen && !math.IsNaN(t) {
			p.t, p.watts = append(p.t, t), append(p.watts, total)
		}
	})
	if err != nil {
		n.problem("%v", err)
	}
	return p
}
