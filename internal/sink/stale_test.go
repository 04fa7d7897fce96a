package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gudang/internal/reading"
)

const (
	anHour = reading.Span(3_600_000)
	aDay   = reading.Span(86_400_000)
)

// marked is a store that notes in which order it was written to.
type marked struct {
	script
	done  []string
	marks []reading.Mark
	fails map[int]bool // the calls of MarkStale that fail
	calls int
}

func (m *marked) MarkStale(_ context.Context, marks []reading.Mark) error {
	m.calls++
	if m.fails[m.calls] {
		return errors.New("no marks now")
	}
	m.done = append(m.done, fmt.Sprintf("mark %d", len(marks)))
	m.marks = append(m.marks, marks...)
	return nil
}

// markingAt is a marking store over m, and the time that it goes by.
func markingAt(m *marked, took time.Duration, spans ...reading.Span) (Store, *time.Time) {
	now := time.Date(2026, 12, 6, 9, 0, 0, 0, time.UTC)
	m.answer = func(int, []*reading.Bucket) Result {
		m.done = append(m.done, "write")
		now = now.Add(took)
		return Result{Writes: Writes{OK: 1}}
	}
	s := newMarking(m, spans).(*marking)
	s.now = func() time.Time { return now }
	return s, &now
}

func bucketAt(sensor string, at time.Time) *reading.Bucket {
	b := &reading.Bucket{Series: reading.Series{Sensor: sensor, Metric: "t"}, Start: at.UnixMilli()}
	b.Add(b.Start, 1)
	return b
}

func TestLateReadingsAreMarkedFirst(t *testing.T) {
	half := reading.RollupGrace / 2
	for name, c := range map[string]struct {
		at   time.Duration // after the end of the bucket's hour
		took time.Duration
		want []string
	}{
		"in time":                             {-time.Minute, 0, []string{"write"}},
		"while the window is not rolled up":   {half, 0, []string{"write"}},
		"late":                                {half + time.Millisecond, 0, []string{"mark 1", "write"}},
		"late, and the write takes long":      {time.Hour, reading.QuietFor, []string{"mark 1", "write", "mark 1"}},
		"it becomes late during the write":    {half, time.Millisecond, []string{"write", "mark 1"}},
		"it is in time for all that it takes": {-time.Hour, reading.QuietFor, []string{"write"}},
	} {
		m := &marked{}
		s, now := markingAt(m, c.took, anHour, aDay)
		end := time.Date(2026, 12, 6, 8, 0, 0, 0, time.UTC)
		*now = end.Add(c.at)
		res := s.WriteBuckets(t.Context(), []*reading.Bucket{bucketAt("a", end.Add(-time.Minute))})
		if res.Err != nil || res.Writes.OK != 1 || !slices.Equal(m.done, c.want) {
			t.Errorf("%s: %q, want %q (%+v)", name, m.done, c.want, res)
		}
	}
}

func TestOneMarkIsForAWindowOfTheShortestSpan(t *testing.T) {
	m := &marked{}
	s, now := markingAt(m, 0, anHour, aDay)
	begin := now.Add(-24 * time.Hour)
	res := s.WriteBuckets(t.Context(), []*reading.Bucket{
		bucketAt("a", begin), bucketAt("a", begin.Add(59*time.Minute)), bucketAt("b", begin), bucketAt("a", begin.Add(time.Hour)), bucketAt("a", *now),
	})
	if res.Err != nil || len(m.marks) != 3 {
		t.Fatalf("%d marks, want 3 (%v)", len(m.marks), res.Err)
	}
	for _, k := range m.marks {
		if k.Span != anHour || k.Start%int64(anHour) != 0 {
			t.Errorf("mark %+v", k)
		}
	}
}

// A longer span may end before a shorter one: 90 minutes do at 01:30.
func TestALateReadingOfAnySpanIsMarked(t *testing.T) {
	m := &marked{}
	s, now := markingAt(m, 0, anHour, anHour+anHour/2)
	*now = time.Date(2026, 12, 6, 1, 40, 0, 0, time.UTC)
	s.WriteBuckets(t.Context(), []*reading.Bucket{bucketAt("a", now.Add(-20*time.Minute))})
	if len(m.marks) != 1 || m.marks[0].Start != now.Truncate(time.Hour).UnixMilli() {
		t.Errorf("marks %+v", m.marks)
	}
}

