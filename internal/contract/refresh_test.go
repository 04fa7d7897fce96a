package contract

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
)

// refreshCases are about the sensors' documents being copies of the buckets.
var refreshCases = []struct {
	name string
	test func(t *testing.T, s *suite)
}{
	{"a refresh makes the document that was never written", testRefreshCreates},
	{"a refresh changes nothing that is right", testRefreshSame},
	{"a refresh corrects a value, a missing metric and one too many", testRefreshCorrects},
	{"a refresh keeps an earlier first reading", testRefreshFirstSeen},
	{"a refresh leaves a document without buckets", testRefreshLeaves},
	{"a refresh loses nothing that is merged meanwhile", testRefreshRace},
	{"the newest readings come from as many buckets as it takes", testNewest},
	{"the newest readings of outliers come from where they are", testNewestOfOutliers},
	{"sensors with buckets are walked in order", testNextSensor},
}

func runRefresh(t *testing.T, s *suite) {
	for _, c := range refreshCases {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// refresh refreshes one sensor and says what became of it. Meanwhile is called
// each time that the buckets have been read.
func (s *suite) refresh(t *testing.T, id string, keep int, want sink.Refreshed, meanwhile func()) {
	t.Helper()
	have, err := s.sink.(sink.Refresher).RefreshSensor(t.Context(), id, keep, func(ctx context.Context) (reading.Sensor, error) {
		truth, err := s.query.(query.TruthReader).Truth(ctx, id, keep)
		if meanwhile != nil {
			meanwhile()
		}
		return truth, err
	})
	if err != nil || have != want {
		t.Errorf("refresh of %q: %v, error %v, want %v", id, have, err, want)
	}
}

// measured writes readings at these times (ms after base), with the values of
// sensorOf, and leaves the sensor's document alone.
func (s *suite) measured(t *testing.T, id, metric string, times ...int64) {
	t.Helper()
	buckets := map[int64]*reading.Bucket{}
	for _, at := range times {
		start := minute.Start(base + at)
		if buckets[start] == nil {
			buckets[start] = bucketOf(series(id, metric), start)
		}
		buckets[start].Add(base+at, float64(at)+0.5)
	}
	s.write(t, slices.Collect(maps.Values(buckets))...)
}

func testRefreshCreates(t *testing.T, s *suite) {
	s.measured(t, "unwritten", "temperature", 10, 70_000, 65_000, 130_000)
	s.refresh(t, "unwritten", 3, sink.Created, nil)
	want := sensorOf("unwritten", "temperature", 130_000, 70_000, 65_000)
	want.FirstSeen = base + 10
	wantSensor(t, s.sensor(t, "unwritten"), want)
	s.refresh(t, "unwritten", 3, sink.Same, nil)
}

func testRefreshSame(t *testing.T, s *suite) {
	s.measured(t, "right", "temperature", 20, 10)
	s.merge(t, 10, sensorOf("right", "temperature", 20, 10))
	s.refresh(t, "right", 10, sink.Same, nil)
	s.refresh(t, "right", 0, sink.Behind, nil) // no list any more
	s.refresh(t, "right", 0, sink.Same, nil)
	s.measured(t, "right", "temperature", 15, 60_000)
	s.refresh(t, "right", 0, sink.Behind, nil)
	want := sensorOf("right", "temperature", 60_000)
	want.FirstSeen = base + 10
	wantSensor(t, s.sensor(t, "right"), want)
}

func testRefreshCorrects(t *testing.T, s *suite) {
	s.measured(t, "wrong", "temperature", 10, 20, 60_000)
	s.measured(t, "wrong", "humidity", 5)
	s.merge(t, 2, sensorOf("wrong", "temperature", 20, 10), sensorOf("wrong", "gone", 90_000))
	s.merge(t, 2, reading.Sensor{ID: "wrong", FirstSeen: base + 10, LastSeen: base + 10, Metrics: map[string][]reading.Point{
		"humidity": {{Time: base + 5, Value: -1}},
	}})
	s.refresh(t, "wrong", 2, sink.Corrected, nil)
	want := sensorOf("wrong", "temperature", 60_000, 20)
	want.FirstSeen = base + 5
	want.Metrics["humidity"] = sensorOf("", "humidity", 5).Metrics["humidity"]
	wantSensor(t, s.sensor(t, "wrong"), want)
	// What the sink has still in hand was read before the correction: it does
	// not undo it.
	s.merge(t, 2, sensorOf("wrong", "temperature", 20, 10))
	wantSensor(t, s.sensor(t, "wrong"), want)
}

func testRefreshFirstSeen(t *testing.T, s *suite) {
	s.measured(t, "old", "temperature", 500)
	s.merge(t, 5, sensorOf("old", "temperature", 100))
	s.refresh(t, "old", 5, sink.Corrected, nil)
	want := sensorOf("old", "temperature", 500)
	want.FirstSeen = base + 100
	wantSensor(t, s.sensor(t, "old"), want)
}

func testRefreshLeaves(t *testing.T, s *suite) {
	s.merge(t, 5, sensorOf("bare", "temperature", 100))
	s.refresh(t, "bare", 5, sink.Left, nil)
	wantSensor(t, s.sensor(t, "bare"), sensorOf("bare", "temperature", 100))
	s.refresh(t, "nobody", 5, sink.Left, nil)
	if _, err := s.query.Sensor(t.Context(), "nobody"); !errors.Is(err, reading.ErrNotFound) {
		t.Errorf("a refresh made a sensor of nothing: %v", err)
	}
}

// Another instance stores and merges readings between the read of the buckets
// and the write of the document: first where there was no document, then where
// there was a wrong one.
func testRefreshRace(t *testing.T, s *suite) {
	for i, before := range []func(){
		func() {},
		func() { s.merge(t, 3, sensorOf("raced-1", "ghost", 7)) },
	} {
		id := []string{"raced-0", "raced-1"}[i]
		was := []sink.Refreshed{sink.Behind, sink.Corrected}[i]
		s.measured(t, id, "temperature", 10)
		before()
		rounds := 0
		s.refresh(t, id, 3, was, func() {
			if rounds++; rounds == 1 {
				s.measured(t, id, "temperature", 60_000)
				s.merge(t, 3, sensorOf(id, "temperature", 60_000))
			}
		})
		if rounds != 2 {
			t.Errorf("%s: the buckets were read %d times, want 2", id, rounds)
		}
		want := sensorOf(id, "temperature", 60_000, 10)
		want.FirstSeen = base + []int64{10, 7}[i]
		wantSensor(t, s.sensor(t, id), want)
	}
}

func (s *suite) newest(t *testing.T, id, metric string, n int) (times []int64) {
	t.Helper()
	points, err := s.query.(query.TruthReader).Newest(t.Context(), series(id, metric), n)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		times = append(times, p.Time-base)
		if p.Value != float64(p.Time-base)+0.5 {
			t.Errorf("at %d: value %v", p.Time-base, p.Value)
		}
	}
	return times
}

func testNewest(t *testing.T, s *suite) {
	all := []int64{3_600_000, 185_000, 170_000, 130_000, 121_000, 120_000, 59_999, 10, 5, 0, -1}
	mixed := slices.Clone(all)
	slices.SortFunc(mixed, func(a, b int64) int { return int(a*7%11 - b*7%11) })
	s.measured(t, "deep", "x", mixed...)
	for n := 1; n <= len(all)+2; n++ {
		if have, want := s.newest(t, "deep", "x", n), all[:min(n, len(all))]; !slices.Equal(have, want) {
			t.Errorf("newest %d: %v, want %v", n, have, want)
		}
	}
	if have := s.newest(t, "deep", "y", 3); len(have) > 0 {
		t.Errorf("a series without readings has %v", have)
	}
}

// An outlier has its readings elsewhere, or is on its way there with some of
// them still in its arrays.
func testNewestOfOutliers(t *testing.T, s *suite) {
	id := series("spilt", "x")
	s.measured(t, id.Sensor, id.Metric, 1, 2, 60_001, 60_002, 60_003, 120_001)
	s.spill(t, reading.Key{Series: id, Start: base}, true, 1, 2)
	s.spill(t, reading.Key{Series: id, Start: base + 60_000}, false, 60_002, 60_050)
	want := []int64{120_001, 60_050, 60_003, 60_002, 60_001, 2, 1}
	for n := 1; n <= len(want)+1; n++ {
		if have := s.newest(t, id.Sensor, id.Metric, n); !slices.Equal(have, want[:min(n, len(want))]) {
			t.Errorf("newest %d: %v, want %v", n, have, want[:min(n, len(want))])
		}
	}
	s.refresh(t, id.Sensor, 2, sink.Created, nil)
	doc := sensorOf(id.Sensor, id.Metric, 120_001, 60_050)
	doc.FirstSeen = base + 1
	wantSensor(t, s.sensor(t, id.Sensor), doc)
}

func testNextSensor(t *testing.T, s *suite) {
	want := []string{"walk-a", "walk-b", "walk-b ", "walk-é"}
	for _, id := range want {
		s.measured(t, id, "x", 1)
		s.measured(t, id, "y", 1, 60_000)
	}
	var have []string
	for after := "walk-"; ; {
		next, err := s.query.(query.TruthReader).NextSensor(t.Context(), after)
		if errors.Is(err, reading.ErrNotFound) || err == nil && next > "walk-é" {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		have, after = append(have, next), next
	}
	if !slices.Equal(have, want) {
		t.Errorf("walked %q, want %q", have, want)
	}
}
