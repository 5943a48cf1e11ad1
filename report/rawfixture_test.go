package report

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep/sweep"
)

// syntheticRun makes the raw files of one run, in the shape that the agent gives them.
type syntheticRun struct {
	open, length int                 // of the window, in seconds since the start of the load
	rate         func(i int) float64 // tokens in second i; nil: what the record says, after a ramp
}

func (s syntheticRun) write(t testing.TB, night string, r sweep.Record) {
	t.Helper()
	attempt := filepath.Join(night, filepath.FromSlash(r.Dir))
	dir := filepath.Join(attempt, "load="+r.Load.String())
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	opened := r.StartedAt.Add(time.Duration(s.open) * time.Second)
	jsonLines(t, filepath.Join(dir, "run.json"), map[string]any{"window_opened_at": opened, "window_s": s.length})
	rng := rand.New(rand.NewPCG(uint64(r.Repeat), uint64(len(r.Cell))))
	rate := s.rate
	if rate == nil {
		noise := 0.0
		rate = func(i int) float64 {
			noise = 0.6*noise + 20*rng.NormFloat64()
			return max(0, r.Values["output_throughput"]*min(1, float64(i+1)/15)+noise)
		}
	}
	n := float64(r.Load.Concurrency())
	var metrics, gpus []any
	tokens := 0.0
	for i := range s.open + s.length + 5 {
		at := unix(r.StartedAt) + float64(i)
		fill := min(1, float64(i)/15)
		metrics = append(metrics, map[string]any{
			"t": at, "load": r.Load.String(), "client_tokens": math.Round(tokens), "running": math.Round(min(n, 110) * fill), "queued": math.Round(max(0, n-110) * fill),
			"token_usage": 0.88*fill + 0.01*math.Sin(float64(i)), "retractions_total": i / 50,
		})
		gpus = append(gpus, map[string]any{"t": at, "gpus": []any{map[string]any{"uuid": "a", "power_w": 300.5}, map[string]any{"power_w": 299.5, "uuid": "b"}}})
		tokens += rate(i)
	}
	jsonLines(t, filepath.Join(attempt, "metrics.jsonl"), metrics...)
	jsonLines(t, filepath.Join(attempt, "gpu.jsonl"), gpus...)
	var requests []any
	for i := range 400 {
		class := r.Load.Pools[i%len(r.Load.Pools)].Class
		slow := 1 + 2*float64(i%len(r.Load.Pools))
		q := map[string]any{
			"id": class + "/0/1", "class": class, "phase": "window", "outcome": "ok", "sent_s": float64(i) / 4, "end_s": float64(i)/4 + 3,
			"ttft_ms": 400 * slow * math.Exp(0.5*rng.NormFloat64()), "tpot_ms": 60 * math.Exp(0.1*rng.NormFloat64()), "e2e_ms": 9000 * slow, "prompt_tokens": 1000, "output_tokens": 400,
		}
		switch {
		case i%10 == 0:
			q["phase"] = "warmup"
		case i == 5:
			q["outcome"] = "failed"
		}
		requests = append(requests, q)
	}
	jsonLines(t, filepath.Join(dir, "requests.jsonl"), requests...)
	launch := sweep.LaunchResult{Schema: 1, Config: r.Config, Repeat: r.Repeat, Attempt: 1, Argv: []string{"python", "-m", "sglang.launch_server"}}
	data, err := json.Marshal(launch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(attempt, "launch.json"), data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// jsonLines adds lines to a file.
func jsonLines(t testing.TB, path string, lines ...any) {
	t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(data, '\n'))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
