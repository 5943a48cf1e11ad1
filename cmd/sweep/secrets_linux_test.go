package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep/sweep/host/sshtest"
)

// secretGrid has its secrets by reference, as a grid must.
const secretGrid = `name: secrets
engine: sglang
model: meta-llama/Llama-3.1-8B-Instruct
command: [%s]
env: {HF_TOKEN: "${env:CANARY_HUB}", OTHER: "prefix-${env:CANARY_OTHER}", ADMIN: "${env:CANARY_ADMIN}"}
hosts: [{simulate: llama-8b-24gb}]
workloads:
  chat: {classes: {short: {input: 40..60, output: 20..40}}}
load: [{workload: chat, concurrency: [2]}]
measure: {warmup: 100ms, window: {min: 1s, max: 2s}}
drift: off
sweep: {mem-fraction-static: [0.80, 1.1]}
`

// secretScript tells secrets as servers do: in pieces, in echoes of flags and headers, as JSON, URL and base64,
// and one that nobody named but whose form gives it away. The simulated server then echoes one more in its
// server_args line and its /server_info.
const secretScript = `#!/bin/sh
first=$(printf %%.9s "$HF_TOKEN")
printf 'token %%s' "$first"; sleep 0.1; printf '%%s seen\n' "${HF_TOKEN#"$first"}"
printf 'token %%s\r%%s\n' "$HF_TOKEN" "$OTHER" >&2
printf "api_key='%%s', admin_api_key=\"%%s\"\n" canary-plain-key "$ADMIN"
printf 'Authorization: Bear'; sleep 0.1; printf 'er canary-bearer-0123456789\n'
printf 'hf_canaryAAAAAAAAAAAAAAAAAAAAAAAA sk-canary0123456789abcdefghij https://user:canarypass@host/\n'
printf '%%s' "$HF_TOKEN" | base64
exec %s simulate sglang --profile llama-8b-24gb --speedup 30 --admin-api-key "$ADMIN" "$@"
`

// TestNoSecretInAnyFile runs a whole night whose server tells all its secrets, and looks for them in every file that
// the night leaves, its pictures and pages included, in what sweep says, and in the arguments of its processes.
func TestNoSecretInAnyFile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	for _, where := range []string{"here", "over SSH"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			home := ""
			if where != "here" {
				s := b.server(sshtest.Options{}) // root may run the script that lies in this folder
				home = s.Home
			}
			b.tellsNoSecret(home)
		})
	}
}

// tellsNoSecret runs the night. home is that of a host over SSH; "": the night runs here.
func (b *bed) tellsNoSecret(home string) {
	t := b.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(b.dir, "server.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, secretScript, self), 0o755); err != nil {
		t.Fatal(err)
	}
	b.grid(b.remote(fmt.Sprintf(secretGrid, script)))
	values := map[string]string{
		"CANARY_HUB": "hf_hubCanaryZZ9plural0Z1alphaQQ", "CANARY_OTHER": "otherCanary/with+signs=42", "CANARY_ADMIN": "adminCanary-77-\"quoted\"",
	}
	// Of each secret a piece that no form of it changes.
	needles := []string{"hubCanaryZZ9plural", "otherCanary", "adminCanary-77", "canary-plain-key", "canary-bearer-0123456789",
		"hf_canaryAAAA", "sk-canary0123", "canarypass", base64.StdEncoding.EncodeToString([]byte(values["CANARY_HUB"]))[:20]}
	cmd, said := b.sweep("run", "grid.yaml")
	var story bytes.Buffer
	cmd.Stdout = &story
	for name, value := range values {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() { done <- exitCode(cmd) }()
	arguments, far := map[string]bool{}, map[string]string{}
	for code := -1; code < 0; {
		select {
		case code = <-done:
			if code != exitOK && code != exitOther {
				t.Fatalf("exit code %d: %s", code, said)
			}
		case <-time.After(50 * time.Millisecond):
		}
		if home != "" { // what is there now: a night that is complete is taken away from its host
			_ = filepath.WalkDir(filepath.Join(home, ".sweep"), func(path string, _ fs.DirEntry, _ error) error {
				if data, err := os.ReadFile(path); err == nil {
					far[path] = string(data)
				}
				return nil
			})
		}
		for _, id := range b.processes() {
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
			if !bytes.Contains(argv, []byte("simulate\x00sglang")) { // the script gave the server its key itself
				arguments[string(argv)] = true
			}
		}
	}
	if code, said := b.run("report", "results"); code != exitOK && code != exitOther {
		t.Fatalf("report: exit code %d: %s", code, said)
	}
	if len(arguments) < 3 {
		t.Errorf("only %d processes were seen: %v", len(arguments), arguments)
	}
	files := b.files()
	if home != "" && len(far) < 10 {
		t.Errorf("only %d files were seen on the host", len(far))
	}
	for _, part := range []string{"server.log", "cells.jsonl", "summary.md", "launch.json", "events.jsonl", "outputs.json", "requests.jsonl"} {
		if !slices.ContainsFunc(files, func(path string) bool { return filepath.Base(path) == part }) {
			t.Errorf("the night has no %s", part)
		}
	}
	texts := map[string]string{"what sweep says": said.String() + story.String()}
	for argv := range arguments {
		texts["arguments "+argv] = argv
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(data)
	}
	maps.Copy(texts, far)
	for where, text := range texts {
		for _, needle := range needles {
			if i := strings.Index(text, needle); i >= 0 {
				t.Errorf("%s: …%s…", where, text[max(0, i-40):min(len(text), i+60)])
			}
		}
	}
	b.redacted(files)
}

// redacted checks that the log shows where secrets were: they did come by.
func (b *bed) redacted(files []string) {
	b.t.Helper()
	for _, path := range files {
		if filepath.Base(path) != "server.log" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, want := range []string{"token [redacted] seen", "Bearer [redacted]", "api_key='[redacted]'", "https://user:[redacted]@host/", "admin_api_key='[redacted]'"} {
			if !bytes.Contains(data, []byte(want)) {
				b.t.Errorf("%s lacks %q:\n%s", path, want, data[:min(len(data), 3000)])
			}
		}
	}
}

// files are all that a bed's night has left, the grid and the script apart.
func (b *bed) files() []string {
	b.t.Helper()
	var files []string
	for _, dir := range []string{"results", "tmp"} {
		files = append(files, filesBelow(b.t, filepath.Join(b.dir, dir))...)
	}
	return files
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
