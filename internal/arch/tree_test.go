package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// root is the top of the module as seen from this package.
const root = "../.."

// file is a Go source file of the module.
type file struct {
	path    string // from the root, with slashes
	syntax  *ast.File
	imports []string
}

func (f file) dir() string  { return path.Dir(f.path) }
func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// goFiles parses every Go file of the module, whatever system it is built for.
// Modules inside the tree are not part of it.
func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("cannot parse %q: %v", name, err)
		}
		f := file{path: name, syntax: syntax}
		for _, spec := range syntax.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("cannot read import %s of %q: %v", spec.Path.Value, name, err)
			}
			f.imports = append(f.imports, p)
		}
		files = append(files, f)
	})
	if len(files) == 0 {
		t.Fatal("found no Go file: a check of nothing proves nothing")
	}
	return files
}

// walk calls visit with the name of every file of the module, from the root,
// with slashes.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	top := os.DirFS(root)
	err := fs.WalkDir(top, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			visit(name)
		case name == ".":
		case d.Name() == "testdata", d.Name() == "bin", d.Name() == "data", d.Name() == ".git", d.Name() == ".cache":
			return fs.SkipDir
		default:
			if _, err := fs.Stat(top, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("cannot walk the tree: %v", err)
	}
}

// read returns the content of a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
