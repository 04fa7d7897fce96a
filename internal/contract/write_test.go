package contract

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

func testNewBucket(t *testing.T, s *suite) {
	b := bucketOf(series("new", "temperature"), base, point{10_000, 26.4}, point{20_000, 26.6})
	res := s.write(t, b)
	wantRefused(t, res)
	if res.Writes != (sink.Writes{OK: 1}) {
		t.Errorf("writes %+v, want one that is OK", res.Writes)
	}
	s.wantStored(t, b)
}

func testWorkedExample(t *testing.T, s *suite) {
	id := series("S-01", "temperature")
	first := bucketOf(id, base, point{10_000, 26.4}, point{20_000, 26.6}, point{30_000, 26.5},
		point{40_000, 26.7}, point{50_000, 26.8}, point{59_000, 26.6})
	second := bucketOf(id, base+60_000, point{10_000, 27.0}, point{20_000, 27.2}, point{30_000, 27.1},
		point{40_000, 27.3}, point{50_000, 27.4}, point{59_000, 27.2})
	s.write(t, first, second)
	s.wantStored(t, first, second)
	have, err := s.query.Summaries(t.Context(), reading.Query{Sensor: "S-01", Limit: 10})
	if err != nil || len(have) != 2 {
		t.Fatalf("%d summaries, error %v", len(have), err)
	}
	if h := have[0]; h.Start != base || h.Count != 6 || h.Min != 26.4 || h.Max != 26.8 {
		t.Errorf("09:05 is %+v, want count 6, min 26.4, max 26.8", h)
	}
	if h := have[1]; h.Start != base+60_000 || h.Count != 6 || h.Min != 27.0 || h.Max != 27.4 {
		t.Errorf("09:06 is %+v, want count 6, min 27.0, max 27.4", h)
	}
}

func testMerge(t *testing.T, s *suite) {
	id := series("merge", "temperature")
	wantRefused(t, s.write(t, bucketOf(id, base, point{10_000, 26.4})))
	wantRefused(t, s.write(t, bucketOf(id, base, point{20_000, 26.6}, point{30_000, 26.5})))
	wantRefused(t, s.write(t, bucketOf(id, base, point{40_000, -3})))
	s.wantStored(t, bucketOf(id, base, point{10_000, 26.4}, point{20_000, 26.6}, point{30_000, 26.5}, point{40_000, -3}))
}

func testDuplicate(t *testing.T, s *suite) {
	id := series("duplicate", "temperature")
	b := bucketOf(id, base, point{10_000, 26.4})
	s.write(t, b)
	res := s.write(t, bucketOf(id, base, point{10_000, 26.4}))
	wantRefused(t, res, refused{b.Key(), 10_000, reading.Duplicate})
	s.wantStored(t, b)
}

func testPartlyDuplicate(t *testing.T, s *suite) {
	id := series("partly", "temperature")
	s.write(t, bucketOf(id, base, point{10_000, 1}, point{20_000, 2}))
	res := s.write(t,
		bucketOf(id, base, point{30_000, 3}, point{20_000, 2}, point{40_000, 4}),
		bucketOf(id, base+60_000, point{0, 9}))
	wantRefused(t, res, refused{reading.Key{Series: id, Start: base}, 20_000, reading.Duplicate})
	s.wantStored(t,
		bucketOf(id, base, point{10_000, 1}, point{20_000, 2}, point{30_000, 3}, point{40_000, 4}),
		bucketOf(id, base+60_000, point{0, 9}))
}

func testSameFlushTwice(t *testing.T, s *suite) {
	flush := func() []*reading.Bucket {
		return []*reading.Bucket{
			bucketOf(series("twice-a", "temperature"), base, point{10_000, 1}, point{20_000, 2}),
			bucketOf(series("twice-b", "humidity"), base, point{11_000, 51.5}),
			bucketOf(series("twice-b", "humidity"), base+60_000, point{11_000, 52.5}),
		}
	}
	wantRefused(t, s.write(t, flush()...))
	b := flush()
	wantRefused(t, s.write(t, b...),
		refused{flush()[0].Key(), 10_000, reading.Duplicate}, refused{flush()[0].Key(), 20_000, reading.Duplicate},
		refused{flush()[1].Key(), 11_000, reading.Duplicate}, refused{flush()[2].Key(), 11_000, reading.Duplicate})
	s.wantStored(t, flush()...)
}

