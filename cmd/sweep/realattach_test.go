//go:build real && linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// TestRealAttach loads a real llama-server that the test runs: it is measured like one of sweep's own, and lives on.
func TestRealAttach(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(home, ".cache", "sweep", "real")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(real, "llama-server"), "-m", filepath.Join(real, "SmolLM2-135M-Instruct.Q4_1.gguf"), "--host", "127.0.0.1",
		"--port", fmt.Sprint(port), "--alias", "smol", "-c", "2048", "-np", "2", "--metrics", "--slots")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // the test's own
		_ = server.Wait()
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if resp, err := http.Get(url + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("llama-server does not come up")
		}
	}
	b := newBed(t)
	grid := filepath.Join(b.dir, "attached.yaml")
	text := "engine: llama.cpp\nmodel: smol\nattach: " + url + `
workloads: {drawn: {classes: {short: {input: 30..60, output: 8}}}, said: {api: chat, classes: {short: {prompts: said.jsonl, output: {natural: 12}}}}}
load: [{workload: drawn, concurrency: [1, 2]}, {workload: said, concurrency: 2}]
measure: {window: {min: 2s, max: 3m, requests: 3}}
`
	said := `{"messages": [{"role": "user", "content": "What is the capital of France?"}]}` + "\n" + `{"messages": [{"role": "user", "content": "Name three colours."}]}` + "\n"
	for path, content := range map[string]string{grid: text, filepath.Join(b.dir, "said.jsonl"): said} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, table, story := runSweep(t, "doctor", grid); code != 0 || !strings.Contains(table, "serves smol") {
		t.Errorf("doctor: exit code %d\n%s%s", code, table, story)
	}
	if code, story := b.run("run", grid, "-o", filepath.Join(b.dir, "results")); code != 0 {
		t.Fatalf("exit code %d\n%s", code, story)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 3 {
		t.Errorf("%d records", len(records))
	}
	for _, r := range records {
		if r.Outcome != sweep.OK || r.Attached != url || r.Command != "" || r.Values["output_throughput"] <= 0 || r.Values["completed"] < 3 {
			t.Errorf("%s: %s %s, attached %q, %v", r.Cell, r.Outcome, r.Detail, r.Attached, r.Values)
		}
		if ratio, ok := r.Values["client_server_ratio"]; ok && (ratio < 0.95 || ratio > 1.05) {
			t.Errorf("%s: client_server_ratio %v", r.Cell, ratio)
		}
	}
	if resp, err := http.Get(url + "/health"); err != nil {
		t.Errorf("the server is gone: %v", err)
	} else {
		resp.Body.Close()
	}
}
