package deploy

import (
	"net/url"
	"testing"
	"time"

	"gudang/internal/testenv"
)

// has says whether a query gives anything.
func has(t *testing.T, api, query string) bool {
	t.Helper()
	var data struct{ Result []any }
	if err := testenv.GetProm(api+"/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return len(data.Result) > 0
}

// eventuallyHas waits until Prometheus has an answer.
func (l *live) eventuallyHas(t *testing.T, query string) {
	t.Helper()
	testenv.Eventually(t, 20*time.Second, "Prometheus has "+query, func() bool { return has(t, l.prom.URL, query) })
}
