package contract

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/rebuild"
	"gudang/internal/sink"
)

var errStep = errors.New("stopped after this step")

// steps is a target that stops after so many writes, as a crash does.
type steps struct {
	*sink.Sink
	store sink.Store
	left  int
	after func() // is called after each write
}

func (s *suite) steps(n int) *steps {
	return &steps{Sink: sink.New(sink.Config{Latest: 3, Log: slog.New(slog.DiscardHandler)}, s.sink, prometheus.NewRegistry()), store: s.sink, left: n, after: func() {}}
}

func (w *steps) step() error {
	w.after()
	if w.left--; w.left < 0 {
		return errStep
	}
	return nil
}

func (w *steps) Write(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error) {
	// One by one, so that a crash between any two of them is tried too.
	var all []reading.Refusal
	for _, b := range buckets {
		if err := w.step(); err != nil {
			return nil, err
		}
		refused, err := w.Sink.Write(ctx, []*reading.Bucket{b})
		if err != nil {
			return nil, err
		}
		all = append(all, refused...)
	}
	return all, nil
}

func (w *steps) FixBuckets(ctx context.Context, keys []reading.Key, fix func(*reading.Record) *reading.Bucket) error {
	for _, key := range keys {
		if err := w.step(); err != nil {
			return err
		}
		if err := w.store.FixBuckets(ctx, []reading.Key{key}, fix); err != nil {
			return err
		}
	}
	return nil
}

const allSteps = 1 << 30

func (s *suite) rebuild(t *testing.T, span reading.Span, w *steps) (rebuild.Summary, error) {
	t.Helper()
	raw, err := s.query.RawExtent(t.Context())
	if err != nil || raw.Count == 0 {
		t.Fatalf("raw has %+v, error %v", raw, err)
	}
	cfg := rebuild.Config{Span: span, From: span.Start(raw.First), To: span.Start(raw.Last) + int64(span)}
	return rebuild.Run(t.Context(), cfg, s.query, w)
}

func testRebuildFromRaw(t *testing.T, s *suite) {
	var want []*reading.Bucket
	for _, sensor := range []string{"A", "B"} {
		for i := range int64(5) {
			b := bucketOf(series(sensor, "x"), base+i*i*60_000, point{0, float64(i)}, point{10_000, 2.5}, point{59_999, -1})
			want = append(want, b)
		}
	}
	s.raw(t, want...)
	// Some of it is there: a whole bucket, a part of one, and one that raw does not know of.
	s.write(t, want[0], bucketOf(series("B", "x"), base, point{10_000, 2.5}, point{20_000, 7}), bucketOf(series("C", "x"), base, point{0, 1}))
	sum, err := s.rebuild(t, minute, s.steps(allSteps))
	if err != nil || sum.Raw != 30 || sum.Added != 26 || sum.Mended+sum.Moved+sum.Removed+sum.Refused != 0 {
		t.Errorf("%+v, error %v", sum, err)
	}
	want[5] = bucketOf(series("B", "x"), base, point{10_000, 2.5}, point{20_000, 7}, point{0, 0}, point{59_999, -1})
	s.wantStored(t, append(want, bucketOf(series("C", "x"), base, point{0, 1}))...)
	again, err := s.rebuild(t, minute, s.steps(0))
	if err != nil || again.Added+again.Mended+again.Moved != 0 {
		t.Errorf("a second run has something to do: %+v, error %v", again, err)
	}
	sensor, err := s.query.Sensor(t.Context(), "A")
	if err != nil || len(sensor.Metrics["x"]) == 0 {
		t.Errorf("the sensor's document: %+v, error %v", sensor, err)
	}
}