func testConflict(t *testing.T, s *suite) {
	id := series("conflict", "temperature")
	first := bucketOf(id, base, point{10_000, 26.4}, point{20_000, 26.6})
	s.write(t, first)
	res := s.write(t, bucketOf(id, base, point{20_000, 99}, point{10_000, 26.4}, point{30_000, 5}))
	wantRefused(t, res,
		refused{first.Key(), 20_000, reading.Conflict}, refused{first.Key(), 10_000, reading.Duplicate})
	s.wantStored(t, bucketOf(id, base, point{10_000, 26.4}, point{20_000, 26.6}, point{30_000, 5}))
}

func testLate(t *testing.T, s *suite) {
	id := series("late", "temperature")
	var want []*reading.Bucket
	for i := range int64(4) {
		want = append(want, bucketOf(id, base+i*60_000, point{30_000, float64(i)}))
		s.write(t, bucketOf(id, base+i*60_000, point{30_000, float64(i)}))
	}
	wantRefused(t, s.write(t, bucketOf(id, base, point{10_000, -7})))
	wantRefused(t, s.write(t, bucketOf(id, base-86_400_000, point{0, 3})))
	want[0].Add(base+10_000, -7)
	s.wantStored(t, append(want, bucketOf(id, base-86_400_000, point{0, 3}))...)
}

func testArrivalOrder(t *testing.T, s *suite) {
	id := series("arrival", "temperature")
	s.write(t, bucketOf(id, base, point{50_000, 5}, point{10_000, 1}))
	s.write(t, bucketOf(id, base, point{40_000, 4}, point{0, 0}))
	want := bucketOf(id, base, point{50_000, 5}, point{10_000, 1}, point{40_000, 4}, point{0, 0})
	s.wantStored(t, want)
	have := s.scan(t, func(id string) bool { return id == "arrival" })[want.Key()]
	if have == nil || !slices.Equal(have.Offsets, want.Offsets) || !slices.Equal(have.Values, want.Values) {
		t.Errorf("stored %+v, want the order of arrival %v", have, want.Offsets)
	}
}

func testBothOrders(t *testing.T, s *suite) {
	a := []point{{10_000, 1.5}, {20_000, -2.25}}
	b := []point{{30_000, 8}, {40_000, 0.125}}
	there, back := series("there", "temperature"), series("back", "temperature")
	s.write(t, bucketOf(there, base, a...))
	s.write(t, bucketOf(there, base, b...))
	s.write(t, bucketOf(back, base, b...))
	s.write(t, bucketOf(back, base, a...))
	s.wantStored(t, bucketOf(there, base, append(a, b...)...), bucketOf(back, base, append(b, a...)...))
	var sums []reading.Summary
	for _, sensor := range []string{"there", "back"} {
		have, err := s.query.Summaries(t.Context(), reading.Query{Sensor: sensor, Limit: 2})
		if err != nil || len(have) != 1 {
			t.Fatalf("%d summaries of %q, error %v", len(have), sensor, err)
		}
		have[0].Sensor = ""
		sums = append(sums, have[0])
	}
	if sums[0] != sums[1] {
		t.Errorf("one order gives %+v, the other %+v", sums[0], sums[1])
	}
}

func testEdges(t *testing.T, s *suite) {
	id := series("edges", "temperature")
	var want []*reading.Bucket
	for _, at := range []int64{base - 1, base, base + 59_999, base + 60_000} {
		start := minute.Start(at)
		if n := len(want); n == 0 || want[n-1].Start != start {
			want = append(want, &reading.Bucket{Series: id, Start: start})
		}
		want[len(want)-1].Add(at, float64(at-base))
		s.write(t, bucketOf(id, start, point{int32(at - start), float64(at - base)}))
	}
	s.wantStored(t, want...)
	have, err := s.query.Readings(t.Context(), reading.Query{Sensor: "edges", From: base, To: base + 60_000, Limit: 10})
	if err != nil || len(have) != 2 || have[0].Time != base || have[1].Time != base+59_999 {
		t.Errorf("readings of the minute are %v, error %v", have, err)
	}
}

