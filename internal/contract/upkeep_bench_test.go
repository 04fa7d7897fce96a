package contract

import (
	"context"
	"testing"
	"time"

	"gudang/internal/reading"
	"gudang/internal/sink"
)

// restsBetween notes how long the store was busy with each step of a task.
type restsBetween struct {
	begun   time.Time
	longest time.Duration
	n       int
}

func (s *restsBetween) rest(ctx context.Context, _ int) error {
	s.longest, s.n = max(s.longest, time.Since(s.begun)), s.n+1
	s.begun = time.Now()
	return ctx.Err()
}

// BenchmarkSQLiteUpkeep rolls an hour of 2,000 series up, and deletes it. What
// counts for ingestion is how long the longest step holds the store.
func BenchmarkSQLiteUpkeep(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w, _ := openSQLite(b, b.TempDir())
		flush := make([]*reading.Bucket, 2000)
		for at := range int64(60) {
			for i, s := range benchSeries(len(flush)) {
				flush[i] = minuteOf(s, at-5, 0, 6) // from 09:00 on
			}
			benchWrite(b, w, flush)
		}
		b.StartTimer()
		measure(b, "roll", func(rest sink.Rest) error {
			_, err := w.RollUp(b.Context(), reading.Window{Span: hour, Start: hour.Start(base)}, rest)
			return err
		})
		measure(b, "delete", func(rest sink.Rest) error {
			return w.DeleteBefore(b.Context(), reading.KindBuckets, base+int64(hour), rest)
		})
	}
}

func measure(b *testing.B, name string, do func(rest sink.Rest) error) {
	s := restsBetween{begun: time.Now()}
	begun := time.Now()
	if err := do(s.rest); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), name+"-ms")
	b.ReportMetric(float64(s.longest.Microseconds())/1000, name+"-longest-step-ms")
	b.ReportMetric(float64(s.n), name+"-restsBetween")
}
