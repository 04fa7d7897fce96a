package mongodb

import (
	"maps"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// SensorFields is what the sensor's document holds besides its _id: when it
// was first and last seen, and the newest point of each metric, with the list
// of the newest few unless keep is 0, and the end of its newest outlier bucket if
// it has had one. Metrics are in order of name, so that equal sensors have
// equal documents.
func SensorFields(s reading.Sensor, keep int) bson.D {
	metrics := bson.D{}
	for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		points := s.Metrics[name]
		if len(points) == 0 {
			continue
		}
		metric := pointFields(points[0])
		if keep > 0 {
			latest := make(bson.A, 0, keep)
			for _, p := range points[:min(keep, len(points))] {
				latest = append(latest, pointFields(p))
			}
			metric = append(metric, bson.E{Key: "latest", Value: latest})
		}
		metrics = append(metrics, bson.E{Key: name, Value: metric})
	}
	fields := bson.D{
		{Key: "firstSeen", Value: bson.DateTime(s.FirstSeen)},
		{Key: "lastSeen", Value: bson.DateTime(s.LastSeen)},
		{Key: "metrics", Value: metrics},
	}
	if s.OutlierUntil != 0 {
		fields = append(fields, bson.E{Key: "outlierUntil", Value: bson.DateTime(s.OutlierUntil)})
	}
	return fields
}

func pointFields(p reading.Point) bson.D {
	return bson.D{{Key: "time", Value: bson.DateTime(p.Time)}, {Key: "value", Value: p.Value}}
}

// DecodeSensor reads a sensor's document. Fields of other types than ours are
// passed over: a document that someone has edited still shows what it can.
func DecodeSensor(doc bson.Raw) reading.Sensor {
	id, _ := doc.Lookup("_id").StringValueOK()
	s := reading.Sensor{ID: id, FirstSeen: Time(doc.Lookup("firstSeen")), LastSeen: Time(doc.Lookup("lastSeen")), OutlierUntil: Time(doc.Lookup("outlierUntil"))}
	metrics, _ := doc.Lookup("metrics").DocumentOK()
	elements, _ := metrics.Elements()
	s.Metrics = make(map[string][]reading.Point, len(elements))
	for _, e := range elements {
		metric, ok := e.Value().DocumentOK()
		if !ok {
			continue
		}
		var points []reading.Point
		latest, _ := metric.Lookup("latest").ArrayOK()
		values, _ := latest.Values()
		for _, v := range values {
			if p, ok := decodePoint(v); ok {
				points = append(points, p)
			}
		}
		if p, ok := decodePoint(e.Value()); ok && len(points) == 0 {
			points = append(points, p)
		}
		if len(points) > 0 {
			s.Metrics[e.Key()] = points
		}
	}
	return s
}

func decodePoint(v bson.RawValue) (reading.Point, bool) {
	doc, ok := v.DocumentOK()
	if !ok {
		return reading.Point{}, false
	}
	at, ok := doc.Lookup("time").DateTimeOK()
	if !ok {
		return reading.Point{}, false
	}
	value, ok := doc.Lookup("value").AsFloat64OK()
	return reading.Point{Time: at, Value: value}, ok && !math.IsNaN(value)
}

// Time is a date in ms since 1970, 0 if the value is none.
func Time(v bson.RawValue) int64 {
	t, _ := v.DateTimeOK()
	return t
}

// Integer is a whole number of any type. We write integers, but a shell or an
// import turns them into doubles.
func Integer(v bson.RawValue) (int64, bool) {
	f, ok := v.AsFloat64OK()
	return int64(f), ok && f == math.Trunc(f) && math.Abs(f) < 1<<53
}
