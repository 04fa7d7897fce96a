package contract

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gudang/internal/reading"
)

// paged stores readings of two metrics that meet at the same times, out of
// order, in four buckets each with gaps between them.
func paged(t *testing.T, s *suite, sensor string) []*reading.Bucket {
	t.Helper()
	var all []*reading.Bucket
	for _, metric := range []string{"temperature", "humidity"} {
		for i, minute := range []int64{0, 1, 5, 60} {
			start := base + minute*60_000
			all = append(all, bucketOf(series(sensor, metric), start,
				point{40_000, float64(i)}, point{0, float64(i) + 0.5}, point{int32(i + len(metric)), 7}))
		}
	}
	s.write(t, slices.Clone(all)...)
	return all
}

func testReadingsPages(t *testing.T, s *suite) {
	buckets := paged(t, s, "pages")
	for _, metric := range []string{"", "humidity"} {
		want := readingsOf(buckets...)
		if metric != "" {
			want = slices.DeleteFunc(want, func(r reading.Reading) bool { return r.Metric != metric })
		}
		for limit := 1; limit <= len(want)+1; limit++ {
			q := reading.Query{Sensor: "pages", Metric: metric, Limit: limit}
			var have []reading.Reading
			for {
				page, err := s.query.Readings(t.Context(), q)
				if err != nil {
					t.Fatalf("limit %d: %v", limit, err)
				}
				if len(page) > limit {
					t.Fatalf("limit %d: %d readings in a page", limit, len(page))
				}
				have = append(have, page...)
				if len(page) < limit || len(have) > len(want) {
					break
				}
				last := page[len(page)-1]
				q.After = reading.Cursor{Time: last.Time, Metric: last.Metric}
			}
			if !slices.Equal(have, want) {
				t.Errorf("metric %q in pages of %d: %v, want %v", metric, limit, have, want)
			}
		}
	}
}

func testReadingsRange(t *testing.T, s *suite) {
	all := readingsOf(paged(t, s, "range")...)
	for _, c := range []struct {
		name     string
		from, to int64
	}{
		{"everything", 0, 0},
		{"from within a bucket", base + 30_000, 0},
		{"to within a bucket", 0, base + 5*60_000 + 40_000},
		{"within one bucket", base + 1, base + 40_000},
		{"from just after the last reading of a bucket", base + 40_001, base + 60_001},
		{"a gap", base + 2*60_000, base + 5*60_000},
		{"before everything", base - 1000, base},
		{"after everything", base + 61*60_000, 0},
		{"an empty range", base, base},
		{"a range that ends before it begins", base + 60_000, base},
		{"from before 1970", -1, 0},
	} {
		want := reading.Query{From: c.from, To: c.to}.Page(slices.Clone(all))
		have, err := s.query.Readings(t.Context(), reading.Query{Sensor: "range", From: c.from, To: c.to, Limit: 100})
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v, error %v", c.name, have, want, err)
		}
	}
}

func testSummariesPages(t *testing.T, s *suite) {
	buckets := paged(t, s, "summaries")
	slices.SortFunc(buckets, func(a, b *reading.Bucket) int { return a.Key().Compare(b.Key()) })
	for limit := 1; limit <= len(buckets)+1; limit++ {
		q := reading.Query{Sensor: "summaries", Limit: limit}
		var have []reading.Summary
		for {
			page, err := s.query.Summaries(t.Context(), q)
			if err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
			have = append(have, page...)
			if len(page) < limit || len(have) > len(buckets) {
				break
			}
			last := page[len(page)-1]
			q.After = reading.Cursor{Time: last.Start, Metric: last.Metric}
		}
		if len(have) != len(buckets) {
			t.Fatalf("%d summaries in pages of %d, want %d", len(have), limit, len(buckets))
		}
		for i, b := range buckets {
			wantSummary(t, have[i], b)
		}
	}
	q := reading.Query{Sensor: "summaries", Metric: "humidity", From: base + 60_000, To: base + 60*60_000, Limit: 100}
	have, err := s.query.Summaries(t.Context(), q)
	if err != nil || len(have) != 2 || have[0].Start != base+60_000 || have[1].Start != base+5*60_000 {
		t.Errorf("summaries of a metric and a range: %+v, error %v", have, err)
	}
}

func testUnknownSensor(t *testing.T, s *suite) {
	q := reading.Query{Sensor: "unknown", Limit: 10}
	if have, err := s.query.Readings(t.Context(), q); err != nil || len(have) != 0 {
		t.Errorf("readings %v, error %v", have, err)
	}
	if have, err := s.query.Summaries(t.Context(), q); err != nil || len(have) != 0 {
		t.Errorf("summaries %v, error %v", have, err)
	}
	if have, err := s.query.Sensor(t.Context(), "unknown"); !errors.Is(err, reading.ErrNotFound) {
		t.Errorf("sensor %+v, error %v, want not found", have, err)
	}
}

