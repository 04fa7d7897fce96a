package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

const minute = reading.Span(60_000)

func writeSQLite(t testing.TB, dir string, span reading.Span) *sink.SQLite {
	t.Helper()
	w, err := sink.OpenSQLite(dir, span)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func readSQLite(t testing.TB, dir string) *SQLite {
	t.Helper()
	r, err := OpenSQLite(dir, minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// bucket has readings at these times, with the times as their values.
func bucket(s reading.Series, span reading.Span, times ...int64) *reading.Bucket {
	b := &reading.Bucket{Series: s, Start: span.Start(times[0])}
	for _, at := range times {
		b.Add(at, float64(at))
	}
	return b
}

func write(t testing.TB, w *sink.SQLite, buckets ...*reading.Bucket) {
	t.Helper()
	if res := w.WriteBuckets(t.Context(), buckets); res.Err != nil || len(res.Refused) > 0 {
		t.Fatalf("error %v, %d refused", res.Err, len(res.Refused))
	}
}

func alter(t testing.TB, dir, text string) {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, sqliteName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func times(readings []reading.Reading) (out []int64) {
	for _, r := range readings {
		out = append(out, r.Time)
	}
	return out
}

func TestSQLiteBeforeAnythingIsWritten(t *testing.T) {
	ask := func(t *testing.T, r *SQLite) {
		t.Helper()
		q := reading.Query{Sensor: "S-01", Limit: 10}
		if have, err := r.Readings(t.Context(), q); err != nil || have != nil {
			t.Errorf("readings %v, error %v", have, err)
		}
		if have, err := r.Summaries(t.Context(), q); err != nil || have != nil {
			t.Errorf("summaries %v, error %v", have, err)
		}
		if have, err := r.Sensors(t.Context(), "", 10); err != nil || have != nil {
			t.Errorf("sensors %v, error %v", have, err)
		}
		if _, err := r.Sensor(t.Context(), "S-01"); !errors.Is(err, reading.ErrNotFound) {
			t.Errorf("sensor: error %v", err)
		}
		if err := r.SensorIDs(t.Context(), func(string) error { return errors.New("there is one") }); err != nil {
			t.Error(err)
		}
		if err := r.Scan(t.Context(), func(*Stored) error { return errors.New("there is one") }); err != nil {
			t.Error(err)
		}
		if err := r.Ping(t.Context()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("ping: error %v", err)
		}
	}
	t.Run("there is no directory", func(t *testing.T) {
		ask(t, readSQLite(t, filepath.Join(t.TempDir(), "none")))
	})
	t.Run("the file has no tables", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, sqliteName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ask(t, readSQLite(t, dir))
	})
	t.Run("it answers as soon as something is", func(t *testing.T) {
		dir := t.TempDir()
		r := readSQLite(t, dir)
		ask(t, r)
		s := reading.Series{Sensor: "S-01", Metric: "temperature"}
		write(t, writeSQLite(t, dir, minute), bucket(s, minute, 1000))
		have, err := r.Readings(t.Context(), reading.Query{Sensor: "S-01", Limit: 10})
		if err != nil || !slices.Equal(times(have), []int64{1000}) {
			t.Errorf("readings %v, error %v", have, err)
		}
	})
}

func TestSQLiteReadsAStoreThatNobodyWrites(t *testing.T) {
	dir := t.TempDir()
	w, err := sink.OpenSQLite(dir, minute)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, bucket(reading.Series{Sensor: "S-01", Metric: "x"}, minute, 1000))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := OpenSQLite(dir, minute)
		if err != nil {
			t.Fatal(err)
		}
		have, err := r.Readings(t.Context(), reading.Query{Sensor: "S-01", Limit: 10})
		if err != nil || len(have) != 1 {
			t.Errorf("readings %v, error %v", have, err)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if _, err := r.Sensors(t.Context(), "", 1); err == nil {
			t.Error("a closed store answers")
		}
	}
	writeSQLite(t, dir, minute) // no reader left anything behind that keeps the writer out
}

func TestSQLiteRefusesFilesItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	writeSQLite(t, dir, minute)
	alter(t, dir, "PRAGMA user_version = 99")
	if _, err := OpenSQLite(dir, minute); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("error %v", err)
	}
}

