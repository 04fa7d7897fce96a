package contract

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
)

// minute is the span that every harness opens its stores with.
const minute = reading.Span(60_000)

// harness is one kind of store under test.
type harness struct {
	// open opens the database for writing and for reading, with the span
	// minute, and has both closed when t ends. Each call within one run opens
	// the same database, which is empty at the first call.
	open func(t *testing.T) (sink.Store, query.Store)
	// twoWriters says that two sink.Stores may be open on the database at
	// once and must not lose each other's updates.
	twoWriters bool
	// poison damages the stored bucket so that the store will never take
	// another write to it, whatever is written.
	poison func(t *testing.T, k reading.Key)
	// spill makes the bucket an outlier whose readings at these times (ms after
	// base, with the values of sensorOf) are in overflow; moved says that its
	// arrays are gone.
	spill func(t *testing.T, k reading.Key, moved bool, times ...int64)
	// wipe empties the database.
	wipe func(t *testing.T)
	// rivals says that a write may come in while FixBucket looks at a bucket.
	rivals bool
}

// suite is a harness with its stores open.
type suite struct {
	harness
	sink  sink.Store
	query query.Store
}

// cases share one database: each uses sensors that no other does.
var cases = []struct {
	name       string
	test       func(t *testing.T, s *suite)
	twoWriters bool // needs a store that can have two
}{
	{name: "a new bucket is stored as it was given", test: testNewBucket},
	{name: "the worked example gives its two buckets", test: testWorkedExample},
	{name: "later readings are merged into the bucket", test: testMerge},
	{name: "a duplicate reading changes nothing", test: testDuplicate},
	{name: "a partly duplicate flush stores the rest", test: testPartlyDuplicate},
	{name: "the same flush twice changes nothing", test: testSameFlushTwice},
	{name: "of two values for one time the first stays", test: testConflict},
	{name: "a late reading goes into its old bucket", test: testLate},
	{name: "offsets stay in order of arrival", test: testArrivalOrder},
	{name: "both orders of writing give the same summary", test: testBothOrders},
	{name: "the edges of a span belong to the right buckets", test: testEdges},
	{name: "two writers of one bucket lose nothing", test: testTwoWriters, twoWriters: true},
	{name: "negative zero is stored as zero", test: testNegativeZero},
	{name: "extreme values come back bit for bit", test: testExtremeValues},
	{name: "integers and fractions are all doubles", test: testIntegerThenFraction},
	{name: "odd sensor ids stay apart", test: testOddIDs},
	{name: "a large bucket keeps every reading", test: testLargeBucket},
	{name: "several metrics of a sensor are kept apart", test: testSeveralMetrics},
	{name: "a damaged bucket costs only itself", test: testPoison},
	{name: "an empty flush is no error", test: testEmptyFlush},
	{name: "rejected readings are taken", test: testReject},
	{name: "pages of readings give each once and in order", test: testReadingsPages},
	{name: "readings are cut to the range", test: testReadingsRange},
	{name: "stretches of readings are those of the list", test: testStretches},
	{name: "pages of summaries give each once and in order", test: testSummariesPages},
	{name: "an unknown sensor has no readings", test: testUnknownSensor},
	{name: "sensors are created, and merged where they are already", test: testSensorsCreated},
	{name: "sensors are listed in pages", test: testSensorsPages},
	{name: "a sensor keeps its newest points", test: testSensorsMerge},
	{name: "a late point does not displace a newer one", test: testSensorsLate},
	{name: "keeping no list keeps the newest point", test: testSensorsKeepNone},
	{name: "every sensor id is yielded", test: testSensorIDs},
	{name: "random flushes end as the model says", test: testRandom},
	{name: "both stores answer a ping", test: testPing},
	{name: "a flush above the threshold makes an outlier", test: testOutlierAtOnce},
	{name: "a growing bucket becomes an outlier", test: testOutlierGrowing},
	{name: "an outlier refuses what it has", test: testOutlierRefuses},
	{name: "pages of an outlier's readings give each once and in order", test: testOutlierPages},
	{name: "several writers of an outlier lose nothing", test: testOutlierWriters, twoWriters: true},
}

