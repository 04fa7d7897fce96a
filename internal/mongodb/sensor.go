package mongodb

import (
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// AppendSensor appends the sensor's document.
func AppendSensor(dst []byte, s reading.Sensor, keep int) []byte {
	dst, doc := Begin(dst)
	dst = AppendString(dst, "_id", s.ID)
	return End(appendSensorFields(dst, s, keep), doc)
}

// AppendSensorFields appends a document of what the sensor's holds besides its
// _id.
func AppendSensorFields(dst []byte, s reading.Sensor, keep int) []byte {
	dst, doc := Begin(dst)
	return End(appendSensorFields(dst, s, keep), doc)
}

// appendSensorFields appends when the sensor was first and last seen, and the
// newest point of each metric, with the list of the newest few unless keep is
// 0, and the end of its newest outlier bucket if it has had one. Metrics are in
// order of name, so that equal sensors have equal documents.
func appendSensorFields(dst []byte, s reading.Sensor, keep int) []byte {
	dst = AppendDate(dst, "firstSeen", s.FirstSeen)
	dst = AppendDate(dst, "lastSeen", s.LastSeen)
	dst, metrics := BeginIn(dst, bson.TypeEmbeddedDocument, "metrics")
	var several [8]string
	names := several[:0]
	for name := range s.Metrics {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		points := s.Metrics[name]
		if len(points) == 0 {
			continue
		}
		var metric, latest int
		dst, metric = BeginIn(dst, bson.TypeEmbeddedDocument, name)
		dst = appendPoint(dst, points[0])
		if keep > 0 {
			dst, latest = BeginIn(dst, bson.TypeArray, "latest")
			for i, p := range points[:min(keep, len(points))] {
				var at int
				dst, at = Begin(AppendIndex(dst, bson.TypeEmbeddedDocument, i))
				dst = End(appendPoint(dst, p), at)
			}
			dst = End(dst, latest)
		}
		dst = End(dst, metric)
	}
	dst = End(dst, metrics)
	if s.OutlierUntil != 0 {
		dst = AppendDate(dst, "outlierUntil", s.OutlierUntil)
	}
	return dst
}

func appendPoint(dst []byte, p reading.Point) []byte {
	return AppendFloat(AppendDate(dst, "time", p.Time), "value", p.Value)
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
