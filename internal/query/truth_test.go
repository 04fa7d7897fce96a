package query

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

// fewEnds is a sensor each of whose metrics has one reading, at the time that
// the metric's place in the list and a stride give.
type fewEnds struct {
	names []string
	fault map[string]error
	bare  map[string]bool // metrics whose readings are on their way elsewhere
}

func (f *fewEnds) metricsOf(string) ([]string, error) { return f.names, nil }

func (f *fewEnds) time(metric string) int64 {
	return int64(slices.Index(f.names, metric)*7) % 1000
}

func (f *fewEnds) newest(s reading.Series, _ int) ([]reading.Point, error) {
	if f.bare[s.Metric] {
		return nil, nil
	}
	return []reading.Point{{Time: f.time(s.Metric), Value: 1}}, f.fault[s.Metric]
}

func (f *fewEnds) first(s reading.Series) (int64, bool, error) {
	return f.time(s.Metric) - 5, !f.bare[s.Metric], nil
}

// The metrics that were silent for longest are left out, and the times are
// those of all.
func TestTruthKeepsTheMetricsThatWereHeardOfLast(t *testing.T) {
	from := &fewEnds{}
	for i := range reading.MaxMetrics + 30 {
		from.names = append(from.names, fmt.Sprintf("m%03d", i))
	}
	truth, err := truthOf(from, "chatty", 3)
	if err != nil || len(truth.Metrics) != reading.MaxMetrics {
		t.Fatalf("%d metrics, error %v", len(truth.Metrics), err)
	}
	byTime := slices.SortedFunc(slices.Values(from.names), func(a, b string) int { return int(from.time(b) - from.time(a)) })
	for i, name := range byTime {
		if _, there := truth.Metrics[name]; there != (i < reading.MaxMetrics) {
			t.Errorf("%s, heard of at %d, is there: %t", name, from.time(name), there)
		}
	}
	if truth.FirstSeen != -5 || truth.LastSeen != from.time(byTime[0]) {
		t.Errorf("seen from %d to %d", truth.FirstSeen, truth.LastSeen)
	}
}

func TestTruthOfNothingAndOfAFault(t *testing.T) {
	if _, err := truthOf(&fewEnds{}, "x", 1); !errors.Is(err, reading.ErrNotFound) {
		t.Errorf("without a metric: %v", err)
	}
	if _, err := truthOf(&fewEnds{names: []string{"a"}, bare: map[string]bool{"a": true}}, "x", 1); !errors.Is(err, reading.ErrNotFound) {
		t.Errorf("without a reading: %v", err)
	}
	fault := errors.New("damaged")
	if _, err := truthOf(&fewEnds{names: []string{"a", "b"}, fault: map[string]error{"b": fault}}, "x", 1); !errors.Is(err, fault) {
		t.Errorf("with a fault in one metric: %v", err)
	}
}

// What is not needed is not read: a damaged bucket beyond it does no harm.
func TestSQLiteNewestReadsNoMoreBucketsThanNeeded(t *testing.T) {
	dir := t.TempDir()
	x := reading.Series{Sensor: "a", Metric: "x"}
	write(t, writeSQLite(t, dir, minute), bucket(x, minute, 1, 2), bucket(x, minute, 60_001, 60_002), bucket(x, minute, 120_000, 120_001))
	alter(t, dir, `UPDATE buckets SET "values" = 'poison' WHERE start = 0`)
	r := readSQLite(t, dir)
	for n, fails := range map[int]bool{1: false, 2: false, 4: false, 5: true} {
		points, err := r.Newest(t.Context(), x, n)
		if (err != nil) != fails || !fails && len(points) != n {
			t.Errorf("newest %d: %d points, error %v", n, len(points), err)
		}
	}
	if _, err := r.Truth(t.Context(), "a", 1); err == nil {
		t.Error("the first reading was found in a damaged bucket")
	}
}

// Buckets of an earlier span reach over those that begin after them, and of two
// readings of one time the answer is that of Readings.
func TestSQLiteNewestWithSeveralSpans(t *testing.T) {
	dir := t.TempDir()
	x := reading.Series{Sensor: "a", Metric: "x"}
	const hour = 60 * minute
	long := &reading.Bucket{Series: x, Start: 0}
	for _, at := range []int64{5, 60_001, 120_500, 3_000_000} {
		long.Add(at, -1)
	}
	write(t, writeSQLite(t, dir, hour), long)
	w, err := sink.OpenSQLite(dir, minute, sink.SQLiteBeside())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	write(t, w, bucket(x, minute, 60_000, 60_001, 60_002), bucket(x, minute, 120_000, 120_001))
	want := []reading.Point{{Time: 3_000_000, Value: -1}, {Time: 120_500, Value: -1}, {Time: 120_001, Value: 120_001}, {Time: 120_000, Value: 120_000}, {Time: 60_002, Value: 60_002}, {Time: 60_001, Value: -1}, {Time: 60_000, Value: 60_000}, {Time: 5, Value: -1}}
	r := readSQLite(t, dir)
	for n := 1; n <= len(want); n++ {
		if have, err := r.Newest(t.Context(), x, n); err != nil || !slices.Equal(have, want[:n]) {
			t.Errorf("newest %d: %v, error %v, want %v", n, have, err, want[:n])
		}
	}
	if truth, err := r.Truth(t.Context(), "a", 1); err != nil || truth.FirstSeen != 5 || truth.LastSeen != 3_000_000 {
		t.Errorf("%+v, error %v", truth, err)
	}
}
