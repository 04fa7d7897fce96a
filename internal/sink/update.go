package sink

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// The write of a bucket, as SCHEMA.md has it, is put together byte by byte:
// by reflection it costs the service more than all the rest of a reading's way.

// appendFilter appends the document that matches the bucket if it has none of
// the new readings and is no outlier. The fields that are compared for
// equality are those that an upsert creates the bucket with.
func appendFilter(dst []byte, id [16]byte, b *reading.Bucket) []byte {
	dst, doc := begin(dst)
	dst = appendUUID(dst, "_id", id)
	dst = appendString(dst, "sensorId", b.Sensor)
	dst = appendString(dst, "metric", b.Metric)
	dst = appendDate(dst, "start", b.Start)
	dst, offsets := beginIn(dst, bson.TypeEmbeddedDocument, "offsets")
	dst = appendOffsets(dst, "$nin", b.Offsets)
	dst = end(dst, offsets)
	dst, outlier := beginIn(dst, bson.TypeEmbeddedDocument, "isOutlier")
	dst = append(appendKey(dst, bson.TypeBoolean, "$ne"), 1)
	dst = end(dst, outlier)
	return end(dst, doc)
}

// appendUpdate appends the document that adds the bucket's readings. Values
// are doubles whatever they are, so that 21 and then 21.5 are of one type;
// the count is an integer.
func appendUpdate(dst []byte, b *reading.Bucket) []byte {
	dst, doc := begin(dst)

	dst, push := beginIn(dst, bson.TypeEmbeddedDocument, "$push")
	dst, offsets := beginIn(dst, bson.TypeEmbeddedDocument, "offsets")
	dst = appendOffsets(dst, "$each", b.Offsets)
	dst = end(dst, offsets)
	dst, values := beginIn(dst, bson.TypeEmbeddedDocument, "values")
	dst = appendValues(dst, "$each", b.Values)
	dst = end(dst, values)
	dst = end(dst, push)

	dst, inc := beginIn(dst, bson.TypeEmbeddedDocument, "$inc")
	dst = appendInt32(dst, "count", int32(len(b.Offsets)))
	dst = appendFloat(dst, "sum", b.Sum)
	dst = end(dst, inc)

	dst, least := beginIn(dst, bson.TypeEmbeddedDocument, "$min")
	dst = appendFloat(dst, "min", b.Min)
	dst = end(dst, least)
	dst, most := beginIn(dst, bson.TypeEmbeddedDocument, "$max")
	dst = appendFloat(dst, "max", b.Max)
	dst = end(dst, most)

	return end(dst, doc)
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

// begin opens a document and returns where its length belongs.
func begin(dst []byte) ([]byte, int) { return append(dst, 0, 0, 0, 0), len(dst) }

// beginIn opens a document or an array as the element key of another.
func beginIn(dst []byte, t bson.Type, key string) ([]byte, int) {
	return begin(appendKey(dst, t, key))
}

// end closes the document or array that was opened at that place.
func end(dst []byte, at int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

func appendKey(dst []byte, t bson.Type, key string) []byte {
	return append(append(append(dst, byte(t)), key...), 0)
}

func appendIndex(dst []byte, t bson.Type, i int) []byte {
	return append(strconv.AppendInt(append(dst, byte(t)), int64(i), 10), 0)
}

func appendString(dst []byte, key, s string) []byte {
	dst = appendKey(dst, bson.TypeString, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)+1))
	return append(append(dst, s...), 0)
}

func appendUUID(dst []byte, key string, id [16]byte) []byte {
	dst = appendKey(dst, bson.TypeBinary, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(id)))
	return append(append(dst, bson.TypeBinaryUUID), id[:]...)
}

func appendDate(dst []byte, key string, ms int64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(dst, bson.TypeDateTime, key), uint64(ms))
}

func appendInt32(dst []byte, key string, n int32) []byte {
	return binary.LittleEndian.AppendUint32(appendKey(dst, bson.TypeInt32, key), uint32(n))
}

func appendFloat(dst []byte, key string, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(dst, bson.TypeDouble, key), math.Float64bits(v))
}

func appendOffsets(dst []byte, key string, offsets []int32) []byte {
	dst, array := beginIn(dst, bson.TypeArray, key)
	for i, off := range offsets {
		dst = binary.LittleEndian.AppendUint32(appendIndex(dst, bson.TypeInt32, i), uint32(off))
	}
	return end(dst, array)
}

func appendValues(dst []byte, key string, values []float64) []byte {
	dst, array := beginIn(dst, bson.TypeArray, key)
	for i, v := range values {
		dst = binary.LittleEndian.AppendUint64(appendIndex(dst, bson.TypeDouble, i), math.Float64bits(v))
	}
	return end(dst, array)
}
