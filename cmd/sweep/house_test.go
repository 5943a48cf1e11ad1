package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ours says which of our packages each room may import; the command imports all.
var ours = map[string][]string{
	"failpoint":              {},
	"grids":                  {},
	"bench/killstorm":        {"report", "sweep", "sweep/proc", "sweep/proc/proctest", "sweep/simulate"},
	"bench/longnight":        {"sweep", "sweep/agent", "sweep/engine", "sweep/host", "sweep/proc", "sweep/simulate"},
	"bench/peers":            {"loadgen/truth", "bench/peers/rawreader"},
	"bench/peers/rawreader":  {},
	"loadgen":                {},
	"loadgen/export":         {"loadgen"},
	"loadgen/parquetfile":    {"loadgen"},
	"loadgen/selftest":       {"loadgen", "loadgen/truth"},
	"loadgen/truth":          {},
	"report":                 {"sweep", "loadgen"},
	"report/browsertest":     {"sweep"},
	"sweep":                  {"failpoint"},
	"sweep/agent":            {"failpoint", "sweep", "sweep/engine", "sweep/gpu", "sweep/proc", "sweep/search", "loadgen"},
	"sweep/engine":           {"sweep"},
	"sweep/gpu":              {},
	"sweep/host":             {"failpoint", "sweep", "sweep/proc"},
	"sweep/host/conformance": {"sweep", "sweep/proc"},
	"sweep/host/sshtest":     {},
	"sweep/proc":             {"failpoint"},
	"sweep/proc/proctest":    {},
	"sweep/search":           {"sweep"},
	"sweep/simulate":         {"sweep"},
}

// homes says where each module of others may be imported: patterns of files below the root. In tests it may be anywhere.
var homes = map[string][]string{
	"github.com/sourcegraph/conc":       {"loadgen/*.go", "sweep/*.go"},
	"github.com/chromedp":               {"report/browsertest/*.go"},
	"github.com/olekukonko/tablewriter": {"report/table.go"},
	"github.com/parquet-go/parquet-go":  {"loadgen/parquetfile/*.go", "report/parquet.go"},
	"gonum.org/v1/plot":                 {"report/plot*.go"},
	"gonum.org/v1/gonum":                {"report/stats*.go"},
	"github.com/aclements/go-moremath":  {"report/stats*.go"},
	"golang.org/x/image":                {"report/plot*.go"},
	"codeberg.org/go-fonts":             {"report/plot*.go"},
	"go.yaml.in/yaml/v4":                {"sweep/grid*.go"},
	"github.com/spf13/cobra":            {"cmd/sweep/*.go"},
	"github.com/spf13/pflag":            {"cmd/sweep/*.go"},
	"github.com/vbauerster/mpb/v8":      {"cmd/sweep/*.go"},
	"golang.org/x/term":                 {"cmd/sweep/*.go"},
	"golang.org/x/crypto":               {"sweep/host/ssh*.go", "sweep/host/sshtest/*.go"},
	"github.com/kevinburke/ssh_config":  {"sweep/host/ssh*.go"},
	"golang.org/x/sys":                  {"*/*.go", "*/*/*.go"},
}

// noGo lists the packages without go statements: there goroutines are started by something that waits for them.
var noGo = []string{"grids", "loadgen", "report", "sweep", "sweep/engine", "sweep/search"}

// sourceFile is one Go file of the module.
type sourceFile struct {
	path  string // relative to the root, with slashes
	dir   string
	test  bool
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	const root = "../.."
	var files []sourceFile
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "results" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := sourceFile{path: filepath.ToSlash(rel), dir: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
		if f.ast, err = parser.ParseFile(f.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		f.lines = f.fset.Position(f.ast.FileEnd).Line
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d Go files below %s", len(files), root)
	}
	return files
}

func TestImports(t *testing.T) {
	for _, f := range sourceFiles(t) {
		for _, imp := range f.ast.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := wrongImport(f, path); wrong != "" {
				t.Errorf("%s imports %s: %s", f.fset.Position(imp.Pos()), path, wrong)
			}
		}
	}
}

// wrongImport says why a file may not import a package; "" when it may.
func wrongImport(f sourceFile, path string) string {
	if room, isOurs := strings.CutPrefix(path, "sweep/"); isOurs {
		allowed, known := ours[f.dir]
		switch {
		case f.dir == "cmd/sweep" || f.test:
			return ""
		case !known:
			return "the table of rooms in house_test.go does not know " + f.dir
		case !slices.Contains(allowed, room):
			return fmt.Sprintf("%s may import %v of ours", f.dir, allowed)
		}
		return ""
	}
	if first, _, _ := strings.Cut(path, "/"); f.test || !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for module, patterns := range homes {
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		for _, pattern := range patterns {
			if ok, err := filepath.Match(pattern, f.path); err == nil && ok {
				return ""
			}
		}
		return fmt.Sprintf("its home is %v", patterns)
	}
	return "this module has no home in house_test.go"
}

func TestNoBareGo(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test || !slices.Contains(noGo, f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if stmt, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a go statement; start it with conc or sync.WaitGroup.Go, so that something waits for it", f.fset.Position(stmt.Pos()))
			}
			return true
		})
	}
}

// longFile and longFunc are from where a file or function wants a reason, in lines.
const (
	longFile = 400
	longFunc = 60
)

// TestSizes reports what has grown long; with -v it can be read.
func TestSizes(t *testing.T) {
	for _, f := range sourceFiles(t) {
		if f.test {
			continue
		}
		if f.lines > longFile {
			t.Logf("%s has %d lines", f.path, f.lines)
		}
		if f.lines > 2*longFile {
			t.Errorf("%s has %d lines: split it", f.path, f.lines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; n > longFunc {
				t.Logf("%s: %s has %d lines", f.fset.Position(fn.Pos()), fn.Name.Name, n)
			}
		}
	}
}
