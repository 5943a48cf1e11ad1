package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep/sweep"
)

// TestAttachedNight loads a simulated SGLang that the test runs and that asks for an API key. The server's own word is
// its config, its cache is emptied where the grid allows it, and it lives on.
func TestAttachedNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	const secret = "canary-key-of-theirs"
	b := newBed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	server, log := b.sweep("simulate", "sglang", "--profile", "llama-8b-24gb", "--speedup", "20", "--model-path", "meta-llama/Llama-3.1-8B-Instruct",
		"--host", "127.0.0.1", "--port", fmt.Sprint(port), "--api-key", secret, "--enable-metrics", "--mem-fraction-static", "0.85")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = server.Process.Signal(os.Interrupt) // the test's own
		_ = server.Wait()
	})
	t.Cleanup(end)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	healthy := func() bool {
		resp, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	for limit := time.Now().Add(time.Minute); !healthy(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			end()
			t.Fatalf("the server does not come up: %s", log)
		}
	}
	b.grid("engine: sglang\nmodel: meta-llama/Llama-3.1-8B-Instruct\nattach: " + url + `
attach_key: LLM_KEY
flush: true
workloads: {chat: {classes: {short: {input: 40..60, output: 20..40}}}, arriving: {classes: {short: {input: 40..60, output: 20..40}}}}
load: [{workload: chat, concurrency: [2, 4]}, {workload: arriving, rate: 4}]
measure: {warmup: 100ms, window: {min: 2s, max: 4s}}
`)
	cmd, said := b.sweep("run", "grid.yaml")
	cmd.Env = append(cmd.Env, "LLM_KEY="+secret)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if r.Outcome != sweep.OK || r.Attached != url || r.Command != "" || r.Values["output_throughput"] <= 0 || r.Effective["mem-fraction-static"] != "0.85" || r.Values["kv_tokens"] <= 0 {
			t.Errorf("%s: %s %s, attached %q, effective %v, %v", r.Cell, r.Outcome, r.Detail, r.Attached, r.Effective, r.Values)
		}
	}
	if !healthy() {
		t.Error("the server is gone")
	}
	end()
	if !strings.Contains(log.String(), "Cache flushed successfully") {
		t.Errorf("the cache was never emptied: %s", log)
	}
	for _, path := range b.files() {
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s holds the key, or %v", path, err)
		}
	}
}
