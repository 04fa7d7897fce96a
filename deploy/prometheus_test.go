package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gudang/internal/testenv"
)

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every alert is made to fire, and to be quiet.
func TestTheRulesDoWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	promtool := testenv.Need(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "rules.yml"},
		// The token's file is where the service runs, not here.
		{"check", "config", "--syntax-only", "prometheus.yml"},
		{"test", "rules", "rules_test.yml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

var alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)

func TestEveryAlertIsTestedAndHasARunbook(t *testing.T) {
	rules, tests, book := text(t, "prometheus/rules.yml"), text(t, "prometheus/rules_test.yml"), text(t, "../docs/operations.md")
	found := alertName.FindAllStringSubmatch(rules, -1)
	if len(found) == 0 {
		t.Fatal("found no alert")
	}
	for _, m := range found {
		name := m[1]
		if !strings.Contains(tests, "alertname: "+name+", ") || !strings.Contains(tests, "- alertname: "+name+"\n") {
			t.Errorf("rules_test.yml does not make %s both fire and be quiet", name)
		}
		if !strings.Contains(book, "\n### "+name+"\n") {
			t.Errorf("docs/operations.md has no heading %s", name)
		}
		if !strings.Contains(rules, "runbook_url: docs/operations.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not link to its heading", name)
		}
	}
}

var metricName = regexp.MustCompile(`\bgudang_[a-z_]+`)

// A rule over a metric that is not there never fires, and nobody would know.
func TestTheRulesUseMetricsThatExist(t *testing.T) {
	readme := text(t, "../README.md")
	for line := range strings.Lines(text(t, "prometheus/rules.yml")) {
		if strings.Contains(line, "- record:") || strings.Contains(line, "- name:") {
			continue
		}
		line = regexp.MustCompile(`[a-z_]+:gudang_[a-z_]+:\w+`).ReplaceAllString(line, "") // made by a rule
		for _, name := range metricName.FindAllString(line, -1) {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !strings.Contains(readme, "`"+name) {
				t.Errorf("README.md does not know the metric %s of a rule", name)
			}
		}
	}
}
