package contract

import (
	"slices"
	"sync"
	"testing"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

// fast is a bucket of n readings, in no order, all of them distinct.
func fast(sensor string, n int) *reading.Bucket {
	b := bucketOf(series(sensor, "vibration"), base)
	for i := range int64(n) {
		off := i * 7919 % 60_000
		b.Add(base+off, float64(off%17)/8)
	}
	return b
}

// part is some of a bucket's readings.
func part(b *reading.Bucket, from, to int) *reading.Bucket {
	return reading.BucketOf(b.Key(), slices.Clone(b.Offsets[from:to]), slices.Clone(b.Values[from:to]))
}

func (s *suite) sweep(t *testing.T) sink.Swept {
	t.Helper()
	swept, err := s.sink.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func testOutlierAtOnce(t *testing.T, s *suite) {
	want := fast("outlier-at-once", 200)
	other := bucketOf(series("outlier-neighbour", "x"), base, point{1, 2})
	res := s.write(t, part(want, 0, 200), other)
	wantRefused(t, res)
	if res.Migrated != 1 || len(res.Outliers) != 1 || res.Outliers[0] != (sink.Outlier{Key: want.Key(), Until: base + 60_000}) {
		t.Errorf("migrated %d, outliers %v", res.Migrated, res.Outliers)
	}
	s.wantStored(t, want, other)
}

func testOutlierGrowing(t *testing.T, s *suite) {
	want := fast("outlier-growing", 220)
	for from := 0; from < 180; from += 60 {
		wantRefused(t, s.write(t, part(want, from, from+60)))
	}
	s.sweep(t)
	// A part of what it had as an ordinary bucket comes again, and more.
	again := part(want, 170, 220)
	res := s.write(t, again)
	if len(res.Refused) != 10 || len(res.Outliers) != 1 {
		t.Errorf("%d refused, outliers %v", len(res.Refused), res.Outliers)
	}
	s.wantStored(t, want)
	if swept := s.sweep(t); swept.Migrated != 0 {
		t.Errorf("a second sweep migrated %d", swept.Migrated)
	}
}

func testOutlierRefuses(t *testing.T, s *suite) {
	want := fast("outlier-refuses", 160)
	s.write(t, part(want, 0, 160))
	wantRefused(t, s.write(t, part(want, 3, 5)),
		refused{want.Key(), want.Offsets[3], reading.Duplicate}, refused{want.Key(), want.Offsets[4], reading.Duplicate})
	other := bucketOf(want.Series, base, point{want.Offsets[5], want.Values[5] + 1}, point{59_999, -4})
	wantRefused(t, s.write(t, other), refused{want.Key(), want.Offsets[5], reading.Conflict})
	want.Add(base+59_999, -4)
	s.wantStored(t, want)
}

func testOutlierPages(t *testing.T, s *suite) {
	outlier := fast("outlier-pages", 170)
	quiet := bucketOf(series("outlier-pages", "temperature"), base, point{0, 1}, point{30_000, 2})
	next := bucketOf(outlier.Series, base+60_000, point{0, 5}, point{59_999, 6})
	before := bucketOf(outlier.Series, base-60_000, point{59_999, 7})
	s.write(t, part(outlier, 0, 170), quiet, next, before)
	want := readingsOf(outlier, quiet, next, before)
	for _, limit := range []int{1000, 50, 13} {
		var have []reading.Reading
		q := reading.Query{Sensor: "outlier-pages", Limit: limit}
		for {
			page, err := s.query.Readings(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, page...)
			if len(page) < limit {
				break
			}
			q.After = reading.Cursor{Time: page[len(page)-1].Time, Metric: page[len(page)-1].Metric}
		}
		if !slices.Equal(have, want) {
			t.Errorf("pages of %d: %d readings, want %d", limit, len(have), len(want))
		}
	}
	from, to := base+10_000, base+20_000
	have, err := s.query.Readings(t.Context(), reading.Query{Sensor: "outlier-pages", Metric: "vibration", From: from, To: to, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	cut := reading.Query{Metric: "vibration", From: from, To: to}.Page(readingsOf(outlier))
	if !slices.Equal(have, cut) {
		t.Errorf("a range within it: %d readings, want %d", len(have), len(cut))
	}
}

// Two instances write the same readings of one sensor, in another order and
// in flushes of another size.
func testOutlierWriters(t *testing.T, s *suite) {
	want := fast("outlier-writers", 400)
	second, _ := s.open(t)
	var both sync.WaitGroup
	stored := make([]int, 2)
	for n, to := range []sink.Store{s.sink, second} {
		both.Go(func() {
			size := 20 + 15*n
			for from := 0; from < 400; from += size {
				flush := part(want, from, min(from+size, 400))
				for left := []*reading.Bucket{flush}; len(left) > 0; {
					res := to.WriteBuckets(t.Context(), left)
					left = res.Again
					if len(left) == 0 {
						stored[n] += flush.Count() - len(res.Refused)
					}
				}
				if _, err := to.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	if stored[0]+stored[1] != 400 {
		t.Errorf("%d and %d readings counted as stored, want 400 together", stored[0], stored[1])
	}
	s.wantStored(t, want)
}
