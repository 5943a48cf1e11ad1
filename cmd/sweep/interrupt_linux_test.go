package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/sweep"
)

// await waits until a file of the bed's night holds a text.
func (b *bed) await(file, text string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if dir := b.night(); dir != "" {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil && bytes.Contains(data, []byte(text)) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Fatalf("%s never held %q", file, text)
}

func exitCode(cmd *exec.Cmd) int {
	_ = cmd.Wait() // the code says it
	return cmd.ProcessState.ExitCode()
}

// TestInterruptedNight stops a night under load with each signal, once or twice: exit code 130, the command that
// goes on, nothing left, and the rest is done by that command.
func TestInterruptedNight(t *testing.T) {
	if testing.Short() {
		t.Skip("runs several nights")
	}
	tests := []struct {
		name    string
		signals []syscall.Signal
		says    string
	}{
		{"SIGINT", []syscall.Signal{syscall.SIGINT}, "stopping the server"},
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}, "stopping the server"},
		{"twice", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, "killing what is left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			cmd, said := b.sweep("run", "grid.yaml")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			b.await("agents/local/events.jsonl", `"kind":"load"`)
			began := time.Now()
			for i, s := range tt.signals {
				if i > 0 {
					b.await("journal.jsonl", `"kind":"stop"`) // the first has been heard
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			code := exitCode(cmd)
			dir, err := filepath.Rel(b.dir, b.night())
			if err != nil {
				t.Fatal(err)
			}
			if code != exitInterrupted || !strings.Contains(said.String(), "Go on with: sweep resume "+dir) {
				t.Fatalf("exit code %d: %s", code, said)
			}
			if !strings.Contains(said.String(), tt.says) && len(tt.signals) == 1 {
				t.Errorf("said %s, want %q", said, tt.says)
			}
			t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
			b.nothingLeft()
			if tt.name != "SIGINT" {
				return
			}
			records, err := sweep.ReadRecords(b.night())
			if err != nil || !slices.ContainsFunc(records, func(r sweep.Record) bool { return r.Outcome == sweep.Aborted }) {
				t.Errorf("no cell is aborted: %v", err)
			}
			if code, said := b.run("resume", dir); code != exitOK && code != exitOther || len(b.cells()) != 6 {
				t.Errorf("exit code %d, %d cells: %s", code, len(b.cells()), said)
			}
			b.nothingLeft()
		})
	}
}

// TestNightInUse: a night that runs cannot be resumed beside it, and its report can be read.
func TestNightInUse(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a night")
	}
	t.Parallel()
	b := newBed(t)
	cmd, said := b.sweep("run", "grid.yaml", "--format", "csv")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.await("agents/local/events.jsonl", `"kind":"load"`)
	if code, said := b.run("resume", b.night()); code != exitEnvironment || !strings.Contains(said, "the night is in use by process") {
		t.Errorf("resume: exit code %d: %s", code, said)
	}
	if code, said := b.run("report", "results"); code != exitOK {
		t.Errorf("report: exit code %d: %s", code, said)
	}
	code := exitCode(cmd)
	if code != exitOK && code != exitOther {
		t.Errorf("exit code %d: %s", code, said)
	}
	// Data on standard output and nothing else; the story on standard error, its last line says where the report is;
	// behind it stands only why the exit code is 1, where it is.
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 7 || !strings.HasPrefix(lines[0], "schema,") {
		t.Errorf("standard output has %d lines: %s", len(lines), out.String())
	}
	story := strings.Split(strings.TrimSpace(said.String()), "\n")
	if code == exitOther && strings.HasPrefix(story[len(story)-1], "exit code 1: ") {
		story = story[:len(story)-1]
	}
	if last := story[len(story)-1]; !strings.HasPrefix(last, "report: results/tiny-") || !strings.Contains(last, "sweep report results/tiny-") {
		t.Errorf("the last line is %q", last)
	}
	for _, want := range []string{"6 cells to run in 2 starts", "ready after", "[6/6]", "oom.prefill", "skipped.implied"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the story lacks %q: %s", want, said)
		}
	}
	for _, name := range []string{"summary.md", "cells.csv"} {
		if _, err := os.Stat(filepath.Join(b.night(), "report", name)); err != nil {
			t.Error(err)
		}
	}
	b.nothingLeft()
}

// TestProgramGoesAway: a night goes on when its program is deleted or rebuilt meanwhile, as `go run` and a
// `go build` in the same folder do; what a person pastes still names the program by its path.
func TestProgramGoesAway(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nights")
	}
	for _, how := range []string{"deleted", "rebuilt"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			cmd, said := b.sweep("run", "grid.yaml")
			program, err := os.ReadFile(cmd.Path)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Path = filepath.Join(b.dir, "sweep")
			if err := os.WriteFile(cmd.Path, program, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			b.await("agents/local/events.jsonl", `"kind":"load"`)
			if err := os.Remove(cmd.Path); err != nil {
				t.Fatal(err)
			}
			if how == "rebuilt" {
				if err := os.WriteFile(cmd.Path, []byte("#!/bin/sh\nexit 9\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if code := exitCode(cmd); code != exitOK && code != exitOther {
				t.Fatalf("exit code %d: %s", code, said)
			}
			cells := b.cells()
			if len(cells) != 6 {
				t.Errorf("%d cells: %s", len(cells), said)
			}
			records, err := sweep.ReadRecords(b.night())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				var launch sweep.LaunchResult
				data, err := os.ReadFile(filepath.Join(b.night(), r.Dir, "launch.json"))
				if err != nil || json.Unmarshal(data, &launch) != nil || len(launch.Argv) == 0 {
					t.Fatalf("%s: %v: %s", r.Cell, err, data)
				}
				if launch.Argv[0] != cmd.Path || r.Outcome.Family() == "infra" || r.Outcome.Family() == "crash" {
					t.Errorf("%s: %s, started by %s", r.Cell, r.Outcome, launch.Argv[0])
				}
			}
			b.nothingLeft()
		})
	}
}