// sensorOf makes a sensor that has seen one metric at these times (ms after
// base), newest first, with values that tell the times.
func sensorOf(id, metric string, times ...int64) reading.Sensor {
	s := reading.Sensor{ID: id, FirstSeen: base + slices.Min(times), LastSeen: base + slices.Max(times)}
	var points []reading.Point
	for _, at := range times {
		points = append(points, reading.Point{Time: base + at, Value: float64(at) + 0.5})
	}
	s.Metrics = map[string][]reading.Point{metric: points}
	return s
}

func wantSensor(t *testing.T, have, want reading.Sensor) {
	t.Helper()
	if have.ID != want.ID || have.FirstSeen != want.FirstSeen || have.LastSeen != want.LastSeen || have.OutlierUntil != want.OutlierUntil ||
		!maps.EqualFunc(have.Metrics, want.Metrics, slices.Equal) {
		t.Errorf("sensor %+v, want %+v", have, want)
	}
}

func (s *suite) merge(t *testing.T, keep int, sensors ...reading.Sensor) {
	t.Helper()
	if err := s.sink.MergeSensors(t.Context(), sensors, keep); err != nil {
		t.Fatalf("MergeSensors: %v", err)
	}
}

func (s *suite) sensor(t *testing.T, id string) reading.Sensor {
	t.Helper()
	have, err := s.query.Sensor(t.Context(), id)
	if err != nil {
		t.Fatalf("Sensor %q: %v", id, err)
	}
	return have
}

func testSensorsCreated(t *testing.T, s *suite) {
	const metric = "temperature"
	s.merge(t, 3, sensorOf("created-there", metric, 20, 10))
	many := make(map[string][]reading.Point, reading.MaxMetrics+5)
	for i := range reading.MaxMetrics + 5 {
		many[fmt.Sprintf("m%d", i)] = []reading.Point{{Time: base + int64(i), Value: 1}}
	}
	news := []reading.Sensor{
		sensorOf("created-a", metric, 20, 10),
		sensorOf("created-there", metric, 30),
		sensorOf("created-b", metric, 40, 30, 20, 10), // more than are kept
		{ID: "created-many", FirstSeen: base, LastSeen: base + reading.MaxMetrics + 4, Metrics: many},
	}
	for range 2 { // the second time all are there, and nothing changes
		if err := s.sink.CreateSensors(t.Context(), news, 3); err != nil {
			t.Fatalf("CreateSensors: %v", err)
		}
		wantSensor(t, s.sensor(t, "created-a"), sensorOf("created-a", metric, 20, 10))
		wantSensor(t, s.sensor(t, "created-there"), sensorOf("created-there", metric, 30, 20, 10))
		want := sensorOf("created-b", metric, 40, 30, 20, 10)
		want.Metrics[metric] = want.Metrics[metric][:3]
		wantSensor(t, s.sensor(t, "created-b"), want)
		if n := len(s.sensor(t, "created-many").Metrics); n != reading.MaxMetrics {
			t.Errorf("%d metrics are kept", n)
		}
	}
}

func testSensorsPages(t *testing.T, s *suite) {
	var want []reading.Sensor
	for i := range int64(7) {
		want = append(want, sensorOf(fmt.Sprintf("listed-%d", i), "temperature", 10+i, i))
	}
	shuffled := slices.Clone(want)
	slices.Reverse(shuffled)
	s.merge(t, 10, shuffled...)
	for limit := 1; limit <= len(want)+1; limit++ {
		var have []reading.Sensor
		after := "listed-" // others share the database: begin just before ours, end just after
		for {
			page, err := s.query.Sensors(t.Context(), after, limit)
			if err != nil {
				t.Fatalf("Sensors after %q: %v", after, err)
			}
			if len(page) > limit {
				t.Fatalf("%d sensors in a page of %d", len(page), limit)
			}
			for _, sensor := range page {
				if strings.HasPrefix(sensor.ID, "listed-") {
					have = append(have, sensor)
				}
			}
			if len(page) < limit || !strings.HasPrefix(page[len(page)-1].ID, "listed-") {
				break
			}
			after = page[len(page)-1].ID
		}
		if len(have) != len(want) {
			t.Fatalf("%d sensors in pages of %d, want %d", len(have), limit, len(want))
		}
		for i := range want {
			wantSensor(t, have[i], want[i])
		}
	}
}

