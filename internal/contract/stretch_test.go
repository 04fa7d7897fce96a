package contract

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gudang/internal/reading"
)

// testStretches compares what is found by seeking with what is found by
// listing, over a series with gaps and an outlier.
func testStretches(t *testing.T, s *suite) {
	id := series("stretches", "x")
	var all []*reading.Bucket
	for _, minute := range []int64{0, 1, 2, 5, 6, 9} {
		b := &reading.Bucket{Series: id, Start: base + minute*60_000}
		for i := range int64(6) {
			b.Add(b.Start+(i*37_000)%60_000, float64(minute*10+i))
		}
		all = append(all, b)
	}
	crowd := &reading.Bucket{Series: id, Start: base + 3*60_000}
	for i := range int64(outlierReadings + 50) {
		crowd.Add(crowd.Start+i*140, float64(i))
	}
	all = append(all, crowd)
	s.write(t, all...)
	s.write(t, bucketOf(series("stretches", "y"), base, point{1, 2}), bucketOf(series("stretchess", "x"), base, point{1, 2}))

	listed, err := s.query.Readings(t.Context(), reading.Query{Sensor: id.Sensor, Metric: id.Metric, Limit: 1000})
	if err != nil || len(listed) != 36+outlierReadings+50 {
		t.Fatalf("%d readings, error %v", len(listed), err)
	}
	within := func(from, until int64) (points []reading.Point) {
		for _, r := range listed {
			if r.Time >= from && r.Time < until {
				points = append(points, reading.Point{Time: r.Time, Value: r.Value})
			}
		}
		return points
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range 15 {
		at := base - 60_000 + r.Int64N(12*60_000)
		from := at - r.Int64N(4*60_000)
		got, err := s.query.NewestAt(t.Context(), id, from, at)
		if err != nil {
			t.Fatal(err)
		}
		want := within(from, at+1)
		if len(want) > 0 {
			want = append(want[len(want)-1:], within(at+1, got.Until)...)
		}
		if !slices.Equal(got.Points, want) || got.Until <= at || got.Documents > 4 {
			t.Fatalf("newest in [%d, %d]: %+v, want %v", from-base, at-base, got, want)
		}
	}
	for _, limit := range []int{20, 1000} {
		var got []reading.Point
		from, until := base+11_000, base+9*60_000+20_000
		for at := from; at < until; {
			part, err := s.query.Stretch(t.Context(), id, at, until, limit)
			if err != nil || part.Until <= at || part.Until > until {
				t.Fatalf("a stretch from %d goes to %d, error %v", at, part.Until, err)
			}
			got, at = append(got, part.Points...), part.Until
		}
		if want := within(from, until); !slices.Equal(got, want) {
			t.Errorf("by stretches of %d: %v, want %v", limit, got, want)
		}
	}
	if _, err := s.query.Stretch(t.Context(), id, base, base+1, 0); err == nil {
		t.Error("a limit of 0 is taken")
	}
}
