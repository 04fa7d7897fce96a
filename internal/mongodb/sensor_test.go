package mongodb

import (
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

func marshal(t testing.TB, doc bson.D) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func sensor() reading.Sensor {
	return reading.Sensor{ID: "S-01", FirstSeen: -5, LastSeen: 30, Metrics: map[string][]reading.Point{
		"temperature": {{Time: 30, Value: 21}, {Time: 20, Value: 20.5}, {Time: 10, Value: 20}},
		"humidity":    {{Time: 20, Value: 51.5}},
	}}
}

func same(a, b reading.Sensor) bool {
	return a.ID == b.ID && a.FirstSeen == b.FirstSeen && a.LastSeen == b.LastSeen && maps.EqualFunc(a.Metrics, b.Metrics, slices.Equal)
}

func TestSensorIsReadAsItWasWritten(t *testing.T) {
	for keep, points := range map[int]int{0: 1, 1: 1, 2: 2, 3: 3, 10: 3} {
		doc := bson.Raw(AppendSensor(nil, sensor(), keep))
		want := sensor()
		want.Metrics["temperature"] = want.Metrics["temperature"][:points]
		if have := DecodeSensor(doc); !same(have, want) {
			t.Errorf("keeping %d: %+v, want %+v", keep, have, want)
		}
		_, err := doc.LookupErr("metrics", "temperature", "latest")
		if (err == nil) != (keep > 0) {
			t.Errorf("keeping %d: the list is there: %t", keep, err == nil)
		}
	}
}

func TestSensorThatSomeoneEditedShowsWhatItCan(t *testing.T) {
	point := func(at, value any) bson.D { return bson.D{{Key: "time", Value: at}, {Key: "value", Value: value}} }
	have := DecodeSensor(marshal(t, bson.D{
		{Key: "_id", Value: "S-01"},
		{Key: "firstSeen", Value: "yesterday"},
		{Key: "lastSeen", Value: bson.DateTime(9)},
		{Key: "metrics", Value: bson.D{
			{Key: "whole", Value: point(bson.DateTime(9), int32(21))},
			{Key: "text", Value: point(bson.DateTime(9), "21")},
			{Key: "none", Value: 7},
			{Key: "list", Value: append(point(bson.DateTime(9), 1.5), bson.E{Key: "latest", Value: bson.A{"x", point(bson.DateTime(8), 1.0), point("8", 1.0)}})},
		}},
	}))
	want := reading.Sensor{ID: "S-01", LastSeen: 9, Metrics: map[string][]reading.Point{
		"whole": {{Time: 9, Value: 21}}, "list": {{Time: 8, Value: 1}},
	}}
	if !same(have, want) {
		t.Errorf("%+v, want %+v", have, want)
	}
}

func FuzzDecodeSensor(f *testing.F) {
	f.Add(AppendSensor(nil, sensor(), 2))
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, doc []byte) {
		for name, points := range DecodeSensor(doc).Metrics {
			if len(points) == 0 {
				t.Errorf("metric %q without a point", name)
			}
		}
	})
}
