package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gudang/internal/manifest"
	"gudang/internal/reading"
)

// memory is a store that holds what it is told, right or wrong.
type memory []*Stored

func (m memory) Scan(_ context.Context, yield func(*Stored) error) error {
	for _, b := range m {
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

func written(t testing.TB, readings ...reading.Reading) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w, err := manifest.NewWriter(&b, manifest.Header{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(1, readings...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func storedOf(b *reading.Bucket) *Stored {
	return &Stored{
		Summary: reading.Summary{Key: b.Key(), Count: int64(b.Count()), Sum: b.Sum, Min: b.Min, Max: b.Max},
		ID:      b.Series.ID(b.Start), Offsets: b.Offsets, Values: b.Values,
	}
}

// warehouse is two sensors' minute, and the buckets that hold it.
func warehouse() ([]reading.Reading, memory) {
	const start = 1796547900000
	var all []reading.Reading
	var store memory
	for _, s := range []reading.Series{{Sensor: "S-01", Metric: "temperature"}, {Sensor: "S-02", Metric: "humidity"}} {
		b := &reading.Bucket{Series: s, Start: start}
		for i := range int64(6) {
			r := reading.Reading{Series: s, Time: start + i*10000, Value: 26.1 + float64(i)/10}
			all = append(all, r)
			b.Add(r.Time, r.Value)
		}
		store = append(store, storedOf(b))
	}
	return all, store
}

func TestVerifySaysExactOfAnExactStore(t *testing.T) {
	all, store := warehouse()
	store[1].Sum *= 1 + 1e-12 // another order of additions
	r, err := Verify(t.Context(), store, written(t, all[:7]...), written(t, all[5:]...))
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Expected != 12 || r.Found != 12 || r.Stored != 12 || r.Buckets != 2 || r.Manifests != 2 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "exact: every reading is stored once") {
		t.Errorf("text %q, error %v", text.String(), err)
	}
}

func TestVerifyFinds(t *testing.T) {
	type change func(all []reading.Reading, store memory) ([]reading.Reading, memory)
	f := func(name string, c change, want Report, example string) {
		t.Run(name, func(t *testing.T) {
			all, store := c(warehouse())
			have, err := Verify(t.Context(), store, written(t, all...))
			if err != nil {
				t.Fatal(err)
			}
			if have.OK() {
				t.Error("said OK")
			}
			counts := func(r Report) string {
				return fmt.Sprint(r.Missing.Count, r.Doubled.Count, r.Foreign.Count, r.Different.Count, r.BadBucket.Count)
			}
			if counts(have) != counts(want) {
				t.Errorf("missing, doubled, foreign, different, bad: have %s, want %s", counts(have), counts(want))
			}
			var text strings.Builder
			if err := have.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), example) || !strings.Contains(text.String(), "NOT exact") {
				t.Errorf("want %q in\n%s", example, text.String())
			}
		})
	}
	one := Finding{Count: 1}
	f("a reading that is not stored", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		extra := all[0]
		extra.Time += 5000
		return append(all, extra), store
	}, Report{Missing: one}, `"S-01" temperature at 2026-12-06T09:05:05.000Z = 26.1`)
	f("a reading that nobody published", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		return all[1:], store
	}, Report{Foreign: one}, "no manifest has it")
	f("a reading in two buckets", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		b := &reading.Bucket{Series: all[0].Series, Start: all[0].Time - 60000}
		b.Offsets, b.Values, b.Sum, b.Min, b.Max = []int32{60000}, []float64{26.1}, 26.1, 26.1, 26.1
		return all, append(store, storedOf(b))
	}, Report{Doubled: one}, `"S-01" temperature at 2026-12-06T09:05:00.000Z = 26.1`)
	f("a reading twice in one bucket", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0] = storedOf(reading.BucketOf(store[0].Key, append(store[0].Offsets, 0), append(store[0].Values, 26.1)))
		return all, store
	}, Report{Doubled: one, BadBucket: one}, "offset 0 stands in it twice")
	f("another value", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		all[3].Value = 26.5
		return all, store
	}, Report{Different: one}, "expected 26.5, stored 26.400000000000002")
	f("a wrong count", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].Count = 7
		return all, store
	}, Report{BadBucket: one}, "count is 7, but it holds 6 readings")
	f("a wrong sum", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].Sum += 1e-6
		return all, store
	}, Report{BadBucket: one}, "sum is")
	f("a sum that is no number", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].Sum = math.NaN()
		return all, store
	}, Report{BadBucket: one}, "sum is NaN")
	f("a wrong minimum", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].Min = 0
		return all, store
	}, Report{BadBucket: one}, "min and max are 0 and")
	f("a wrong maximum", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[1].Max = 99
		return all, store
	}, Report{BadBucket: one}, "and 99")
	f("an id that is not computed", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].ID[15]++
		return all, store
	}, Report{BadBucket: one}, "its _id is")
	f("arrays of two lengths", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		store[0].Values = store[0].Values[:5]
		return all, store
	}, Report{Missing: one, BadBucket: one}, "6 offsets, but 5 values")
	f("one bucket in two documents", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		half := func(from, to int) *Stored {
			return storedOf(reading.BucketOf(store[0].Key, slices.Clone(store[0].Offsets[from:to]), slices.Clone(store[0].Values[from:to])))
		}
		return all, memory{half(0, 3), half(3, 6), store[1]}
	}, Report{BadBucket: one}, "stored in two documents")
	f("a bucket without readings", func(all []reading.Reading, store memory) ([]reading.Reading, memory) {
		empty := &Stored{Summary: reading.Summary{Key: reading.Key{Series: all[0].Series, Start: 60000}}}
		empty.ID = empty.Series.ID(60000)
		return all, append(store, empty)
	}, Report{BadBucket: one}, "it holds no readings")
	f("nothing at all", func(all []reading.Reading, _ memory) ([]reading.Reading, memory) {
		return all, nil
	}, Report{Missing: Finding{Count: 12}}, "and 2 more")
}