// testTwoWriters has two writers add to one bucket, beginning with the race to
// create it. Every reading must be stored by one of them.
func testTwoWriters(t *testing.T, s *suite) {
	other, _ := s.open(t)
	id := series("two writers", "temperature")
	const each = 50
	want := bucketOf(id, base)
	for i := range int32(2 * each) {
		want.Add(base+int64(i), float64(i))
	}
	var wg sync.WaitGroup
	for w, to := range []sink.Store{s.sink, other} {
		wg.Go(func() {
			for i := range int32(each) {
				off := 2*i + int32(w)
				res := to.WriteBuckets(t.Context(), []*reading.Bucket{bucketOf(id, base, point{off, float64(off)})})
				if res.Err != nil || len(res.Again)+len(res.Refused) > 0 {
					t.Errorf("writer %d, reading %d: %+v", w, i, res)
				}
			}
		})
	}
	wg.Wait()
	s.wantStored(t, want)
}

func testNegativeZero(t *testing.T, s *suite) {
	id := series("negative zero", "temperature")
	negative := math.Copysign(0, -1)
	s.write(t, bucketOf(id, base, point{10_000, negative}))
	s.write(t, bucketOf(id, base, point{20_000, negative}))
	res := s.write(t, bucketOf(id, base, point{10_000, 0}))
	wantRefused(t, res, refused{reading.Key{Series: id, Start: base}, 10_000, reading.Duplicate})
	s.wantStored(t, bucketOf(id, base, point{10_000, 0}, point{20_000, 0}))
}

func testExtremeValues(t *testing.T, s *suite) {
	tenth, fifth := 0.1, 0.2
	values := []float64{
		reading.MaxValue, -reading.MaxValue, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, tenth + fifth,
		0.1, 1.0 / 3, -1e-300, 1 << 53, 1<<53 + 2, 1e15, 123456789.123456789, 2.2250738585072014e-308, 1e21, 0,
	}
	id := series("extreme", "value")
	want := bucketOf(id, base)
	for i, v := range values {
		want.Add(base+int64(i), v)
	}
	half := len(values) / 2
	s.write(t, bucketOf(id, base, pointsOf(want)[:half]...))
	s.write(t, bucketOf(id, base, pointsOf(want)[half:]...))
	s.wantStored(t, want)

	// One value to a bucket: the summary must be that value and nothing near it.
	alone := series("extreme alone", "value")
	var each []*reading.Bucket
	for i, v := range values {
		each = append(each, bucketOf(alone, base+int64(i)*60_000, point{0, v}))
	}
	s.write(t, each...)
	s.wantStored(t, each...)
}

func pointsOf(b *reading.Bucket) []point {
	var points []point
	for i, off := range b.Offsets {
		points = append(points, point{off, b.Values[i]})
	}
	return points
}

func testIntegerThenFraction(t *testing.T, s *suite) {
	id := series("integer", "temperature")
	s.write(t, bucketOf(id, base, point{10_000, 21}))
	s.write(t, bucketOf(id, base, point{20_000, 21.5}))
	s.write(t, bucketOf(id, base, point{30_000, 22}))
	s.wantStored(t, bucketOf(id, base, point{10_000, 21}, point{20_000, 21.5}, point{30_000, 22}))
}