func TestSQLiteSees(t *testing.T) {
	dir := t.TempDir()
	w, r := writeSQLite(t, dir, minute), readSQLite(t, dir)
	write(t, w, bucket(reading.Series{Sensor: "a", Metric: "x"}, minute, 1000), bucket(reading.Series{Sensor: "b", Metric: "x"}, minute, 2000))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Readings(ctx, reading.Query{Sensor: "a", Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := r.Readings(t.Context(), reading.Query{Sensor: "a"}); !errors.Is(err, errNoLimit) {
		t.Errorf("without a limit: %v", err)
	}
	stop := errors.New("stop")
	if err := r.Scan(t.Context(), func(*Stored) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of yield gives %v", err)
	}
	nested := 0
	err := r.Scan(t.Context(), func(b *Stored) error { // a scan may ask for more
		have, err := r.Readings(t.Context(), reading.Query{Sensor: b.Sensor, Limit: 1})
		nested += len(have)
		return err
	})
	if err != nil || nested != 2 {
		t.Errorf("queries within a scan: %d readings, error %v", nested, err)
	}
}

func TestSQLiteScanSeesEveryChunk(t *testing.T) {
	dir := t.TempDir()
	w, r := writeSQLite(t, dir, minute), readSQLite(t, dir)
	stored := 0
	for _, want := range []int{scanChunk, scanChunk + 1} { // an end at the edge of a chunk, then behind it
		var flush []*reading.Bucket
		for ; stored < want; stored++ {
			flush = append(flush, bucket(reading.Series{Sensor: fmt.Sprint(stored), Metric: "x"}, minute, 1000))
		}
		write(t, w, flush...)
		seen := 0
		if err := r.Scan(t.Context(), func(*Stored) error { seen++; return nil }); err != nil {
			t.Fatal(err)
		}
		if seen != want {
			t.Errorf("%d buckets are seen, want %d", seen, want)
		}
	}
}

func TestSQLiteDamagedBucketsAreNamed(t *testing.T) {
	dir := t.TempDir()
	w, r := writeSQLite(t, dir, minute), readSQLite(t, dir)
	s := reading.Series{Sensor: "S-01", Metric: "x"}
	write(t, w, bucket(s, minute, 1000, 2000), bucket(s, minute, 61_000))
	alter(t, dir, `UPDATE buckets SET sum = 'none', offsets = '[1000,' WHERE start = 0`)
	for name, ask := range map[string]func(q reading.Query) error{
		"readings":  func(q reading.Query) error { _, err := r.Readings(t.Context(), q); return err },
		"summaries": func(q reading.Query) error { _, err := r.Summaries(t.Context(), q); return err },
	} {
		if err := ask(reading.Query{Sensor: "S-01", Limit: 10}); err == nil || !strings.Contains(err.Error(), "1970-01-01T00:00:00Z is damaged") {
			t.Errorf("%s: error %v", name, err)
		}
		if err := ask(reading.Query{Sensor: "S-01", From: 60_000, Limit: 10}); err != nil {
			t.Errorf("%s beside the damage: error %v", name, err)
		}
	}
	var seen []Stored
	err := r.Scan(t.Context(), func(b *Stored) error { seen = append(seen, *b); return nil })
	if err != nil || len(seen) != 2 || len(seen[0].Offsets)+len(seen[0].Values) != 0 || seen[0].Sum == seen[0].Sum || seen[0].Count != 2 {
		t.Errorf("a scan sees %+v, error %v", seen, err)
	}
}

// After BUCKET_SPAN was changed, buckets of two lengths overlap. Readings must
// come in order all the same, and one that was sent again only once.
func TestSQLiteBucketsOfTwoSpans(t *testing.T) {
	const hour = reading.Span(3_600_000)
	dir := t.TempDir()
	s := reading.Series{Sensor: "S-01", Metric: "x"}
	w, err := sink.OpenSQLite(dir, hour)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, bucket(s, hour, 3_599_999, 5_000, 90_000, 400_000, 120_000))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, r := writeSQLite(t, dir, minute), readSQLite(t, dir)
	write(t, w, bucket(s, minute, 0), bucket(s, minute, 91_000, 60_001), bucket(s, minute, 120_000), bucket(s, minute, 600_000), bucket(s, minute, 3_600_000))
	want := []int64{0, 5_000, 60_001, 90_000, 91_000, 120_000, 400_000, 600_000, 3_599_999, 3_600_000}
	for limit := 1; limit <= len(want)+1; limit++ {
		q := reading.Query{Sensor: "S-01", Limit: limit}
		var have []int64
		for {
			page, err := r.Readings(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, times(page)...)
			if len(page) < limit || len(have) > len(want) {
				break
			}
			q.After = reading.Cursor{Time: page[len(page)-1].Time, Metric: "x"}
		}
		if !slices.Equal(have, want) {
			t.Errorf("in pages of %d: %v, want %v", limit, have, want)
		}
	}
	have, err := r.Readings(t.Context(), reading.Query{Sensor: "S-01", From: 3_599_000, To: 3_600_000, Limit: 9})
	if err != nil || !slices.Equal(times(have), []int64{3_599_999}) {
		t.Errorf("the end of the hour's bucket: %v, error %v", have, err)
	}
}

// A page must cost what it holds, not what the store holds.
func TestSQLiteReadsNoMoreThanThePage(t *testing.T) {
	dir := t.TempDir()
	w := writeSQLite(t, dir, minute)
	var flush []*reading.Bucket
	for _, metric := range []string{"x", "y"} {
		for i := range int64(1000) {
			at := i * 60_000
			flush = append(flush, bucket(reading.Series{Sensor: "S-01", Metric: metric}, minute, at, at+1, at+2, at+3, at+4, at+5))
		}
	}
	write(t, w, flush...)
	// All but the first buckets are made unreadable: whoever reads one fails.
	alter(t, dir, `UPDATE buckets SET offsets = 'x' WHERE start >= 5 * 60000 OR start < 3 * 60000`)
	q := reading.Query{Sensor: "S-01", From: 3 * 60_000, Limit: 12}
	have, err := readSQLite(t, dir).Readings(t.Context(), q)
	if err != nil || len(have) != 12 {
		t.Errorf("%d readings, error %v", len(have), err)
	}
}

func TestSQLiteQueriesUseAnIndex(t *testing.T) {
	dir := t.TempDir()
	writeSQLite(t, dir, minute)
	db, err := sqlite3.Open(filepath.Join(dir, sqliteName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]string{
		selectNextMetric:  "SEARCH buckets USING COVERING INDEX buckets_series (sensorId=? AND metric>?)",
		selectArrays:      "SEARCH buckets USING INDEX buckets_series (sensorId=? AND metric=? AND start>? AND start<?)",
		selectSummaries:   "SEARCH buckets USING INDEX buckets_series (sensorId=? AND metric=? AND start>? AND start<?)",
		selectBuckets:     "SEARCH buckets USING INTEGER PRIMARY KEY (rowid>?)",
		selectSensor:      "SEARCH sensors USING INDEX sqlite_autoindex_sensors_1 (_id=?)",
		selectSensors:     "SEARCH sensors USING INDEX sqlite_autoindex_sensors_1 (_id>?)",
		selectSensorIDs:   "SEARCH sensors USING COVERING INDEX sqlite_autoindex_sensors_1 (_id>?)",
		selectNextSensor:  "SEARCH buckets USING COVERING INDEX buckets_series (sensorId>?)",
		selectLastArrays:  "SEARCH buckets USING INDEX buckets_series (sensorId=? AND metric=?)",
		selectFirstArrays: "SEARCH buckets USING INDEX buckets_series (sensorId=? AND metric=?)",
		selectLastSpill:   "SEARCH overflow USING PRIMARY KEY (sensorId=? AND metric=? AND time>? AND time<?)",
		selectFirstSpill:  "SEARCH overflow USING PRIMARY KEY (sensorId=? AND metric=? AND time>? AND time<?)",
		selectLargestSpan: "SEARCH meta USING INDEX sqlite_autoindex_meta_1 (_id=?)",
	} {
		st, _, err := db.Prepare("EXPLAIN QUERY PLAN " + query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var plan []string
		for st.Step() {
			plan = append(plan, st.ColumnText(3))
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if have := strings.Join(plan, "; "); have != want {
			t.Errorf("%s\nhave plan %s\nwant plan %s", query, have, want)
		}
	}
}

func FuzzReadArrays(f *testing.F) {
	dir := f.TempDir()
	db, err := sqlite3.Open(filepath.Join(dir, "fuzz.db"))
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	st, _, err := db.Prepare("SELECT ?, ?")
	if err != nil {
		f.Fatal(err)
	}
	defer st.Close()
	for _, seed := range [][2]string{{"[]", "[]"}, {"[1]", "[1.5]"}, {"[1,2]", "[1.0, -2e-7]"}, {"[1", "[1]"}, {"[1]", "[NaN]"}, {"", ""}, {"[1,]", "[1,]"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, offsets, values string) {
		if err := errors.Join(st.BindText(1, offsets), st.BindText(2, values)); err != nil {
			t.Skip(err)
		}
		defer st.Reset()
		if !st.Step() {
			t.Fatal(st.Err())
		}
		o, v, err := readArrays(st, 0, nil, nil)
		if len(o) != len(v) || err != nil && len(o) > 0 {
			t.Errorf("%d offsets, %d values, error %v", len(o), len(v), err)
		}
		if err == nil && strings.Count(offsets, ",")+1 < len(o) {
			t.Errorf("%d offsets of %q", len(o), offsets)
		}
	})
}
