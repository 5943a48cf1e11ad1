package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// attack is a text that a careless page runs, a careless terminal obeys, and a careless spreadsheet computes.
const attack = "=HYPERLINK(\"http://evil.example\") <script>alert(1)</script> [x](http://evil.example) | a | b | `code` \x1b]0;owned\x07 \x1b[31m \u009b31m \u202egpj.exe \x7f"

// controls are the characters that no output may hold as they are.
const controls = "\x1b\x07\x00\x7f\u009b\u202e"

// hostileNight is a night whose files hold the attack wherever a server, a host or another program had a say.
func hostileNight(t *testing.T, throughput float64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "night")
	load := sweep.Load{Workload: "chat", Pools: []sweep.Pool{{Class: "chat", Concurrency: 8}}}
	var cells []sweep.PlannedCell
	var lines, events bytes.Buffer
	encode := func(b *bytes.Buffer, v any) {
		t.Helper()
		if err := json.NewEncoder(b).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	var configs []sweep.Config
	for i, outcome := range []sweep.Outcome{sweep.OK, sweep.CrashLoad} {
		value := []string{"=1+1", "0.9 " + attack}[i]
		c := sweep.Config{Key: "mem=" + value, Axes: sweep.Params{{Name: "mem", Value: value}}, Baseline: i == 0}
		configs = append(configs, c)
		p := sweep.PlannedCell{Cell: c.Key + "/" + load.String(), Repeat: 1, Launch: "launch x", Host: "gpu1", Config: c.Key, Role: sweep.RoleMeasure, Load: load}
		cells = append(cells, p)
		r := sweep.Record{
			Night: "night", Cell: p.Cell, Role: p.Role, Config: c.Key, Load: load, Repeat: 1, Attempt: 1, Host: "host " + attack, GPU: "gpu " + attack, GPUCount: 1,
			Engine: "engine " + attack, EngineVersion: attack, Model: "model " + attack, Axes: c.Axes, Command: "serve " + attack, Dir: "launches/x/attempt=1",
			Ending: sweep.Ending{Outcome: outcome}, Notes: []string{"note " + attack}, Values: sweep.Values{"output_throughput": throughput, "median_ttft_ms": 100, attack: 1},
		}
		if outcome != sweep.OK {
			r.Phase, r.Cause, r.Detail, r.Values = sweep.PhaseLoad, attack, "detail "+attack, sweep.Values{}
			r.Evidence = &sweep.Evidence{File: "launches/x/attempt=1/server.log", Line: 1, Text: attack}
		}
		encode(&lines, r)
		for _, e := range []sweep.Event{
			{Kind: sweep.EventLaunch, Job: "job " + attack}, {Kind: sweep.EventPhase, Job: "job " + attack, Phase: "phase " + attack, Text: attack}, {Kind: sweep.EventReady, Job: attack, Text: attack},
			{Kind: sweep.EventLoad, Job: attack, Cell: "cell " + attack}, {Kind: sweep.EventEnd, Job: attack, Outcome: sweep.CrashLoad, Text: attack}, {Kind: sweep.EventRecover, Text: attack},
			{Kind: sweep.EventError, Text: attack},
		} {
			encode(&events, e)
		}
	}
	var manifest, requests bytes.Buffer
	encode(&manifest, sweep.Manifest{
		Schema: sweep.Schema, Night: "night", Name: "night " + attack, Version: attack, Repeats: 1, Engine: "sglang", Model: attack, Hosts: []sweep.HostSpec{{Name: "gpu1"}},
		Baseline: configs[0].Key, Configs: configs, Loads: []sweep.Load{load}, Cells: cells,
	})
	for range 4 {
		encode(&requests, map[string]any{"id": attack, "class": attack, "phase": "window", "outcome": "ok", "sent_s": 1, "end_s": 3, "ttft_ms": 100, "tpot_ms": 20, "e2e_ms": 1900, "prompt_tokens": 10, "output_tokens": 90, "chunks": 90})
	}
	log := strings.Repeat("[2026-11-29 10:00:00] "+attack+"\n", 3) + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. " + attack + "\n"
	for name, data := range map[string]string{
		"manifest.json": manifest.String(), "cells.jsonl": lines.String(), "agents/gpu1/events.jsonl": events.String(),
		"launches/launch x/attempt=1/server.log": log, "launches/x/attempt=1/server.log": log,
		"launches/x/attempt=1/load=" + load.String() + "/requests.jsonl": requests.String(),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, _, _, err := sweep.OpenJournal(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(sweep.JournalEntry{Kind: sweep.JournalLink, Host: "gpu1", Text: "link " + attack}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

var codeSpan = regexp.MustCompile("`+[^`]*`+")

// harmless runs a command and looks at all that it says.
func harmless(t *testing.T, codes []int, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := runSweep(t, args...)
	name := strings.Join(args, " ")
	if len(name) > 100 {
		name = name[:100]
	}
	if !slices.Contains(codes, code) {
		t.Errorf("%s: exit code %d: %.300s", name, code, stderr)
	}
	for _, text := range []string{stdout, stderr} {
		if i := strings.IndexAny(text, controls); i >= 0 {
			t.Errorf("%s: a control character came through: %q", name, text[max(0, i-80):min(len(text), i+20)])
		}
	}
	if stdout == "" && stderr == "" {
		t.Errorf("%s: it says nothing", name)
	}
	switch format := args[len(args)-1]; format {
	case "json":
		if !json.Valid([]byte(stdout)) {
			t.Errorf("%s: no JSON: %.200s", name, stdout)
		}
	case "csv":
		rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		for _, row := range rows {
			for _, field := range row {
				if strings.HasPrefix(strings.TrimLeft(field, " "), "=") {
					t.Errorf("%s: %q would be run by a spreadsheet", name, field)
				}
			}
		}
	case "markdown":
		for line := range strings.Lines(stdout) {
			if !strings.HasPrefix(line, "serve ") && strings.Contains(codeSpan.ReplaceAllString(line, ""), "<script>") { // that line is a command in a code block
				t.Errorf("%s: markup came through: %.200q", name, line)
			}
		}
	}
	return stdout
}

var formats = []string{"table", "markdown", "csv", "json"}

// TestHostileNight: no command that shows a night lets through what a server, a host or a file put into it.
func TestHostileNight(t *testing.T) {
	t.Parallel()
	dir, other := hostileNight(t, 100), hostileNight(t, 90)
	ok := []int{exitOK}
	for _, f := range formats {
		harmless(t, ok, "report", dir, "--format", f)
		harmless(t, ok, "report", dir, "--rows", "mem", "--cols", "concurrency", "--metric", "output_throughput", "--format", f)
		harmless(t, []int{exitCompare}, "compare", dir, other, "--fail-on", "1%", "--format", f)
	}
	for _, f := range []string{"table", "json"} {
		if text := harmless(t, ok, "status", dir, "--format", f); !strings.Contains(text, "alert(1)") {
			t.Errorf("status: %s", text)
		}
		text := harmless(t, ok, "explain", "log", filepath.Join(dir, "launches", "x", "attempt=1", "server.log"), "--engine", "sglang", "--exit", "1", "--format", f)
		if !strings.Contains(text, "alert(1)") {
			t.Errorf("explain: %s", text)
		}
	}
	harmless(t, ok, "logs", dir)
	if text := harmless(t, ok, "logs", dir, "launch x"); strings.Count(text, "alert(1)") != 4 {
		t.Errorf("the log of a cell: %s", text)
	}
	for _, f := range []string{"jsonl", "bench-serving", "gobench", "csv"} {
		harmless(t, ok, "export", dir, "--format", f)
	}
	for _, f := range []string{"vllm", "parquet"} {
		harmless(t, ok, "export", dir, "-o", filepath.Join(t.TempDir(), "x"), "--format", f)
	}
	serving := filepath.Join(t.TempDir(), "serving.jsonl")
	harmless(t, ok, "export", dir, "-o", serving, "--format", "bench-serving")
	imported := filepath.Join(t.TempDir(), "results")
	harmless(t, ok, "import", serving, "-o", imported)
	harmless(t, ok, "report", imported)
	harmless(t, []int{exitOK, exitOther, exitEnvironment}, "fsck", dir)
	harmless(t, []int{exitUsage}, "confirm", dir, "--dry-run") // it has no candidate, and no grid
	harmless(t, []int{exitOK, exitOther}, "confirm", dir, "--judge", other)
	answer := filepath.Join(t.TempDir(), "answer.http")
	body := "{\"error\": {\"message\": \"" + strings.NewReplacer("\x1b", "\x1b", "\"", "'").Replace(attack) + "\"}}"
	if err := os.WriteFile(answer, []byte("HTTP/1.1 500 "+attack+"\r\nContent-Type: application/json\r\n\r\n"+body), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"table", "json"} {
		harmless(t, ok, "explain", "stream", answer, "--api", "openai-chat", "--format", f)
	}
}

// TestHostileGrid: neither a grid nor a server's own help, as far as they are read, gets through to a terminal or a spreadsheet.
func TestHostileGrid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := filepath.Join(dir, "server")
	if err := os.WriteFile(server, []byte("#!/bin/sh\nprintf '%s\\n' 'usage: "+strings.ReplaceAll(attack, "'", "")+"' '  --mem-fraction "+attack+"' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(attack)
	if err != nil {
		t.Fatal(err)
	}
	calm, err := json.Marshal("=1+1 <script>alert(1)</script> | `code` [x](http://evil.example)")
	if err != nil {
		t.Fatal(err)
	}
	grid := func(name, value string) string {
		path := filepath.Join(dir, name)
		text := "name: hostile\nengine: sglang\nmodel: " + value + "\ncommand: [" + server + "]\nserver: {tokenizer-path: " + value + "}\nsweep:\n  mem-fraction-static: [0.8, 0.9]\n" +
			"  chat-template: {a: {chat-template: " + value + "}, b: {chat-template: b}}\nunacceptable:\n  - {mem-fraction-static: 0.9, reason: " + value + "}\n" +
			"workloads:\n  chat: {classes: {chat: {input: 100, output: 50}}}\nload:\n  - {workload: chat, concurrency: [4]}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wild := grid("wild.yaml", string(quoted))
	for _, command := range []string{"validate", "plan", "doctor"} {
		harmless(t, []int{exitUsage}, command, wild) // it is refused, and the refusal quotes it
	}
	path := grid("calm.yaml", string(calm))
	harmless(t, []int{exitOK}, "validate", path)
	for _, f := range formats {
		if text := harmless(t, []int{exitOK}, "plan", path, "-o", dir, "--format", f); !strings.Contains(text, "alert(1)") {
			t.Errorf("plan: %s", text)
		}
		if text := harmless(t, []int{exitOK}, "doctor", path, "-o", dir, "--format", f); !strings.Contains(text, "alert(1)") {
			t.Errorf("doctor: %s", text)
		}
	}
}
