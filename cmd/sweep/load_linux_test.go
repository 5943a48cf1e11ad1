package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep/loadgen/mock"
)

// TestLoadStops: Ctrl-C ends a load at once, with what was measured; so it does one of several processes.
func TestLoadStops(t *testing.T) {
	t.Parallel()
	for _, processes := range []string{"1", "2"} {
		url := loadServer(t, mock.Timing{First: 2 * time.Millisecond, Gap: time.Millisecond})
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		result := filepath.Join(t.TempDir(), "out.json")
		lines := filepath.Join(t.TempDir(), "a.jsonl")
		cmd := exec.CommandContext(t.Context(), self, "load", "--url", url, "--model", "m", "-c", "3", "-d", "10m", "--warmup", "0", "--output", "4", "--processes", processes, "--json", result, "--record", lines)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitForLoad(t, url)
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(cmd); code != exitInterrupted {
			t.Fatalf("exit code %d: %s", code, said.String())
		}
		var doc struct {
			Stopped, Complete bool
			Values            map[string]float64
		}
		data, err := os.ReadFile(result)
		if err == nil {
			err = json.Unmarshal(data, &doc)
		}
		if err != nil || !doc.Stopped || doc.Complete || doc.Values["completed"] < 1 || !strings.Contains(said.String(), "stopped before its end") {
			t.Errorf("%s processes: %v: %+v\n%s", processes, err, doc, said.String())
		}
	}
}

// waitForLoad waits until others have had some answers of a server.
func waitForLoad(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if n := askedOf(ctx, t, url); n > 20 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func askedOf(ctx context.Context, t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/count", strings.NewReader(`{"max_tokens":1}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	if _, err := fmt.Fscan(resp.Body, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