func testRebuildMends(t *testing.T, s *suite) {
	id := series("A", "x")
	b := func(minutes int64, points ...point) *reading.Bucket {
		return bucketOf(id, base+minutes*60_000, points...)
	}
	s.raw(t, b(0, point{0, 1}, point{1, 2}), b(1, point{0, 1}, point{1, 2}), b(2, point{0, 1}))
	s.write(t, b(0, point{0, 1}, point{1, 99}, point{2, 3}), b(1, point{5, 5}, point{0, 1}), b(2, point{0, 1}))
	s.poison(t, b(1).Key())
	for n := range 3 {
		if _, err := s.rebuild(t, minute, s.steps(n)); (n < 2) != errors.Is(err, errStep) {
			t.Errorf("stopped after %d steps: %v", n, err)
		}
	}
	s.wantStored(t, b(0, point{0, 1}, point{1, 2}, point{2, 3}), b(1, point{5, 5}, point{0, 1}, point{1, 2}), b(2, point{0, 1}))
	if r := s.check(t, query.RawCheck{}); r.BadBucket.Count+r.Different.Count+r.Missing.Count+r.Doubled.Count > 0 {
		t.Errorf("%+v", r)
	}
}

// testRebuildSpans goes from one span to another, is stopped after every step
// and begins again. At each step every reading must be in a bucket; at the end
// it must be in one, with ingestion going on all the while.
func testRebuildSpans(t *testing.T, s *suite) {
	second := reading.Span(1000)
	for _, c := range []struct{ from, to reading.Span }{
		{3 * 60 * second, 60 * second}, {60 * second, 5 * 60 * second}, {2 * 60 * second, 3 * 60 * second},
	} {
		t.Run(fmt.Sprintf("%v to %v", c.from.Duration(), c.to.Duration()), func(t *testing.T) {
			s.wipe(t)
			id := series("A", "x")
			stored := map[int64]float64{}
			put := func(span reading.Span, raw bool, times ...int64) {
				for _, at := range times {
					stored[at] = float64(at%97) / 4
					b := bucketOf(id, span.Start(at))
					b.Add(at, stored[at])
					if raw {
						s.raw(t, b)
					}
					s.write(t, b)
				}
			}
			start := (6 * 60 * second).Start(base)
			for i := range int64(7) {
				put(c.from, i != 3, start+i*55_000) // one is in its bucket alone
			}
			put(c.to, true, start+200_000)
			complete := func() {
				page, err := s.query.Readings(t.Context(), reading.Query{Sensor: "A", Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				seen := map[int64]float64{}
				for _, r := range page {
					seen[r.Time] = r.Value
				}
				for at, v := range stored {
					if have, ok := seen[at]; !ok || have != v {
						t.Fatalf("the reading at +%d is %v (%t), want %v", at-start, have, ok, v)
					}
				}
			}
			n := 0
			for ; n < 40; n++ {
				w := s.steps(n)
				w.after = complete
				_, err := s.rebuild(t, c.to, w)
				complete()
				if err == nil {
					break
				}
				if !errors.Is(err, errStep) {
					t.Fatal(err)
				}
				put(c.to, true, start+int64(n)*3_001+2) // ingestion goes on
			}
			if n < 2 {
				t.Errorf("it took %d steps", n)
			}
			s.wantSpans(t, id, c.to, stored)
			sum, err := s.rebuild(t, c.to, s.steps(0))
			if err != nil || sum.Added+sum.Moved+sum.Mended != 0 {
				t.Errorf("a second run has something to do: %+v, error %v", sum, err)
			}
		})
	}
}

// wantSpans checks that the readings are in buckets of that span, each in one,
// and that the counters are exact.
func (s *suite) wantSpans(t *testing.T, id reading.Series, span reading.Span, stored map[int64]float64) {
	t.Helper()
	var want []*reading.Bucket
	times := make([]int64, 0, len(stored))
	for at := range stored {
		times = append(times, at)
	}
	slices.Sort(times)
	for _, at := range times {
		if n := len(want); n == 0 || want[n-1].Start != span.Start(at) {
			want = append(want, bucketOf(id, span.Start(at)))
		}
		want[len(want)-1].Add(at, stored[at])
	}
	s.wantStored(t, want...)
}
