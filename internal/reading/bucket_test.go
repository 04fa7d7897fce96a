package reading

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func at(t *testing.T, s string) int64 {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.UnixMilli()
}

// The worked example of the bucket pattern: twelve readings, two buckets.
func TestTheWorkedExampleGivesTwoBuckets(t *testing.T) {
	readings := []struct {
		time  string
		value float64
	}{
		{"2026-12-06T09:05:10Z", 26.4},
		{"2026-12-06T09:05:20Z", 26.6},
		{"2026-12-06T09:05:30Z", 26.5},
		{"2026-12-06T09:05:40Z", 26.7},
		{"2026-12-06T09:05:50Z", 26.8},
		{"2026-12-06T09:05:59Z", 26.6},
		{"2026-12-06T09:06:10Z", 27.0},
		{"2026-12-06T09:06:20Z", 27.2},
		{"2026-12-06T09:06:30Z", 27.1},
		{"2026-12-06T09:06:40Z", 27.3},
		{"2026-12-06T09:06:50Z", 27.4},
		{"2026-12-06T09:06:59Z", 27.2},
	}
	span, err := NewSpan(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	buckets := map[int64]*Bucket{}
	for _, r := range readings {
		ms := at(t, r.time)
		b := buckets[span.Start(ms)]
		if b == nil {
			b = &Bucket{Series: Series{"S-01", "temperature"}, Start: span.Start(ms)}
			buckets[b.Start] = b
		}
		if v := b.Add(ms, r.value); v != Added {
			t.Fatalf("%s: verdict %v, want Added", r.time, v)
		}
	}
	if len(buckets) != 2 {
		t.Fatalf("%d buckets, want 2", len(buckets))
	}
	for start, want := range map[string]struct{ sum, lo, hi float64 }{
		"2026-12-06T09:05:00Z": {159.6, 26.4, 26.8},
		"2026-12-06T09:06:00Z": {163.2, 27.0, 27.4},
	} {
		b := buckets[at(t, start)]
		if b == nil {
			t.Fatalf("no bucket at %s", start)
		}
		if b.Count() != 6 || b.Min != want.lo || b.Max != want.hi || math.Abs(b.Sum-want.sum) > 1e-9 {
			t.Errorf("%s: count %d sum %v min %v max %v, want 6 %v %v %v", start, b.Count(), b.Sum, b.Min, b.Max, want.sum, want.lo, want.hi)
		}
	}
	if got := buckets[at(t, "2026-12-06T09:05:00Z")].Offsets; got[0] != 10000 || got[5] != 59000 {
		t.Errorf("offsets %v, want 10000 first and 59000 last", got)
	}
}

func TestABucketRefusesWhatItHas(t *testing.T) {
	b := &Bucket{Start: 60_000}
	for _, c := range []struct {
		name string
		t    int64
		v    float64
		want Verdict
	}{
		{"the first reading is added", 60_000, 1, Added},
		{"the same again is a duplicate", 60_000, 1, Duplicate},
		{"another value at that time is a conflict", 60_000, 2, Conflict},
		{"a later one is added", 70_000, 5, Added},
		{"an earlier one that comes late is added", 65_000, -3, Added},
		{"which is then a duplicate too", 65_000, -3, Duplicate},
	} {
		if got := b.Add(c.t, c.v); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if b.Count() != 3 || b.Sum != 3 || b.Min != -3 || b.Max != 5 {
		t.Errorf("count %d sum %v min %v max %v, want 3 3 -3 5", b.Count(), b.Sum, b.Min, b.Max)
	}
}

func TestNegativeZeroIsStoredAsZero(t *testing.T) {
	b := &Bucket{}
	b.Add(0, math.Copysign(0, -1))
	if math.Signbit(b.Values[0]) || math.Signbit(b.Sum) || math.Signbit(b.Min) || math.Signbit(b.Max) {
		t.Errorf("a sign is left on %v, sum %v, min %v, max %v", b.Values[0], b.Sum, b.Min, b.Max)
	}
	if got := b.Add(0, 0); got != Duplicate {
		t.Errorf("0 after -0: %v, want Duplicate", got)
	}
}

// A bucket of any size and order of arrival must give what a map gives.
func TestABucketAgreesWithAMap(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := &Bucket{Start: 120_000}
		model := map[int64]float64{}
		for range 20 + rng.IntN(500) {
			ms, v := 120_000+rng.Int64N(400), float64(rng.IntN(3))
			want := Added
			if old, ok := model[ms]; ok && old == v {
				want = Duplicate
			} else if ok {
				want = Conflict
			} else {
				model[ms] = v
			}
			if got := b.Add(ms, v); got != want {
				t.Fatalf("seed %d: Add(%d, %v) = %v, want %v", seed, ms, v, got, want)
			}
		}
		if b.Count() != len(model) {
			t.Fatalf("seed %d: %d readings, want %d", seed, b.Count(), len(model))
		}
		for i, off := range b.Offsets {
			if model[120_000+int64(off)] != b.Values[i] || b.Find(off) != i {
				t.Fatalf("seed %d: reading %d is not where it belongs", seed, i)
			}
		}
		again := BucketOf(b.Key(), b.Offsets, b.Values)
		if again.Sum != b.Sum || again.Min != b.Min || again.Max != b.Max || again.Merge(b) != 0 {
			t.Fatalf("seed %d: BucketOf differs from what Add made", seed)
		}
	}
}

func TestMergeAddsWhatIsNew(t *testing.T) {
	a, b := &Bucket{}, &Bucket{}
	a.Add(1, 10)
	a.Add(2, 20)
	b.Add(2, 20)
	b.Add(3, 30)
	if got := a.Merge(b); got != 1 || a.Count() != 3 || a.Sum != 60 {
		t.Errorf("merged %d, count %d, sum %v; want 1, 3, 60", got, a.Count(), a.Sum)
	}
}

func TestSpans(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 7 * time.Second, 25 * time.Hour, -time.Minute, 1500*time.Millisecond + 1} {
		if _, err := NewSpan(d); err == nil {
			t.Errorf("NewSpan(%v) was accepted", d)
		}
	}
	for _, c := range []struct {
		span        time.Duration
		time, start string
	}{
		{time.Minute, "2026-12-06T09:05:59.999Z", "2026-12-06T09:05:00Z"},
		{time.Minute, "2026-12-06T09:06:00Z", "2026-12-06T09:06:00Z"},
		{time.Hour, "2026-12-06T09:59:59.999Z", "2026-12-06T09:00:00Z"},
		{24 * time.Hour, "2026-12-06T23:59:59.999Z", "2026-12-06T00:00:00Z"},
		{time.Second, "1969-12-31T23:59:59.001Z", "1969-12-31T23:59:59Z"},
	} {
		span, err := NewSpan(c.span)
		if err != nil {
			t.Fatal(err)
		}
		if got := span.Start(at(t, c.time)); got != at(t, c.start) {
			t.Errorf("%v: %s starts at %d, want %s", c.span, c.time, got, c.start)
		}
	}
}

func BenchmarkBucketAdd(b *testing.B) {
	b.ReportAllocs()
	var bucket *Bucket
	for i := 0; b.Loop(); i++ {
		if i%6 == 0 {
			bucket = &Bucket{}
		}
		bucket.Add(int64(i%6)*10_000, 26.4)
	}
}
