package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
)

// takenGrid starts its server by a script that first tells its port and waits for the test to take it.
const takenGrid = `name: taken
engine: sglang
model: meta-llama/Llama-3.1-8B-Instruct
command: [%s]
hosts: [{simulate: llama-8b-24gb}]
workloads:
  chat: {classes: {short: {input: 100..200, output: 20..40}}}
load: [{workload: chat, concurrency: [4]}]
measure: {window: {min: 1s, max: 2s}}
`

const takenScript = `#!/bin/sh
for word; do
	[ "$last" = --port ] && echo "$word" >port.part && mv port.part port
	last=$word
done
while [ ! -e taken ]; do sleep 0.05; done
exec %s simulate sglang --profile llama-8b-24gb --speedup 20 "$@"
`

// TestTakenPort takes a server's port in the moment before it listens. The launch ends as busy.port and is
// tried again on other ports, so that the cell has its measurement after all.
func TestTakenPort(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(b.dir, "server.sh")
	for path, text := range map[string]string{script: fmt.Sprintf(takenScript, self), filepath.Join(b.dir, "grid.yaml"): fmt.Sprintf(takenGrid, script)} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd, said := b.sweep("run", "grid.yaml", "--no-flag-check") // the script waits before it does anything, printing a help as well
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var port string
	for deadline := time.Now().Add(time.Minute); port == ""; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(b.dir, "port"))
		if err == nil {
			port = strings.TrimSpace(string(data))
		} else if time.Now().After(deadline) {
			t.Fatalf("no server was started: %s", said)
		}
	}
	stranger, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code := exitCode(cmd)
	if err := stranger.Close(); err != nil {
		t.Error(err)
	}
	records, err := sweep.ReadRecords(b.night())
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records, %v, exit code %d: %s", len(records), err, code, said)
	}
	if r := records[0]; r.Outcome != sweep.OK && r.Outcome != sweep.ClientBound || r.Attempt != 2 {
		t.Errorf("%s in attempt %d (%s), want a measurement in attempt 2", r.Outcome, r.Attempt, r.Detail)
	}
	if !strings.Contains(said.String(), "the launch ended as busy.port") {
		t.Errorf("the story lacks the taken port: %s", said)
	}
	b.nothingLeft()
}
