package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Files says what WriteFolder wrote.
type Files struct {
	Dir      string // the folder: NIGHT/report
	Summary  string // summary.md in it
	Cells    string // cells.csv in it
	Pictures []Picture
	Skipped  []string // pictures that were not drawn, each with its reason
}

// WriteFolder writes the night's report folder: summary.md, cells.csv and the pictures as PNG and SVG. Each file
// appears whole, by a rename.
func WriteFolder(n *Night, s *Summary) (*Files, error) {
	dir := filepath.Join(n.Dir, "report")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	f := &Files{Dir: dir, Summary: filepath.Join(dir, "summary.md"), Cells: filepath.Join(dir, "cells.csv")}
	for _, d := range s.drawings() {
		if d.skip != "" {
			f.Skipped = append(f.Skipped, d.skip)
			continue
		}
		for ext, render := range map[string]func(drawing) ([]byte, error){".png": renderPNG, ".svg": renderSVG} {
			data, err := render(d)
			if err != nil {
				return nil, fmt.Errorf("report: %s%s: %w", d.Name, ext, err)
			}
			if err := writeFile(filepath.Join(dir, d.Name+ext), data); err != nil {
				return nil, err
			}
		}
		f.Pictures = append(f.Pictures, d.Picture)
	}
	var md, cells bytes.Buffer
	if err := WriteMarkdown(&md, s, f.Pictures); err != nil {
		return nil, err
	}
	if err := WriteCSV(&cells, n); err != nil {
		return nil, err
	}
	if err := writeFile(f.Summary, md.Bytes()); err != nil {
		return nil, err
	}
	return f, writeFile(f.Cells, cells.Bytes())
}

func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when all went well
	_, err = tmp.Write(data)
	if e := tmp.Chmod(0o644); err == nil {
		err = e
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
