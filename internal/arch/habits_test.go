package arch

import (
	"go/ast"
	"go/parser"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is where a source file has become two. The aim is 400.
const maxLines = 600

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.isTest() || !strings.HasPrefix(f.dir(), "cmd/") && !strings.HasPrefix(f.dir(), "internal/") {
			continue
		}
		said[f.dir()] = said[f.dir()] || f.syntax.Doc != nil
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestNoFileGrowsTooLong(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		if n := strings.Count(read(t, f.path), "\n"); n > maxLines {
			t.Errorf("%s has %d lines: the most is %d, the aim 400", f.path, n, maxLines)
		}
	}
}

// A sleep is too short on a slow machine and too long on a fast one. In a loop
// it is the pause of a poll, and under testing/synctest time is not the
// machine's and sleeping is how it passes.
func TestNoTestSleeps(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() && !slices.Contains(f.imports, "testing/synctest") && sleeps(f.syntax) {
			t.Errorf("%s sleeps outside of a loop: poll with a deadline, or use testing/synctest", f.path)
		}
	}
}

// sleeps says whether time.Sleep is called outside of a loop below n.
func sleeps(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			found = found || ok && pkg.Name == "time" && n.Sel.Name == "Sleep"
		}
		return true
	})
	return found
}

func TestSleeps(t *testing.T) {
	for code, want := range map[string]bool{
		"time.Sleep(x)":                              true,
		"func() { time.Sleep(x) }()":                 true,
		"func() { for !done() { time.Sleep(x) } }()": false,
		"clock.Sleep(x)":                             false,
	} {
		expr, err := parser.ParseExpr(code)
		if err != nil {
			t.Fatal(err)
		}
		if got := sleeps(expr); got != want {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
	}
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

func TestNoCommentPutsOffWork(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			if word := unfinished.FindString(group.Text()); word != "" {
				t.Errorf("%s has a comment with %s: do it, or file it as an issue", f.path, word)
			}
		}
	}
}

// machinePath finds paths of the machine that something was written on. They
// are wrong on every other.
var machinePath = regexp.MustCompile(`(^|[^\w.\-/])/(work|root|home/\w+|Users/\w+)/`)

func TestNoFileNamesAMachinesPaths(t *testing.T) {
	walk(t, func(name string) {
		switch path.Ext(name) {
		case ".go", ".md", ".sh", ".yml", ".yaml", ".json", ".env", ".conf", ".mod", ".service", "":
		default:
			return
		}
		if name == "internal/arch/habits_test.go" {
			return
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d names a path of one machine: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	})
}

func TestMachinePath(t *testing.T) {
	for line, want := range map[string]bool{
		`open("/work/x")`:        true,
		`cd /root/go`:            true,
		`/home/someone/gudang`:   true,
		`site/work/desk/reading`: false,
		`/var/lib/gudang`:        false,
		`ingest/root/x`:          false,
	} {
		if got := machinePath.MatchString(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}
