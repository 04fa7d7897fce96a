package contract

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
)

// rawCases each begin with an empty database, so that what they find in raw is
// theirs.
type rawCase struct {
	name string
	test func(t *testing.T, s *suite)
}

var rawCases = []rawCase{
	{"an empty raw has nothing", testRawEmpty},
	{"raw has each reading once, and keeps the first value", testRawWrite},
	{"a sink that keeps raw readings keeps duplicates and no conflicts", testRawSink},
	{"raw is read in pages", testRawPages},
	{"series are listed in order, of raw and of buckets", testNextSeries},
	{"buckets are read as they are", testRecords},
	{"raw in groups says what the buckets say", testRawGroups},
	{"a bucket is replaced if it is what was read", testFixBucket},
	{"buckets that agree with raw are found exact", testVerifyExact},
	{"every difference from raw is named", testVerifyDifferences},
	{"what raw cannot have is no difference", testVerifyOutside},
	{"buckets of several spans are found exact", testVerifySpans},
	{"buckets are built from raw", testRebuildFromRaw},
	{"wrong buckets are mended", testRebuildMends},
	{"buckets are brought to another span, stopped at every step", testRebuildSpans},
}

func runRaw(t *testing.T, s *suite) {
	cases := rawCases
	if s.rivals { // elsewhere a look and its replacement are one transaction
		cases = append(cases[:len(cases):len(cases)], rawCase{"a bucket that changes meanwhile is looked at again", testFixContested})
	}
	for _, c := range cases {
		s.wipe(t)
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

// raw writes the readings of the buckets to raw alone.
func (s *suite) raw(t *testing.T, buckets ...*reading.Bucket) {
	t.Helper()
	if refused, why, err := s.sink.WriteRaw(t.Context(), buckets); err != nil || refused != 0 {
		t.Fatalf("WriteRaw: %d refused (%s), error %v", refused, why, err)
	}
}

func (s *suite) rawOf(t *testing.T, id reading.Series) []reading.Point {
	t.Helper()
	points, err := s.query.RawReadings(t.Context(), reading.Query{Sensor: id.Sensor, Metric: id.Metric, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// timesOf is what buckets hold of one series, in order of time.
func timesOf(buckets ...*reading.Bucket) []reading.Point {
	var points []reading.Point
	for _, r := range readingsOf(buckets...) {
		points = append(points, reading.Point{Time: r.Time, Value: r.Value})
	}
	return points
}

func testRawEmpty(t *testing.T, s *suite) {
	if e, err := s.query.RawExtent(t.Context()); e != (query.Extent{}) || err != nil {
		t.Errorf("an empty raw has %+v, error %v", e, err)
	}
	if _, more, err := s.query.NextSeries(t.Context(), reading.Series{}); more || err != nil {
		t.Errorf("an empty store has a series: %v, error %v", more, err)
	}
	s.raw(t)
	s.raw(t, bucketOf(series("empty", "x"), base))
	if points := s.rawOf(t, series("empty", "x")); len(points) > 0 {
		t.Errorf("raw has %v", points)
	}
}

func testRawWrite(t *testing.T, s *suite) {
	id := series("raw", "temperature")
	first := bucketOf(id, base, point{10_000, 26.4}, point{20_000, math.Copysign(0, -1)})
	s.raw(t, first, bucketOf(series("raw", "humidity"), base, point{10_000, 51}))
	s.raw(t, bucketOf(id, base, point{20_000, 99}, point{30_000, 26.5}, point{10_000, 26.4}), bucketOf(id, base+60_000, point{0, -1}))
	want := timesOf(bucketOf(id, base, point{10_000, 26.4}, point{20_000, 0}, point{30_000, 26.5}, point{60_000, -1}))
	if have := s.rawOf(t, id); !slices.Equal(have, want) {
		t.Errorf("raw has %v, want %v", have, want)
	}
	if e, err := s.query.RawExtent(t.Context()); err != nil || e != (query.Extent{Count: 5, First: base + 10_000, Last: base + 60_000}) {
		t.Errorf("raw has %+v, error %v", e, err)
	}
}

// testRawSink crashes, as it were, between buckets and raw: the first flush
// reaches the buckets alone.
func testRawSink(t *testing.T, s *suite) {
	id := series("kept", "temperature")
	s.write(t, bucketOf(id, base, point{10_000, 1}))
	keeper := sink.New(sink.Config{Latest: 3, Raw: true, Log: slog.New(slog.DiscardHandler)}, s.sink, prometheus.NewRegistry())
	refused, err := keeper.Write(t.Context(), []*reading.Bucket{
		bucketOf(id, base, point{10_000, 1}, point{20_000, 2}),
		bucketOf(id, base+60_000, point{0, 3}),
	})
	if err != nil || len(refused) != 1 {
		t.Fatalf("refused %v, error %v", refused, err)
	}
	if _, err := keeper.Write(t.Context(), []*reading.Bucket{bucketOf(id, base, point{20_000, 99})}); err != nil {
		t.Fatal(err)
	}
	want := timesOf(bucketOf(id, base, point{10_000, 1}, point{20_000, 2}, point{60_000, 3}))
	if have := s.rawOf(t, id); !slices.Equal(have, want) {
		t.Errorf("raw has %v, want %v", have, want)
	}
}

func testRawPages(t *testing.T, s *suite) {
	id := series("pages", "x")
	var buckets []*reading.Bucket
	for i := range int64(4) {
		buckets = append(buckets, bucketOf(id, base+i*60_000, point{30_000, float64(i)}, point{10_000, -float64(i)}, point{59_999, 0}))
	}
	s.raw(t, buckets...)
	want := timesOf(buckets...)
	for _, limit := range []int{1, 5, 12, 100} {
		var have []reading.Point
		q := reading.Query{Sensor: id.Sensor, Metric: id.Metric, Limit: limit}
		for {
			page, err := s.query.RawReadings(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, page...)
			if len(page) < limit {
				break
			}
			q.From = page[len(page)-1].Time + 1
		}
		if !slices.Equal(have, want) {
			t.Errorf("by %d: %v, want %v", limit, have, want)
		}
	}
	part, err := s.query.RawReadings(t.Context(), reading.Query{Sensor: id.Sensor, Metric: id.Metric, From: base + 30_000, To: base + 70_000, Limit: 10})
	if err != nil || !slices.Equal(part, want[1:3]) {
		t.Errorf("of a range: %v, want %v, error %v", part, want[1:3], err)
	}
	if _, err := s.query.RawReadings(t.Context(), reading.Query{Sensor: id.Sensor, Metric: id.Metric}); err == nil {
		t.Error("no limit was taken")
	}
	none, err := s.query.OverflowReadings(t.Context(), reading.Query{Sensor: id.Sensor, Metric: id.Metric, Limit: 10})
	if err != nil || len(none) > 0 {
		t.Errorf("overflow has %v, error %v", none, err)
	}
}

func testNextSeries(t *testing.T, s *suite) {
	want := []reading.Series{
		{Sensor: " ", Metric: "x"}, {Sensor: "A", Metric: "b"}, {Sensor: "A", Metric: "c"}, {Sensor: "A", Metric: "d"}, {Sensor: "A b", Metric: "a"}, {Sensor: "B", Metric: "b"}, {Sensor: "é", Metric: "a"},
	}
	for i, id := range want {
		if i%2 == 0 {
			s.raw(t, bucketOf(id, base, point{0, 1}))
		}
		if i%3 != 2 {
			s.write(t, bucketOf(id, base, point{0, 1}), bucketOf(id, base+60_000, point{0, 1}))
		} else if i%2 == 1 {
			s.raw(t, bucketOf(id, base, point{0, 1}, point{1, 1}))
		}
	}
	var have []reading.Series
	for last, more, err := s.query.NextSeries(t.Context(), reading.Series{}); more || err != nil; last, more, err = s.query.NextSeries(t.Context(), last) {
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, last)
	}
	if !slices.Equal(have, want) {
		t.Errorf("series %v, want %v", have, want)
	}
}

func testRecords(t *testing.T, s *suite) {
	id := series("records", "x")
	for i := range int64(5) {
		s.write(t, bucketOf(id, base+i*60_000, point{10_000, float64(i)}, point{0, 2}))
	}
	s.poison(t, reading.Key{Series: id, Start: base + 120_000})
	var have []reading.Record
	q := reading.Query{Sensor: id.Sensor, Metric: id.Metric, From: base + 1, To: base + 240_000, Limit: 2}
	for {
		page, err := s.query.Records(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, page...)
		if len(page) < q.Limit {
			break
		}
		q.From = page[1].Start + 1
	}
	if len(have) != 3 {
		t.Fatalf("%d buckets, want 3: %+v", len(have), have)
	}
	for i, r := range have {
		want := bucketOf(id, base+int64(i+1)*60_000, point{10_000, float64(i + 1)}, point{0, 2})
		if r.Key != want.Key() || !slices.Equal(r.Offsets, want.Offsets) || !slices.Equal(r.Values, want.Values) || r.Outlier {
			t.Errorf("bucket %d is %+v, want %v %v", i, r, want.Offsets, want.Values)
		}
		if r.Sound() != (i != 1) {
			t.Errorf("bucket %d: sound %t, sum %v", i, r.Sound(), r.Sum)
		}
	}
}

// testRawGroups compares the groups, whoever makes them, with buckets made by
// adding.
func testRawGroups(t *testing.T, s *suite) {
	var ids []reading.Series
	for i := range 3 {
		ids = append(ids, series(fmt.Sprintf("groups-%d", i), "x"), series(fmt.Sprintf("groups-%d", i), "y"))
	}
	want := map[reading.Span][]*reading.Bucket{}
	spans := []reading.Span{minute, 1000, 250, 3_600_000, 86_400_000}
	for _, id := range ids {
		var flush []*reading.Bucket
		for i := range int64(40) {
			at := base - 300_000 + i*i*977
			start := minute.Start(at)
			if n := len(flush); n == 0 || flush[n-1].Start != start {
				flush = append(flush, bucketOf(id, start))
			}
			flush[len(flush)-1].Add(at, float64(i*7919%101)/8-5)
		}
		s.raw(t, flush...)
		for _, span := range spans {
			for _, r := range readingsOf(flush...) {
				list := want[span]
				if n := len(list); n == 0 || list[n-1].Series != id || list[n-1].Start != span.Start(r.Time) {
					list = append(list, bucketOf(id, span.Start(r.Time)))
				}
				list[len(list)-1].Add(r.Time, r.Value)
				want[span] = list
			}
		}
	}
	for _, span := range spans {
		var have []reading.Summary
		if err := s.query.RawGroups(t.Context(), span, func(g reading.Summary) error {
			have = append(have, g)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(have) != len(want[span]) {
			t.Fatalf("%d groups of %v, want %d", len(have), span.Duration(), len(want[span]))
		}
		for i, b := range want[span] {
			wantSummary(t, have[i], b)
		}
	}
	stop := fmt.Errorf("enough")
	if err := s.query.RawGroups(t.Context(), minute, func(reading.Summary) error { return stop }); err != stop { //nolint:errorlint // it is that one
		t.Errorf("the error of yield came back as %v", err)
	}
}

func testFixBucket(t *testing.T, s *suite) {
	id := series("fix", "x")
	at := func(minutes int64, points ...point) *reading.Bucket {
		return bucketOf(id, base+minutes*60_000, points...)
	}
	b := at(0, point{0, 1}, point{10_000, 2})
	s.write(t, b, at(1, point{0, 3}), at(2, point{0, 4}))
	s.poison(t, b.Key())
	keys := []reading.Key{at(2).Key(), b.Key(), at(3).Key(), at(1).Key()}
	asked := map[int64]int{}
	fix := func(want map[int64]*reading.Bucket) {
		t.Helper()
		clear(asked)
		err := s.sink.FixBuckets(t.Context(), keys, func(have *reading.Record) *reading.Bucket {
			asked[have.Start]++
			if have.Start == base && len(want) == 3 && (have.Sound() || !slices.Equal(have.Offsets, b.Offsets) || !slices.Equal(have.Values, b.Values)) {
				t.Errorf("asked about %+v", have)
			}
			return want[have.Start]
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fix(map[int64]*reading.Bucket{base: at(0, point{0, 1}, point{20_000, 7}), base + 60_000: nil, base + 120_000: at(2)})
	if want := map[int64]int{base: 1, base + 60_000: 1, base + 120_000: 1}; !maps.Equal(asked, want) {
		t.Errorf("asked about %v, want %v", asked, want)
	}
	s.wantStored(t, at(0, point{0, 1}, point{20_000, 7}), at(1, point{0, 3}))
	s.write(t, at(0, point{30_000, 8}))
	fix(nil)
	if len(asked) != 2 {
		t.Errorf("asked about %v", asked)
	}
	s.wantStored(t, at(0, point{0, 1}, point{20_000, 7}, point{30_000, 8}), at(1, point{0, 3}))
}

// testFixContested has a reading come in between the look at a bucket and its
// replacement, where the store lets it.
func testFixContested(t *testing.T, s *suite) {
	id := series("contested", "x")
	s.write(t, bucketOf(id, base, point{0, 1}, point{1, 2}))
	asked := 0
	err := s.sink.FixBuckets(t.Context(), []reading.Key{{Series: id, Start: base}}, func(have *reading.Record) *reading.Bucket {
		if asked++; asked <= 2 {
			s.write(t, bucketOf(id, base, point{int32(10 + asked), 5}))
		}
		rest := &reading.Bucket{Series: id, Start: base}
		for i, off := range have.Offsets {
			if off != 0 {
				rest.Add(base+int64(off), have.Values[i])
			}
		}
		return rest
	})
	if err != nil || asked != 3 {
		t.Errorf("asked %d times, want 3; error %v", asked, err)
	}
	s.wantStored(t, bucketOf(id, base, point{1, 2}, point{11, 5}, point{12, 5}))
}

func (s *suite) check(t *testing.T, check query.RawCheck) query.RawReport {
	t.Helper()
	if check.Span == 0 {
		check.Span = minute
	}
	report, err := query.VerifyRaw(t.Context(), s.query, check)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
