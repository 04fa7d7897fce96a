package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
	"gudang/internal/upkeep"
)

const (
	hour = reading.Span(3_600_000)
	day  = reading.Span(86_400_000)
)

// dawn is where the upkeep cases begin: far enough behind the clock of the
// machine that every reading written by a sink counts as late.
var dawn = time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC).UnixMilli()

// upkeepCases have a database of their own each, as their tasks go through all
// of it.
var upkeepCases = []struct {
	name       string
	test       func(t *testing.T, s *suite)
	twoWriters bool
}{
	{name: "a roll-up is the sum of its buckets", test: testRollupIsTheSum},
	{name: "roll-ups are answered without a hole", test: testRollupsWithoutHole},
	{name: "roll-ups are answered in pages", test: testRollupsPages},
	{name: "a window is not rolled up before it is due", test: testRollupsNotBeforeDue},
	{name: "a reading in time before the earliest window counts", test: testRollupsBeginEarlyEnough},
	{name: "a gap of years costs no step for each window", test: testRollupsGap},
	{name: "a late reading corrects its roll-ups", test: testRollupsLate},
	{name: "a late reading before all that was rolled up counts", test: testRollupsLateBeforeBegin},
	{name: "a reading that comes while its mark is worked off counts", test: testRollupsLateMeanwhile},
	{name: "a crash at any step changes no roll-up", test: testRollupsCrash},
	{name: "two instances keep the same roll-ups", test: testRollupsTwoInstances, twoWriters: true},
	{name: "another instance may come in between at every step", test: testRollupsInBetween},
	{name: "a span that was turned off begins anew", test: testRollupsOffAndOn},
	{name: "what is half deleted is not rolled up", test: testRollupsBeginWhole},
	{name: "retention deletes exactly what is older", test: testRetentionExact},
	{name: "retention goes on after a crash at any step", test: testRetentionCrash},
	{name: "roll-ups outlive their buckets", test: testRollupsOutliveBuckets},
	{name: "outliers are rolled up and deleted like others", test: testUpkeepOutlier},
	{name: "who deletes is told", test: testWhoDeletes},
	{name: "a sensor goes when nothing of it is left", test: testRetentionSensors},
}

func runUpkeep(t *testing.T, twoWriters bool, fresh func(t *testing.T) harness) {
	for _, c := range upkeepCases {
		if c.twoWriters && !twoWriters {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &suite{harness: fresh(t)}
			s.sink, s.query = s.open(t)
			c.test(t, s)
		})
	}
}

func TestUpkeepSQLite(t *testing.T) {
	t.Parallel()
	runUpkeep(t, true, func(t *testing.T) harness {
		dir := t.TempDir()
		first := true
		return harness{open: func(t *testing.T) (sink.Store, query.Store) {
			if first {
				first = false
				return openSQLite(t, dir)
			}
			w, err := sink.OpenSQLite(dir, minute, sink.SQLiteBeside())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			return w, openSQLiteReader(t, dir)
		}}
	})
}

func TestUpkeepFerretDB(t *testing.T) {
	t.Parallel()
	uri := testenv.FerretDB(t).URI
	n := 0
	runUpkeep(t, false, func(*testing.T) harness {
		n++
		return mongoHarness(uri, fmt.Sprintf("upkeep_%d", n), false, sink.MongoWriters(1), sink.MongoBatch(1))
	})
}

func TestUpkeepMongoDB(t *testing.T) {
	uri := os.Getenv("TEST_MONGODB_URI")
	if uri == "" {
		t.Log("TEST_MONGODB_URI is not set: FerretDB stands in for MongoDB")
		return
	}
	runUpkeep(t, true, func(t *testing.T) harness {
		database := fmt.Sprintf("gudang_test_%d", time.Now().UnixNano())
		t.Cleanup(func() { connect(t, uri).Database(database).Drop(context.Background()) })
		return mongoHarness(uri, database, true)
	})
}

// clock is a time that tests set.
type clock struct{ now time.Time }

func (c *clock) at(ms int64) *clock { c.now = time.UnixMilli(ms); return c }

