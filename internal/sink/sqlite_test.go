package sink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const minute = reading.Span(60_000)

func openTestSQLite(t testing.TB, dir string, opts ...SQLiteOption) *SQLite {
	t.Helper()
	s, err := OpenSQLite(dir, minute, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// other is a connection of someone else to the store in dir.
func other(t testing.TB, dir string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, sqliteName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sqlite3.Conn, text string) {
	t.Helper()
	if err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// answer is the first row of a query as one text.
func answer(t testing.TB, db *sqlite3.Conn, text string) string {
	t.Helper()
	st, _, err := db.Prepare(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer st.Close()
	var cols []string
	if st.Step() {
		for i := range st.ColumnCount() {
			cols = append(cols, st.ColumnText(i))
		}
	}
	if err := st.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(cols, " ")
}

// testBucket has count readings, from the offset first on, of their offsets' values.
func testBucket(sensor string, first, count int) *reading.Bucket {
	b := &reading.Bucket{Series: reading.Series{Sensor: sensor, Metric: "temperature"}}
	for i := first; i < first+count; i++ {
		b.Add(int64(i), float64(i))
	}
	return b
}

func TestSQLiteRowsAreReadableByEveryTool(t *testing.T) {
	dir := t.TempDir()
	s := openTestSQLite(t, dir)
	b := &reading.Bucket{Series: reading.Series{Sensor: "S-01", Metric: "temperature"}, Start: 1_796_547_900_000}
	b.Add(b.Start+10_000, 26.4)
	b.Add(b.Start+20_000, 27)
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{b}); res.Err != nil {
		t.Fatal(res.Err)
	}
	more := &reading.Bucket{Series: b.Series, Start: b.Start}
	more.Add(b.Start+5_000, -1e-7)
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{more}); res.Err != nil {
		t.Fatal(res.Err)
	}
	db := other(t, dir)
	for query, want := range map[string]string{
		`SELECT sensorId, metric, start, count, min, max, isOutlier IS NULL, offsets, "values" FROM buckets`: `S-01 temperature 1796547900000 3 -1.0e-07 27.0 1 [10000,20000,5000] [26.4,27.0,-1e-07]`,
		`SELECT total(v.value), group_concat(v.type) FROM buckets, json_each("values") v`:                    `53.3999999 real,real,real`,
		`SELECT typeof(sum), datetime(start / 1000, 'unixepoch') FROM buckets`:                               `real 2026-12-06 09:05:00`,
		`SELECT count(*) FROM buckets, json_each(offsets) o WHERE o.value = 5000`:                            `1`,
		`PRAGMA user_version`:    `2`,
		`PRAGMA journal_mode`:    `wal`,
		`PRAGMA integrity_check`: `ok`,
	} {
		if have := answer(t, db, query); have != want {
			t.Errorf("%s\nhave %s\nwant %s", query, have, want)
		}
	}
}

// What a commit promises over a loss of power depends on this setting, which
// no test of ours can pull a plug for.
func TestSQLiteSyncsEachCommit(t *testing.T) {
	s := openTestSQLite(t, t.TempDir())
	c, err := s.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.give(c)
	if level := answer(t, c.Conn, "PRAGMA synchronous"); level != "2" {
		t.Errorf("synchronous is %s, want 2 (FULL)", level)
	}
}

func TestSQLiteOpen(t *testing.T) {
	t.Run("a second writer is told the directory", func(t *testing.T) {
		dir := t.TempDir()
		openTestSQLite(t, dir)
		_, err := OpenSQLite(dir, minute)
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprintf("process %d is writing", os.Getpid())) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("after a close it opens again", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			s, err := OpenSQLite(dir, minute)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			if res := s.WriteBuckets(t.Context(), []*reading.Bucket{testBucket("a", 0, 1)}); res.Err == nil || len(res.Again) != 1 {
				t.Errorf("a closed store took a bucket: %+v", res)
			}
		}
	})
	t.Run("directories are made, with odd names too", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a?b=c", "file:100%25")
		openTestSQLite(t, dir)
		if _, err := os.Stat(filepath.Join(dir, sqliteName)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a file of a newer version is refused", func(t *testing.T) {
		dir := t.TempDir()
		mustExec(t, other(t, dir), "PRAGMA user_version = 99")
		if _, err := OpenSQLite(dir, minute); err == nil || !strings.Contains(err.Error(), "version 99") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a file that is no database is refused and left alone", func(t *testing.T) {
		dir := t.TempDir()
		text := []byte(strings.Repeat("not a database\n", 100))
		path := filepath.Join(dir, sqliteName)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSQLite(dir, minute); !errors.Is(err, sqlite3.NOTADB) {
			t.Errorf("error %v", err)
		}
		if have, err := os.ReadFile(path); err != nil || !slices.Equal(have, text) {
			t.Errorf("the file was changed, error %v", err)
		}
	})
	t.Run("the largest span of all times is recorded", func(t *testing.T) {
		dir := t.TempDir()
		for _, span := range []reading.Span{60_000, 3_600_000, 1000} {
			s, err := OpenSQLite(dir, span)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if have := answer(t, other(t, dir), "SELECT value FROM meta WHERE _id = 'largestSpan'"); have != "3600000" {
			t.Errorf("largest span %s", have)
		}
	})
}

func TestSQLiteDamagedRowsCostOnlyThemselves(t *testing.T) {
	for name, damage := range map[string]string{
		"text in sum":          `sum = 'none'`,
		"a comma in max":       `max = '26,4'`,
		"null offsets":         `offsets = NULL`,
		"malformed offsets":    `offsets = '[0,1'`,
		"text among offsets":   `offsets = '[0,"x"]'`,
		"a fraction in them":   `offsets = '[0,1.5]'`,
		"no value":             `"values" = '[0.0,]'`,
		"an infinite value":    `"values" = '[0.0,Inf]'`,
		"a blob of values":     `"values" = x'5b5d'`,
		"fewer values":         `"values" = '[0.0]'`,
		"another count":        `count = 3`,
		"an object of values":  `"values" = '{"a":1}'`,
		"values nested deeply": `"values" = '[[0.0,1.0]]'`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTestSQLite(t, dir)
			s.WriteBuckets(t.Context(), []*reading.Bucket{testBucket("bad", 0, 2), testBucket("good", 0, 2)})
			db := other(t, dir)
			mustExec(t, db, "UPDATE buckets SET "+damage+" WHERE sensorId = 'bad'")
			before := answer(t, db, "SELECT * FROM buckets WHERE sensorId = 'bad'")
			bad, good := testBucket("bad", 1, 2), testBucket("good", 2, 2)
			res := s.WriteBuckets(t.Context(), []*reading.Bucket{bad, good})
			if res.Err != nil || len(res.Again) > 0 || res.Writes != (Writes{OK: 1, Rejected: 1}) || len(res.Refused) != 2 {
				t.Fatalf("result %+v", res)
			}
			for _, r := range res.Refused {
				if r.Bucket != bad || r.Verdict != reading.Added || r.Reason != reading.StoreRefused || r.Detail == "" {
					t.Errorf("refusal %+v", r)
				}
			}
			if after := answer(t, db, "SELECT * FROM buckets WHERE sensorId = 'bad'"); after != before {
				t.Errorf("the damaged row became %s, it was %s", after, before)
			}
			if have := answer(t, db, "SELECT count FROM buckets WHERE sensorId = 'good'"); have != "4" {
				t.Errorf("the good bucket has count %s", have)
			}
		})
	}
}

