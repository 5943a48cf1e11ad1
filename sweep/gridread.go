package sweep

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxGridBytes bounds a grid file.
const maxGridBytes = 1 << 20

// GridReader reads grid files with what only other rooms know. The zero value reads every engine's
// name and lets every flag pass.
type GridReader struct {
	Engines  []string                              // names that "engine" may have; nil: any
	Owned    func(engine string) map[string]string // flags that a grid may not set, each with the reason; nil: none
	Profiles []string                              // names that "simulate" may have; nil: any
	Home     string                                // what "~" stands for; empty: the user's home
	// LookInto reads a file of prompts or a trace and says what the reader must know of it; nil: files are not looked into.
	LookInto func(what, path string) (FileFacts, error)
	// Kept says where files are read that the grid names, by their names there: a night has copies of its own.
	Kept map[string]string
}

// ReadGrid reads a grid file without knowledge of engines.
func ReadGrid(path string) (*Grid, []Problem, error) { return GridReader{}.Read(path) }

// ReadGridBytes is ReadGrid for bytes at hand; path only names them.
func ReadGridBytes(path string, data []byte) (*Grid, []Problem) {
	return GridReader{}.ReadBytes(path, data)
}

// Read returns the grid and everything that is wrong with it, in the order of the file. The grid is
// nil when a problem is more than a warning. The error is about the file itself: it cannot be read.
func (o GridReader) Read(path string) (*Grid, []Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read grid: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxGridBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read grid: %w", err)
	}
	grid, problems := o.ReadBytes(path, data)
	return grid, problems, nil
}

// ReadBytes is Read for bytes at hand; path only names them.
func (o GridReader) ReadBytes(path string, data []byte) (*Grid, []Problem) {
	if o.Home == "" {
		o.Home, _ = os.UserHomeDir() // without one, "~" is a problem where it is used
	}
	r := &reading{GridReader: o, file: path, grid: &Grid{Path: path, Source: bytes.Clone(data)}}
	if root := r.parse(data); root != nil {
		r.read(root)
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if r.failed() {
		return nil, r.problems
	}
	return r.grid, r.problems
}

// reading is one pass over one grid file.
type reading struct {
	GridReader
	file     string
	lines    []string
	problems []Problem
	grid     *Grid

	owned   map[string]string // flat flag name → reason
	top     map[string]field  // the file's own entries
	axes    map[string]*axisPlace
	flags   map[string]*yaml.Node // flat name of each flag of the section "server" → its key
	works   map[string]*yaml.Node // workload → its key
	broken  map[string]bool       // sections whose content is not known in full, so that others cannot be held against it
	exclude []*yaml.Node          // one for each of grid.Exclude
	include []*yaml.Node          // the same for the others
	unwant  []*yaml.Node
}

func (r *reading) failed() bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return !p.Warning })
}

