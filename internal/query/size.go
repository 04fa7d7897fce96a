package query

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// Sizes in BSON of our documents (SCHEMA.md), computed from what they hold: a
// bucket's size depends on nothing but how long its names are and how many
// readings it has. An element is a byte of type, its key, a NUL and its value.
const (
	emptyBSON   = 4 + 1 // length, and the NUL at the end
	idBSON      = 1 + len("_id\x00") + 4 + 1 + 16
	sensorBSON  = 1 + len("sensorId\x00") + 4 + 1 // and the text
	metricBSON  = 1 + len("metric\x00") + 4 + 1   // and the text
	startBSON   = 1 + len("start\x00") + 8
	timeBSON    = 1 + len("time\x00") + 8
	valueBSON   = 1 + len("value\x00") + 8
	offsetsBSON = 1 + len("offsets\x00")
	valuesBSON  = 1 + len("values\x00")
	summaryBSON = 1 + len("count\x00") + 4 + 3*(1+len("sum\x00")+8) // sum, min and max
	outlierBSON = 1 + len("isOutlier\x00") + 1 + 1 + len("until\x00") + 8 + 1 + len("settles\x00") + 8

	rawBSON    = emptyBSON + idBSON + sensorBSON + metricBSON + timeBSON + valueBSON
	bucketBSON = emptyBSON + idBSON + sensorBSON + metricBSON + startBSON + summaryBSON
)

// RawSize is how many bytes of BSON a reading of the series takes as a document
// of its own, as in raw and in overflow.
func RawSize(s reading.Series) int64 { return rawSize(len(s.Sensor) + len(s.Metric)) }

func rawSize(names int) int64 { return int64(rawBSON + names) }

// BucketSize is how many bytes of BSON a bucket with n readings takes.
func BucketSize(s reading.Series, n int64) int64 { return bucketSize(len(s.Sensor)+len(s.Metric), n) }

func bucketSize(names int, n int64) int64 {
	return int64(bucketBSON+names) + int64(offsetsBSON) + arraySize(n, 4) + int64(valuesBSON) + arraySize(n, 8)
}

// outlierSize is that of a bucket whose readings are in overflow.
func outlierSize(names int) int64 { return int64(bucketBSON + outlierBSON + names) }

// arraySize is the size of an array of n elements of the given width, each of
// which has its index, in decimal, as its key.
func arraySize(n, width int64) int64 {
	size := int64(emptyBSON) + n*(1+1+1+width)
	for from := int64(10); from < n; from *= 10 {
		size += n - from // they have a digit more
	}
	return size
}

// Measure is how many documents there are, and how many bytes of BSON.
type Measure struct {
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`
}

// Add counts one document in. Its length is what $bsonSize says of it.
func (m *Measure) Add(doc bson.Raw) {
	m.Documents++
	m.Bytes += int64(len(doc))
}