func TestWhatCannotBeMarkedIsWrittenAgain(t *testing.T) {
	m := &marked{fails: map[int]bool{1: true}}
	s, now := markingAt(m, time.Hour, anHour)
	buckets := []*reading.Bucket{bucketAt("a", now.Add(-3*time.Hour))}
	if res := s.WriteBuckets(t.Context(), buckets); res.Err == nil || !slices.Equal(res.Again, buckets) || len(m.done) > 0 {
		t.Errorf("without its mark it was written: %q, %+v", m.done, res)
	}
	m.fails = map[int]bool{3: true} // behind the write
	if res := s.WriteBuckets(t.Context(), buckets); res.Err == nil || !slices.Equal(res.Again, buckets) {
		t.Errorf("without the mark behind it, it is done: %+v", res)
	}
	stopped, stop := context.WithCancel(t.Context())
	m.answer = func(int, []*reading.Bucket) Result {
		stop()
		*now = now.Add(time.Hour)
		return Result{Again: buckets, Err: context.Canceled}
	}
	m.done = nil
	s.WriteBuckets(stopped, buckets)
	if !slices.Equal(m.done, []string{"mark 1", "mark 1"}) {
		t.Errorf("after a stop what may have been written is not marked: %q", m.done)
	}
}

func TestInTimeTheMarksCostNothing(t *testing.T) {
	m := &marked{}
	m.answer = func(int, []*reading.Bucket) Result { return Result{} }
	s := newMarking(m, []reading.Span{anHour, aDay}).(*marking)
	var buckets []*reading.Bucket
	for range 1000 {
		buckets = append(buckets, bucketAt("a", time.Now()))
	}
	if n := testing.AllocsPerRun(100, func() {
		if s.late(buckets, time.Now()) != nil {
			t.Error("late")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if plain := newMarking(m, nil); plain != Store(m) {
		t.Error("without roll-ups there is something in between")
	}
}

func BenchmarkLate(b *testing.B) {
	s := newMarking(&marked{}, []reading.Span{anHour, aDay}).(*marking)
	var buckets []*reading.Bucket
	for range 1000 {
		buckets = append(buckets, bucketAt("a", time.Now()))
	}
	b.ReportAllocs()
	for b.Loop() {
		s.late(buckets, time.Now())
	}
}

// A sensor whose document was deleted must be in the list again before its
// next reading counts as stored.
func TestAForgottenSensorIsIntroducedAgain(t *testing.T) {
	store := &script{answer: ok}
	s := newSink(store)
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			s.Forget("a")
		}
		if _, err := s.Write(t.Context(), []*reading.Bucket{bucket("a", float64(i))}); err != nil {
			t.Fatal(err)
		}
		if len(store.merged) != want {
			t.Errorf("write %d: the document was written %d times, want %d", i, len(store.merged), want)
		}
	}
}

func (m *marked) FixBuckets(_ context.Context, keys []reading.Key, _ func(*reading.Record) *reading.Bucket) error {
	m.done = append(m.done, fmt.Sprintf("fix %d", len(keys)))
	return nil
}

// What rebuild mends in an old window outdates what was rolled up of it.
func TestMendedBucketsAreMarkedBeforeAndAfter(t *testing.T) {
	m := &marked{}
	s, now := markingAt(m, 0, anHour)
	keys := []reading.Key{bucketAt("a", now.Add(-3*time.Hour)).Key(), bucketAt("b", now.Add(-time.Second)).Key()}
	if err := s.FixBuckets(t.Context(), keys, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"mark 1", "fix 2", "mark 1"}; !slices.Equal(m.done, want) {
		t.Errorf("%q, want %q", m.done, want)
	}
	m.fails = map[int]bool{3: true}
	if err := s.FixBuckets(t.Context(), keys, nil); err == nil {
		t.Error("mended without a mark")
	}
}