// run runs every case over one kind of store.
func run(t *testing.T, h harness) {
	s := &suite{harness: h}
	s.sink, s.query = h.open(t)
	for _, c := range cases {
		if c.twoWriters && !h.twoWriters {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
	runRefresh(t, s)
	for _, c := range storageCases {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
	runRaw(t, s)
}

// outlierReadings is the threshold that every harness opens its stores with.
const outlierReadings = 360

// base is 09:05 of the worked example.
var base = time.Date(2026, 12, 6, 9, 5, 0, 0, time.UTC).UnixMilli()

func series(sensor, metric string) reading.Series {
	return reading.Series{Sensor: sensor, Metric: metric}
}

// point is a reading within a bucket.
type point struct {
	off   int32
	value float64
}

// bucketOf makes a bucket in the way that the bucketer does, by adding.
func bucketOf(s reading.Series, start int64, points ...point) *reading.Bucket {
	b := &reading.Bucket{Series: s, Start: start}
	for _, p := range points {
		b.Add(start+int64(p.off), p.value)
	}
	return b
}

// write writes the buckets and fails if any is to be written again.
func (s *suite) write(t *testing.T, buckets ...*reading.Bucket) sink.Result {
	t.Helper()
	return writeTo(t, s.sink, buckets...)
}

func writeTo(t *testing.T, to sink.Store, buckets ...*reading.Bucket) sink.Result {
	t.Helper()
	counts := make(map[*reading.Bucket]int, len(buckets))
	for _, b := range buckets {
		counts[b] = b.Count()
	}
	res := to.WriteBuckets(t.Context(), buckets)
	if res.Err != nil || len(res.Again) > 0 {
		t.Fatalf("WriteBuckets: %d to write again, error %v", len(res.Again), res.Err)
	}
	for b, n := range counts {
		if b.Count() != n {
			t.Errorf("WriteBuckets changed the bucket %v", b.Key())
		}
	}
	for _, r := range res.Refused {
		if _, given := counts[r.Bucket]; !given {
			t.Errorf("refused a bucket that was not given: %v", r.Bucket.Key())
		} else if r.Bucket.Find(r.Offset) < 0 {
			t.Errorf("refused offset %d, which the bucket %v does not have", r.Offset, r.Bucket.Key())
		}
	}
	return res
}

// refused is a refusal in a form that can be compared.
type refused struct {
	key     reading.Key
	off     int32
	verdict reading.Verdict
}

// wantRefused checks which readings were refused, in any order.
func wantRefused(t *testing.T, res sink.Result, want ...refused) {
	t.Helper()
	var have []refused
	for _, r := range res.Refused {
		have = append(have, refused{r.Bucket.Key(), r.Offset, r.Verdict})
		if (r.Verdict == reading.Added) != (r.Reason != "") {
			t.Errorf("refusal of %v +%d: verdict %d with reason %q", r.Bucket.Key(), r.Offset, r.Verdict, r.Reason)
		}
	}
	order := func(a, b refused) int {
		if c := a.key.Compare(b.key); c != 0 {
			return c
		}
		return int(a.off) - int(b.off)
	}
	slices.SortFunc(have, order)
	slices.SortFunc(want, order)
	if !slices.Equal(have, want) {
		t.Errorf("refused %v, want %v", have, want)
	}
}

// scan is every stored bucket of the sensors for which want says so.
func (s *suite) scan(t *testing.T, want func(sensor string) bool) map[reading.Key]*query.Stored {
	t.Helper()
	found := make(map[reading.Key]*query.Stored)
	err := s.query.Scan(t.Context(), func(b *query.Stored) error {
		if !want(b.Sensor) {
			return nil
		}
		if have := found[b.Key]; have != nil && have.More {
			have.Offsets, have.Values = append(have.Offsets, b.Offsets...), append(have.Values, b.Values...)
			have.More = b.More
			return nil
		}
		c := *b
		c.Offsets, c.Values = slices.Clone(b.Offsets), slices.Clone(b.Values)
		if found[c.Key] != nil {
			t.Errorf("two stored buckets have the key %v", c.Key)
		}
		found[c.Key] = &c
		return nil
	})
	if err != nil {
		t.Fatalf("Scan: %v", err)
	}
	return found
}

// wantStored checks that exactly these buckets are stored for their sensors,
// as Scan sees them, and that Readings and Summaries say the same.
func (s *suite) wantStored(t *testing.T, want ...*reading.Bucket) {
	t.Helper()
	sensors := make(map[string][]*reading.Bucket)
	for _, b := range want {
		sensors[b.Sensor] = append(sensors[b.Sensor], b)
	}
	found := s.scan(t, func(id string) bool { return sensors[id] != nil })
	if len(found) != len(want) {
		t.Errorf("%d buckets are stored, want %d", len(found), len(want))
	}
	for _, b := range want {
		if have := found[b.Key()]; have == nil {
			t.Errorf("bucket %v is not stored", b.Key())
		} else {
			wantSame(t, have, b)
		}
	}
	for id, buckets := range sensors {
		s.wantAnswers(t, id, buckets)
	}
}

// wantSame compares a stored bucket with what it should be. Arrays are
// compared as sets, as two writers may come in either order.
func wantSame(t *testing.T, have *query.Stored, want *reading.Bucket) {
	t.Helper()
	if have.ID != want.ID(want.Start) {
		t.Errorf("bucket %v: id %x, want %x", want.Key(), have.ID, want.ID(want.Start))
	}
	if len(have.Offsets) != len(have.Values) {
		t.Fatalf("bucket %v: %d offsets and %d values", want.Key(), len(have.Offsets), len(have.Values))
	}
	values := make(map[int32]float64, len(have.Offsets))
	for i, off := range have.Offsets {
		values[off] = have.Values[i]
	}
	if len(values) != len(have.Offsets) {
		t.Errorf("bucket %v has an offset twice: %v", want.Key(), have.Offsets)
	}
	wanted := make(map[int32]float64, want.Count())
	for i, off := range want.Offsets {
		wanted[off] = want.Values[i]
	}
	if !maps.EqualFunc(values, wanted, sameBits) {
		t.Errorf("bucket %v: has %v %v, want %v %v", want.Key(), have.Offsets, have.Values, want.Offsets, want.Values)
	}
	wantSummary(t, have.Summary, want)
}

// wantSummary compares a summary with that of the readings. The sum may differ
// in its last bits, which depend on the order of adding.
func wantSummary(t *testing.T, have reading.Summary, want *reading.Bucket) {
	t.Helper()
	var sum, size float64
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range want.Values {
		sum += v
		size += math.Abs(v)
		least, most = min(least, v), max(most, v)
	}
	if have.Key != want.Key() || have.Count != int64(want.Count()) || !sameBits(have.Min, least) || !sameBits(have.Max, most) || have.Outlier != (want.Count() > outlierReadings) {
		t.Errorf("summary %+v, want %v count %d min %v max %v", have, want.Key(), want.Count(), least, most)
	}
	if math.Abs(have.Sum-sum) > 1e-13*size || math.IsNaN(have.Sum) {
		t.Errorf("bucket %v: sum %v, want %v", want.Key(), have.Sum, sum)
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// wantAnswers checks the answers about a sensor that has just these buckets.
func (s *suite) wantAnswers(t *testing.T, sensor string, buckets []*reading.Bucket) {
	t.Helper()
	want := readingsOf(buckets...)
	have, err := s.query.Readings(t.Context(), reading.Query{Sensor: sensor, Limit: len(want) + 1})
	if err != nil {
		t.Fatalf("Readings of %q: %v", sensor, err)
	}
	if !slices.Equal(have, want) {
		t.Errorf("readings of %q: %v, want %v", sensor, have, want)
	}
	summaries, err := s.query.Summaries(t.Context(), reading.Query{Sensor: sensor, Limit: len(buckets) + 1})
	if err != nil {
		t.Fatalf("Summaries of %q: %v", sensor, err)
	}
	if len(summaries) != len(buckets) {
		t.Fatalf("%d summaries of %q, want %d", len(summaries), sensor, len(buckets))
	}
	slices.SortFunc(buckets, func(a, b *reading.Bucket) int { return a.Key().Compare(b.Key()) })
	for i, b := range buckets {
		wantSummary(t, summaries[i], b)
	}
}

// readingsOf is what the buckets hold, in the order of a query.
func readingsOf(buckets ...*reading.Bucket) []reading.Reading {
	var all []reading.Reading
	for _, b := range buckets {
		for i, off := range b.Offsets {
			all = append(all, reading.Reading{Series: b.Series, Time: b.Start + int64(off), Value: b.Values[i]})
		}
	}
	return reading.Query{}.Page(all)
}

func testPing(t *testing.T, s *suite) {
	if err := errors.Join(s.sink.Ping(t.Context()), s.query.Ping(t.Context())); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if s.query.Ping(gone) == nil {
		t.Error("a ping whose context has ended succeeded")
	}
}
