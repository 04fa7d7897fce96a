package web

import (
	"net/http"
	"strings"
	"testing"
)

func TestBucketsOfALongerSpan(t *testing.T) {
	s := New(config(example()))
	const hour = `{"buckets":[{"sensorId":"S-01","metric":"temperature","start":"2026-12-06T09:00:00.000Z","count":12,"sum":322.79999999999995,"min":26.4,"max":27.4,"outlier":false}]}`
	for target, want := range map[string]string{
		"span=1h":                           hour,
		"span=60m":                          hour,
		"span=1d&metric=temperature":        strings.Replace(hour, "T09:", "T00:", 1),
		"span=1h&from=2026-12-07T00:00:00Z": `{"buckets":[]}`,
	} {
		w := do(s, http.MethodGet, "/api/v1/buckets?sensor=S-01&"+target)
		if have := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || have != want {
			t.Errorf("%s: %d %s, want %s", target, w.Code, have, want)
		}
	}
	short, long := do(s, http.MethodGet, "/api/v1/buckets?sensor=S-01"), do(s, http.MethodGet, "/api/v1/buckets?sensor=S-01&span=1m")
	if short.Body.String() != long.Body.String() || strings.Count(short.Body.String(), "start") != 2 {
		t.Errorf("without a span: %s, with that of a bucket: %s", short.Body, long.Body)
	}
}

func TestASpanThatIsNotKept(t *testing.T) {
	s := New(config(example()))
	for _, span := range []string{"2h", "5", "hour", "-1h", "7d"} {
		w := do(s, http.MethodGet, "/api/v1/buckets?sensor=S-01&span="+span)
		if why := errorOf(t, w.Body); w.Code != http.StatusBadRequest || !strings.Contains(why, "there are 1m, 1h, 1d") {
			t.Errorf("span=%s: %d %s", span, w.Code, why)
		}
	}
	if w := do(s, http.MethodGet, "/api/v1/readings?sensor=S-01&span=1h"); w.Code != http.StatusBadRequest {
		t.Errorf("readings have a span: %d", w.Code)
	}
}
