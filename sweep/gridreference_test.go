package sweep

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReferenceHasEveryKey: the grid that documents all keys runs without a warning, and no key that the
// reader knows is left out of it.
func TestReferenceHasEveryKey(t *testing.T) {
	t.Parallel()
	const path = "../grids/reference.yaml"
	_, problems, err := ReadGrid(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s", p)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	keys := knownKeys(t)
	if len(keys) < 35 {
		t.Fatalf("only %d keys found in the reader: %v", len(keys), keys)
	}
	for _, key := range keys {
		if !regexp.MustCompile(`(?m)(^|[\s{])` + key + `:(\s|$)`).Match(text) {
			t.Errorf("%s says nothing of the key %q", path, key)
		}
	}
}

// knownKeys takes the keys of all sections from the reader's own source: gridKeys, and the words that
// each call of section is given.
func knownKeys(t *testing.T) []string {
	t.Helper()
	keys := slices.Clone(gridKeys)
	files, err := filepath.Glob("grid*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "section" || len(call.Args) < 4 {
				return true
			}
			for _, arg := range call.Args[3:] {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					key, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, key)
				}
			}
			return true
		})
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
