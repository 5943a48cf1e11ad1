package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sweep/loadgen"
	"sweep/loadgen/export"
	"sweep/loadgen/parquetfile"
	"sweep/sweep"
)

// loadFile is a file that a load writes; Path "" is standard output.
type loadFile struct {
	kind string // lines, record or parquet; bench-serving or vllm; json
	path string
	file *os.File // open during the run, of lines and record
}

// loadOutputs are the files of a load. Some are written while it runs, the others out of its record.
type loadOutputs struct {
	files []*loadFile
	table bool     // standard output is free for the table
	raw   *os.File // the binary record: the user's own, or one that goes away
	own   bool     // it is ours, to be removed
	parts bool     // the record comes from several processes
}

// outputs says which files the flags ask for.
func (j *loadJob) outputs(f *loadFlags) (*loadOutputs, error) {
	o := &loadOutputs{table: true, parts: f.processes > 1}
	var errs []error
	for _, path := range f.records {
		kind := "record"
		switch filepath.Ext(path) {
		case ".jsonl":
			kind = "lines"
		case ".parquet":
			kind = "parquet"
		}
		o.files = append(o.files, &loadFile{kind: kind, path: path})
	}
	for _, text := range f.exports {
		kind, path, _ := strings.Cut(text, "=")
		if kind != "bench-serving" && kind != "vllm" {
			errs = append(errs, fmt.Errorf("--export %q: want bench-serving or vllm, or bench-serving=FILE", text))
		}
		o.files = append(o.files, &loadFile{kind: kind, path: path})
	}
	if f.json != "" {
		o.files = append(o.files, &loadFile{kind: "json", path: strings.TrimPrefix(f.json, "-")})
	}
	seen := map[string]bool{}
	for _, file := range o.files {
		o.table = o.table && file.path != ""
		if seen[file.path] {
			errs = append(errs, fmt.Errorf("two results cannot go to one file: %s", cmpOr(file.path, "standard output")))
		}
		seen[file.path] = true
	}
	return o, errors.Join(errs...)
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// open makes the files, so that what cannot be written shows before the run.
func (o *loadOutputs) open() error {
	needs := o.parts
	for _, f := range o.files {
		switch f.kind {
		case "parquet", "bench-serving", "vllm":
			needs = true
		}
		if f.path == "" {
			continue
		}
		file, err := os.Create(f.path)
		if err != nil {
			return err
		}
		if f.kind == "record" {
			o.raw = file
		}
		f.file = file
	}
	if o.raw == nil && needs {
		var err error
		o.own = true
		if o.raw, err = os.CreateTemp("", "sweep-load-*.rec"); err != nil {
			return err
		}
	}
	return nil
}

// lines is the request file to be written while the run goes on.
func (o *loadOutputs) lines() io.Writer {
	for _, f := range o.files {
		if f.kind == "lines" {
			return f.file
		}
	}
	return nil
}

// record is the binary record to be written while the run goes on.
func (o *loadOutputs) record() io.Writer {
	if o.raw == nil {
		return nil
	}
	return o.raw
}

// remove takes away what is only of use to us.
func (o *loadOutputs) remove() {
	if o.own && o.raw != nil {
		o.raw.Close()
		os.Remove(o.raw.Name())
	}
}

// merge makes one record and one result of those of several processes.
func (o *loadOutputs) merge(parts []*loadProcess) (loadgen.Result, error) {
	var records []io.ReadSeeker
	for _, p := range parts {
		file, err := os.Open(p.record)
		if err != nil {
			return loadgen.Result{}, fmt.Errorf("a process of the load left no record: %w", err)
		}
		defer file.Close()
		records = append(records, file)
	}
	if err := loadgen.MergeRecords(o.raw, records...); err != nil {
		return loadgen.Result{}, err
	}
	for _, r := range records {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return loadgen.Result{}, err
		}
	}
	res, err := loadgen.Summarize(records...)
	if err != nil || o.lines() == nil {
		return res, err
	}
	if _, err := o.raw.Seek(0, io.SeekStart); err != nil {
		return res, err
	}
	return res, loadgen.WriteRequests(o.lines(), o.raw)
}

// finish writes what comes out of the record and the result, and the table.
func (o *loadOutputs) finish(env *environ, j *loadJob) error {
	var errs []error
	for _, f := range o.files {
		if err := o.write(env, f, j); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmpOr(f.path, f.kind), err))
		}
	}
	var b bytes.Buffer
	writeLoadTable(&b, j)
	if o.table {
		_, err := env.Stdout.Write(b.Bytes())
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return exitWith(exitEnvironment, err)
	}
	return nil
}

func (o *loadOutputs) write(env *environ, f *loadFile, j *loadJob) (err error) {
	to := env.Stdout
	if f.file != nil {
		to = f.file
		defer func() { err = errors.Join(err, f.file.Close()) }()
	}
	if f.kind == "json" {
		return printable(to, func(w io.Writer) error { return export.JSON(w, j.run(), j.result) })
	}
	if f.kind == "lines" || f.kind == "record" {
		return nil // written already
	}
	record, err := os.Open(o.raw.Name())
	if err != nil {
		return err
	}
	defer record.Close()
	switch f.kind {
	case "parquet":
		_, err = parquetfile.Write(to, record)
	case "bench-serving":
		err = printable(to, func(w io.Writer) error { return export.BenchServing(w, j.run(), j.result, record) })
	case "vllm":
		err = printable(to, func(w io.Writer) error { return export.VLLM(w, j.run(), j.result, record) })
	}
	return err
}

// printable writes JSON with what a terminal would obey as escapes.
func printable(to io.Writer, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	_, err := to.Write(sweep.PrintableJSON(b.Bytes()))
	return err
}
