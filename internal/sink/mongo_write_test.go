package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

var errNetwork = errors.New("connection reset by peer")

func one(sensor string, offsets ...int32) *reading.Bucket {
	b := &reading.Bucket{Series: reading.Series{Sensor: sensor, Metric: "x"}}
	for _, off := range offsets {
		b.Add(int64(off), float64(off))
	}
	return b
}

// told is a result in a form that can be compared.
func told(res Result) string {
	var parts []string
	for _, b := range res.Again {
		parts = append(parts, "again "+b.Sensor)
	}
	for _, r := range res.Refused {
		verdict := [...]string{"refused", "duplicate", "conflict"}[r.Verdict]
		parts = append(parts, fmt.Sprintf("%s %s+%d", verdict, r.Bucket.Sensor, r.Offset))
	}
	w := res.Writes
	return strings.Join(append(parts, fmt.Sprintf("ok %d exists %d rejected %d failed %d", w.OK, w.Exists, w.Rejected, w.Failed)), ", ")
}

func TestWriteBatchSortsWhatTheServerAnswers(t *testing.T) {
	first := func(err error) func(int) error {
		return func(n int) error {
			if n == 1 {
				return err
			}
			return nil
		}
	}
	there := func(f *fakeServer, sensor string, off int32, v float64) { f.put(one(sensor).Key(), off, v) }
	for _, c := range []struct {
		name  string
		setup func(f *fakeServer)
		batch []*reading.Bucket
		want  string
		err   string
	}{
		{"all is new", func(*fakeServer) {}, []*reading.Bucket{one("a", 1), one("b", 1, 2)}, "ok 2 exists 0 rejected 0 failed 0", ""},
		{
			"one reading is there", func(f *fakeServer) { there(f, "a", 1, 1) },
			[]*reading.Bucket{one("a", 1), one("b", 1)},
			"duplicate a+1, ok 1 exists 1 rejected 0 failed 0", "",
		},
		{
			"one of two is there, and the other is written", func(f *fakeServer) { there(f, "a", 1, 1) },
			[]*reading.Bucket{one("a", 1, 2)},
			"duplicate a+1, ok 1 exists 1 rejected 0 failed 0", "",
		},
		{
			"another value is there", func(f *fakeServer) { there(f, "a", 1, 5) },
			[]*reading.Bucket{one("a", 1, 2)},
			"conflict a+1, ok 1 exists 1 rejected 0 failed 0", "",
		},
		{
			"the server stops at the first error and says nothing of the rest", func(f *fakeServer) { f.stops = true; there(f, "b", 1, 5) },
			[]*reading.Bucket{one("a", 1), one("b", 1, 2), one("c", 1), one("d", 1)},
			"conflict b+1, ok 3 exists 0 rejected 0 failed 4", "",
		},
		{
			"the same with a write that it never takes", func(f *fakeServer) { f.stops = true; f.codes["b"] = 14 },
			[]*reading.Bucket{one("a", 1), one("b", 1, 2), one("c", 1)},
			"refused b+1, refused b+2, ok 1 exists 0 rejected 1 failed 5", "",
		},
		{
			"a damaged bucket costs only itself", func(f *fakeServer) { f.codes["b"] = 14 },
			[]*reading.Bucket{one("a", 1), one("b", 1, 2), one("c", 1)},
			"refused b+1, refused b+2, ok 2 exists 0 rejected 1 failed 0", "",
		},
		{
			"the command as a whole is refused for one write", func(f *fakeServer) { f.whole = true; f.codes["c"] = 17419 },
			[]*reading.Bucket{one("a", 1), one("b", 1), one("c", 1), one("d", 1)},
			"refused c+1, ok 1 exists 2 rejected 1 failed 0", "",
		},
		{
			"a server that refuses everything loses nothing", func(f *fakeServer) { f.whole, f.refuses = true, true; f.codes["a"], f.codes["b"] = 2, 2 },
			[]*reading.Bucket{one("a", 1), one("b", 1)},
			"again a, again b, ok 0 exists 0 rejected 0 failed 2", "whole command",
		},
		{
			"a code that may pass", func(f *fakeServer) { f.codes["b"] = 11602 },
			[]*reading.Bucket{one("a", 1), one("b", 1)},
			"again b, ok 1 exists 0 rejected 0 failed 1", "code 11602",
		},
		{
			"no right to write may pass: an operator gives it", func(f *fakeServer) { f.codes["a"] = 13 },
			[]*reading.Bucket{one("a", 1)},
			"again a, ok 0 exists 0 rejected 0 failed 1", "code 13",
		},
		{
			"the server is away", func(f *fakeServer) { f.before = first(errNetwork) },
			[]*reading.Bucket{one("a", 1), one("b", 1)},
			"again a, again b, ok 0 exists 0 rejected 0 failed 2", "reset",
		},
		{
			"the reply is lost", func(f *fakeServer) { f.after = first(errNetwork) },
			[]*reading.Bucket{one("a", 1)},
			"again a, ok 0 exists 0 rejected 0 failed 1", "reset",
		},
		{"written, but not by a majority", func(f *fakeServer) {
			f.unsafe = func(int) bool { return true }
			there(f, "b", 1, 1)
			f.codes["c"] = 14
		}, []*reading.Bucket{one("a", 1), one("b", 1), one("c", 1)}, "again a, again b, refused c+1, ok 0 exists 0 rejected 1 failed 2", "not safely"},
		{"an outlier", func(f *fakeServer) {
			there(f, "a", 1, 1)
			set(f.docs[one("a").ID(0)], "isOutlier", true)
		}, []*reading.Bucket{one("a", 2), one("b", 1)}, "ok 2 exists 1 rejected 0 failed 0", ""},
		{"another's document under the id", func(f *fakeServer) {
			there(f, "a", 1, 1)
			set(f.docs[one("a").ID(0)], "sensorId", "someone else")
		}, []*reading.Bucket{one("a", 2)}, "refused a+2, ok 0 exists 1 rejected 1 failed 0", ""},
		{"an empty bucket is not created", func(*fakeServer) {}, []*reading.Bucket{one("a")}, "ok 0 exists 0 rejected 0 failed 0", ""},
	} {
		f := newFake()
		c.setup(f)
		res := writeBatch(t.Context(), f, c.batch)
		if have := told(res); have != c.want {
			t.Errorf("%s: %s, want %s", c.name, have, c.want)
		}
		if c.err == "" && res.Err != nil || c.err != "" && (res.Err == nil || !strings.Contains(res.Err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.name, res.Err, c.err)
		}
		if (res.Err != nil) != (len(res.Again) > 0) {
			t.Errorf("%s: %d to write again, error %v", c.name, len(res.Again), res.Err)
		}
		for _, r := range res.Refused {
			if r.Verdict == reading.Added && (r.Reason != reading.StoreRefused || r.Detail == "") {
				t.Errorf("%s: refused for %q, %q", c.name, r.Reason, r.Detail)
			}
		}
	}
}

