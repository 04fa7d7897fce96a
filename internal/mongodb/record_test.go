package mongodb

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestARecordIsReadAsItIs(t *testing.T) {
	good := func() bson.D {
		return bson.D{
			{Key: "sensorId", Value: "S-01"},
			{Key: "metric", Value: "temperature"},
			{Key: "start", Value: bson.DateTime(60_000)},
			{Key: "offsets", Value: bson.A{int32(10_000), 20_000.0}},
			{Key: "values", Value: bson.A{21.0, int64(22)}},
			{Key: "count", Value: 2.0},
			{Key: "sum", Value: int32(43)},
			{Key: "min", Value: 21.0},
			{Key: "max", Value: 22.0},
		}
	}
	with := func(key string, value any) bson.D {
		doc := good()
		for i := range doc {
			if doc[i].Key == key {
				doc[i].Value = value
				return doc
			}
		}
		return append(doc, bson.E{Key: key, Value: value})
	}
	for _, c := range []struct {
		name           string
		doc            bson.D
		sound, damaged bool
		readings       int
	}{
		{"as it is written, or by a shell", good(), true, false, 2},
		{"an outlier", with("isOutlier", true), true, false, 2},
		{"an array that is none", with("offsets", "x"), false, true, 0},
		{"an array with something else in it", with("values", bson.A{21.0, "x"}), false, true, 1},
		{"a value that is no number", with("values", bson.A{math.NaN(), 1.0}), false, true, 0},
		{"an offset that is no whole number", with("offsets", bson.A{int32(1), 2.5}), false, true, 1},
		{"arrays of two lengths", with("values", bson.A{21.0}), false, false, 1},
		{"a count that is wrong", with("count", int32(3)), false, false, 2},
		{"a count that is none", with("count", "x"), false, false, 2},
		{"a sum that is wrong", with("sum", 43.1), false, false, 2},
		{"a sum that is none", with("sum", "x"), false, false, 2},
		{"a minimum that is wrong", with("min", 20.0), false, false, 2},
		{"a maximum that is wrong", with("max", 23.0), false, false, 2},
		{"an offset twice", with("offsets", bson.A{int32(5), int32(5)}), false, false, 1},
		{"an offset before the start", with("offsets", bson.A{int32(5), int32(-5)}), false, false, 2},
	} {
		r := DecodeRecord(marshal(t, c.doc))
		if r.Sound() != c.sound || r.Damaged != c.damaged || len(r.Points()) != c.readings || r.Start != 60_000 || r.Sensor != "S-01" {
			t.Errorf("%s: %+v: sound %t, %d readings", c.name, r, r.Sound(), len(r.Points()))
		}
	}
	if r := DecodeRecord(nil); r.Sound() {
		t.Errorf("nothing is sound: %+v", r)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	doc, err := bson.Marshal(bson.D{{Key: "offsets", Value: bson.A{int32(1), 2.5}}, {Key: "values", Value: bson.A{1.5, "x"}}, {Key: "count", Value: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, doc []byte) {
		r := DecodeRecord(doc)
		points := r.Points()
		for i := 1; i < len(points); i++ {
			if points[i].Time <= points[i-1].Time {
				t.Errorf("points out of order: %v", points)
			}
		}
		if r.Sound() && !r.Outlier && int64(len(points)) != r.Count {
			t.Errorf("%+v is sound, and has %d readings", r, len(points))
		}
	})
}
