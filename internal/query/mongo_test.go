package query

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

func encode(t testing.TB, doc bson.D) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func goodBucket() (bson.D, Stored) {
	want := Stored{Summary: reading.Summary{
		Key:   reading.Key{Series: reading.Series{Sensor: "S-01", Metric: "temperature"}, Start: 60_000},
		Count: 2, Sum: 42.5, Min: 21, Max: 21.5,
	}, Offsets: []int32{10_000, 20_000}, Values: []float64{21, 21.5}}
	want.ID = want.Series.ID(want.Start)
	return bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: want.ID[:]}},
		{Key: "sensorId", Value: "S-01"},
		{Key: "metric", Value: "temperature"},
		{Key: "start", Value: bson.DateTime(60_000)},
		{Key: "offsets", Value: bson.A{int32(10_000), int32(20_000)}},
		{Key: "values", Value: bson.A{21.0, 21.5}},
		{Key: "count", Value: int32(2)},
		{Key: "sum", Value: 42.5},
		{Key: "min", Value: 21.0},
		{Key: "max", Value: 21.5},
	}, want
}

func same(a, b Stored) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) } // NaN is NaN here

func TestDecodeBucket(t *testing.T) {
	with := func(key string, value any) bson.D {
		doc, _ := goodBucket()
		i := slices.IndexFunc(doc, func(e bson.E) bool { return e.Key == key })
		if i < 0 {
			return append(doc, bson.E{Key: key, Value: value})
		}
		doc[i].Value = value
		return doc
	}
	for _, c := range []struct {
		name string
		doc  bson.D
		want func(*Stored)
	}{
		{"as it is written", with("count", int32(2)), func(*Stored) {}},
		{"whole numbers that a shell has made integers", with("values", bson.A{int32(21), 21.5}), func(*Stored) {}},
		{"offsets that a shell has made doubles", with("offsets", bson.A{10_000.0, int64(20_000)}), func(*Stored) {}},
		{"a count that a shell has made a double", with("count", 2.0), func(*Stored) {}},
		{"an outlier", with("isOutlier", true), func(b *Stored) { b.Outlier = true }},
		{"a sum that is no number", with("sum", "poison"), func(b *Stored) { b.Sum = math.NaN() }},
		{"an array that is none", with("offsets", "poison"), func(b *Stored) { b.Offsets = nil }},
		{"an array with something else in it", with("values", bson.A{21.0, "poison", 3.0}), func(b *Stored) { b.Values = b.Values[:1] }},
		{"an offset that is no whole number", with("offsets", bson.A{10_000.5}), func(b *Stored) { b.Offsets = nil }},
		{"an id of another kind", with("_id", "poison"), func(b *Stored) { b.ID = [16]byte{} }},
		{"a field of someone else's", with("note", bson.D{{Key: "a", Value: 1}}), func(*Stored) {}},
	} {
		_, want := goodBucket()
		c.want(&want)
		have := Stored{Offsets: []int32{1, 2, 3}, Values: []float64{4}}
		decodeBucket(encode(t, c.doc), &have)
		if !same(have, want) {
			t.Errorf("%s: %+v, want %+v", c.name, have, want)
		}
	}
}

func FuzzDecodeBucket(f *testing.F) {
	doc, _ := goodBucket()
	f.Add([]byte(encode(f, doc)))
	f.Add([]byte(encode(f, bson.D{{Key: "offsets", Value: bson.A{1.5, "x", int64(1) << 40}}})))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, doc []byte) {
		used := Stored{Offsets: []int32{7}, Values: []float64{7}, ID: [16]byte{7}}
		used.Sensor, used.Count, used.Outlier = "used", 7, true
		var fresh Stored
		decodeBucket(doc, &used)
		decodeBucket(doc, &fresh)
		if !same(used, fresh) {
			t.Errorf("what was decoded before shows through: %+v, want %+v", used, fresh)
		}
	})
}

func BenchmarkDecodeBucket(b *testing.B) {
	doc, _ := goodBucket()
	raw := encode(b, doc)
	var have Stored
	b.ReportAllocs()
	for b.Loop() {
		decodeBucket(raw, &have)
	}
}

func TestOpenMongoRefusesWhatCanNeverWork(t *testing.T) {
	if _, err := OpenMongo("mongodb://", "gudang", 60_000); err == nil {
		t.Error("an URI without a host was taken")
	}
	if _, err := OpenMongo("mongodb://localhost", "a/b", 60_000); err == nil {
		t.Error("a name with a slash was taken")
	}
}

func TestReadsOfAStoreThatIsAwaySaySo(t *testing.T) {
	m, err := OpenMongo("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100", "gudang", 60_000)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	q := reading.Query{Sensor: "S-01", Limit: 1}
	for name, ask := range map[string]func() error{
		"ping":      func() error { return m.Ping(t.Context()) },
		"sensor":    func() error { _, err := m.Sensor(t.Context(), "S-01"); return err },
		"sensors":   func() error { _, err := m.Sensors(t.Context(), "", 1); return err },
		"readings":  func() error { _, err := m.Readings(t.Context(), q); return err },
		"summaries": func() error { _, err := m.Summaries(t.Context(), q); return err },
		"newest": func() error {
			_, err := m.NewestAt(t.Context(), reading.Series{Sensor: "S-01", Metric: "x"}, 0, 1)
			return err
		},
		"stretch": func() error {
			_, err := m.Stretch(t.Context(), reading.Series{Sensor: "S-01", Metric: "x"}, 0, 1, 1)
			return err
		},
		"scan": func() error { return m.Scan(t.Context(), func(*Stored) error { return nil }) },
	} {
		if err := ask(); !errors.Is(err, mongodb.ErrAway) || errors.Is(err, reading.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
