package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// supersede takes the unfinished jobs out of a queue; their files are kept under another name.
func supersede(queue string) error {
	open, err := unfinished(queue)
	if err != nil {
		return err
	}
	for _, name := range open {
		if err := os.Rename(filepath.Join(queue, name+".json"), filepath.Join(queue, name+".superseded")); err != nil {
			return err
		}
	}
	return nil
}

// unfinished lists the jobs of a queue without the file that says they are done, by number.
func unfinished(queue string) ([]string, error) {
	entries, err := os.ReadDir(queue)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var open []string
	done := map[string]bool{}
	for _, e := range entries {
		name, ext, _ := strings.Cut(e.Name(), ".")
		switch ext {
		case "json":
			open = append(open, name)
		case "done":
			done[name] = true
		}
	}
	return slices.DeleteFunc(open, func(name string) bool { return done[name] }), nil
}

// nextNumber is one more than the highest number that was ever in a queue.
func nextNumber(queue string) (int, error) {
	entries, err := os.ReadDir(queue)
	if err != nil {
		return 0, err
	}
	next := 1
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d.", &n); err == nil {
			next = max(next, n+1)
		}
	}
	return next, nil
}
