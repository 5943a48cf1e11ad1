package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sweep/sweep"
)

// maxFile bounds what is read of one file of a night.
const maxFile = 16 << 20

// Look reads the launches of a night that were ready, the oldest first. What cannot be understood is
// left out: a forecast can do without. The night may still run.
func Look(night string) ([]sweep.Sighting, error) {
	files, err := fs.Glob(os.DirFS(night), "launches/*/repeat=*/attempt=*/"+sweep.ReadyFile)
	if err != nil {
		return nil, err
	}
	var seen []sweep.Sighting
	for _, file := range files {
		file = filepath.Join(night, filepath.FromSlash(file))
		var ready sweep.LaunchResult
		var job sweep.Job
		err := errors.Join(read(file, &ready), read(filepath.Join(filepath.Dir(file), "job.json"), &job))
		if errors.Is(err, fs.ErrPermission) {
			return seen, fmt.Errorf("launches of %s: %w", night, err)
		}
		if err != nil || ready.Schema != sweep.Schema || job.Schema != sweep.Schema {
			continue
		}
		s := sweep.SightingOf(job)
		s.At, s.EngineVersion, s.GPU, s.GPUCount, s.Facts = ready.StartedAt, ready.EngineVersion, ready.GPU, ready.GPUCount, ready.Facts
		seen = append(seen, s)
	}
	slices.SortStableFunc(seen, func(a, b sweep.Sighting) int { return a.At.Compare(b.At) })
	return seen, nil
}

// LookAll reads the launches of all nights below root that were ready, and names each with its night. Nights
// that cannot be read are left out.
func LookAll(root string) []sweep.Sighting {
	nights, err := sweep.Nights(root)
	if err != nil {
		return nil
	}
	var seen []sweep.Sighting
	for _, dir := range nights {
		of, err := Look(dir)
		if err != nil {
			continue
		}
		for i := range of {
			of[i].Launch = filepath.Base(dir) + "/" + of[i].Launch
		}
		seen = append(seen, of...)
	}
	slices.SortStableFunc(seen, func(a, b sweep.Sighting) int { return a.At.Compare(b.At) })
	return seen
}

func read(file string, into any) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() > maxFile {
		return fmt.Errorf("%s: too large", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// CellBytes is what a token of the job's model takes in the KV pool of one rank, from the config.json in
// the model's folder; 0 when that cannot be told. A simulated server has no model.
func CellBytes(rule *sweep.MemoryRule, job sweep.Job) float64 {
	if rule == nil || rule.CellBytes == nil || job.Simulate != "" {
		return 0
	}
	dir := job.Model
	if !filepath.IsAbs(dir) && job.Workdir != "" {
		dir = filepath.Join(job.Workdir, dir)
	}
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || len(data) > maxFile {
		return 0
	}
	cell, err := rule.CellBytes(data, job.Config.Settings)
	if err != nil {
		return 0
	}
	return cell
}
