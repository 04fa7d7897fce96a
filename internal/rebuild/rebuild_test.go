package rebuild

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gudang/internal/reading"
)

// memory is a store in memory, which may stop after so many writes.
type memory struct {
	raw      map[reading.Series]map[int64]float64
	overflow map[reading.Series]map[int64]float64
	buckets  map[reading.Key]reading.Record
	never    map[int64]bool // times that are refused for good
	left     int
}

var errStep = errors.New("stopped after this step")

func newMemory() *memory {
	return &memory{
		raw: map[reading.Series]map[int64]float64{}, overflow: map[reading.Series]map[int64]float64{},
		buckets: map[reading.Key]reading.Record{}, never: map[int64]bool{}, left: math.MaxInt,
	}
}

func (m *memory) NextSeries(_ context.Context, after reading.Series) (reading.Series, bool, error) {
	all := slices.Collect(maps.Keys(m.raw))
	for k := range m.buckets {
		all = append(all, k.Series)
	}
	slices.SortFunc(all, reading.Series.Compare)
	for _, s := range all {
		if s.Compare(after) > 0 {
			return s, true, nil
		}
	}
	return reading.Series{}, false, nil
}

func points(of map[int64]float64, q reading.Query) (found []reading.Point) {
	for _, t := range slices.Sorted(maps.Keys(of)) {
		if t >= q.From && t < q.Until() && len(found) < q.Limit {
			found = append(found, reading.Point{Time: t, Value: of[t]})
		}
	}
	return found
}

func (m *memory) RawReadings(_ context.Context, q reading.Query) ([]reading.Point, error) {
	return points(m.raw[reading.Series{Sensor: q.Sensor, Metric: q.Metric}], q), nil
}

func (m *memory) OverflowReadings(_ context.Context, q reading.Query) ([]reading.Point, error) {
	return points(m.overflow[reading.Series{Sensor: q.Sensor, Metric: q.Metric}], q), nil
}

func (m *memory) Records(_ context.Context, q reading.Query) (found []reading.Record, err error) {
	for k, r := range m.buckets {
		if k.Sensor == q.Sensor && k.Metric == q.Metric && k.Start >= q.From && k.Start < q.Until() {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b reading.Record) int { return int(a.Start - b.Start) })
	return found[:min(len(found), q.Limit)], nil
}

func (m *memory) step() error {
	if m.left--; m.left < 0 {
		return errStep
	}
	return nil
}

func (m *memory) Write(_ context.Context, buckets []*reading.Bucket) (refused []reading.Refusal, err error) {
	for _, b := range buckets {
		if err := m.step(); err != nil {
			return nil, err
		}
		r := m.buckets[b.Key()]
		have := reading.BucketOf(b.Key(), slices.Clone(r.Offsets), slices.Clone(r.Values))
		for i, off := range b.Offsets {
			t := b.Start + int64(off)
			if m.never[t] || r.Outlier {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Reason: reading.StoreRefused})
			} else if v := have.Add(t, b.Values[i]); v != reading.Added {
				refused = append(refused, reading.Refusal{Bucket: b, Offset: off, Verdict: v})
			}
		}
		if !r.Outlier {
			m.put(have)
		}
	}
	return refused, nil
}

// put stores a bucket as it should be.
func (m *memory) put(b *reading.Bucket) {
	if b.Count() == 0 {
		delete(m.buckets, b.Key())
		return
	}
	m.buckets[b.Key()] = reading.Record{
		Summary: reading.Summary{Key: b.Key(), Count: int64(b.Count()), Sum: b.Sum, Min: b.Min, Max: b.Max}, Offsets: b.Offsets, Values: b.Values,
	}
}

func (m *memory) FixBuckets(_ context.Context, keys []reading.Key, fix func(*reading.Record) *reading.Bucket) error {
	for _, key := range keys {
		if err := m.step(); err != nil {
			return err
		}
		r, found := m.buckets[key]
		if !found || r.Outlier {
			continue
		}
		if want := fix(&r); want != nil {
			m.put(want)
		}
	}
	return nil
}