func TestSQLiteRefusesWhatNoRowCanHold(t *testing.T) {
	s := openTestSQLite(t, t.TempDir())
	zero := 0.0
	bad := reading.BucketOf(reading.Key{Series: reading.Series{Sensor: "nan", Metric: "x"}}, []int32{1, 2}, []float64{1, zero / zero})
	res := s.WriteBuckets(t.Context(), []*reading.Bucket{bad, testBucket("good", 0, 1)})
	if res.Err != nil || len(res.Refused) != 2 || res.Writes != (Writes{OK: 1, Rejected: 1}) {
		t.Errorf("result %+v", res)
	}
}

// A flush that fails half-way leaves nothing behind and can be sent again.
func TestSQLiteFailedFlushes(t *testing.T) {
	flush := func() []*reading.Bucket {
		var buckets []*reading.Bucket
		for i := range 300 {
			buckets = append(buckets, testBucket(fmt.Sprintf("sensor-%03d", i), 0, 100))
		}
		return buckets
	}
	for name, obstacle := range map[string]func(t *testing.T, s *SQLite, dir string) (ctx context.Context, want error, remove func()){
		"the disk is full": func(t *testing.T, s *SQLite, _ string) (context.Context, error, func()) {
			limit := func(text string) {
				c, err := s.take(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer s.give(c)
				mustExec(t, c.Conn, text)
			}
			limit("PRAGMA max_page_count = 20")
			return t.Context(), sqlite3.FULL, func() { limit("PRAGMA max_page_count = 4294967294") }
		},
		"someone else writes": func(t *testing.T, s *SQLite, dir string) (context.Context, error, func()) {
			c, err := s.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.give(c)
			if err := c.BusyTimeout(time.Millisecond); err != nil {
				t.Fatal(err)
			}
			db := other(t, dir)
			mustExec(t, db, "BEGIN IMMEDIATE")
			return t.Context(), sqlite3.BUSY, func() { mustExec(t, db, "ROLLBACK") }
		},
		"the context has ended": func(t *testing.T, _ *SQLite, _ string) (context.Context, error, func()) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, context.Canceled, func() {}
		},
		"the context ends meanwhile": func(t *testing.T, s *SQLite, dir string) (context.Context, error, func()) {
			db := other(t, dir)
			mustExec(t, db, "BEGIN IMMEDIATE")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			return ctx, context.DeadlineExceeded, func() { cancel(); mustExec(t, db, "ROLLBACK") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTestSQLite(t, dir)
			if res := s.WriteBuckets(t.Context(), []*reading.Bucket{testBucket("sensor-007", 0, 1)}); res.Err != nil {
				t.Fatal(res.Err)
			}
			ctx, want, remove := obstacle(t, s, dir)
			res := s.WriteBuckets(ctx, flush())
			if !errors.Is(res.Err, want) || len(res.Again) != 300 || len(res.Refused) > 0 || res.Writes != (Writes{Failed: 300}) {
				t.Fatalf("error %v, want %v; %d to write again, %d refused, writes %+v", res.Err, want, len(res.Again), len(res.Refused), res.Writes)
			}
			remove()
			db := other(t, dir)
			if have := answer(t, db, "SELECT count(*), sum(count) FROM buckets"); have != "1 1" {
				t.Errorf("the failed flush left %s", have)
			}
			res = s.WriteBuckets(t.Context(), res.Again)
			if res.Err != nil || len(res.Refused) != 1 || res.Writes != (Writes{OK: 300, Exists: 1}) {
				t.Errorf("sent again: error %v, %d refused, writes %+v", res.Err, len(res.Refused), res.Writes)
			}
			if have := answer(t, db, "SELECT count(*), sum(count) FROM buckets"); have != "300 30000" {
				t.Errorf("stored %s", have)
			}
		})
	}
}

func TestSQLiteRejectIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := openTestSQLite(t, dir)
	list := make([]Rejected, maxRejected+5)
	for i := range list {
		list[i] = Rejected{
			Reading: reading.Reading{Series: reading.Series{Sensor: strings.Repeat("s", 1000), Metric: "m"}, Time: int64(i)},
			Reason:  reading.StoreRefused, Detail: "a\x00b\xff" + strings.Repeat("é", 1000),
		}
	}
	for _, part := range [][]Rejected{list, list[:7]} {
		if err := s.Reject(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	db := other(t, dir)
	if have := answer(t, db, "SELECT count(*), max(_id), max(length(CAST(sensorId AS BLOB))), max(length(CAST(detail AS BLOB))) <= 500, min(reason) FROM rejected"); have != "10000 10007 256 1 store_refused" {
		t.Errorf("kept %s", have)
	}
	if have := answer(t, db, "SELECT detail FROM rejected LIMIT 1"); !strings.HasPrefix(have, "a bé") {
		t.Errorf("detail %q", have)
	}
}

func TestSQLiteSensorDocument(t *testing.T) {
	dir := t.TempDir()
	s := openTestSQLite(t, dir)
	sensor := reading.Sensor{ID: "S-01", FirstSeen: 10, LastSeen: 30, Metrics: map[string][]reading.Point{
		"temperature": {{Time: 30, Value: 21}, {Time: 20, Value: 20.5}},
	}}
	if err := s.MergeSensors(t.Context(), []reading.Sensor{sensor}, 5); err != nil {
		t.Fatal(err)
	}
	db := other(t, dir)
	const read = "SELECT _id, firstSeen, lastSeen, metrics FROM sensors"
	want := `S-01 10 30 {"temperature":{"time":30,"value":21.0,"latest":[{"time":30,"value":21.0},{"time":20,"value":20.5}]}}`
	if have := answer(t, db, read); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	t.Run("without a list", func(t *testing.T) {
		if err := s.MergeSensors(t.Context(), []reading.Sensor{sensor}, 0); err != nil {
			t.Fatal(err)
		}
		if have, want := answer(t, db, read), `S-01 10 30 {"temperature":{"time":30,"value":21.0}}`; have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	})
	t.Run("a damaged document is written anew", func(t *testing.T) {
		for _, damage := range []string{`metrics = '{"temp'`, `metrics = '{"temperature": 5}'`, `lastSeen = 'never'`, `metrics = x'00'`} {
			mustExec(t, db, "UPDATE sensors SET "+damage)
			if err := s.MergeSensors(t.Context(), []reading.Sensor{sensor}, 5); err != nil {
				t.Fatal(err)
			}
			if have := answer(t, db, read); have != want {
				t.Errorf("after %s: have %s\nwant %s", damage, have, want)
			}
		}
	})
}

func TestSQLitePing(t *testing.T) {
	dir := t.TempDir()
	s := openTestSQLite(t, dir)
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	path := filepath.Join(dir, sqliteName)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("with another file: %v", err)
	}
}
