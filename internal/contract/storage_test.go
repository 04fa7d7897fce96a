package contract

import (
	"context"
	"fmt"
	"testing"

	"gudang/internal/query"
	"gudang/internal/reading"
)

// storageCases measure the store. It holds what other cases wrote, so each
// measures before and after.
var storageCases = []struct {
	name string
	test func(t *testing.T, s *suite)
}{
	{"the example saves at a minute what is honest", testStorageMinute},
	{"the example saves most at an hour", testStorageHour},
	{"an examination finds the indexes, and plans that use them", testExamination},
}

// added measures what do adds to the store.
func (s *suite) added(t *testing.T, do func()) query.Storage {
	t.Helper()
	measure := func() query.Storage {
		have, err := s.query.Storage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return have
	}
	before := measure()
	do()
	after := measure()
	less := func(a, b query.Part) query.Part {
		return query.Part{Measure: query.Measure{Documents: a.Documents - b.Documents, Bytes: a.Bytes - b.Bytes}, Readings: a.Readings - b.Readings}
	}
	return query.Storage{
		Raw: less(after.Raw, before.Raw), Buckets: less(after.Buckets, before.Buckets), Outliers: less(after.Outliers, before.Outliers),
		Apart: query.Measure{Documents: after.Apart.Documents - before.Apart.Documents, Bytes: after.Apart.Bytes - before.Apart.Bytes},
	}
}

func testStorageMinute(t *testing.T, s *suite) {
	example := series("S-storage-1", "temperature")
	have := s.added(t, func() {
		s.write(t,
			bucketOf(example, base, point{10_000, 26.4}, point{20_000, 26.6}, point{30_000, 26.5}, point{40_000, 26.7}, point{50_000, 26.8}, point{59_000, 26.6}),
			bucketOf(example, base+60_000, point{10_000, 27.0}, point{20_000, 27.2}, point{30_000, 27.1}, point{40_000, 27.3}, point{50_000, 27.4}, point{59_000, 27.2}))
	})
	// _id and metric, time and sum are more than in the published example, which
	// saves 59 %; a minute of six readings is nearly as good.
	want := query.Part{Measure: query.Measure{Documents: 2, Bytes: 562}, Readings: 12}
	if have.Buckets != want {
		t.Errorf("the two buckets measure %+v, want %+v", have.Buckets, want)
	}
	if raw := (query.Measure{Documents: 12, Bytes: 1320}); have.Apart != raw {
		t.Errorf("the readings on their own measure %+v, want %+v", have.Apart, raw)
	}
	if saved := have.Saved(); saved < 0.57 || saved > 0.58 {
		t.Errorf("%.3f saved", saved)
	}
}

// only is a reader that sees one sensor, and the metric of it.
type only struct {
	query.Store
	series reading.Series
}

func (o only) Sensors(context.Context, string, int) ([]reading.Sensor, error) {
	return []reading.Sensor{{ID: o.series.Sensor, Metrics: map[string][]reading.Point{o.series.Metric: nil}}}, nil
}

func testStorageHour(t *testing.T, s *suite) {
	hourly := series("S-storage-2", "temperature")
	start := reading.Span(3_600_000).Start(base)
	have := s.added(t, func() {
		b := &reading.Bucket{Series: hourly, Start: start}
		for i := range int64(360) {
			b.Add(start+i*10_000, 26+float64(i%12)/10)
		}
		s.write(t, b)
	})
	if want := query.BucketSize(hourly, 360); have.Buckets.Documents != 1 || have.Buckets.Bytes != want {
		t.Errorf("the hour measures %+v, want %d bytes", have.Buckets, want)
	}
	if saved := have.Saved(); saved < 0.6 {
		t.Errorf("%.3f saved, want 0.6 and more", saved)
	}
	// What another span would cost is what it does cost.
	minutely := series("S-storage-3", "temperature")
	s.write(t, func() (minutes []*reading.Bucket) {
		for m := range int64(60) {
			b := &reading.Bucket{Series: minutely, Start: start + m*60_000}
			for i := range int64(6) {
				b.Add(b.Start+i*10_000, 26+float64(i)/10)
			}
			minutes = append(minutes, b)
		}
		return minutes
	}()...)
	costs, err := query.Simulate(t.Context(), only{s.query, minutely}, 360, 1000, minute, 60*minute)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := costs.Spans[0].Buckets, (query.Measure{Documents: 60, Bytes: 60 * query.BucketSize(minutely, 6)}); a != b {
		t.Errorf("as it is it costs %+v, want %+v", a, b)
	}
	if hour := costs.Spans[1]; hour.Buckets != have.Buckets.Measure {
		t.Errorf("an hour would cost %+v, and costs %+v", hour.Buckets, have.Buckets)
	}
}

func testExamination(t *testing.T, s *suite) {
	s.write(t, bucketOf(series("S-examined", "temperature"), base, point{0, 1}))
	e, err := s.query.Examine(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range e.Collections {
		for _, i := range c.Indexes {
			found = found || c.Name == "buckets" && fmt.Sprint(i.Fields) == "[sensorId metric start]"
		}
	}
	if !found {
		t.Errorf("the index of buckets is not among %+v", e.Collections)
	}
	if e.Server.Version == "" || e.Buckets == 0 || len(e.Recent) == 0 || e.Largest.Bytes == 0 {
		t.Errorf("%+v of %d buckets, %d recent, largest %+v", e.Server, e.Buckets, len(e.Recent), e.Largest)
	}
	for _, p := range e.Plans {
		if p.Scan || p.Sort || p.Stage == "" {
			t.Errorf("no index serves %+v", p)
		}
	}
	if e.Server.Embedded && len(e.Plans) < 8 {
		t.Errorf("only %d plans", len(e.Plans))
	}
}
