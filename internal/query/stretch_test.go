package query

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"gudang/internal/reading"
)

// fakeSeries is a seriesReader over buckets and overflow in memory.
type fakeSeries struct {
	buckets  map[int64]*Stored // by start
	over     map[int64]float64
	loaded   int
	everMade map[int64]float64 // all readings
}

func newFakeSeries() *fakeSeries {
	return &fakeSeries{buckets: make(map[int64]*Stored), over: make(map[int64]float64), everMade: make(map[int64]float64)}
}

// add stores a reading in the bucket of the span.
func (f *fakeSeries) add(span, t int64) {
	start := reading.Span(span).Start(t)
	b := f.buckets[start]
	if b == nil {
		b = &Stored{}
		b.Start = start
		f.buckets[start] = b
	}
	b.Offsets, b.Values = append(b.Offsets, int32(t-start)), append(b.Values, float64(t))
	f.everMade[t] = float64(t)
}

// migrate makes an outlier of the bucket, of which so much is copied. What is
// copied may still stand in its arrays.
func (f *fakeSeries) migrate(start, span int64, copied int, emptied bool) {
	b := f.buckets[start]
	b.Outlier, b.Until = true, start+span
	for i := range min(copied, len(b.Offsets)) {
		f.over[start+int64(b.Offsets[i])] = b.Values[i]
	}
	if emptied {
		b.Offsets, b.Values = nil, nil
	}
}

func (f *fakeSeries) starts(from, until int64, newestFirst bool, yield func(int64, func() (*Stored, error)) error) error {
	all := slices.Sorted(maps.Keys(f.buckets))
	if newestFirst {
		slices.Reverse(all)
	}
	for _, start := range all {
		if start < from || start >= until {
			continue
		}
		err := yield(start, func() (*Stored, error) { f.loaded++; return f.buckets[start], nil })
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeSeries) overflow(from, until int64, limit int) (points []reading.Point, _ error) {
	for _, t := range slices.Sorted(maps.Keys(f.over)) {
		if t >= from && t < until && len(points) < limit {
			points = append(points, reading.Point{Time: t, Value: f.over[t]})
		}
	}
	return points, nil
}

func (f *fakeSeries) lastOverflow(from, until int64) ([]reading.Point, error) {
	all, _ := f.overflow(from, until, len(f.over))
	return all[max(0, len(all)-1):], nil
}

// within are all readings in [from, until), in order.
func (f *fakeSeries) within(from, until int64) (points []reading.Point) {
	for _, t := range slices.Sorted(maps.Keys(f.everMade)) {
		if t >= from && t < until {
			points = append(points, reading.Point{Time: t, Value: f.everMade[t]})
		}
	}
	return points
}

// randomSeries is one whose span was changed a few times, with outliers at
// every step of their making.
func randomSeries(r *rand.Rand) (f *fakeSeries, reach int64) {
	spans := []int64{1000, 5000, 60_000, 90_000, 3_600_000}
	f = newFakeSeries()
	for range 1 + r.IntN(3) {
		span := spans[r.IntN(len(spans))]
		reach = max(reach, span)
		for from, n := r.Int64N(7_200_000), r.IntN(60); n > 0; n-- {
			if t := from + r.Int64N(1_200_000); f.everMade[t] == 0 {
				f.add(span, t)
			}
		}
		for _, start := range slices.Sorted(maps.Keys(f.buckets)) {
			if b := f.buckets[start]; r.IntN(5) == 0 && !b.Outlier && start%span == 0 {
				copied := r.IntN(len(b.Offsets) + 1)
				f.migrate(start, span, copied, copied == len(b.Offsets) && r.IntN(2) == 0)
			}
		}
	}
	return f, reach
}

func TestNewestIsWhatTheReadingsSay(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, reach := randomSeries(r)
		for range 40 {
			at := r.Int64N(9_000_000)
			from := at - r.Int64N(600_000)
			got, err := newest(f, reach, from, at)
			if err != nil {
				t.Fatal(err)
			}
			want := f.within(from, at+1)
			if len(want) > 0 {
				want = append(want[len(want)-1:], f.within(at+1, got.Until)...)
			}
			if !slices.Equal(got.Points, want) || got.Until <= at {
				t.Fatalf("seed %d: newest in [%d, %d]: %v until %d, want %v", seed, from, at, got.Points, got.Until, want)
			}
		}
	}
}

func TestStretchesJoinToAllReadings(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		f, reach := randomSeries(r)
		from := r.Int64N(8_000_000)
		until := from + 1 + r.Int64N(4_000_000)
		var got []reading.Point
		for at := from; at < until; {
			s, err := stretch(f, reach, at, until, 1+r.IntN(20))
			if err != nil {
				t.Fatal(err)
			}
			if s.Until <= at || s.Until > until {
				t.Fatalf("seed %d: a stretch from %d before %d goes to %d", seed, at, until, s.Until)
			}
			got, at = append(got, s.Points...), s.Until
		}
		if want := f.within(from, until); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

func TestNewestReadsTwoBucketsAtMost(t *testing.T) {
	f := newFakeSeries()
	for at := int64(0); at < 7_200_000; at += 10_000 {
		f.add(60_000, at+7)
	}
	for at := int64(3_600_000); at < 3_700_000; at += 997 {
		f.loaded = 0
		got, err := newest(f, 60_000, at-300_000, at)
		if err != nil || len(got.Points) == 0 {
			t.Fatalf("%v, %v", got, err)
		}
		if f.loaded > 2 || got.Documents != f.loaded {
			t.Errorf("at %d: %d buckets are read, %d are told", at, f.loaded, got.Documents)
		}
	}
}

func TestEndsOfBuckets(t *testing.T) {
	for _, tt := range []struct{ start, reach, want int64 }{
		{60_000, 60_000, 120_000},
		{60_000, 3_600_000, 120_000},
		{0, 3_600_000, 3_600_000},
		{0, dayMS, dayMS},
		{5 * 60_000, 3_600_000, 10 * 60_000},
		{-60_000, 3_600_000, 0},
		{-3_600_000, dayMS, 0},
	} {
		g := gatherer{reach: tt.reach}
		if got := g.ends(tt.start); got != tt.want {
			t.Errorf("a bucket at %d ends at %d by a reach of %d, want %d", tt.start, got, tt.reach, tt.want)
		}
	}
	// None is ever cut short: each span that divides a day, each start of it.
	for _, span := range []int64{1000, 1500, 7000 * 9, 90_000, 60_000, 5_400_000, 43_200_000, dayMS} {
		if dayMS%span != 0 {
			continue
		}
		g := gatherer{reach: dayMS}
		for i := int64(-3); i < 2000; i++ {
			if g.ends(i*span) < (i+1)*span {
				t.Fatalf("a bucket of %d ms at %d is taken to end at %d", span, i*span, g.ends(i*span))
			}
		}
	}
}