func (c *clock) clock() upkeep.Clock {
	return upkeep.Clock{Now: func() time.Time { return c.now }, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// faulty is a store of which one call fails: the one with the given number,
// before or after it has done what it was asked for.
type faulty struct {
	sink.Store
	fails int // this call; 0: none
	late  bool
	calls int
	// before, if set, is called ahead of each call.
	before func(call string)
}

var errFault = errors.New("a fault")

func (f *faulty) step(call string, do func() error) error {
	f.calls++
	if f.before != nil {
		f.before(call)
	}
	if f.calls == f.fails && !f.late {
		return errFault
	}
	err := do()
	if err == nil && f.calls == f.fails {
		return errFault
	}
	return err
}

func (f *faulty) RollUp(ctx context.Context, w reading.Window, rest sink.Rest) (n int, err error) {
	err = f.step("RollUp", func() (err error) { n, err = f.Store.RollUp(ctx, w, rest); return err })
	return n, err
}

func (f *faulty) RollUpSeries(ctx context.Context, w reading.Window, series []reading.Series) (n int, lag []reading.Series, err error) {
	err = f.step("RollUpSeries", func() (err error) { n, lag, err = f.Store.RollUpSeries(ctx, w, series); return err })
	return n, lag, err
}

func (f *faulty) Begin(ctx context.Context, span reading.Span, p reading.Progress) error {
	return f.step("Begin", func() error { return f.Store.Begin(ctx, span, p) })
}

func (f *faulty) Advance(ctx context.Context, span reading.Span, until int64) error {
	return f.step("Advance", func() error { return f.Store.Advance(ctx, span, until) })
}

func (f *faulty) Unmark(ctx context.Context, marks []reading.Mark) error {
	return f.step("Unmark", func() error { return f.Store.Unmark(ctx, marks) })
}

func (f *faulty) DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest sink.Rest) error {
	return f.Store.DeleteBefore(ctx, kind, before, func(ctx context.Context, n int) error {
		return f.step("rest", func() error { return rest(ctx, n) })
	})
}

func (f *faulty) DeleteSensors(ctx context.Context, ids []string, before int64) (gone []string, err error) {
	err = f.step("DeleteSensors", func() (err error) { gone, err = f.Store.DeleteSensors(ctx, ids, before); return err })
	return gone, err
}

func rollupsOf(store upkeep.Roller, c *clock, cfg upkeep.RollupsConfig) *upkeep.Rollups {
	cfg.Clock, cfg.Log = c.clock(), slog.New(slog.DiscardHandler)
	if cfg.Spans == nil {
		cfg.Spans = []reading.Span{hour, day}
	}
	return upkeep.NewRollups(cfg, store, prometheus.NewRegistry())
}

// rollUp makes passes until nothing is left to do.
func rollUp(t *testing.T, r *upkeep.Rollups) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = r.Pass(t.Context()); err != nil {
			t.Fatalf("Pass: %v", err)
		}
	}
}

// settle has the marks be quiet for long enough, and worked off.
func settle(t *testing.T, r *upkeep.Rollups, c *clock) {
	t.Helper()
	rollUp(t, r)
	c.now = c.now.Add(reading.QuietFor)
	rollUp(t, r)
}

// late writes as the service does, by which readings of long ago are late.
func (s *suite) late(t *testing.T, buckets ...*reading.Bucket) {
	t.Helper()
	if refused := s.mark(t, buckets...); len(refused) > 0 {
		t.Fatalf("%d readings are refused", len(refused))
	}
}

func (s *suite) mark(t *testing.T, buckets ...*reading.Bucket) []reading.Refusal {
	t.Helper()
	to := sink.New(sink.Config{Rollups: []reading.Span{hour, day}, Log: slog.New(slog.DiscardHandler)}, s.sink, prometheus.NewRegistry())
	refused, err := to.Write(t.Context(), buckets)
	if err != nil {
		t.Fatal(err)
	}
	return refused
}

// history is buckets of two metrics for some hours: every hour, and every
// third one another in between.
func history(sensor string, from int64, hours int) []*reading.Bucket {
	var all []*reading.Bucket
	for i := range int64(hours) {
		for j, metric := range []string{"humidity", "temperature"} {
			start, value := from+i*int64(hour), float64((i*7+int64(j)*5)%11)-3.25
			all = append(all, bucketOf(series(sensor, metric), start, point{1000, value}, point{31_000, value + float64(i%3)}))
			if i%3 == int64(j) {
				all = append(all, bucketOf(series(sensor, metric), start+59*60_000, point{59_999, -value}))
			}
		}
	}
	return all
}

// sums is what the roll-ups of the buckets should be.
func sums(span reading.Span, buckets ...*reading.Bucket) map[reading.Key]reading.Summary {
	want := map[reading.Key]reading.Summary{}
	for _, b := range buckets {
		k := reading.Key{Series: b.Series, Start: span.Start(b.Start)}
		s := want[k]
		s.Key = k
		s.Merge(reading.Summary{Count: int64(b.Count()), Sum: b.Sum, Min: b.Min, Max: b.Max})
		want[k] = s
	}
	return want
}

// wantRollups checks the answer about a sensor.
func (s *suite) wantRollups(t *testing.T, sensor string, span reading.Span, want map[reading.Key]reading.Summary) {
	t.Helper()
	have, err := s.query.Rollups(t.Context(), reading.Query{Sensor: sensor, Limit: 10_000}, span)
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(want) {
		t.Errorf("%s: %d roll-ups, want %d", span, len(have), len(want))
	}
	for i, r := range have {
		if !r.Same(want[r.Key]) {
			t.Errorf("%s: %+v, want %+v", span, r, want[r.Key])
		}
		if i > 0 && have[i-1].Compare(r.Key) >= 0 {
			t.Errorf("%s: %v comes after %v", span, r.Key, have[i-1].Key)
		}
	}
}
