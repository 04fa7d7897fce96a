package sink

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/reading"
)

// script is a store that answers as it is told.
type script struct {
	Retention
	Rollups

	answer func(call int, buckets []*reading.Bucket) Result
	merge  func(sensors []reading.Sensor) error
	keep   func(call int) (int, string, error)

	mu       sync.Mutex
	ping     error
	calls    [][]*reading.Bucket
	merged   []reading.Sensor
	rejected []Rejected
	raw      [][]*reading.Bucket
}

func (s *script) WriteBuckets(_ context.Context, buckets []*reading.Bucket) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, slices.Clone(buckets))
	return s.answer(len(s.calls), buckets)
}

func (s *script) MergeSensors(_ context.Context, sensors []reading.Sensor, _ int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merge != nil {
		if err := s.merge(sensors); err != nil {
			return err
		}
	}
	s.merged = append(s.merged, sensors...)
	return nil
}

func (s *script) CreateSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	return s.MergeSensors(ctx, sensors, keep)
}

func (s *script) Reject(_ context.Context, rejected []Rejected) error {
	s.rejected = append(s.rejected, rejected...)
	return nil
}

func (s *script) Sweep(context.Context) (Swept, error) { return Swept{}, nil }

func (s *script) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ping
}

func (s *script) Close() error { return nil }

func (s *script) WriteRaw(_ context.Context, buckets []*reading.Bucket) (int, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, slices.Clone(buckets))
	if s.keep == nil {
		return 0, "", nil
	}
	return s.keep(len(s.raw))
}

func (s *script) FixBuckets(context.Context, []reading.Key, func(*reading.Record) *reading.Bucket) error {
	return nil
}

func ok(int, []*reading.Bucket) Result { return Result{} }

func newSink(store Store) *Sink {
	return New(Config{Latest: 3, Log: slog.New(slog.DiscardHandler)}, store, prometheus.NewRegistry())
}

func bucket(sensor string, values ...float64) *reading.Bucket {
	b := &reading.Bucket{Series: reading.Series{Sensor: sensor, Metric: "t"}, Start: 60_000}
	for i, v := range values {
		b.Add(60_000+int64(i)*1000, v)
	}
	return b
}

func TestOnlyWhatIsUnsureIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := bucket("a", 1), bucket("b", 1), bucket("c", 1)
		lost := errors.New("connection reset")
		st := &script{answer: func(call int, buckets []*reading.Bucket) Result {
			if call <= 2 {
				return Result{Again: []*reading.Bucket{b}, Err: lost}
			}
			return Result{}
		}}
		s := newSink(st)
		if _, err := s.Write(t.Context(), []*reading.Bucket{a, b, c}); err != nil {
			t.Fatal(err)
		}
		if len(st.calls) != 3 || len(st.calls[0]) != 3 || !slices.Equal(st.calls[1], []*reading.Bucket{b}) || !slices.Equal(st.calls[2], []*reading.Bucket{b}) {
			t.Errorf("calls: %v", st.calls)
		}
		if s.failure != nil || testutil.ToFloat64(s.metrics.up) != 1 {
			t.Error("the store counts as down after it took the flush")
		}
	})
}

// After a lost reply the store says "duplicate" of what our first attempt wrote.
func TestADuplicateAfterALostReplyIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bucket("a", 1), bucket("b", 1, 2)
		st := &script{answer: func(call int, _ []*reading.Bucket) Result {
			dup := reading.Refusal{Bucket: b, Offset: 0, Verdict: reading.Duplicate}
			if call == 1 {
				return Result{Again: []*reading.Bucket{b}, Err: errors.New("lost"), Refused: []reading.Refusal{{Bucket: a, Verdict: reading.Duplicate}}}
			}
			return Result{Refused: []reading.Refusal{dup, {Bucket: b, Offset: 1000, Verdict: reading.Conflict}}}
		}}
		refused, err := newSink(st).Write(t.Context(), []*reading.Bucket{a, b})
		if err != nil {
			t.Fatal(err)
		}
		want := []reading.Refusal{{Bucket: a, Verdict: reading.Duplicate}, {Bucket: b, Offset: 1000, Verdict: reading.Conflict}}
		if !reflect.DeepEqual(refused, want) {
			t.Errorf("refused %v, want %v", refused, want)
		}
	})
}

func TestWriteEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bucket("b", 1)
		st := &script{answer: func(int, []*reading.Bucket) Result {
			return Result{Again: []*reading.Bucket{b}, Err: errors.New("no server")}
		}}
		s := newSink(st)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Write(ctx, []*reading.Bucket{b})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if n := len(st.calls); n < 12 || n > 40 {
			t.Errorf("%d attempts in a minute, want a back-off that ends at about 5 s", n)
		}
		if s.Ready(t.Context()) == nil {
			t.Error("ready while the store is away")
		}
	})
}

