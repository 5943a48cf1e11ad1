package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"
)

// FilesDir is the folder of a night that holds the files that its grid names.
const FilesDir = "files"

// File is a file that a grid names: prompts, or a trace. A night keeps a copy, by its content, so that a cell is measured again
// with the same requests even when the file has changed.
type File struct {
	Name   string `json:"name"` // as it stands in the grid
	SHA256 string `json:"sha256"`

	path     string     // where it was read
	requests int        // of a trace; 0: not known
	at       *yaml.Node // where the grid names it
}

// Kept is where a night has its copy, relative to the night's folder.
func (f *File) Kept() string { return FilesDir + "/" + f.SHA256 }

// Path is where the file was read: absolute, or relative to the working directory.
func (f *File) Path() string { return f.path }

func (f *File) absolute() string {
	if path, err := filepath.Abs(f.path); err == nil {
		return path
	}
	return f.path
}

// hashFile is the hash of a file's content.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Files are the files that the grid names, each content once.
func (g *Grid) Files() []*File {
	var files []*File
	seen := map[string]bool{}
	add := func(f *File) {
		if f != nil && !seen[f.SHA256] {
			seen[f.SHA256] = true
			files = append(files, f)
		}
	}
	for _, w := range g.Workloads {
		for _, c := range w.Classes {
			add(c.Prompts)
		}
	}
	for _, l := range g.Loads {
		if l.Arrivals != nil {
			add(l.Arrivals.Trace)
		}
	}
	return files
}

// keepFiles copies the grid's files into the night's folder. What is there already is left as it is: its name is its content.
func (n *Night) keepFiles(g *Grid) error {
	for _, f := range g.Files() {
		to := filepath.Join(n.Dir, filepath.FromSlash(f.Kept()))
		if _, err := os.Stat(to); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := copyChecked(f, to); err != nil {
			return fmt.Errorf("file %s of the grid: %w", f.Name, err)
		}
	}
	return nil
}

// copyChecked copies a file and makes sure that it is what the grid's cells were planned with.
func copyChecked(f *File, to string) error {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
		return fmt.Errorf("it has changed since the grid was read")
	}
	return WriteFile(to, data, 0o644)
}

// KeptFiles says where a night has the files that its grid names, by their names in the grid.
func (m *Manifest) KeptFiles(dir string) map[string]string {
	kept := map[string]string{}
	g := Grid{Workloads: m.Workloads, Loads: m.Loads}
	for _, f := range g.Files() {
		kept[f.Name] = filepath.Join(dir, filepath.FromSlash(f.Kept()))
	}
	return kept
}
