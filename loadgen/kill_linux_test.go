//go:build linux && (amd64 || arm64)

package loadgen

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sweep/loadgen/mock"
)

// loadForever is the part of a process that records a load until it is killed.
func loadForever(path string) int {
	server := &mock.Server{Answer: steady(mock.Timing{First: 2 * msec, Gap: msec})}
	url, err := server.Listen()
	if err != nil {
		return 1
	}
	file, err := os.Create(path)
	if err != nil {
		return 1
	}
	spec := testSpec(server, 8)
	spec.URL, spec.Dial, spec.Record, spec.Warmup, spec.Window = url, nil, file, Warmup{}, Window{Min: time.Minute}
	_, err = Run(context.Background(), spec)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// The record of a process that was killed is readable.
func TestRecordOfAKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chunks.rec")
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), roleVariable+"=load")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * second); ; {
		if info, err := os.Stat(path); err == nil && info.Size() > 20_000 || time.Now().After(end) {
			break
		}
		time.Sleep(20 * msec) // nothing tells of a file that grows
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tokens := 0
	rec, err := ReadRecord(file, func(r *Record) error {
		tokens += r.OutputTokens
		return nil
	})
	if err != nil || rec.End != nil || rec.Requests < 50 || tokens != 5*rec.Requests || rec.Opened < 0 {
		t.Errorf("%v, %d requests, %d tokens, end %v", err, rec.Requests, tokens, rec.End)
	}
}
