package arch

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// find returns what the first group of re matches in text, sorted and once each.
func find(re *regexp.Regexp, text string) []string {
	seen := map[string]bool{}
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		seen[m[1]] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// missing returns those of want that are not in have.
func missing(want, have []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(have, s) })
}

var (
	makeCommand = regexp.MustCompile(`(?m)^\s*make ([a-z]+)`)
	makeTarget  = regexp.MustCompile(`(?m)^([a-z]+):`)
	goRun       = regexp.MustCompile(`go run \./(cmd/\w+)`)
)

func TestTheCommandsOfTheDocsExist(t *testing.T) {
	targets := find(makeTarget, read(t, "Makefile"))
	for _, doc := range []string{"README.md", "ARCHITECTURE.md"} {
		text := read(t, doc)
		for _, target := range missing(find(makeCommand, text), targets) {
			t.Errorf("%s says make %s: there is no such target", doc, target)
		}
		for _, dir := range find(goRun, text) {
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				t.Errorf("%s runs ./%s: %v", doc, dir, err)
			}
		}
	}
	readme := read(t, "README.md")
	for _, want := range []string{"go run ./cmd/ingest demo", "make test"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not have the command %q", want)
		}
	}
}

var mdLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

func TestTheLinksOfTheDocsLeadSomewhere(t *testing.T) {
	walk(t, func(name string) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, link := range find(mdLink, read(t, name)) {
			if _, err := os.Stat(filepath.Join(root, path.Dir(name), link)); err != nil {
				t.Errorf("%s links to %q: %v", name, link, err)
			}
		}
	})
}

var (
	metricLiteral = regexp.MustCompile("[\"`](gudang_[a-z_]+)[\"`]")
	metricInDocs  = regexp.MustCompile("`(gudang_[a-z_]+)")
)

func TestTheReadmeListsEveryMetric(t *testing.T) {
	var code strings.Builder
	for _, f := range goFiles(t) {
		if !f.isTest() {
			code.WriteString(read(t, f.path))
		}
	}
	inCode := find(metricLiteral, code.String())
	inDocs := find(metricInDocs, read(t, "README.md"))
	for _, name := range missing(inCode, inDocs) {
		t.Errorf("README.md does not explain the metric %s", name)
	}
	for _, name := range missing(inDocs, inCode) {
		t.Errorf("README.md explains the metric %s, which is not in the code", name)
	}
}

var (
	secretTag    = regexp.MustCompile("env:\"([A-Z_0-9]+)\"[^`\n]*secret:\"true\"")
	envTag       = regexp.MustCompile("env:\"([A-Z_0-9]+)")
	firstCell    = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	settingInDoc = regexp.MustCompile("`([A-Z][A-Z_0-9]+)`")
)

// settings are the names that cmd/ingest reads from the environment, and those
// of them that it also reads from the file that <NAME>_FILE names.
func settings(t *testing.T) (names, secrets []string) {
	t.Helper()
	var code strings.Builder
	for _, f := range goFiles(t) {
		if f.dir() == "cmd/ingest" && !f.isTest() {
			code.WriteString(read(t, f.path))
		}
	}
	names = find(envTag, code.String())
	if len(names) == 0 {
		t.Fatal("found no setting in cmd/ingest")
	}
	return names, find(secretTag, code.String())
}

func TestTheReadmeListsEverySetting(t *testing.T) {
	inCode, _ := settings(t)
	inDocs := find(settingInDoc, strings.Join(find(firstCell, read(t, "README.md")), "\n"))
	for _, name := range missing(inCode, inDocs) {
		t.Errorf("README.md does not list the setting %s", name)
	}
	for _, name := range missing(inDocs, inCode) {
		t.Errorf("README.md lists the setting %s, which nothing reads", name)
	}
}

// assignment is what a shell, systemd's EnvironmentFile, docker --env-file and
// kubectl --from-env-file all take for the same: the last two keep quotes as
// part of the value, so nothing may need them.
var assignment = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)=([\w./:,@%+={}?\-][\w./:,@%+={}?#\-]*)?$`)

func TestTheConfigsAreUnderstood(t *testing.T) {
	known, secrets := settings(t)
	for _, name := range secrets {
		known = append(known, name+"_FILE")
	}
	files, err := fs.Glob(os.DirFS(root), "configs/*.env")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no configs/*.env: %v", err)
	}
	for _, name := range files {
		for i, line := range strings.Split(read(t, name), "\n") {
			// A setting that is commented out is an offer: it must work, too.
			set := strings.TrimPrefix(line, "#")
			if line == "" || strings.HasPrefix(line, "# ") || line == "#" {
				continue
			}
			m := assignment.FindStringSubmatch(set)
			if m == nil {
				t.Errorf("%s:%d: not everything that reads such files takes this the same way: %s", name, i+1, line)
				continue
			}
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s:%d: nothing reads %s", name, i+1, m[1])
			}
		}
	}
}

func TestAssignment(t *testing.T) {
	for line, want := range map[string]bool{
		`MQTT_URL=tcp://127.0.0.1:1883`:       true,
		`MQTT_TOPICS=warehouse/{sensor}/#`:    true,
		`MQTT_USERNAME=`:                      true,
		`MQTT_TOPICS=#`:                       false, // a comment to a shell
		`MQTT_TOPICS='a'`:                     false,
		`MQTT_TOPICS=$TOPICS`:                 false,
		`MONGODB_URI=mongodb://h/?a=b`:        true,
		`MONGODB_URI=mongodb://h/?a=b&c=d`:    false, // a command in the background
		`DATA_DIR=~/gudang`:                   false,
		`export MQTT_QOS=1`:                   false,
		`METRIC_RANGES=temperature=-60:120 #`: false,
		`MQTT_QOS = 1`:                        false,
	} {
		if got := assignment.MatchString(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}
