package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
	"sweep/sweep/agent"
)

// workloadOf is the grid's workload that --workload names; empty without the flag.
func workloadOf(env *environ, f *loadFlags) (w sweep.Workload, err error) {
	if f.workload == "" {
		return w, nil
	}
	path, name, _ := strings.Cut(f.workload, ":")
	grid, err := loadGrid(env, path)
	if err != nil {
		return w, err
	}
	var known []string
	for _, x := range grid.Workloads {
		known = append(known, x.Name)
		if x.Name == name || name == "" && len(grid.Workloads) == 1 {
			w = x
		}
	}
	if w.Name == "" {
		err = fmt.Errorf("--workload %s: name one of the grid's workloads: %s", f.workload, path+":"+strings.Join(known, " or "+path+":"))
	}
	return w, err
}

// readWorkload takes the classes of a grid's workload.
func (j *loadJob) readWorkload(f *loadFlags, w sweep.Workload) error {
	if f.rate != 0 || f.stages != "" || f.trace != "" || f.prompts != "" || f.prefix != "" || f.turns != "" {
		return errors.New("--workload brings its own requests: only --concurrency says how many of them are in flight")
	}
	if w.Name == "" {
		return nil // what is wrong with it is said already
	}
	levels, err := readLevels("--concurrency", f.concurrency, w)
	if err != nil {
		return err
	}
	files := agent.NewFiles(func(file *sweep.File) (string, error) { return file.Path(), nil })
	for _, c := range w.Classes {
		lc, err := files.Class(c, w.SLO)
		if err != nil {
			return fmt.Errorf("--workload %s: class %s: %w", f.workload, c.Name, err)
		}
		lc.Concurrency, lc.Natural = levels[c.Name], lc.Natural || f.natural
		j.spec.Classes = append(j.spec.Classes, lc)
	}
	return nil
}

// readLevels reads a number for all classes together, split by their shares, or one for each.
func readLevels(flag, text string, w sweep.Workload) (map[string]int, error) {
	levels := map[string]int{}
	if n, err := strconv.Atoi(text); err == nil {
		load, err := w.Split(n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		for _, p := range load.Pools {
			levels[p.Class] = p.Concurrency
		}
		return levels, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || !slices.ContainsFunc(w.Classes, func(c sweep.Class) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%s %q: want a number, or one for each class of workload %s: %s", flag, text, w.Name, classExample(w))
		}
		levels[name] = n
	}
	if len(levels) != len(w.Classes) {
		return nil, fmt.Errorf("%s %q: workload %s has %d classes: %s", flag, text, w.Name, len(w.Classes), classExample(w))
	}
	return levels, nil
}

func classExample(w sweep.Workload) string {
	var parts []string
	for _, c := range w.Classes {
		parts = append(parts, c.Name+"=16")
	}
	return strings.Join(parts, ",")
}