// Readiness must not wait for a store that does not answer, and a store that
// answers but takes no flush is not ready.
func TestTheStoreIsAskedHowItIsWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		st := &script{answer: ok, ping: away}
		s := newSink(st)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		if err := s.Ready(ctx); err == nil {
			t.Error("ready before the store was asked")
		}
		go func() { done <- s.Run(ctx, t.Context()) }()
		time.Sleep(3 * pingEvery)
		synctest.Wait()
		if err := s.Ready(ctx); !errors.Is(err, away) || testutil.ToFloat64(s.metrics.up) != 0 {
			t.Errorf("ready says %v", err)
		}
		st.mu.Lock()
		st.ping = nil
		st.mu.Unlock()
		time.Sleep(2 * pingEvery)
		synctest.Wait()
		if err := s.Ready(ctx); err != nil || testutil.ToFloat64(s.metrics.up) != 1 {
			t.Errorf("ready says %v after it answered", err)
		}
		s.failed(errors.New("not authorized"))
		time.Sleep(3 * pingEvery)
		synctest.Wait()
		if err := s.Ready(ctx); err == nil || testutil.ToFloat64(s.metrics.up) != 0 {
			t.Error("ready because it answers, although it takes no flush")
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatTheStoreWillNeverTakeIsRecorded(t *testing.T) {
	b := bucket("poisoned", 7)
	st := &script{answer: func(int, []*reading.Bucket) Result {
		return Result{Refused: []reading.Refusal{{Bucket: b, Offset: 0, Reason: reading.StoreRefused, Detail: "sum is a string"}}}
	}}
	s := newSink(st)
	if _, err := s.Write(t.Context(), []*reading.Bucket{b}); err != nil {
		t.Fatal(err)
	}
	if len(st.rejected) != 1 || st.rejected[0].Sensor != "poisoned" || st.rejected[0].Value != 7 || st.rejected[0].Detail != "sum is a string" {
		t.Errorf("recorded %+v", st.rejected)
	}
	if len(st.merged) != 0 {
		t.Errorf("a reading that was refused is shown as the newest: %+v", st.merged)
	}
}

func TestANewSensorsDocumentComesBeforeItsReadingsCountAsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := 2
		st := &script{answer: ok, merge: func([]reading.Sensor) error {
			if fail > 0 {
				fail--
				return errors.New("not now")
			}
			return nil
		}}
		s := newSink(st)
		if _, err := s.Write(t.Context(), []*reading.Bucket{bucket("a", 1, 2, 3, 4)}); err != nil {
			t.Fatal(err)
		}
		want := []reading.Sensor{{ID: "a", FirstSeen: 60_000, LastSeen: 63_000, Metrics: map[string][]reading.Point{"t": {{Time: 63_000, Value: 4}, {Time: 62_000, Value: 3}, {Time: 61_000, Value: 2}}}}}
		if !reflect.DeepEqual(st.merged, want) {
			t.Errorf("merged %+v, want %+v", st.merged, want)
		}
	})
}

// 100 flushes of a known sensor within the interval cost one write of its document.
func TestTheNewestReadingsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &script{answer: ok}
		s := newSink(st)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, t.Context()) }()
		for i := range 100 {
			b := &reading.Bucket{Series: reading.Series{Sensor: "a", Metric: "t"}}
			b.Add(int64(i), float64(i))
			if _, err := s.Write(t.Context(), []*reading.Bucket{b}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * latestEvery)
		synctest.Wait()
		st.mu.Lock()
		if len(st.merged) != 2 || st.merged[1].LastSeen != 99 {
			t.Errorf("%d documents written: %+v; want the first and one for the rest", len(st.merged), st.merged)
		}
		st.mu.Unlock()
		b := &reading.Bucket{Series: reading.Series{Sensor: "a", Metric: "t"}}
		b.Add(1000, 5)
		if _, err := s.Write(t.Context(), []*reading.Bucket{b}); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if last := st.merged[len(st.merged)-1]; last.LastSeen != 1000 {
			t.Errorf("the last reading before the end is not in %+v", last)
		}
	})
}

func TestNewestOf(t *testing.T) {
	b := &reading.Bucket{}
	for _, off := range []int64{5, 1, 9, 3, 7} {
		b.Add(off, float64(off))
	}
	if got := newestOf(b, 3); !reflect.DeepEqual(got, []reading.Point{{Time: 9, Value: 9}, {Time: 7, Value: 7}, {Time: 5, Value: 5}}) {
		t.Errorf("newest 3: %v", got)
	}
	if got := newestOf(b, 10); len(got) != 5 {
		t.Errorf("newest 10 of 5: %v", got)
	}
}
