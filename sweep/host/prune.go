package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keptPrograms is how many copies of this program stay on a host beside the one that runs.
const keptPrograms = 3

// Prune takes away old copies of this program beside the one at path self.
func Prune(self string) {
	dir := filepath.Dir(self)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type copyOf struct {
		path string
		made int64
	}
	var old []copyOf
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		sum, ok := strings.CutPrefix(e.Name(), "sweep-")
		if !ok || len(sum) != 64 || path == self {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			old = append(old, copyOf{path, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(old, func(a, b copyOf) int { return cmp.Compare(b.made, a.made) })
	for _, c := range old[min(len(old), keptPrograms):] {
		_ = os.Remove(c.path) // what runs from it goes on
	}
}