func TestVerifyFailsOnAManifestThatCannotBeTrusted(t *testing.T) {
	all, store := warehouse()
	text := written(t, all...).Bytes()
	if _, err := Verify(t.Context(), store, bytes.NewReader(text[:len(text)-1])); err == nil {
		t.Error("a cut manifest: no error")
	}
	changed := bytes.Replace(text, []byte(`"v":26.1`), []byte(`"v":26.9`), 1)
	r, err := Verify(t.Context(), store, bytes.NewReader(changed))
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() || r.Damaged.Count != 1 || r.Different.Count != 1 {
		t.Errorf("a changed manifest: %+v", r)
	}
	other := slices.Clone(all)
	other[0].Value++
	if _, err := Verify(t.Context(), store, written(t, all...), written(t, other...)); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Errorf("manifests with two values for one reading: %v", err)
	}
}

func TestVerifyPassesTheStoresErrorOn(t *testing.T) {
	all, _ := warehouse()
	broken := errors.New("disk gone")
	if _, err := Verify(t.Context(), scanFunc(func() error { return broken }), written(t, all...)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type scanFunc func() error

func (f scanFunc) Scan(context.Context, func(*Stored) error) error { return f() }

func TestReportIsJSON(t *testing.T) {
	all, store := warehouse()
	r, err := Verify(t.Context(), store, written(t, all[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"foreign":{"count":1,"examples":[`) {
		t.Errorf("%s, error %v", text, err)
	}
}

// TestVerifyMemory holds the promise in the comment of expectations.
func TestVerifyMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 300,000 readings")
	}
	const n = 300000
	pr, pw := io.Pipe()
	go func() {
		w, err := manifest.NewWriter(pw, manifest.Header{})
		for i := int64(0); i < n && err == nil; i++ {
			err = w.Write(i, reading.Reading{Series: reading.Series{Sensor: fmt.Sprintf("S-%04d", i%500), Metric: "temperature"}, Time: i, Value: 1})
		}
		pw.CloseWithError(errors.Join(err, w.Close()))
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := verifier{series: make(map[reading.Series]*expectations)}
	if err := v.expect(t.Context(), pr); err != nil {
		t.Fatal(err)
	}
	if err := v.settle(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes a reading", per)
	if per > 30 {
		t.Errorf("%.1f bytes a reading: more than 30", per)
	}
	runtime.KeepAlive(v)
}
