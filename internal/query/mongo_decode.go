package query

import (
	"bytes"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
)

// decodeBucket reads a stored bucket into b, whose slices it uses again. A
// field of a wrong type does not hide the others: a sum that is no number is
// NaN, so that a check of it fails, and an array ends where it is damaged.
func decodeBucket(doc bson.Raw, b *Stored) {
	*b = Stored{Offsets: b.Offsets[:0], Values: b.Values[:0]}
	b.Sum, b.Min, b.Max = math.NaN(), math.NaN(), math.NaN()
	elements, _ := doc.Elements()
	for _, e := range elements {
		v := e.Value()
		switch e.Key() {
		case "_id":
			if _, data, ok := v.BinaryOK(); ok && len(data) == len(b.ID) {
				b.ID = [16]byte(data)
			}
		case "sensorId":
			b.Sensor, _ = v.StringValueOK()
		case "metric":
			b.Metric, _ = v.StringValueOK()
		case "start":
			b.Start = mongodb.Time(v)
		case "count":
			b.Count, _ = mongodb.Integer(v)
		case "sum":
			b.Sum = number(v)
		case "min":
			b.Min = number(v)
		case "max":
			b.Max = number(v)
		case "isOutlier":
			b.Outlier, _ = v.BooleanOK()
		case "until":
			b.Until = mongodb.Time(v)
		case "offsets":
			eachInArray(v, func(f float64) bool {
				whole := f == float64(int32(f))
				if whole {
					b.Offsets = append(b.Offsets, int32(f))
				}
				return whole
			})
		case "values":
			eachInArray(v, func(f float64) bool {
				b.Values = append(b.Values, f)
				return true
			})
		}
	}
}

// eachInArray yields the numbers of an array, up to the first that is none. The
// driver's way costs an allocation for each element.
func eachInArray(array bson.RawValue, yield func(float64) bool) {
	if array.Type != bson.TypeArray || len(array.Value) < 4 {
		return
	}
	for rest := array.Value[4:]; len(rest) > 0; {
		size := 8
		if bson.Type(rest[0]) == bson.TypeInt32 {
			size = 4
		}
		key := bytes.IndexByte(rest[1:], 0) + 2 // behind the index, which is the key
		if key < 2 || len(rest) < key+size {
			return
		}
		f, ok := bson.RawValue{Type: bson.Type(rest[0]), Value: rest[key : key+size]}.AsFloat64OK()
		if !ok || !yield(f) {
			return
		}
		rest = rest[key+size:]
	}
}

func number(v bson.RawValue) float64 {
	if f, ok := v.AsFloat64OK(); ok {
		return f
	}
	return math.NaN()
}