func TestWriteBatchWinsTheRaceToCreateABucket(t *testing.T) {
	f := newFake()
	f.put(one("a").Key(), 7, 7) // by another, between our look and our insert
	f.codes["a"] = mongodb.CodeDuplicateKey
	f.before = func(n int) error {
		if n == 2 {
			delete(f.codes, "a")
		}
		return nil
	}
	res := writeBatch(t.Context(), f, []*reading.Bucket{one("a", 1)})
	if have := told(res); have != "ok 1 exists 1 rejected 0 failed 0" {
		t.Error(have)
	}
	have, _ := f.stored(one("a").Key())
	if !maps.Equal(have, map[int32]float64{1: 1, 7: 7}) {
		t.Errorf("stored %v", have)
	}
}

func TestWriteBatchGivesUpOnAnEndlessRaceWithoutLosingReadings(t *testing.T) {
	f := newFake()
	f.codes["a"] = mongodb.CodeDuplicateKey
	res := writeBatch(t.Context(), f, []*reading.Bucket{one("a", 1), one("b", 1)})
	if len(res.Again) != 1 || !errors.Is(res.Err, errContested) || f.n > rounds {
		t.Errorf("%s after %d commands, error %v", told(res), f.n, res.Err)
	}
}

func TestUniqueIndexOfSomeoneElseIsNotTriedForEver(t *testing.T) {
	fate, _ := fateOf(mongo.WriteError{Code: 11000, Message: "E11000 duplicate key error collection: gudang.buckets index: start_1 dup key: { start: 1 }"})
	if fate != refused {
		t.Errorf("another index: fate %d", fate)
	}
	for _, message := range []string{"E11000 duplicate key error collection: gudang.buckets index: _id_ dup key: { _id: UUID() }", "E11000 duplicate key error"} {
		if fate, _ := fateOf(mongo.WriteError{Code: 11000, Message: message}); fate != exists {
			t.Errorf("%q: fate %d", message, fate)
		}
	}
}

