package contract

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

// How large the store is for the benchmarks of reading. 10,000,000 is a fleet
// of 1,000 series for a bit more than a day:
//
//	go test ./internal/contract -run '^$' -bench SQLite -bench.readings 10000000
var benchReadings = flag.Int("bench.readings", 60_000, "readings in the store that the benchmarks read from")

func benchSeries(n int) []reading.Series {
	all := make([]reading.Series, n)
	for i := range all {
		all[i] = series(fmt.Sprintf("warehouse-3/rack-%05d", i), "temperature")
	}
	return all
}

// minuteOf is the six readings of a minute, or as many of them as per says,
// beginning with the one that part says.
func minuteOf(s reading.Series, at int64, part, per int) *reading.Bucket {
	b := &reading.Bucket{Series: s, Start: base + at*60_000}
	for i := part; i < part+per; i++ {
		b.Add(b.Start+int64(i)*10_000+417, 20+float64((at*7+int64(i)*13)%50)/10)
	}
	return b
}

func benchWrite(b *testing.B, w *sink.SQLite, flush []*reading.Bucket) {
	if res := w.WriteBuckets(b.Context(), flush); res.Err != nil || len(res.Refused) > 0 {
		b.Fatalf("error %v, %d refused", res.Err, len(res.Refused))
	}
}

// BenchmarkSQLiteWrite writes flushes over 2,000 series: either a whole minute
// in each bucket, as with a long FLUSH_INTERVAL, or six times one reading.
func BenchmarkSQLiteWrite(b *testing.B) {
	all := benchSeries(2000)
	for _, per := range []int{6, 1} {
		b.Run(fmt.Sprintf("readings=%d", per), func(b *testing.B) {
			w, _ := openSQLite(b, b.TempDir())
			b.ReportAllocs()
			flush := make([]*reading.Bucket, len(all))
			flushes := 0
			for b.Loop() {
				b.StopTimer()
				for i, s := range all {
					part := flushes * per
					flush[i] = minuteOf(s, int64(part/6), part%6, per)
				}
				flushes++
				b.StartTimer()
				benchWrite(b, w, flush)
			}
			b.ReportMetric(float64(flushes*len(all)*per)/b.Elapsed().Seconds(), "readings/s")
		})
	}
}

// BenchmarkSQLiteGrow writes one bucket of 120,000 readings, 2,000 a flush.
func BenchmarkSQLiteGrow(b *testing.B) {
	w, _ := openSQLite(b, b.TempDir())
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s := series(fmt.Sprintf("vibration-%d", n), "vibration")
		n++
		for part := range int64(60) {
			flush := &reading.Bucket{Series: s, Start: base}
			for i := range int64(2000) {
				flush.Add(base+part*2000+i, float64(i)/8)
			}
			benchWrite(b, w, []*reading.Bucket{flush})
		}
	}
}

// BenchmarkSQLiteRead reads one series' day, through the store and with a bare
// SELECT of the same rows.
func BenchmarkSQLiteRead(b *testing.B) {
	all := benchSeries(1000)
	dir := b.TempDir()
	w, r := openSQLite(b, dir)
	for at, n := int64(0), 0; n < *benchReadings; at++ {
		flush := make([]*reading.Bucket, len(all))
		for i, s := range all {
			flush[i] = minuteOf(s, at, 0, 6)
			n += 6
		}
		benchWrite(b, w, flush)
	}
	day := reading.Query{Sensor: all[500].Sensor, Metric: "temperature", From: base, To: base + 24*time.Hour.Milliseconds(), Limit: 10_000}
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			found, err := r.Readings(b.Context(), day)
			if err != nil {
				b.Fatal(err)
			}
			n = len(found)
		}
		b.ReportMetric(float64(n), "readings")
	})
	b.Run("bare select", func(b *testing.B) {
		db, err := sqlite3.Open(filepath.Join(dir, "gudang.db"))
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		if err := db.Exec("PRAGMA cache_size = -8192"); err != nil { // as the store's own
			b.Fatal(err)
		}
		st, _, err := db.Prepare(`SELECT start, offsets, "values", isOutlier FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? ORDER BY start`)
		if err != nil {
			b.Fatal(err)
		}
		defer st.Close()
		n := 0
		for b.Loop() {
			n = 0
			for _, err := range []error{st.BindText(1, day.Sensor), st.BindText(2, day.Metric), st.BindInt64(3, day.From), st.BindInt64(4, day.To)} {
				if err != nil {
					b.Fatal(err)
				}
			}
			for st.Step() {
				_, _ = st.ColumnRawText(1), st.ColumnRawText(2)
				n++
			}
			if err := st.Reset(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n), "buckets")
	})
	b.Run("first page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Readings(b.Context(), reading.Query{Sensor: day.Sensor, Limit: 100}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write into it", func(b *testing.B) {
		at := int64(*benchReadings)
		flush := make([]*reading.Bucket, len(all))
		for b.Loop() {
			b.StopTimer()
			at++
			for i, s := range all {
				flush[i] = minuteOf(s, at, 0, 6)
			}
			b.StartTimer()
			benchWrite(b, w, flush)
		}
		b.ReportMetric(float64(b.N*len(all)*6)/b.Elapsed().Seconds(), "readings/s")
	})
}
