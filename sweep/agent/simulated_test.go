//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/engine"
	"sweep/sweep/simulate"
)

const simulatedProfile = "llama-8b-24gb"

// simulatedJob is a launch of the simulator under the real SGLang engine.
func (n *night) simulatedJob(faults string, loads ...string) sweep.Job {
	n.t.Helper()
	n.engine, _ = engine.Lookup("sglang")
	// The agent's own looks at the machine must see what the server holds of it.
	script := filepath.Join(n.t.TempDir(), "sweep")
	program := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", simulate.StateVariable, n.t.TempDir(), n.opt.Self)
	if err := os.WriteFile(script, []byte(program), 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.opt.Supervisor = []string{n.opt.Self, "supervise"}
	n.opt.Self = script
	job := n.job(strings.NewReplacer("@", "-", ":", "-", ",", "-").Replace("sim-"+faults), loads...)
	job.Engine, job.Model, job.Simulate = "sglang", "meta-llama/Llama-3.1-8B-Instruct", simulatedProfile
	job.Command = []string{"sweep", "simulate", "sglang", "--profile", simulatedProfile, "--speedup", "20"}
	if faults != "" {
		job.Command = append(job.Command, "--fault", faults)
	}
	job.Config.Settings = []sweep.Setting{
		{Name: "mem-fraction-static", Values: []string{"0.80"}}, {Name: "enable-metrics", Values: []string{"true"}},
		{Name: "decode-log-interval", Values: []string{"10"}},
	}
	job.Limits.Stall, job.Limits.LoadStall, job.Limits.Stop = 4*time.Second, 2*time.Second, 3*time.Second
	for i := range job.Loads {
		job.Loads[i].Measure.WindowMin = 3 * time.Second // several looks at the server, on a slow machine too
	}
	return job
}

func TestSimulatedSGLang(t *testing.T) {
	tests := []struct {
		faults   string
		want     string
		evidence string // part of the first launch's evidence
		note     string // part of one of its notes
	}{
		{"", "a@2=ok", "", "simulated ×20"},
		{"hang@weights", "a@2=hang.start… | a@2=hang.start", "Load", ""},
		{"die@graph", "a@2=crash.start… | a@2=crash.start", "exit code", ""},
		{"refuse:decode-log-interval", "a@2=bad.flag", "decode-log-interval", ""},
		{"crash@9", "a@2=crash.load… | a@2=crash.load", "crashed with exit code -9", ""},
		{"mute@9", "a@2=hang.load… | a@2=hang.load", "", ""},
		{"leave-child", "a@2=ok", "", "outlived the server"},
		{"ignore-term", "a@2=ok", "", "did not end within"},
	}
	for _, tt := range tests {
		t.Run("fault "+tt.faults, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			job := n.simulatedJob(tt.faults, "a@2")
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			// A busy test machine may keep the simulator from being on time; that is no fault of the agent.
			got := strings.ReplaceAll(endings(results), "client.bound", "ok")
			if got != tt.want {
				t.Fatalf("endings\n%s, want\n%s\n%+v", got, tt.want, results[0].Ending)
			}
			r := results[0]
			n.checkEvidence(r, tt.evidence)
			if !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
				t.Errorf("notes %q lack %q", r.Notes, tt.note)
			}
			if r.GPU == "" || r.GPUCount != 1 {
				t.Errorf("devices: %q × %d", r.GPU, r.GPUCount)
			}
			if strings.HasSuffix(tt.want, "a@2=ok") {
				n.checkSimulated(job, r)
			}
		})
	}
}

// checkSimulated looks at what a launch that went well says of itself.
func (n *night) checkSimulated(job sweep.Job, r sweep.LaunchResult) {
	n.t.Helper()
	if r.Facts["kv_tokens"] <= 0 || r.Facts["headroom_gib"] <= 0 || r.EngineVersion == "" || len(r.Phases) < 5 {
		n.t.Errorf("launch %v %q %v %v", r.Facts, r.EngineVersion, r.Phases, r.Times)
	}
	var run sweep.LoadResult
	if err := readJSON(filepath.Join(n.opt.Out, job.Dir(1), r.Loads[0].Dir, "run.json"), &run); err != nil {
		n.t.Fatal(err)
	}
	for _, name := range []string{"running", "token_usage", "headroom_min_gib", "completed", "server_output_throughput", "client_max_silence_s"} {
		if v, ok := run.Values[name]; !ok || v <= 0 {
			n.t.Errorf("%s is %v (present: %v)", name, v, ok)
		}
	}
	if v, ok := run.Values["host_ram_peak_gib"]; !ok || v < 0 || r.Facts["host_ram_peak_gib"] < v {
		n.t.Errorf("host_ram_peak_gib is %v (present: %v), of the launch %v", v, ok, r.Facts["host_ram_peak_gib"])
	}
	if least, ready := run.Values["headroom_min_gib"], r.Facts["headroom_gib"]; least > ready+0.5 {
		n.t.Errorf("%.2f GiB were free under load, more than the %.2f GiB when the server was ready: the watch does not see it", least, ready)
	}
}
