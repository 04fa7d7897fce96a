package sink

import (
	"testing"

	"gudang/internal/reading"
)

const (
	outlierRow  = `SELECT count, sum, min, max, isOutlier, ifnull(offsets, '-'), ifnull("values", '-'), until - start FROM buckets WHERE sensorId = 'fast'`
	overflowRow = `SELECT count(*), min(time), max(time), sum(value), typeof(value) FROM overflow WHERE sensorId = 'fast'`
)

func TestSQLiteMakesAnOutlierOfAFastBucket(t *testing.T) {
	dir := t.TempDir()
	s := openTestSQLite(t, dir, SQLiteOutlier(10))
	write := func(first, n int) Result {
		t.Helper()
		res := s.WriteBuckets(t.Context(), []*reading.Bucket{testBucket("fast", first, n), testBucket("slow", first, 1)})
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return res
	}
	want := func(what, query, answered string) {
		t.Helper()
		if have := answer(t, other(t, dir), query); have != answered {
			t.Errorf("%s: %s\nhave %s\nwant %s", what, query, have, answered)
		}
	}
	write(0, 10)
	want("at the threshold", `SELECT count, isOutlier IS NULL, json_array_length(offsets) FROM buckets WHERE sensorId = 'fast'`, "10 1 10")
	if res := write(9, 3); res.Migrated != 1 || len(res.Outliers) != 1 || len(res.Refused) != 1 || res.Refused[0].Verdict != reading.Duplicate {
		t.Errorf("over it: %+v", res)
	}
	want("over it", outlierRow, "12 66.0 0.0 11.0 1 - - 60000")
	want("over it", overflowRow, "12 0 11 66.0 real")

	res := write(11, 4)
	if res.Migrated != 0 || len(res.Outliers) != 1 || len(res.Refused) != 1 || res.Refused[0].Verdict != reading.Duplicate {
		t.Errorf("the next flush: %+v", res)
	}
	conflict := &reading.Bucket{Series: testBucket("fast", 0, 1).Series}
	conflict.Add(3, 99)
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{conflict}); res.Err != nil || len(res.Refused) != 1 || res.Refused[0].Verdict != reading.Conflict {
		t.Errorf("another value: %+v", res)
	}
	want("in the end", outlierRow, "15 105.0 0.0 14.0 1 - - 60000")
	want("in the end", overflowRow, "15 0 14 105.0 real")
	want("the others", `SELECT count, isOutlier IS NULL FROM buckets WHERE sensorId = 'slow'`, "3 1")
}

// Buckets of an earlier time, when the threshold was higher, or whose readings
// a tool has put there.
func TestSQLiteSweepsBucketsAboveALoweredThreshold(t *testing.T) {
	dir := t.TempDir()
	before, err := OpenSQLite(dir, minute, SQLiteOutlier(1000))
	if err != nil {
		t.Fatal(err)
	}
	var flush []*reading.Bucket
	for n := range 30 {
		b := testBucket("fast", n*60_000, 5+n)
		b.Start = int64(n) * 60_000
		for i := range b.Offsets {
			b.Offsets[i] = int32(i)
		}
		flush = append(flush, b)
	}
	flush = append(flush, testBucket("damaged", 0, 50))
	if res := before.WriteBuckets(t.Context(), flush); res.Err != nil {
		t.Fatal(res.Err)
	}
	mustExec(t, other(t, dir), "UPDATE buckets SET offsets = '[0' WHERE sensorId = 'damaged'")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	s := openTestSQLite(t, dir, SQLiteOutlier(10))
	swept, err := s.Sweep(t.Context())
	if err != nil || swept.Migrated != 24 || len(swept.Outliers) != 24 {
		t.Fatalf("migrated %d, outliers %d, error %v; want 24", swept.Migrated, len(swept.Outliers), err)
	}
	if again, err := s.Sweep(t.Context()); err != nil || again.Migrated != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	for query, want := range map[string]string{
		`SELECT count(*), sum(count) FROM buckets WHERE isOutlier`:                                                                                  "24 540",
		`SELECT count(*) FROM overflow`:                                                                                                             "540",
		`SELECT count(*), max(count) FROM buckets WHERE isOutlier IS NULL AND sensorId = 'fast'`:                                                    "6 10",
		`SELECT isOutlier IS NULL, offsets FROM buckets WHERE sensorId = 'damaged'`:                                                                 "1 [0",
		`SELECT b.count - (SELECT count(*) FROM overflow o WHERE o.time >= b.start AND o.time < b.until) FROM buckets b WHERE isOutlier GROUP BY 1`: "0",
	} {
		if have := answer(t, other(t, dir), query); have != want {
			t.Errorf("%s\nhave %s\nwant %s", query, have, want)
		}
	}
}

// A file of the first version has neither the tables nor the index.
func TestSQLiteBringsAnOldFileUpToDate(t *testing.T) {
	dir := t.TempDir()
	db := other(t, dir)
	mustExec(t, db, migrations[0]+`; PRAGMA user_version = 1;
		INSERT INTO buckets (sensorId, metric, start, count, sum, min, max, offsets, "values") VALUES ('fast', 'temperature', 0, 2, 3.0, 1.0, 2.0, '[0,1]', '[1.0,2.0]');
		INSERT INTO sensors VALUES ('fast', 0, 1, '{"temperature":{"time":1,"value":2.0}}')`)
	s := openTestSQLite(t, dir, SQLiteOutlier(10))
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{testBucket("fast", 1, 20)}); res.Err != nil || len(res.Refused) != 1 || res.Migrated != 1 {
		t.Errorf("%+v", res)
	}
	if have := answer(t, db, "SELECT count, (SELECT count(*) FROM overflow) FROM buckets"); have != "21 21" {
		t.Errorf("stored %s", have)
	}
}