// parse returns the file's only document, or nil after noting why there is none.
func (r *reading) parse(data []byte) *yaml.Node {
	if len(data) > maxGridBytes {
		r.problem(nil, "a grid is a short file", "the file is larger than %d KiB", maxGridBytes>>10)
		return nil
	}
	r.lines = strings.Split(string(data), "\n")
	if !utf8.Valid(data) {
		at := 0
		for at < len(data) {
			c, size := utf8.DecodeRune(data[at:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		r.problem(place(data, at), "save it as UTF-8", "the file is not UTF-8: byte 0x%02x", data[at])
		return nil
	}
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		r.syntax(data, err)
		return nil
	}
	if len(documents) == 0 || len(documents) == 1 && empty(root(&documents[0])) {
		r.problem(&yaml.Node{Line: 1, Column: 1}, "it needs at least engine, model, workloads and load; 'sweep help grid' prints one", "the file is empty")
		return nil
	}
	if len(documents) > 1 {
		r.problem(&documents[1], "put each grid into a file of its own", "a second document begins")
		return nil
	}
	r.refuseAliases(root(&documents[0]))
	return root(&documents[0])
}

// root is a document's content; an empty document has none.
func root(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		return n.Content[0]
	}
	if n.Kind == yaml.DocumentNode {
		return nil
	}
	return n
}

// place is the line and column of a byte.
func place(data []byte, at int) *yaml.Node {
	at = min(max(at, 0), len(data))
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return &yaml.Node{Line: bytes.Count(data[:at], []byte("\n")) + 1, Column: utf8.RuneCount(data[start:at]) + 1}
}

// syntax notes why the file is no YAML.
func (r *reading) syntax(data []byte, err error) {
	var one *yaml.LoadError
	if !errors.As(err, &one) {
		r.problem(nil, "", "not valid YAML: %v", err)
		return
	}
	n := &yaml.Node{Line: one.Mark.Line, Column: one.Mark.Column}
	if n.Line == 0 {
		n = place(data, one.Mark.Index)
	}
	remedy := ""
	switch {
	case strings.Contains(one.Message, "mapping values"):
		remedy = "quote text that holds a colon and a space"
	case strings.Contains(one.Message, "control characters"):
		remedy = "take the character out"
	}
	if one.ContextMsg != "" {
		remedy = fmt.Sprintf("%s that begins in line %d", one.ContextMsg, max(one.ContextMark.Line, 1))
	}
	if n.Line <= len(r.lines) {
		if line := []rune(r.lines[n.Line-1]); n.Column <= len(line) && n.Column > 0 && line[n.Column-1] == '\t' {
			remedy = "indent with spaces, not with tabs"
		}
	}
	r.problem(n, remedy, "not valid YAML: %s", one.Message)
}

// refuseAliases notes anchors, aliases and explicit tags: with them, what stands in one place comes
// from another, and a small file can stand for a huge one.
func (r *reading) refuseAliases(n *yaml.Node) {
	const remedy = "write the value out"
	switch {
	case n.Kind == yaml.AliasNode:
		r.problem(n, remedy, "alias *%s: a grid has no aliases", n.Value)
		return
	case n.Anchor != "":
		r.problem(n, remedy, "anchor &%s: a grid has no anchors", n.Anchor)
	case n.Tag == "!!merge":
		r.problem(n, remedy, "merge key %q: a grid has no merge keys", n.Value)
	case n.Style&yaml.TaggedStyle != 0:
		r.problem(n, "quote the value if it should be text", "tag %s: a grid has no tags", n.Tag)
	}
	for _, child := range n.Content {
		r.refuseAliases(child)
	}
}

// The keys of a grid.
var gridKeys = []string{
	"name", "engine", "model", "command", "container", "workdir", "env", "hosts", "server", "sweep", "exclude", "include", "baseline",
	"unacceptable", "workloads", "load", "measure", "limits", "repeats", "drift", "until", "budget",
	"price_per_hour", "accept_edge", "only", "prompt_set", "attach", "attach_key", "flush",
}

// read fills the grid from the document. The order is that in which one section needs another.
func (r *reading) read(root *yaml.Node) {
	r.axes, r.flags, r.works, r.broken = map[string]*axisPlace{}, map[string]*yaml.Node{}, map[string]*yaml.Node{}, map[string]bool{}
	r.owned = map[string]string{}
	r.top = r.section(root, "a grid", "engine, model, workloads and load; 'sweep help grid' prints one", gridKeys...)
	if root.Kind != yaml.MappingNode {
		return
	}
	for _, key := range needed {
		if _, ok := r.top[key.name]; !ok {
			r.problem(root, "add "+key.example, "key %q is missing", key.name)
			r.broken[key.name] = true
		}
	}
	r.readNames()
	r.readAttach()
	for _, part := range []struct {
		name string
		read func(*yaml.Node)
	}{
		{"command", r.readCommand},
		{"container", r.readContainer},
		{"workdir", r.readWorkdir},
		{"env", r.readEnv},
		{"hosts", r.readHosts},
		{"until", r.readUntil},
		{"budget", r.readBudget},
		{"server", r.readServer},
		{"sweep", r.readAxes},
		{"exclude", r.readExclude},
		{"include", r.readInclude},
		{"baseline", r.readBaseline},
		{"unacceptable", r.readUnacceptable},
		{"workloads", r.readWorkloads},
		{"load", r.readLoads},
		{"limits", r.readLimits},
	} {
		if f, ok := r.top[part.name]; ok {
			before := len(r.problems)
			if empty(f.value) {
				r.emptySection(f)
			} else {
				part.read(f.value)
			}
			if slices.ContainsFunc(r.problems[before:], func(p Problem) bool { return !p.Warning }) {
				r.broken[part.name] = true
			}
		}
	}
	r.defaultHosts()
	r.readMeasure()
	r.readRepeats()
	r.readAgain()
	r.readReport()
	r.checkWhole()
}

// emptySection notes a key with nothing behind it, unless it holds a list or mapping whose entries
// may all be commented out.
func (r *reading) emptySection(f field) {
	switch f.name {
	case "env", "hosts", "server", "sweep", "exclude", "include", "unacceptable", "limits":
	default:
		r.problem(f.key, "write a value, or leave the key out", "%s is empty", f.name)
	}
}

// readNames reads name, engine and model.
func (r *reading) readNames() {
	g := r.grid
	if f, ok := r.top["name"]; ok {
		if s, ok := r.text(f.value, "name"); ok && r.folderName(f.value, s, "name", "rename it") {
			g.Name = s
		}
	} else {
		g.Name = strings.TrimSuffix(filepath.Base(r.file), filepath.Ext(r.file))
		if !safeName.MatchString(g.Name) || len(g.Name) > maxName {
			r.problem(nil, `add "name:"`, "the file's name %q cannot name its nights", clip(g.Name))
		}
	}
	if f, ok := r.top["engine"]; ok {
		if s, ok := r.text(f.value, "engine"); ok {
			if r.Engines != nil && !slices.Contains(r.Engines, s) {
				r.problem(f.value, didYouMean(s, r.Engines), "unknown engine %q", s)
			}
			g.Engine = s
		}
	}
	if r.Owned != nil && g.Engine != "" {
		for name, reason := range r.Owned(g.Engine) {
			r.owned[FlatName(name)] = reason
		}
	}
	if f, ok := r.top["model"]; ok {
		if s, ok := r.path(f.value, "model"); ok {
			g.Model = s
		}
	}
}
