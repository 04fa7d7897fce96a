package arch

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// arrows says what each package may import of ours. A package that is not in
// here fails the test: whoever adds one decides where it stands.
var arrows = map[string][]string{
	"internal/reading":  {},
	"internal/decode":   {"internal/reading"},
	"internal/source":   {"internal/decode", "internal/reading"},
	"internal/journal":  {"internal/reading"},
	"internal/bucketer": {"internal/reading"},
	"internal/sink":     {"internal/reading", "internal/mongodb", "internal/sqlite"},
	"internal/query":    {"internal/reading", "internal/mongodb", "internal/sqlite", "internal/manifest"},
	"internal/doctor":   {"internal/reading", "internal/query"}, // it judges what query found
	"internal/rebuild":  {"internal/reading"},
	"internal/history":  {"internal/reading", "internal/decode"},
	"internal/web":      {"internal/reading"},
	"internal/prom":     {"internal/reading"},
	"internal/embedded": {"internal/reading"},
	"internal/upkeep":   {"internal/reading"},
	"internal/fleet":    {"internal/reading", "internal/manifest"},
	"internal/manifest": {"internal/reading"},
	"internal/mongodb":  {"internal/reading"}, // what the writing and the reading side share of one technology
	"internal/sqlite":   {},                   // the same
	"internal/arch":     {},
}

// testOnly are the packages that exist for tests and may know everything.
var testOnly = []string{"internal/chaos", "internal/contract", "internal/testenv"}

// homes says in which files a technology lives. A directory means all files
// in it, a file name means that file in any package.
var homes = map[string][]string{
	"github.com/eclipse/paho.mqtt.golang": {"internal/source", "internal/fleet", "cmd/simulate"},
	"go.mongodb.org/mongo-driver":         {"internal/sink", "internal/query", "internal/mongodb"},
	"modernc.org/sqlite":                  {"internal/sink", "internal/query"},
	"github.com/ncruces/go-sqlite3":       {"internal/sink", "internal/query"},
	"github.com/mochi-mqtt/server":        {"internal/embedded"},
	"github.com/prometheus/client_golang": {"metrics.go", "internal/web", "cmd/ingest", "cmd/simulate"},
	"github.com/prometheus/prometheus":    {"internal/prom"},
	"github.com/caarlos0/env":             {"cmd/ingest", "cmd/simulate"},
	"github.com/chromedp/chromedp":        {},
	"github.com/chromedp/cdproto":         {},
	"gudang/internal/chaos":               {},
	"gudang/internal/contract":            {},
	"gudang/internal/testenv":             {},
	"testing":                             {},
}

func TestImportArrows(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, problem := range checkArrows(f) {
			t.Error(problem)
		}
	}
}

func TestTechnologiesStayAtHome(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, problem := range checkHomes(f) {
			t.Error(problem)
		}
	}
}

func checkArrows(f file) (problems []string) {
	dir := f.dir()
	if f.isTest() || slices.Contains(testOnly, dir) || strings.HasPrefix(dir, "cmd/") {
		return nil
	}
	allowed, known := arrows[dir]
	if !known && strings.HasPrefix(dir, "internal/") {
		return []string{f.path + ": the package " + dir + " has no place in the table of arrows"}
	}
	for _, imp := range f.imports {
		ours, ok := strings.CutPrefix(imp, "gudang/")
		if ok && ours != dir && !slices.Contains(allowed, ours) {
			problems = append(problems, f.path+" imports "+imp+": only cmd joins the parts")
		}
	}
	return problems
}

func checkHomes(f file) (problems []string) {
	if f.isTest() || slices.Contains(testOnly, f.dir()) {
		return nil
	}
	for _, imp := range f.imports {
		for tech, at := range homes {
			if imp != tech && !strings.HasPrefix(imp, tech+"/") {
				continue
			}
			if !slices.Contains(at, f.dir()) && !slices.Contains(at, path.Base(f.path)) {
				problems = append(problems, f.path+" imports "+imp+", which is at home in: "+strings.Join(at, ", "))
			}
		}
	}
	return problems
}

// The checks above pass on a tree that keeps the rules; these show that they
// would fail on one that does not.
func TestTheChecksCanFail(t *testing.T) {
	tests := map[string]struct {
		path, imports string
		arrows, homes int
	}{
		"reading imports nothing of ours":           {"internal/reading/x.go", "gudang/internal/decode", 1, 0},
		"decode imports reading":                    {"internal/decode/x.go", "gudang/internal/reading", 0, 0},
		"decode does not import source":             {"internal/decode/x.go", "gudang/internal/source", 1, 0},
		"siblings do not import each other":         {"internal/web/x.go", "gudang/internal/query", 1, 0},
		"cmd imports what it likes":                 {"cmd/ingest/x.go", "gudang/internal/query", 0, 0},
		"an unknown package has to be placed":       {"internal/other/x.go", "fmt", 1, 0},
		"a test may import a sibling":               {"internal/web/x_test.go", "gudang/internal/query", 0, 0},
		"the program does not import test packages": {"cmd/ingest/x.go", "gudang/internal/testenv", 0, 1},
		"a client library in the wrong package":     {"internal/web/x.go", "github.com/eclipse/paho.mqtt.golang", 0, 1},
		"a sub-package of a library counts":         {"internal/web/x.go", "go.mongodb.org/mongo-driver/v2/bson", 0, 1},
		"a library whose name only begins alike":    {"internal/web/x.go", "go.mongodb.org/mongo-driver-other", 0, 0},
		"metrics outside metrics.go":                {"internal/sink/sink.go", "github.com/prometheus/client_golang/prometheus", 0, 1},
		"metrics in metrics.go":                     {"internal/sink/metrics.go", "github.com/prometheus/client_golang/prometheus", 0, 0},
		"packages do not read the environment":      {"internal/sink/x.go", "github.com/caarlos0/env/v11", 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := file{path: tt.path, imports: strings.Fields(tt.imports)}
			if got := checkArrows(f); len(got) != tt.arrows {
				t.Errorf("arrows: got %q, want %d problems", got, tt.arrows)
			}
			if got := checkHomes(f); len(got) != tt.homes {
				t.Errorf("homes: got %q, want %d problems", got, tt.homes)
			}
		})
	}
}
