package query

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// measured is what the product says of the documents.
func measured(t *testing.T, docs ...bson.D) Measure {
	t.Helper()
	var m Measure
	for _, d := range docs {
		m.Add(encode(t, d))
	}
	return m
}

// The published example: twelve raw documents and the two buckets made of them.
var (
	exampleValues  = []float64{26.4, 26.6, 26.5, 26.7, 26.8, 26.6, 27.0, 27.2, 27.1, 27.3, 27.4, 27.2}
	exampleOffsets = []int64{10, 20, 30, 40, 50, 59, 70, 80, 90, 100, 110, 119}
	exampleStart   = int64(1796547900000) // 2026-12-06T09:05:00Z
)

// exampleDocs are the documents of the example. By the names that it is told
// with, {_id, sensorId, minute, values, count, min, max}, a bucket has 173
// bytes. The published 344 and 336 for two are those of a name for the minute
// with one letter less, so that is a parameter.
func exampleDocs(minute string, number func(float64) any) (raw, buckets []bson.D) {
	for i, v := range exampleValues {
		raw = append(raw, bson.D{
			{Key: "_id", Value: bson.NewObjectID()},
			{Key: "sensorId", Value: "S-01"},
			{Key: "time", Value: bson.DateTime(exampleStart + exampleOffsets[i]*1000)},
			{Key: "value", Value: number(v)},
		})
	}
	for i, six := range slices.Collect(slices.Chunk(exampleValues, 6)) {
		var values bson.A
		for _, v := range six {
			values = append(values, number(v))
		}
		buckets = append(buckets, bson.D{
			{Key: "_id", Value: bson.NewObjectID()},
			{Key: "sensorId", Value: "S-01"},
			{Key: minute, Value: bson.DateTime(exampleStart + int64(i)*60_000)},
			{Key: "values", Value: values},
			{Key: "count", Value: int32(6)},
			{Key: "min", Value: number(slices.Min(six))},
			{Key: "max", Value: number(slices.Max(six))},
		})
	}
	return raw, buckets
}

func TestThePublishedExampleMeasuresAsPublished(t *testing.T) {
	double := func(v float64) any { return v }
	asShell := func(v float64) any {
		if v == float64(int32(v)) {
			return int32(v)
		}
		return v
	}
	for name, c := range map[string]struct {
		minute       string
		number       func(float64) any
		raw, buckets int64
	}{
		"every value a double":                              {"start", double, 840, 344},
		"whole numbers as int32, as a shell stores them":    {"start", asShell, 836, 336},
		"every value a double, and the name minute":         {"minute", double, 840, 346},
		"whole numbers as int32, and the name minute again": {"minute", asShell, 836, 338},
	} {
		raw, buckets := exampleDocs(c.minute, c.number)
		if have, want := measured(t, raw...), (Measure{12, c.raw}); have != want {
			t.Errorf("%s: raw documents measure %+v, want %+v", name, have, want)
		}
		if have, want := measured(t, buckets...), (Measure{2, c.buckets}); have != want {
			t.Errorf("%s: buckets measure %+v, want %+v", name, have, want)
		}
	}
}

// ourBucket and ourRaw are the documents of SCHEMA.md.
func ourBucket(s reading.Series, n int, outlier bool) bson.D {
	id := s.ID(exampleStart)
	doc := bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}},
		{Key: "sensorId", Value: s.Sensor},
		{Key: "metric", Value: s.Metric},
		{Key: "start", Value: bson.DateTime(exampleStart)},
	}
	if !outlier {
		offsets, values := bson.A{}, bson.A{}
		for i := range n {
			offsets, values = append(offsets, int32(i)), append(values, float64(i))
		}
		doc = append(doc, bson.E{Key: "offsets", Value: offsets}, bson.E{Key: "values", Value: values})
	}
	doc = append(doc, bson.E{Key: "count", Value: int32(n)}, bson.E{Key: "sum", Value: 1.5}, bson.E{Key: "min", Value: 1.5}, bson.E{Key: "max", Value: 1.5})
	if outlier {
		doc = append(doc, bson.E{Key: "isOutlier", Value: true}, bson.E{Key: "until", Value: bson.DateTime(exampleStart)}, bson.E{Key: "settles", Value: int64(1)})
	}
	return doc
}

func ourRaw(s reading.Series) bson.D {
	id := s.ID(exampleStart)
	return bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}},
		{Key: "sensorId", Value: s.Sensor},
		{Key: "metric", Value: s.Metric},
		{Key: "time", Value: bson.DateTime(exampleStart)},
		{Key: "value", Value: 26.4},
	}
}

func TestComputedSizesAreThoseOfTheDocuments(t *testing.T) {
	counts := []int{0, 1, 6, 9, 10, 11, 99, 100, 101, 360, 999, 1000, 1001, 8640, 10_000, 10_001}
	for range 20 {
		counts = append(counts, rand.IntN(20_000))
	}
	for _, s := range []reading.Series{{Sensor: "S-01", Metric: "temperature"}, {Sensor: "gudang/é/" + strings.Repeat("x", 200), Metric: "m"}} {
		if have, want := RawSize(s), int64(len(encode(t, ourRaw(s)))); have != want {
			t.Errorf("a raw document of %v has %d bytes, computed %d", s, want, have)
		}
		if have, want := outlierSize(len(s.Sensor)+len(s.Metric)), int64(len(encode(t, ourBucket(s, 5000, true)))); have != want {
			t.Errorf("an outlier of %v has %d bytes, computed %d", s, want, have)
		}
		for _, n := range counts {
			if have, want := BucketSize(s, int64(n)), int64(len(encode(t, ourBucket(s, n, false)))); have != want {
				t.Errorf("a bucket of %v with %d readings has %d bytes, computed %d", s, n, want, have)
			}
		}
	}
}
