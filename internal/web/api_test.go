package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"gudang/internal/reading"
)

func TestAnswersAreExactly(t *testing.T) {
	odd := reading.Series{Sensor: "a/../\"<b>\n", Metric: "humidity"}
	m := example()
	m.readings = append(m.readings,
		reading.Reading{Series: odd, Time: start, Value: math.NaN()},
		reading.Reading{Series: odd, Time: 253402300800000, Value: -1e-9},
	)
	m.summaries = append(m.summaries, reading.Summary{
		Key: reading.Key{Series: odd, Start: start}, Count: 60000, Sum: math.Inf(1), Min: 1e21, Max: 1e290, Outlier: true,
	})
	s := New(config(m))
	for name, c := range map[string]struct{ target, want string }{
		"a sensor's own document": {
			"/api/v1/sensors/S-01",
			`{"sensorId":"S-01","firstSeen":"2026-12-06T09:05:10.000Z","lastSeen":"2026-12-06T09:06:59.000Z","metrics":{"temperature":` +
				`{"time":"2026-12-06T09:06:59.000Z","value":27.2,"latest":[{"time":"2026-12-06T09:06:59.000Z","value":27.2},` +
				`{"time":"2026-12-06T09:06:50.000Z","value":27.4},{"time":"2026-12-06T09:06:40.000Z","value":27.3}]}}}`,
		},
		"a page of sensors, of which one more is left": {
			"/api/v1/sensors?limit=1",
			`{"sensors":[{"sensorId":"S-01","firstSeen":"2026-12-06T09:05:10.000Z","lastSeen":"2026-12-06T09:06:59.000Z","metrics":{"temperature":` +
				`{"time":"2026-12-06T09:06:59.000Z","value":27.2,"latest":[{"time":"2026-12-06T09:06:59.000Z","value":27.2},` +
				`{"time":"2026-12-06T09:06:50.000Z","value":27.4},{"time":"2026-12-06T09:06:40.000Z","value":27.3}]}}}],"next":"c1MtMDE"}`,
		},
		"the sensors after a page": {
			"/api/v1/sensors?after=c1MtMDE",
			`{"sensors":[{"sensorId":"a/../\"\u003cb\u003e\n","firstSeen":"2026-12-06T09:05:00.000Z","lastSeen":null,"metrics":{"humidity":` +
				`{"time":null,"value":-1e-9,"latest":[{"time":null,"value":-1e-9},{"time":"2026-12-06T09:05:00.000Z","value":null}]}}}]}`,
		},
		"readings of a range, open on the right": {
			"/api/v1/readings?sensor=S-01&metric=temperature&from=2026-12-06T09:05:50Z&to=2026-12-06T09:06:10Z",
			`{"readings":[{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:05:50.000Z","value":26.8},` +
				`{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:05:59.000Z","value":26.6}]}`,
		},
		"readings in Unix seconds": {
			"/api/v1/readings?sensor=S-01&from=1796548010.0&to=1796548010.001",
			`{"readings":[{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:06:50.000Z","value":27.4}]}`,
		},
		"readings with an offset whose plus was not escaped": {
			"/api/v1/readings?sensor=S-01&from=2026-12-06T16:06:50+07:00&limit=1",
			`{"readings":[{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:06:50.000Z","value":27.4}],"next":"cqCA2anJaHRlbXBlcmF0dXJl"}`,
		},
		"readings of a sensor that isn't there": {"/api/v1/readings?sensor=S-99", `{"readings":[]}`},
		"readings of an empty range":            {"/api/v1/readings?sensor=S-01&from=5&to=5", `{"readings":[]}`},
		"readings until the year 1970 began":    {"/api/v1/readings?sensor=S-01&to=0", `{"readings":[]}`},
		"buckets": {
			"/api/v1/buckets?sensor=S-01",
			`{"buckets":[{"sensorId":"S-01","metric":"temperature","start":"2026-12-06T09:05:00.000Z","count":6,"sum":159.6,"min":26.4,"max":26.8,"outlier":false},` +
				`{"sensorId":"S-01","metric":"temperature","start":"2026-12-06T09:06:00.000Z","count":6,"sum":163.2,"min":27,"max":27.4,"outlier":false}]}`,
		},
		"buckets of an id that needs escaping": {
			"/api/v1/buckets?sensor=" + url.QueryEscape(odd.Sensor),
			`{"buckets":[{"sensorId":"a/../\"\u003cb\u003e\n","metric":"humidity","start":"2026-12-06T09:05:00.000Z","count":60000,"sum":null,"min":1e+21,"max":1e+290,"outlier":true}]}`,
		},
		"buckets of a metric that isn't there": {"/api/v1/buckets?sensor=S-01&metric=humidity", `{"buckets":[]}`},
		"parameters that are empty":            {"/api/v1/buckets?sensor=S-99&metric=&from=&to=&limit=&after=", `{"buckets":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(s, http.MethodGet, c.target)
			if got := w.Body.String(); w.Code != http.StatusOK || got != c.want+"\n" {
				t.Errorf("GET %s: %d\n got %s\nwant %s", c.target, w.Code, got, c.want)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("not JSON: %s", w.Body)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
}

func TestNothingStoredIsAnEmptyList(t *testing.T) {
	w := do(New(config(&memory{})), http.MethodGet, "/api/v1/sensors")
	if got := w.Body.String(); got != `{"sensors":[]}`+"\n" {
		t.Errorf("got %s", got)
	}
}

func TestRefusals(t *testing.T) {
	s := New(config(example()))
	for name, c := range map[string]struct {
		target string
		status int
		says   string
	}{
		"no sensor":                         {"/api/v1/readings", 400, "sensor is missing"},
		"an empty sensor":                   {"/api/v1/buckets?sensor=", 400, "sensor is missing"},
		"a sensor id that is too long":      {"/api/v1/readings?sensor=" + strings.Repeat("x", 257), 400, "256 bytes"},
		"a sensor that is not UTF-8":        {"/api/v1/readings?sensor=%ff", 400, "not UTF-8"},
		"a broken escape":                   {"/api/v1/readings?sensor=%zz", 400, "can't be read"},
		"a semicolon":                       {"/api/v1/readings?sensor=a;b=c", 400, "can't be read"},
		"a misspelt parameter":              {"/api/v1/readings?sensor=a&metrics=b", 400, `unknown parameter "metrics": there are sensor, metric`},
		"a parameter of another list":       {"/api/v1/sensors?from=1", 400, `unknown parameter "from"`},
		"a parameter where there is none":   {"/api/v1/sensors/S-01?limit=1", 400, "unknown parameter"},
		"a parameter twice":                 {"/api/v1/readings?sensor=a&sensor=b", 400, "given 2 times"},
		"a metric that can't be":            {"/api/v1/readings?sensor=a&metric=a-b", 400, `metric "a-b"`},
		"a metric with a digit first":       {"/api/v1/readings?sensor=a&metric=1a", 400, `metric "1a"`},
		"a hostile metric":                  {"/api/v1/readings?sensor=a&metric=%3Cscript%3E%00", 400, `metric "<script>\x00"`},
		"from after to":                     {"/api/v1/readings?sensor=a&from=2&to=1", 400, "from is after to"},
		"a time in words":                   {"/api/v1/readings?sensor=a&from=yesterday", 400, `from "yesterday": must be a time as`},
		"a time without a zone":             {"/api/v1/readings?sensor=a&to=2026-12-06T09:05:10", 400, "to "},
		"a time in milliseconds":            {"/api/v1/readings?sensor=a&from=1796547900000", 400, "looks like milliseconds"},
		"a limit of nothing":                {"/api/v1/readings?sensor=a&limit=0", 400, "limit"},
		"a negative limit":                  {"/api/v1/sensors?limit=-1", 400, "limit"},
		"a limit that is no number":         {"/api/v1/buckets?sensor=a&limit=all", 400, `limit "all"`},
		"an after that is no token":         {"/api/v1/readings?sensor=a&after=!!", 400, "after"},
		"an after of another list":          {"/api/v1/buckets?sensor=S-01&after=cqCA2anJaHRlbXBlcmF0dXJl", 400, "after"},
		"an after of readings for sensors":  {"/api/v1/sensors?after=cqCA2anJaHRlbXBlcmF0dXJl", 400, "after"},
		"an after that is empty inside":     {"/api/v1/sensors?after=cw", 400, "after"},
		"a sensor that isn't there":         {"/api/v1/sensors/S-99", 404, "no such sensor"},
		"a sensor without a name":           {"/api/v1/sensors/", 404, "nothing here"},
		"a sensor whose name is not UTF-8":  {"/api/v1/sensors/%ff", 404, "no such sensor"},
		"a sensor whose name is too long":   {"/api/v1/sensors/" + strings.Repeat("x", 257), 404, "no such sensor"},
		"a sensor named as a script":        {"/api/v1/sensors/%3Cscript%3Ealert(1)%3C/script%3E", 404, "no such sensor"},
		"an address that is too long":       {"/api/v1/sensors/" + strings.Repeat("x", 10<<10), 414, "longer than"},
		"an endpoint that isn't there":      {"/api/v1/nothing", 404, "nothing here"},
		"the API itself":                    {"/api/", 404, "nothing here"},
		"an endpoint with a slash too many": {"/readyz/", 404, "nothing here"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(s, http.MethodGet, c.target)
			if w.Code != c.status {
				t.Errorf("GET %.99s: status %d, want %d", c.target, w.Code, c.status)
			}
			if got := w.Header().Get("Content-Type"); got != typeJSON {
				t.Errorf("Content-Type %q", got)
			}
			if got := errorOf(t, w.Body); !strings.Contains(got, c.says) || len(got) > 300 {
				t.Errorf("error %q doesn't say %q in short", got, c.says)
			}
		})
	}
}

func TestStoreTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"a store that can't be read":      {errors.New("dial mongodb://user:secret@db: refused"), 503, "the store can't be read right now"},
		"a store that gave up waiting":    {fmt.Errorf("find: %w", context.DeadlineExceeded), 504, "did not answer in time"},
		"not found where a list is asked": {reading.ErrNotFound, 404, "no such sensor"},
	} {
		t.Run(name, func(t *testing.T) {
			m := example()
			m.before = func(context.Context) error { return c.err }
			s := New(config(m))
			for _, target := range []string{"/api/v1/sensors", "/api/v1/sensors/S-01", "/api/v1/readings?sensor=S-01", "/api/v1/buckets?sensor=S-01"} {
				w := do(s, http.MethodGet, target)
				if got := errorOf(t, w.Body); w.Code != c.status || !strings.Contains(got, c.says) || strings.Contains(got, "secret") {
					t.Errorf("GET %s: %d %q, want %d %q", target, w.Code, got, c.status, c.says)
				}
			}
		})
	}
}

func TestPagingGivesEachItemOnceInOrder(t *testing.T) {
	m := &memory{}
	for i := range 40 {
		for _, metric := range []string{"humidity", "temperature"} {
			// Two metrics at each time, and a sensor apart that must not show.
			series := reading.Series{Sensor: "S-01", Metric: metric}
			m.readings = append(m.readings, reading.Reading{Series: series, Time: start + int64(i)*1000, Value: float64(i)})
			m.summaries = append(m.summaries, reading.Summary{Key: reading.Key{Series: series, Start: start + int64(i)*60000}, Count: int64(i)})
			m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: fmt.Sprintf("å/%02d", i), Metric: metric}, Time: start})
		}
	}
	s := New(config(m))
	for _, c := range []struct {
		target, list string
		want         int
	}{
		{"/api/v1/readings?sensor=S-01", "readings", 80},
		{"/api/v1/readings?sensor=S-01&metric=humidity", "readings", 40},
		{"/api/v1/readings?sensor=S-01&from=1796547905&to=1796547915", "readings", 20},
		{"/api/v1/buckets?sensor=S-01", "buckets", 80},
		{"/api/v1/sensors?", "sensors", 41},
	} {
		whole := pages(t, s, c.target, c.list, 1000)
		if len(whole) != c.want {
			t.Errorf("%s: %d items, want %d", c.target, len(whole), c.want)
		}
		for _, limit := range []int{1, 2, 3, 7, c.want - 1, c.want, c.want + 1} {
			if got := pages(t, s, c.target, c.list, limit); !reflect.DeepEqual(got, whole) {
				t.Errorf("%s in pages of %d: %d items that are not the %d of one page", c.target, limit, len(got), len(whole))
			}
		}
	}
}

// pages follows next to the end.
func pages(t *testing.T, s *Server, target, list string, limit int) []string {
	t.Helper()
	var all []string
	for after := ""; ; {
		var answer map[string]json.RawMessage
		get(t, s, fmt.Sprintf("%s&limit=%d&after=%s", target, limit, after), &answer)
		var items []json.RawMessage
		if err := json.Unmarshal(answer[list], &items); err != nil || len(items) > limit {
			t.Fatalf("%s: %d items for a limit of %d (%v)", target, len(items), limit, err)
		}
		for _, item := range items {
			all = append(all, string(item))
		}
		if answer["next"] == nil {
			return all
		}
		if len(items) != limit {
			t.Fatalf("%s: next after a page of %d of %d", target, len(items), limit)
		}
		if err := json.Unmarshal(answer["next"], &after); err != nil || after != url.QueryEscape(after) {
			t.Fatalf("next %s is not safe in an address (%v)", answer["next"], err)
		}
		if len(all) > 1000 {
			t.Fatalf("%s in pages of %d never ends", target, limit)
		}
	}
}

func TestLimitsAreCapped(t *testing.T) {
	m := &memory{}
	for i := range maxLimit + 5 {
		m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: "S-01", Metric: "m"}, Time: int64(i)})
	}
	s := New(config(m))
	for limit, want := range map[string]int{"": defaultLimit, "10000": maxLimit, "10001": maxLimit, "99999999999999999999": maxLimit} {
		var answer struct {
			Readings []struct{ Time string }
			Next     string
		}
		get(t, s, "/api/v1/readings?sensor=S-01&limit="+limit, &answer)
		if len(answer.Readings) != want || answer.Next == "" {
			t.Errorf("limit %q: %d readings, next %q; want %d and more", limit, len(answer.Readings), answer.Next, want)
		}
	}
}

func TestOddIDsAreReachedByTheirPath(t *testing.T) {
	ids := []string{"a/b", "/a", "a/", "//", "a//b", ".", "..", "../..", "a/../b", "a b", "å", "温度计", "100%", "%2F", "a?b#c", `"<script>'`, "a\nb", "sensors", "a+b", "{id}", "\u202e"}
	m := &memory{}
	for _, id := range ids {
		m.readings = append(m.readings, reading.Reading{Series: reading.Series{Sensor: id, Metric: "m"}, Time: start})
	}
	s := New(config(m))
	for _, id := range ids {
		paths := []string{url.PathEscape(id), strings.ReplaceAll(url.PathEscape(id), ".", "%2E")}
		if !strings.ContainsAny(id, "%?# \n\"<>") {
			paths = append(paths, id) // as it is
		}
		for _, path := range paths {
			var answer struct{ SensorID string }
			get(t, s, sensorsPath+path, &answer)
			if answer.SensorID != id {
				t.Errorf("path %q gives %q, want %q", path, answer.SensorID, id)
			}
		}
		var answer struct{ Readings []struct{ SensorID string } }
		get(t, s, "/api/v1/readings?sensor="+url.QueryEscape(id), &answer)
		if len(answer.Readings) != 1 || answer.Readings[0].SensorID != id {
			t.Errorf("readings of %q: %v", id, answer)
		}
	}
}