func testOddIDs(t *testing.T, s *suite) {
	ids := []string{
		"$where", "a.b.c", "a/b/c", `"quoted"`, `it's'); DROP TABLE buckets;--`, `{"$gt":""}`, `\`, `%_*?`, " ", " odd ",
		"odd", "Odd", "ODD", "gudang-тёплый-倉庫-🌡", "é", "e\u0301", "\u202eltr", "null", "1", "1.0", "0x1", "true",
		"507f1f77bcf86cd799439011", "2026-12-06T09:05:00Z", strings.Repeat("i", reading.MaxSensorID), strings.Repeat("倉", 85),
	}
	var want []*reading.Bucket
	var sensors []reading.Sensor
	for i, id := range ids {
		at := base + int64(i)
		want = append(want, bucketOf(series(id, "temperature"), base, point{int32(i), float64(i)}))
		sensors = append(sensors, reading.Sensor{
			ID: id, FirstSeen: at, LastSeen: at,
			Metrics: map[string][]reading.Point{"temperature": {{Time: at, Value: float64(i)}}},
		})
	}
	wantRefused(t, s.write(t, slices.Clone(want)...))
	s.wantStored(t, want...)
	if err := s.sink.MergeSensors(t.Context(), sensors, 10); err != nil {
		t.Fatal(err)
	}
	for _, w := range sensors {
		have, err := s.query.Sensor(t.Context(), w.ID)
		if err != nil {
			t.Errorf("Sensor %q: %v", w.ID, err)
			continue
		}
		wantSensor(t, have, w)
	}
}

func testLargeBucket(t *testing.T, s *suite) {
	id := series("large", "vibration")
	want := bucketOf(id, base)
	flush := bucketOf(id, base)
	for i := range int64(150) {
		off := i * 7919 % 60_000 // 7919 is prime: all distinct, none in order
		flush.Add(base+off, float64(off)/8)
		want.Add(base+off, float64(off)/8)
		if flush.Count() == 50 {
			wantRefused(t, s.write(t, flush))
			flush = bucketOf(id, base, point{int32(off), float64(off) / 8}) // the next begins with a duplicate
			wantRefused(t, s.write(t, flush), refused{want.Key(), int32(off), reading.Duplicate})
			flush = bucketOf(id, base)
		}
	}
	s.wantStored(t, want)
}

func testSeveralMetrics(t *testing.T, s *suite) {
	var want []*reading.Bucket
	for i, metric := range []string{"temperature", "humidity", "a", "b", "_", "temperature_2"} {
		want = append(want, bucketOf(series("several", metric), base, point{10_000, float64(i)}, point{20_000, float64(-i)}))
	}
	s.write(t, slices.Clone(want)...)
	s.wantStored(t, want...)
	have, err := s.query.Readings(t.Context(), reading.Query{Sensor: "several", Metric: "humidity", Limit: 10})
	if err != nil || !slices.Equal(have, readingsOf(want[1])) {
		t.Errorf("readings of one metric: %v, error %v", have, err)
	}
}

func testPoison(t *testing.T, s *suite) {
	var flush []*reading.Bucket
	for _, id := range []string{"poison-1", "poison-2", "poison-3", "poison-4", "poison-5"} {
		b := bucketOf(series(id, "temperature"), base, point{10_000, 1})
		s.write(t, b)
		flush = append(flush, bucketOf(b.Series, base, point{20_000, 2}, point{30_000, 3}))
	}
	bad := flush[2]
	s.poison(t, bad.Key())
	res := s.write(t, slices.Clone(flush)...)
	wantRefused(t, res, refused{bad.Key(), 20_000, reading.Added}, refused{bad.Key(), 30_000, reading.Added})
	for _, r := range res.Refused {
		if r.Reason != reading.StoreRefused {
			t.Errorf("reason %q, want %q", r.Reason, reading.StoreRefused)
		}
	}
	if res.Writes.Rejected != 1 {
		t.Errorf("writes %+v, want one that is rejected", res.Writes)
	}
	for _, b := range slices.Concat(flush[:2], flush[3:]) {
		s.wantStored(t, bucketOf(b.Series, base, point{10_000, 1}, point{20_000, 2}, point{30_000, 3}))
	}
}

func testEmptyFlush(t *testing.T, s *suite) {
	wantRefused(t, s.write(t))
}

func testReject(t *testing.T, s *suite) {
	r := sink.Rejected{
		Reading: reading.Reading{Series: series("rejected", "temperature"), Time: base, Value: 1},
		Reason:  reading.StoreRefused, Detail: strings.Repeat("long \x00 and odd ", 10_000), At: base,
	}
	for range 2 {
		if err := s.sink.Reject(t.Context(), []sink.Rejected{r, r}); err != nil {
			t.Error(err)
		}
	}
	if err := s.sink.Reject(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
