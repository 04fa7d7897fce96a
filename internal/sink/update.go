package sink

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// The write of a bucket, as SCHEMA.md has it.

// appendFilter appends the document that matches the bucket if it has none of
// the new readings and is no outlier. The fields that are compared for
// equality are those that an upsert creates the bucket with.
func appendFilter(dst []byte, id [16]byte, b *reading.Bucket) []byte {
	dst, doc := mongodb.Begin(dst)
	dst = mongodb.AppendUUID(dst, "_id", id)
	dst = mongodb.AppendString(dst, "sensorId", b.Sensor)
	dst = mongodb.AppendString(dst, "metric", b.Metric)
	dst = mongodb.AppendDate(dst, "start", b.Start)
	dst, offsets := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "offsets")
	dst = mongodb.AppendInt32s(dst, "$nin", b.Offsets)
	dst = mongodb.End(dst, offsets)
	dst, outlier := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "isOutlier")
	dst = mongodb.AppendBool(dst, "$ne", true)
	dst = mongodb.End(dst, outlier)
	return mongodb.End(dst, doc)
}

// appendUpdate appends the document that adds the bucket's readings. Values
// are doubles whatever they are, so that 21 and then 21.5 are of one type;
// the count is an integer.
func appendUpdate(dst []byte, b *reading.Bucket) []byte {
	dst, doc := mongodb.Begin(dst)

	dst, push := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "$push")
	dst, offsets := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "offsets")
	dst = mongodb.AppendInt32s(dst, "$each", b.Offsets)
	dst = mongodb.End(dst, offsets)
	dst, values := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "values")
	dst = mongodb.AppendFloats(dst, "$each", b.Values)
	dst = mongodb.End(dst, values)
	dst = mongodb.End(dst, push)

	dst, inc := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "$inc")
	dst = mongodb.AppendInt32(dst, "count", int32(len(b.Offsets)))
	dst = mongodb.AppendFloat(dst, "sum", b.Sum)
	dst = mongodb.End(dst, inc)

	dst, least := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "$min")
	dst = mongodb.AppendFloat(dst, "min", b.Min)
	dst = mongodb.End(dst, least)
	dst, most := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "$max")
	dst = mongodb.AppendFloat(dst, "max", b.Max)
	dst = mongodb.End(dst, most)

	return mongodb.End(dst, doc)
}

// writeSize is at least the number of bytes that filter and update take: so
// much for each reading (twice its offset, once its value, each with a type
// and an array index as its key), and the rest.
func writeSize(b *reading.Bucket) int {
	const fixed = 330
	digits := 1
	for n := len(b.Offsets); n >= 10; n /= 10 {
		digits++
	}
	return fixed + len(b.Sensor) + len(b.Metric) + len(b.Offsets)*(4+4+8+3*(digits+2))
}
