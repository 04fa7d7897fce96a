package sink

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// compare reads the stored buckets of the items and takes out of each item
// what its bucket has. An item with readings left keeps its fate and is to be
// sent again.
func compare(ctx context.Context, store bucketStore, items []*item) error {
	ids := make(bson.A, len(items))
	byID := make(map[[16]byte]*item, len(items))
	for i, it := range items {
		byID[it.id] = it
		ids[i] = binaryID(it.id)
	}
	return store.read(ctx, ids, func(doc bson.Raw) {
		_, data, ok := doc.Lookup("_id").BinaryOK()
		if !ok || len(data) != 16 {
			return
		}
		if it := byID[[16]byte(data)]; it != nil {
			it.compare(doc)
		}
	})
}

// compare takes out of the item what the stored bucket has.
func (it *item) compare(doc bson.Raw) {
	stored, detail := storedReadings(doc, it.left.Key())
	if detail != "" {
		it.fate, it.detail = refused, detail
		return
	}
	key := it.left.Key()
	var (
		found   []reading.Refusal
		offsets []int32
		values  []float64
		same    int
	)
	for i, off := range it.left.Offsets {
		value, there := stored[off]
		switch {
		case !there:
			offsets, values = append(offsets, off), append(values, it.left.Values[i])
		case value == it.left.Values[i]:
			same++
			found = append(found, reading.Refusal{Bucket: it.given, Offset: off, Verdict: reading.Duplicate})
		default:
			found = append(found, reading.Refusal{Bucket: it.given, Offset: off, Verdict: reading.Conflict})
		}
	}
	if state := stateOf(doc); state.outlier {
		it.fate, it.settles = apart, state.settles
	}
	if (it.fate == unsure || it.maybe) && same == it.left.Count() {
		it.fate = done // a write is whole or not at all: this was ours
		return
	}
	it.refused = append(it.refused, found...)
	if len(offsets) == 0 {
		it.fate = settled
		return
	}
	if len(found) > 0 {
		it.left = reading.BucketOf(key, offsets, values)
	}
	for _, name := range summaryFields {
		if v := doc.Lookup(name); !v.IsZero() && !v.IsNumber() {
			it.fate, it.detail = refused, fmt.Sprintf("the stored bucket is damaged: its %s is %s", name, v)
		}
	}
}

// summaryFields are those that each write adds to.
var summaryFields = []string{"count", "sum", "min", "max"}

// storedReadings is what a stored bucket holds, or why it is not one that can
// be written to.
func storedReadings(doc bson.Raw, key reading.Key) (map[int32]float64, string) {
	sensor, _ := doc.Lookup("sensorId").StringValueOK()
	metric, _ := doc.Lookup("metric").StringValueOK()
	start, isDate := doc.Lookup("start").DateTimeOK()
	if sensor != key.Sensor || metric != key.Metric || start != key.Start || !isDate {
		return nil, fmt.Sprintf("the document under the bucket's _id is another's: sensorId %s, metric %s, start %s",
			doc.Lookup("sensorId"), doc.Lookup("metric"), doc.Lookup("start"))
	}
	offsets, ok := elements(doc.Lookup("offsets"))
	values, ok2 := elements(doc.Lookup("values"))
	if !ok || !ok2 || len(offsets) != len(values) {
		return nil, "the stored bucket is damaged: offsets and values are not two arrays of one length"
	}
	stored := make(map[int32]float64, len(offsets))
	for i := range offsets {
		off, ok := mongodb.Integer(offsets[i])
		value, ok2 := values[i].AsFloat64OK()
		if !ok || !ok2 || int64(int32(off)) != off {
			return nil, fmt.Sprintf("the stored bucket is damaged: reading %d has offset %s and value %s", i, offsets[i], values[i])
		}
		stored[int32(off)] = value
	}
	return stored, ""
}

// elements is what an array holds. A field that is not there holds nothing.
func elements(v bson.RawValue) ([]bson.RawValue, bool) {
	if v.IsZero() {
		return nil, true
	}
	array, ok := v.ArrayOK()
	if !ok {
		return nil, false
	}
	values, err := array.Values()
	return values, err == nil
}