func testSensorsMerge(t *testing.T, s *suite) {
	s.merge(t, 3, sensorOf("merged", "temperature", 20, 10))
	s.merge(t, 3, sensorOf("merged", "temperature", 50, 40), sensorOf("other", "humidity", 1))
	s.merge(t, 3, sensorOf("merged", "humidity", 60))
	want := sensorOf("merged", "temperature", 50, 40, 20)
	want.FirstSeen, want.LastSeen = base+10, base+60
	want.Metrics["humidity"] = []reading.Point{{Time: base + 60, Value: 60.5}}
	wantSensor(t, s.sensor(t, "merged"), want)
	s.merge(t, 3, sensorOf("merged", "temperature", 50, 40)) // again: nothing changes
	wantSensor(t, s.sensor(t, "merged"), want)
	wantSensor(t, s.sensor(t, "other"), sensorOf("other", "humidity", 1))

	// That it has an outlier bucket is said of it without a reading, and stays.
	s.merge(t, 3, reading.Sensor{ID: "merged", FirstSeen: base, LastSeen: base, OutlierUntil: base + 70})
	s.merge(t, 3, sensorOf("merged", "humidity", 60))
	want.OutlierUntil = base + 70
	wantSensor(t, s.sensor(t, "merged"), want)
}

func testSensorsLate(t *testing.T, s *suite) {
	s.merge(t, 2, sensorOf("tardy", "temperature", 50, 40))
	s.merge(t, 2, sensorOf("tardy", "temperature", 20))
	want := sensorOf("tardy", "temperature", 50, 40)
	want.FirstSeen = base + 20
	wantSensor(t, s.sensor(t, "tardy"), want)
	s.merge(t, 2, sensorOf("tardy", "temperature", 45))
	want.Metrics["temperature"] = sensorOf("", "temperature", 50, 45).Metrics["temperature"]
	wantSensor(t, s.sensor(t, "tardy"), want)
}

func testSensorsKeepNone(t *testing.T, s *suite) {
	s.merge(t, 0, sensorOf("newest", "temperature", 20, 10))
	want := sensorOf("newest", "temperature", 20)
	want.FirstSeen = base + 10
	wantSensor(t, s.sensor(t, "newest"), want)
	s.merge(t, 0, sensorOf("newest", "temperature", 15))
	wantSensor(t, s.sensor(t, "newest"), want)
	s.merge(t, 0, sensorOf("newest", "temperature", 30))
	want.LastSeen = base + 30
	want.Metrics["temperature"] = []reading.Point{{Time: base + 30, Value: 30.5}}
	wantSensor(t, s.sensor(t, "newest"), want)
}

func testSensorIDs(t *testing.T, s *suite) {
	want := []string{"id-a", "id-b", "id-c"}
	for _, id := range want {
		s.merge(t, 1, sensorOf(id, "temperature", 1))
	}
	var have []string
	err := s.query.SensorIDs(t.Context(), func(id string) error {
		if strings.HasPrefix(id, "id-") {
			have = append(have, id)
		}
		return nil
	})
	slices.Sort(have)
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("ids %v, want %v, error %v", have, want, err)
	}
	stop := errors.New("stop")
	if err := s.query.SensorIDs(t.Context(), func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of yield gives %v", err)
	}
}

// testRandom writes random flushes, in which about a third of the readings
// were there before, and keeps what should be stored in a map.
func testRandom(t *testing.T, s *suite) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	all := []reading.Series{series("random-a", "x"), series("random-a", "y"), series("random-b", "x")}
	model := make(map[reading.Key]*reading.Bucket)
	for range 40 {
		flush := make(map[reading.Key]*reading.Bucket)
		var want []refused
		for range 1 + rnd.IntN(12) {
			k := reading.Key{Series: all[rnd.IntN(len(all))], Start: base + int64(rnd.IntN(3))*60_000}
			off, value := int32(rnd.IntN(40)*1000), float64(rnd.IntN(3))+rnd.Float64()*float64(rnd.IntN(2))
			if flush[k] == nil {
				flush[k] = bucketOf(k.Series, k.Start)
			}
			if flush[k].Add(k.Start+int64(off), value) != reading.Added {
				continue // the bucketer's own duplicate: it never reaches the store
			}
			if model[k] == nil {
				model[k] = bucketOf(k.Series, k.Start)
			}
			if verdict := model[k].Add(k.Start+int64(off), value); verdict != reading.Added {
				want = append(want, refused{k, off, verdict})
			}
		}
		res := s.write(t, slices.Collect(maps.Values(flush))...)
		wantRefused(t, res, want...)
		if t.Failed() {
			t.FailNow()
		}
	}
	s.wantStored(t, slices.Collect(maps.Values(model))...)
}
