package mongodb

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// DecodeRecord reads a stored bucket as it is. A counter that is no number is
// NaN, or -1 for the count, so that a check of it fails; an array ends where it
// is damaged.
func DecodeRecord(doc bson.Raw) *reading.Record {
	r := &reading.Record{}
	r.Sensor, _ = doc.Lookup("sensorId").StringValueOK()
	r.Metric, _ = doc.Lookup("metric").StringValueOK()
	r.Start, r.Until = Time(doc.Lookup("start")), Time(doc.Lookup("until"))
	r.Outlier, _ = doc.Lookup("isOutlier").BooleanOK()
	var ok bool
	if r.Count, ok = Integer(doc.Lookup("count")); !ok {
		r.Count = -1
	}
	for name, to := range map[string]*float64{"sum": &r.Sum, "min": &r.Min, "max": &r.Max} {
		if *to, ok = doc.Lookup(name).AsFloat64OK(); !ok {
			*to = math.NaN()
		}
	}
	for _, v := range array(doc.Lookup("offsets"), &r.Damaged) {
		n, ok := Integer(v)
		if !ok || int64(int32(n)) != n {
			r.Damaged = true
			break
		}
		r.Offsets = append(r.Offsets, int32(n))
	}
	for _, v := range array(doc.Lookup("values"), &r.Damaged) {
		f, ok := v.AsFloat64OK()
		if !ok || f-f != 0 {
			r.Damaged = true
			break
		}
		r.Values = append(r.Values, f)
	}
	return r
}

// array is what an array holds; a field that is not there holds nothing.
func array(v bson.RawValue, damaged *bool) []bson.RawValue {
	if v.IsZero() {
		return nil
	}
	list, ok := v.ArrayOK()
	values, err := list.Values()
	if !ok || err != nil {
		*damaged = true
		return nil
	}
	return values
}