// add puts a reading into a bucket of that span.
func (m *memory) add(s reading.Series, span reading.Span, t int64, v float64) {
	key := reading.Key{Series: s, Start: span.Start(t)}
	r := m.buckets[key]
	b := reading.BucketOf(key, slices.Clone(r.Offsets), slices.Clone(r.Values))
	b.Add(t, v)
	m.put(b)
}

// seen is what a reader gets: each time once, and how often it is stored.
func (m *memory) seen(s reading.Series) (values map[int64]float64, copies map[int64]int) {
	values, copies = map[int64]float64{}, map[int64]int{}
	for k, r := range m.buckets {
		if k.Series != s {
			continue
		}
		for _, p := range r.Points() {
			values[p.Time] = p.Value
			copies[p.Time]++
		}
	}
	return values, copies
}

func run(m *memory, cfg Config, pieces, records int) (Summary, error) {
	b := builder{cfg: cfg, source: m, target: m, piece: pieces, records: records}
	for {
		series, more, err := m.NextSeries(context.Background(), b.sum.Done)
		if err != nil || !more {
			return b.sum, err
		}
		if err := b.series(context.Background(), series); err != nil {
			return b.sum, err
		}
		b.sum.Done = series
	}
}

const second = reading.Span(1000)

// TestAnyHistoryEndsExact makes stores of every kind of disorder: buckets of
// three spans, wrong counters, wrong values, what raw has and they lack. Each
// is rebuilt in pieces of every size, stopped after every step.
func TestAnyHistoryEndsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	spans := []reading.Span{10 * second, 60 * second, 120 * second, 180 * second}
	for round := range 300 {
		m, span := newMemory(), spans[rnd.IntN(len(spans))]
		s := reading.Series{Sensor: "S", Metric: "x"}
		m.raw[s] = map[int64]float64{}
		truth := map[int64]float64{}
		base := int64(1_780_000_000_000)
		from := span.Start(base)
		for range 1 + rnd.IntN(30) {
			at := from + rnd.Int64N(900_000)
			if _, there := truth[at]; there {
				continue
			}
			truth[at] = float64(rnd.IntN(100)) / 4
			inRaw := len(truth) == 1 || rnd.IntN(4) > 0
			if inRaw {
				m.raw[s][at] = truth[at]
			}
			if old := spans[rnd.IntN(len(spans))]; !inRaw || rnd.IntN(3) > 0 {
				m.add(s, old, at, truth[at])
			}
		}
		// What is before raw's first span stays as it is, and here nothing is.
		m.raw[s][from], truth[from] = 1, 1
		for k, r := range m.buckets {
			switch rnd.IntN(6) {
			case 0:
				r.Count++
			case 1:
				r.Sum = math.NaN()
			case 2:
				if v, ok := m.raw[s][k.Start+int64(r.Offsets[0])]; ok {
					r.Values[0] = v + 1
				}
			}
			m.buckets[k] = r
		}
		first, _ := m.seen(s)
		cfg := Config{Span: span, From: from, To: from + 1_080_000}
		pieces, records := 1+rnd.IntN(8), 2+rnd.IntN(4)
		for n := 0; ; n++ {
			m.left = n
			_, err := run(m, cfg, pieces, records)
			values, _ := m.seen(s)
			for at := range truth {
				_, was := first[at]
				if _, is := values[at]; was && !is {
					t.Fatalf("round %d, span %v, stopped after %d: the reading at +%d is in no bucket", round, span.Duration(), n, at-from)
				}
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errStep) || n > 500 {
				t.Fatalf("round %d: after %d steps %v", round, n, err)
			}
		}
		wantExact(t, m, s, span, truth)
		m.left = 0
		if sum, err := run(m, cfg, pieces, records); err != nil {
			t.Fatalf("round %d: a second run has something to do: %+v, %v", round, sum, err)
		}
	}
}

