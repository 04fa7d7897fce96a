package deploy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// query is one of a dashboard.
type query struct {
	where  string // dashboard and panel
	source string // the data source's uid
	expr   string
	label  string // what a variable offers: the values of this label of expr's series
}

var labelValues = regexp.MustCompile(`^label_values\((?:(.+), *)?(\w+)\)$`)

// queries are all queries of a dashboard, with its variables filled in.
func queries(t *testing.T, name string) (all []query) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name       string
				Datasource struct{ UID string }
				Query      struct{ Query string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text(t, "grafana/dashboards/"+name)), &d); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "30s", "$__interval", "10s", "$__range", "5m",
		"$job", "gudang", "$instance", ".*", "${metric}", "temperature", "$sensor", "S-01", "$span", "1s")
	add := func(q query) {
		if q.expr = fill.Replace(q.expr); strings.Contains(q.expr, "$") {
			t.Errorf("%s: %s has a variable that this test doesn't know", q.where, q.expr)
		}
		all = append(all, q)
	}
	for _, v := range d.Templating.List {
		m := labelValues.FindStringSubmatch(v.Query.Query)
		if m == nil {
			t.Fatalf("the variable %s of %s asks %q", v.Name, name, v.Query.Query)
		}
		add(query{name + ": variable " + v.Name, v.Datasource.UID, m[1], m[2]})
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			add(query{name + ": " + p.Title, p.Datasource.UID, target.Expr, ""})
		}
	}
	return all
}

// everyQuery are the queries of all dashboards.
func everyQuery(t *testing.T) (all []query) {
	t.Helper()
	names, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(names) < 2 {
		t.Fatalf("found %d dashboards: %v", len(names), err)
	}
	for _, name := range names {
		all = append(all, queries(t, filepath.Base(name))...)
	}
	return all
}

func TestEveryQueryIsPromQL(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	fmt.Fprintln(&rules, "groups: [{name: queries, rules: [")
	for i, q := range everyQuery(t) {
		if q.expr != "" {
			fmt.Fprintf(&rules, "  {record: 'query_%d', expr: %s},\n", i, strconv.Quote(q.expr))
		}
	}
	fmt.Fprintln(&rules, "]}]")
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(testenv.Need(t, "promtool"), "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, &rules)
	}
}

func TestTheDashboardsAskSourcesThatAreProvisioned(t *testing.T) {
	sources := text(t, "grafana/provisioning/datasources/gudang.yaml")
	for _, q := range everyQuery(t) {
		if !strings.Contains(sources, "uid: "+q.source+"\n") {
			t.Errorf("%s asks the data source %q", q.where, q.source)
		}
	}
}

// asked says where each data source is, for those that are asked in the test.
var asked = map[string]func(*live) string{
	"gudang-prometheus": func(l *live) string { return l.prom.URL },
	"gudang-readings":   func(l *live) string { return "http://gudang:" + liveToken + "@" + l.addr + "/prometheus" },
}

// Every query of the dashboards gives something, of a live instance.
func TestEveryQueryReturnsData(t *testing.T) {
	t.Parallel()
	l := startLive(t, nil)
	gone := time.Now().Truncate(time.Hour).Add(-time.Hour - time.Minute) // was there at a full hour, and is silent now
	l.send(t, "S-03", fmt.Sprintf(`{"temperature": 4, "ts": %d}`, gone.Unix()))
	run := 0
	for _, q := range everyQuery(t) {
		base, ok := asked[q.source]
		if !ok {
			continue
		}
		run++
		testenv.Eventually(t, 20*time.Second, q.where+" returns data: "+q.expr, func() bool {
			l.publish(t)
			return q.returnsData(t, base(l))
		})
	}
	if run < 40 {
		t.Errorf("%d queries were run, want all of the service's dashboard", run)
	}
}

// returnsData asks the API, and says whether it has a value.
func (q query) returnsData(t *testing.T, api string) bool {
	t.Helper()
	if q.label == "" {
		return has(t, api, q.expr)
	}
	args := url.Values{}
	if q.expr != "" {
		args.Set("match[]", q.expr)
	}
	var values []string
	if err := testenv.GetProm(api+"/api/v1/label/"+q.label+"/values", args, &values); err != nil {
		t.Fatalf("%s: %v", q.where, err)
	}
	return len(values) > 0
}

// has says whether a query gives a number.
func has(t *testing.T, api, query string) bool {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := testenv.GetProm(api+"/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, sample := range data.Result {
		if sample.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
