package contract

import (
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
)

func TestSQLite(t *testing.T) {
	dir := t.TempDir()
	run(t, harness{
		open: func(t *testing.T) (sink.Store, query.Store) { return openSQLite(t, dir) },
		poison: func(t *testing.T, k reading.Key) {
			alter(t, dir, `UPDATE buckets SET sum = 'none' WHERE sensorId = ? AND metric = ? AND start = ?`, k)
		},
		spill: func(t *testing.T, k reading.Key, moved bool, times ...int64) { spillSQLite(t, dir, k, moved, times) },
		wipe: func(t *testing.T) {
			db, err := sqlite3.Open(filepath.Join(dir, "gudang.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Exec("DELETE FROM buckets; DELETE FROM raw; DELETE FROM overflow; DELETE FROM sensors"); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func openSQLite(t testing.TB, dir string) (*sink.SQLite, *query.SQLite) {
	t.Helper()
	w, err := sink.OpenSQLite(dir, minute, sink.SQLiteOutlier(outlierReadings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, openSQLiteReader(t, dir)
}

func openSQLiteReader(t testing.TB, dir string) *query.SQLite {
	t.Helper()
	r, err := query.OpenSQLite(dir, minute)
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

// alter does to the file what someone with a tool could: it changes the row of
// the bucket.
func alter(t testing.TB, dir, statement string, k reading.Key) {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, "gudang.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	st, _, err := db.Prepare(statement)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i, err := range []error{st.BindText(1, k.Sensor), st.BindText(2, k.Metric), st.BindInt64(3, k.Start), st.Exec()} {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if db.Changes() != 1 {
		t.Fatalf("%d rows changed, want that of %v", db.Changes(), k)
	}
}

// TestSQLiteReadsWhileItIsWritten reads a bucket that grows all the while: what
// is seen must be of one moment, and never older than what was seen before.
func TestSQLiteReadsWhileItIsWritten(t *testing.T) {
	w, r := openSQLite(t, t.TempDir())
	id := series("live", "x")
	const flushes = 200
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int32(flushes) {
			res := w.WriteBuckets(t.Context(), []*reading.Bucket{bucketOf(id, base, point{i, float64(i)}), bucketOf(id, base+60_000, point{i, float64(i)})})
			if res.Err != nil || len(res.Refused) > 0 {
				t.Errorf("flush %d: %+v", i, res)
				return
			}
		}
	}()
	seen := 0
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		found, err := r.Readings(t.Context(), reading.Query{Sensor: id.Sensor, Limit: 2*flushes + 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(found)%2 != 0 || len(found) < seen {
			t.Fatalf("%d readings are seen after %d, of flushes of two", len(found), seen)
		}
		seen = len(found)
		err = r.Scan(t.Context(), func(b *query.Stored) error {
			if b.Count != int64(len(b.Offsets)) || b.Max != float64(b.Count-1) {
				t.Errorf("a bucket is seen half-written: %+v", b)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen != 2*flushes {
		t.Errorf("%d readings are seen at the end, want %d", seen, 2*flushes)
	}
}