// wantExact checks that each reading is in the bucket that it belongs to, and
// in no other, and that the buckets agree with themselves.
func wantExact(t *testing.T, m *memory, s reading.Series, span reading.Span, truth map[int64]float64) {
	t.Helper()
	values, copies := m.seen(s)
	if !maps.Equal(values, truth) {
		t.Fatalf("stored %v, want %v", values, truth)
	}
	for at, n := range copies {
		if n != 1 {
			t.Fatalf("the reading at %d is stored %d times", at, n)
		}
	}
	for k, r := range m.buckets {
		if !r.Sound() || span.Start(k.Start) != k.Start {
			t.Fatalf("bucket %+v is not sound, or not of the span", r)
		}
		for _, off := range r.Offsets {
			if int64(off) >= int64(span) {
				t.Fatalf("bucket %+v reaches beyond its span", r)
			}
		}
	}
}

func TestWhatCannotBePlacedStaysWhereItIs(t *testing.T) {
	m := newMemory()
	s := reading.Series{Sensor: "S", Metric: "x"}
	m.raw[s] = map[int64]float64{0: 1, 70_000: 2, 130_000: 3}
	for at, v := range m.raw[s] {
		m.add(s, 180*second, at, v)
	}
	m.never[70_000] = true
	cfg := Config{Span: 60 * second, To: 180_000}
	sum, err := run(m, cfg, piece, recordsAtOnce)
	if err != nil || sum.Refused != 1 || sum.Moved != 1 {
		t.Errorf("%+v, error %v", sum, err)
	}
	if values, copies := m.seen(s); !maps.Equal(values, m.raw[s]) || copies[70_000] != 1 {
		t.Errorf("stored %v %v", values, copies)
	}
}

func TestOutliersAreLeftAlone(t *testing.T) {
	m := newMemory()
	s := reading.Series{Sensor: "S", Metric: "x"}
	m.raw[s] = map[int64]float64{0: 1, 60_000: 2, 61_000: 3, 120_000: 4}
	m.overflow[s] = map[int64]float64{60_000: 2}
	out := reading.Key{Series: s, Start: 60_000}
	m.buckets[out] = reading.Record{Summary: reading.Summary{Key: out, Count: 1, Sum: 2, Min: 2, Max: 2, Outlier: true}}
	before := m.buckets[out]
	sum, err := run(m, Config{Span: 60 * second, To: 180_000}, 2, 2)
	if err != nil || sum.Outliers != 2 || sum.Added != 2 || sum.Refused != 0 {
		t.Errorf("%+v, error %v", sum, err)
	}
	if after := m.buckets[out]; after.Summary != before.Summary || len(after.Offsets) > 0 {
		t.Errorf("the outlier is %+v, was %+v", after, before)
	}
}

func TestOnlyTheSeriesAfterTheGivenOne(t *testing.T) {
	m := newMemory()
	for _, name := range []string{"a", "b", "c"} {
		m.raw[reading.Series{Sensor: name, Metric: "x"}] = map[int64]float64{0: 1}
	}
	var told []Summary
	cfg := Config{Span: 60 * second, To: 60_000, After: reading.Series{Sensor: "a", Metric: "x"}, Progress: func(s Summary) { told = append(told, s) }}
	sum, err := Run(t.Context(), cfg, m, m)
	if err != nil || sum.Series != 2 || sum.Added != 2 || sum.Done.Sensor != "c" || len(told) != 2 {
		t.Errorf("%+v, error %v, told %v", sum, err, told)
	}
	if _, there := m.buckets[reading.Key{Series: reading.Series{Sensor: "a", Metric: "x"}}]; there {
		t.Error("a series that was to be passed over was built")
	}
	m.left = 0
	m.buckets = map[reading.Key]reading.Record{}
	if sum, err := Run(t.Context(), cfg, m, m); !errors.Is(err, errStep) || sum.Done != cfg.After {
		t.Errorf("stopped: %+v, error %v", sum, err)
	}
}
