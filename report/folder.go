package report

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Files says what WriteFolder wrote.
type Files struct {
	Dir      string // the folder: NIGHT/report
	Page     string // index.html in it
	Summary  string // summary.md in it
	Cells    string // cells.csv in it
	Pictures []Picture
	Skipped  []string // pictures that were not drawn, each with its reason
}

// WriteFolder writes the night's report folder: index.html, summary.md, cells.csv and the pictures as PNG and SVG. Each file
// appears whole, by a rename. What was written before an error is in the result all the same.
func WriteFolder(n *Night, s *Summary, o PageOptions) (*Files, error) {
	dir := filepath.Join(n.Dir, "report")
	f := &Files{Dir: dir, Page: filepath.Join(dir, "index.html"), Summary: filepath.Join(dir, "summary.md"), Cells: filepath.Join(dir, "cells.csv")}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return f, fmt.Errorf("report: %w", err)
	}
	var cells bytes.Buffer
	var cellsErr error
	var beside sync.WaitGroup // what needs nothing of the summary is written while the rest is worked out
	beside.Go(func() { cellsErr = WriteCSV(&cells, n) })
	err := f.draw(s)
	beside.Wait()
	if err := cmp.Or(err, cellsErr); err != nil {
		return f, err
	}
	var md, page bytes.Buffer
	if err := WritePage(&page, s, o); err != nil {
		return f, err
	}
	if err := WriteMarkdown(&md, s, f.Pictures, View{}); err != nil {
		return f, err
	}
	if err := writeFile(f.Page, page.Bytes()); err != nil {
		return f, err
	}
	if err := writeFile(f.Summary, md.Bytes()); err != nil {
		return f, err
	}
	return f, writeFile(f.Cells, cells.Bytes())
}

// draw writes the pictures. While one is drawn the one before it is packed: no more than two are held at once.
func (f *Files) draw(s *Summary) error {
	var packing sync.WaitGroup
	defer packing.Wait()
	var packErr error
	for _, d := range s.drawings() {
		if d.skip != "" {
			f.Skipped = append(f.Skipped, d.skip)
			continue
		}
		svg, err := s.renderSVG(d)
		if err != nil {
			return fmt.Errorf("report: %s.svg: %w", d.Name, err)
		}
		if err := writeFile(filepath.Join(f.Dir, d.Name+".svg"), svg); err != nil {
			return err
		}
		pack := paintPNG(d)
		packing.Wait()
		if packErr != nil {
			return packErr
		}
		packing.Go(func() {
			data, err := pack()
			if err == nil {
				err = writeFile(filepath.Join(f.Dir, d.Name+".png"), data)
			}
			if err != nil {
				packErr = fmt.Errorf("report: %s.png: %w", d.Name, err)
			}
		})
		f.Pictures = append(f.Pictures, d.Picture)
	}
	packing.Wait()
	return packErr
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
