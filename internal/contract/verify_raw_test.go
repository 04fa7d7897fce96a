package contract

import (
	"strings"
	"testing"

	"gudang/internal/query"
	"gudang/internal/reading"
)

// both writes the buckets, and their readings to raw.
func (s *suite) both(t *testing.T, buckets ...*reading.Bucket) {
	t.Helper()
	s.raw(t, buckets...)
	s.write(t, append([]*reading.Bucket(nil), buckets...)...)
}

func testVerifyExact(t *testing.T, s *suite) {
	if r := s.check(t, query.RawCheck{}); !r.OK() || r.Raw+r.Stored+r.Buckets != 0 {
		t.Errorf("an empty store: %+v", r)
	}
	readings := 0
	for _, sensor := range []string{"S-01", "S-02"} {
		for i := range int64(7) {
			b := bucketOf(series(sensor, "temperature"), base+i*60_000)
			for j := range 1 + i {
				b.Add(b.Start+(j*7919)%60_000, float64(j*i)/10-1)
				readings++
			}
			s.both(t, b)
		}
	}
	r := s.check(t, query.RawCheck{})
	if !r.OK() || r.Series != 2 || r.Buckets != 14 || r.Grouped != 14 || r.Raw != int64(readings) || r.Stored != r.Raw || r.Same != r.Raw || r.Outside+r.Expired != 0 {
		t.Errorf("%+v", r)
	}
	// By another span there is nothing to group by, and still each reading.
	r = s.check(t, query.RawCheck{Span: 3_600_000})
	if !r.OK() || r.Same != int64(readings) || r.Grouped != 0 {
		t.Errorf("by another span: %+v", r)
	}
}

func testVerifyDifferences(t *testing.T, s *suite) {
	id := series("S-01", "temperature")
	b := func(minutes int64, points ...point) *reading.Bucket {
		return bucketOf(id, base+minutes*60_000, points...)
	}
	s.both(t, b(0, point{0, 1}, point{10_000, 2}))
	s.raw(t, b(1, point{0, 1}, point{10_000, 2})) // the bucket lacks one
	s.write(t, b(1, point{0, 1}))
	s.raw(t, b(2, point{0, 1})) // raw lacks one
	s.write(t, b(2, point{0, 1}, point{10_000, 2}))
	s.raw(t, b(3, point{0, 1})) // another value
	s.write(t, b(3, point{0, 5}))
	s.both(t, b(4, point{0, 1}, point{10_000, 2})) // a damaged sum
	s.poison(t, b(4).Key())
	s.raw(t, b(5, point{0, 1})) // no bucket at all
	s.write(t, bucketOf(id, base+60_000*6+30_000, point{10_000, 9}))
	s.both(t, b(6, point{0, 8}, point{40_000, 9})) // a reading in two buckets
	s.write(t, bucketOf(series("S-02", "temperature"), base, point{0, 1}))
	s.both(t, bucketOf(series("S-03", "temperature"), base, point{0, 1}))

	r := s.check(t, query.RawCheck{})
	for _, c := range []struct {
		name string
		have query.Finding
		want int64
		text string
	}{
		{"missing", r.Missing, 2, `"S-01" temperature at 2026-12-06T09:06:10.000Z = 2`},
		{"foreign", r.Foreign, 1, `"S-01" temperature at 2026-12-06T09:07:10.000Z = 2`},
		{"different", r.Different, 1, `"S-01" temperature at 2026-12-06T09:08:00.000Z: raw has 1, the bucket 5`},
		{"doubled", r.Doubled, 1, `"S-01" temperature at 2026-12-06T09:11:40.000Z = 9`},
		{"unequal", r.Unequal, 4, `bucket "S-01" temperature at 2026-12-06T09:06:00.000Z: count 1, raw gives 2; sum 1, raw gives 3; max 1, raw gives 2`},
		{"bad buckets", r.BadBucket, 1, `bucket "S-01" temperature at 2026-12-06T09:09:00.000Z: sum is`},
	} {
		if c.have.Count != c.want || len(c.have.Examples) == 0 || !strings.HasPrefix(c.have.Examples[0], c.text) {
			t.Errorf("%s: %d %q, want %d, the first %s…", c.name, c.have.Count, c.have.Examples, c.want, c.text)
		}
	}
	if r.OK() || r.Outside != 1 || r.Raw != 12 || r.Stored != 12 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.HasSuffix(text.String(), "NOT exact\n") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}

func testVerifyOutside(t *testing.T, s *suite) {
	id := series("S-01", "temperature")
	var all []*reading.Bucket
	for i := range int64(6) {
		all = append(all, bucketOf(id, base+i*60_000, point{0, 1}, point{30_000, 2}))
	}
	s.write(t, append([]*reading.Bucket(nil), all...)...)
	// Raw begins within the second bucket and ends within the fifth.
	s.raw(t, bucketOf(id, base+60_000, point{30_000, 2}), all[2], all[3], bucketOf(id, base+240_000, point{0, 1}))
	if r := s.check(t, query.RawCheck{Ended: true}); !r.OK() || r.Outside != 6 || r.Same != 6 || r.Grouped != 2 {
		t.Errorf("raw that has ended: %+v", r)
	}
	if r := s.check(t, query.RawCheck{}); r.Foreign.Count != 3 || r.Outside != 3 {
		t.Errorf("raw that goes on: %+v", r)
	}
	if r := s.check(t, query.RawCheck{RawSince: base + 330_001}); !r.OK() || r.Outside != 6 {
		t.Errorf("raw that is deleted for its age: %+v", r)
	}
	s.raw(t, bucketOf(id, base-120_000, point{0, 1}), all[0], bucketOf(id, base+60_000, point{0, 1}), bucketOf(id, base+240_000, point{30_000, 2}), all[5])
	if r := s.check(t, query.RawCheck{}); r.Missing.Count != 1 {
		t.Errorf("a bucket that is gone: %+v", r)
	}
	if r := s.check(t, query.RawCheck{BucketsSince: base - 100_000}); !r.OK() || r.Expired != 1 || r.Same != 12 {
		t.Errorf("a bucket that was deleted for its age: %+v", r)
	}
}

// Buckets of several spans share a time where the span was changed. None of
// them alone says what raw does, grouped, and all of them together do.
func testVerifySpans(t *testing.T, s *suite) {
	id, begin := series("S-01", "temperature"), (3 * minute).Start(base)
	s.both(t,
		bucketOf(id, begin, point{0, 1}, point{70_000, 2}, point{130_000, 3}), // three minutes of it
		bucketOf(id, begin+60_000, point{20_000, 4}),
		bucketOf(id, begin+120_000, point{30_000, 5}),
		bucketOf(id, begin+180_000, point{0, 6}),
	)
	for span, grouped := range map[reading.Span]int64{minute: 1, 3 * minute: 1, 60 * minute: 0} {
		if r := s.check(t, query.RawCheck{Span: span}); !r.OK() || r.Same != 6 || r.Buckets != 4 || r.Grouped != grouped {
			t.Errorf("by %v: %+v", span.Duration(), r)
		}
	}
}
