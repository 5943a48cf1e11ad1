//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sweep/sweep"
)

// report writes what the night cost.
func report(w io.Writer, dir string, launches int, took time.Duration) error {
	for _, p := range []struct{ name, file string }{{"runner", filepath.Join(dir, "self.jsonl")}, {"agent", filepath.Join(dir, "agents", "local", "self.jsonl")}} {
		looks, err := readLooks(p.file)
		if err != nil {
			return err
		}
		if len(looks) < 8 {
			fmt.Fprintf(w, "%s: too short a night to compare its begin with its end\n", p.name)
			continue
		}
		// A look falls into any part of a launch, so the least and the most of quarters are compared, not moments: what is
		// never given back lifts the least.
		first, last := looks[:len(looks)/4], looks[len(looks)-len(looks)/4:]
		fmt.Fprintf(w, "%-7s heap %s → %s MiB, goroutines %s → %s, descriptors %s → %s (least–most of the first and last quarter of %d looks)\n", p.name,
			span("%.2f", first, heap), span("%.2f", last, heap), span("%.0f", first, goroutines), span("%.0f", last, goroutines),
			span("%.0f", first, descriptors), span("%.0f", last, descriptors), len(looks))
	}
	if err := reportOverhead(w, dir, launches, took); err != nil {
		return err
	}
	return reportJournal(w, dir, launches)
}

func heap(l look) float64        { return float64(l.HeapBytes) / (1 << 20) }
func goroutines(l look) float64  { return float64(l.Goroutines) }
func descriptors(l look) float64 { return float64(l.Descriptors) }

// span is the least and the most of what was seen.
func span(format string, looks []look, of func(look) float64) string {
	least, most := of(looks[0]), of(looks[0])
	for _, l := range looks {
		least, most = min(least, of(l)), max(most, of(l))
	}
	return fmt.Sprintf(format+"–"+format, least, most)
}

func readLooks(path string) ([]look, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var looks []look
	for s := bufio.NewScanner(f); s.Scan(); {
		var l look
		if json.Unmarshal(s.Bytes(), &l) == nil {
			looks = append(looks, l)
		}
	}
	return looks, nil
}

// reportOverhead says how much of the night was neither the server's start and stop nor the load.
func reportOverhead(w io.Writer, dir string, launches int, took time.Duration) error {
	files, err := filepath.Glob(filepath.Join(dir, "launches", "*", "*", "attempt=*", "launch.json"))
	if err != nil {
		return err
	}
	var inside, others []float64
	for _, file := range files {
		var r sweep.LaunchResult
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			return err
		}
		h := r.Times["harness_s"]
		inside = append(inside, h)
		others = append(others, r.EndedAt.Sub(r.StartedAt).Seconds()-h)
	}
	slices.Sort(inside)
	sum := 0.0
	for _, o := range others {
		sum += o
	}
	fmt.Fprintf(w, "overhead %.2f s a launch, the time between launches included; inside a launch median %.2f s, most %.2f s\n",
		(took.Seconds()-sum)/float64(launches), inside[len(inside)/2], inside[len(inside)-1])
	return nil
}

// reportJournal says what the lines that are synced cost at this disk's fsync.
func reportJournal(w io.Writer, dir string, launches int) error {
	lines := 0
	for _, name := range []string{"journal.jsonl", "cells.jsonl"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		lines += bytes.Count(data, []byte("\n"))
	}
	sync, err := fsyncTime(dir)
	if err != nil {
		return err
	}
	each := float64(lines) / float64(launches)
	fmt.Fprintf(w, "journal %.1f synced lines a launch (journal.jsonl and cells.jsonl), %.2f ms each at this disk: %.1f ms a launch\n",
		each, sync.Seconds()*1000, each*sync.Seconds()*1000)
	return nil
}

// fsyncTime is the median of appending a line and syncing it.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	line := append(bytes.Repeat([]byte("x"), 300), '\n')
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(line); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