// TestEachReadingIsStoredOnceWhateverGoesWrong writes random flushes through a
// server that loses replies, stops half-way and forgets majorities, and checks
// both what is stored and what was said of it.
func TestEachReadingIsStoredOnceWhateverGoesWrong(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		chance := func(p float64, err error) func(int) error {
			return func(int) error {
				if rnd.Float64() < p {
					return err
				}
				return nil
			}
		}
		f := newFake()
		f.before, f.after = chance(0.1, errNetwork), chance(0.1, errNetwork)
		f.unsafe = func(int) bool { return rnd.Float64() < 0.1 }
		f.stops = seed%2 == 0
		want := map[reading.Key]map[int32]float64{}
		for range 20 {
			flush := map[string]*reading.Bucket{}
			conflicts := map[string]int{}
			for range 1 + rnd.IntN(10) {
				b := one(string(rune('a' + rnd.IntN(5))))
				if flush[b.Sensor] == nil {
					flush[b.Sensor] = b
				}
				off, v := int32(rnd.IntN(50)), float64(rnd.IntN(2))
				if flush[b.Sensor].Add(int64(off), v) != reading.Added {
					continue
				}
				if want[b.Key()] == nil {
					want[b.Key()] = map[int32]float64{}
				}
				if old, ok := want[b.Key()][off]; !ok {
					want[b.Key()][off] = v
				} else if old != v {
					conflicts[b.Sensor]++
				}
			}
			var left []*reading.Bucket
			for _, b := range flush {
				left = append(left, b)
			}
			for tries := 0; len(left) > 0; tries++ {
				if tries > 1000 {
					t.Fatalf("seed %d: no progress", seed)
				}
				res := writeBatch(t.Context(), f, left)
				for _, r := range res.Refused {
					if r.Verdict == reading.Conflict {
						conflicts[r.Bucket.Sensor]--
					} else if r.Verdict == reading.Added {
						t.Fatalf("seed %d: refused %+v", seed, r)
					}
				}
				left = res.Again
			}
			for sensor, n := range conflicts {
				if n != 0 {
					t.Errorf("seed %d: %d conflicts of %s more than were told", seed, n, sensor)
				}
			}
		}
		for key, readings := range want {
			if have, twice := f.stored(key); twice || !maps.Equal(have, readings) {
				t.Fatalf("seed %d: %v holds %v (one twice: %t), want %v", seed, key, have, twice, readings)
			}
		}
	}
}

func TestSplitKeepsOrderAndBounds(t *testing.T) {
	for _, c := range []struct{ buckets, writers, most, want int }{
		{0, 4, 1000, 0}, {1, 4, 1000, 1}, {100, 4, 1000, 1}, {101, 4, 1000, 2}, {4000, 4, 1000, 4}, {10_000, 4, 1000, 10}, {10_000, 1, 1000, 10}, {7, 1, 1, 7},
	} {
		var all []*reading.Bucket
		for i := range c.buckets {
			all = append(all, one(fmt.Sprintf("%05d", i), 1))
		}
		batches := split(all, c.writers, c.most)
		var joined []*reading.Bucket
		for _, b := range batches {
			joined = append(joined, b...)
		}
		if len(batches) != c.want || len(joined) != len(all) {
			t.Errorf("%d buckets for %d writers: %d batches with %d, want %d", c.buckets, c.writers, len(batches), len(joined), c.want)
		}
		for i := range joined {
			if joined[i] != all[i] {
				t.Fatalf("bucket %d is out of order", i)
			}
		}
	}
	large := numbered(reading.Series{Sensor: "a", Metric: "x"}, 0, 60_000)
	if n := len(split([]*reading.Bucket{large, large, large}, 1, 1000)); n != 3 {
		t.Errorf("three buckets of 60,000 readings in %d batches", n)
	}
}

