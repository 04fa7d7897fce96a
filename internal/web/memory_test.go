package web

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

// memory is a Reader over what it is given. before, if set, runs ahead of each
// question and may refuse it.
type memory struct {
	readings  []reading.Reading
	summaries []reading.Summary
	before    func(ctx context.Context) error
}

func (m *memory) ask(ctx context.Context) error {
	if m.before == nil {
		return ctx.Err()
	}
	return m.before(ctx)
}

func (m *memory) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	byID := map[string]*reading.Sensor{}
	for _, r := range m.readings {
		s := byID[r.Sensor]
		if s == nil {
			s = &reading.Sensor{}
			byID[r.Sensor] = s
		}
		s.Merge(reading.Sensor{ID: r.Sensor, FirstSeen: r.Time, LastSeen: r.Time, Metrics: map[string][]reading.Point{
			r.Metric: {{Time: r.Time, Value: r.Value}},
		}}, 3)
	}
	var found []reading.Sensor
	for id, s := range byID {
		if id > after {
			found = append(found, *s)
		}
	}
	slices.SortFunc(found, func(a, b reading.Sensor) int { return strings.Compare(a.ID, b.ID) })
	return found[:min(len(found), limit)], nil
}

func (m *memory) Sensor(ctx context.Context, id string) (reading.Sensor, error) {
	all, err := m.Sensors(ctx, "", len(m.readings))
	if err != nil {
		return reading.Sensor{}, err
	}
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
	}
	return reading.Sensor{}, reading.ErrNotFound
}

func (m *memory) Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error) {
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	var found []reading.Reading
	for _, r := range m.readings {
		if r.Sensor == q.Sensor {
			found = append(found, r)
		}
	}
	return q.Page(found), nil
}

func (m *memory) Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
	if err := m.ask(ctx); err != nil {
		return nil, err
	}
	byKey := map[reading.Key]reading.Summary{}
	var starts []reading.Reading
	for _, s := range m.summaries {
		if s.Sensor == q.Sensor {
			byKey[s.Key] = s
			starts = append(starts, reading.Reading{Series: s.Series, Time: s.Start})
		}
	}
	var found []reading.Summary
	for _, r := range q.Page(starts) {
		found = append(found, byKey[reading.Key{Series: r.Series, Start: r.Time}])
	}
	return found, nil
}

// Rollups sums the summaries up.
func (m *memory) Rollups(ctx context.Context, q reading.Query, span reading.Span) ([]reading.Summary, error) {
	parts, err := m.Summaries(ctx, reading.Query{Sensor: q.Sensor, Metric: q.Metric, From: q.From, To: q.To})
	if err != nil {
		return nil, err
	}
	byKey := map[reading.Key]reading.Summary{}
	for _, part := range parts {
		k := reading.Key{Series: part.Series, Start: span.Start(part.Start)}
		window := byKey[k]
		window.Key = k
		window.Merge(part)
		byKey[k] = window
	}
	var found []reading.Summary
	for k, window := range byKey {
		if q.After.Past(k.Start, k.Metric) {
			found = append(found, window)
		}
	}
	slices.SortFunc(found, func(a, b reading.Summary) int { return a.Compare(b.Key) })
	return found[:min(len(found), q.Limit)], nil
}

const start = 1796547900000 // 2026-12-06T09:05:00Z

// example is the worked example of the bucket pattern: twelve readings of S-01
// in two buckets.
func example() *memory {
	temperature := reading.Series{Sensor: "S-01", Metric: "temperature"}
	m := &memory{}
	for i, v := range []float64{26.4, 26.6, 26.5, 26.7, 26.8, 26.6, 27.0, 27.2, 27.1, 27.3, 27.4, 27.2} {
		offset := int64(i%6+1) * 10000
		if offset == 60000 {
			offset = 59000
		}
		m.readings = append(m.readings, reading.Reading{Series: temperature, Time: start + int64(i/6)*60000 + offset, Value: v})
	}
	m.summaries = []reading.Summary{
		{Key: reading.Key{Series: temperature, Start: start}, Count: 6, Sum: 159.6, Min: 26.4, Max: 26.8},
		{Key: reading.Key{Series: temperature, Start: start + 60000}, Count: 6, Sum: 163.2, Min: 27, Max: 27.4},
	}
	return m
}

// config is a Config over a Reader, with a registry of its own.
func config(r Reader, checks ...Check) Config {
	reg := prometheus.NewRegistry()
	return Config{
		Reader: r, Span: 60_000, Rollups: []reading.Span{3_600_000, 86_400_000}, Health: checks, Gatherer: reg, Registerer: reg,
		Log: slog.New(slog.DiscardHandler), Version: "v1.2.3",
	}
}

// do sends one request through the whole chain.
func do(s *Server, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

// errorOf reads the {"error": "…"} that every failure answers with.
func errorOf(t *testing.T, body io.Reader) string {
	t.Helper()
	var v map[string]string
	data, err := io.ReadAll(body)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || len(v) != 1 || v["error"] == "" {
		t.Fatalf("body %q is no error answer (%v)", data, err)
	}
	return v["error"]
}

// get answers target, which must succeed, decoded into v.
func get(t *testing.T, s *Server, target string, v any) {
	t.Helper()
	w := do(s, http.MethodGet, target)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("GET %s: %v in %s", target, err, w.Body)
	}
}