// However many readings a flush has for one bucket, no document gets them all.
func TestAHugeBucketIsAnOutlierFromTheStart(t *testing.T) {
	f := newFake()
	huge := numbered(reading.Series{Sensor: "huge", Metric: "x"}, 0, 50_000)
	res := writeBatch(t.Context(), f, []*reading.Bucket{huge, one("b", 1)})
	if have := told(res); have != "ok 2 exists 0 rejected 0 failed 0" || res.Migrated != 1 || len(res.Outliers) != 1 {
		t.Errorf("%s, %d migrated, outliers %v", have, res.Migrated, res.Outliers)
	}
	doc := f.docs[huge.ID(0)]
	if field(doc, "offsets") != nil || field(doc, "count") != int32(50_000) || len(f.overflow) != 50_000 {
		t.Errorf("count %v, %d in overflow, offsets %v", field(doc, "count"), len(f.overflow), field(doc, "offsets"))
	}
}

func TestStoredReadingsToleratesWhatAShellDoes(t *testing.T) {
	key := one("a").Key()
	doc := func(change func(bson.D)) bson.Raw {
		d := emptyDoc(key.ID(0), key)
		set(d, "offsets", bson.A{int32(1), 2.0, int64(3)})
		set(d, "values", bson.A{1.5, int32(2), int64(3)})
		change(d)
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	have, detail := storedReadings(doc(func(bson.D) {}), key)
	if detail != "" || !maps.Equal(have, map[int32]float64{1: 1.5, 2: 2, 3: 3}) {
		t.Errorf("%v, %q", have, detail)
	}
	for name, change := range map[string]func(bson.D){
		"offsets are text":        func(d bson.D) { set(d, "offsets", "poison") },
		"arrays of two lengths":   func(d bson.D) { set(d, "values", bson.A{1.0}) },
		"an offset is text":       func(d bson.D) { set(d, "offsets", bson.A{"1", 2, 3}) },
		"an offset is a fraction": func(d bson.D) { set(d, "offsets", bson.A{1.5, 2, 3}) },
		"start is text":           func(d bson.D) { set(d, "start", "1970") },
		"another metric":          func(d bson.D) { set(d, "metric", "y") },
	} {
		if _, detail := storedReadings(doc(change), key); detail == "" {
			t.Errorf("%s: taken for good", name)
		}
	}
}

// benchServer takes everything.
type benchServer struct{ *fakeServer }

func (benchServer) upsert(_ context.Context, items []*item) (mongodb.Answer, error) {
	return mongodb.Answer{N: len(items)}, nil
}
func (benchServer) read(context.Context, bson.A, func(bson.Raw)) error { return nil }
func (benchServer) writable(context.Context) bool                      { return true }

func BenchmarkWriteBatch(b *testing.B) {
	for _, n := range []int{1, 6} {
		b.Run(fmt.Sprintf("buckets=1000/readings=%d", n), func(b *testing.B) {
			var batch []*reading.Bucket
			for i := range 1000 {
				batch = append(batch, numbered(reading.Series{Sensor: fmt.Sprintf("warehouse-1-sensor-%04d", i), Metric: "temperature"}, 0, n))
			}
			b.ReportAllocs()
			for b.Loop() {
				writeBatch(b.Context(), benchServer{newFake()}, batch)
			}
		})
	}
}

// BenchmarkMongo is the way through the driver to a server that takes
// everything: 1,000 buckets, and the documents of 1,000 new sensors.
func BenchmarkMongo(b *testing.B) {
	uri := testenv.ServeMongo(b, func(bson.Raw, bson.D) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1000}}
	})
	m, err := OpenMongo(uri, "gudang", MongoWriters(1))
	if err != nil {
		b.Fatal(err)
	}
	m.setup.ready = true
	var buckets []*reading.Bucket
	var sensors []reading.Sensor
	for i := range 1000 {
		bucket := numbered(reading.Series{Sensor: fmt.Sprintf("warehouse-1-sensor-%04d", i), Metric: "temperature"}, 0, 6)
		buckets = append(buckets, bucket)
		sensors = append(sensors, reading.Sensor{ID: bucket.Sensor, Metrics: map[string][]reading.Point{bucket.Metric: newestOf(bucket, 10)}})
	}
	b.Run("buckets=1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if res := m.WriteBuckets(b.Context(), buckets); res.Err != nil {
				b.Fatal(res.Err)
			}
		}
	})
	b.Run("sensors=1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := m.CreateSensors(b.Context(), sensors, 10); err != nil {
				b.Fatal(err)
			}
		}
	})
}
