// Package reading is the domain: what a sensor says, and the buckets its
// readings are kept in. It does no IO and imports nothing else of the project.
package reading

import (
	"cmp"
	"crypto/sha256"
	"strings"
)

// MaxValue bounds the magnitude of a value. Finite is not enough: two readings
// of 1e308 overflow their bucket's sum. Below this bound no bucket that fits
// in a document can.
const MaxValue = 1e290

// MaxSensorID is the longest sensor id in bytes.
const MaxSensorID = 256

// Series is one stream of readings: a metric of a sensor.
type Series struct {
	Sensor string
	Metric string
}

// Reading is the value of a series at a time. Series and Time are its
// identity: the same identity again is the same reading.
type Reading struct {
	Series
	Time  int64 // ms since 1970, UTC
	Value float64
}

// Compare orders series by sensor, then metric.
func (s Series) Compare(o Series) int {
	return cmp.Or(strings.Compare(s.Sensor, o.Sensor), strings.Compare(s.Metric, o.Metric))
}

// ID is the _id under which a bucket (by its start) or a single reading (by
// its time) of the series is stored: a version 8 UUID (RFC 9562, section 5.8)
// of 48 bits of time in ms and 74 bits of SHA-256 over sensor, NUL, metric.
// Being computed it needs no second unique index, and by its leading time all
// that is being written lies together at the end of the one index. The hash is
// a cryptographic one because sensor ids may be hostile: two series that met
// in one id would lose each other's readings.
func (s Series) ID(ms int64) [16]byte {
	var buf [MaxSensorID + 1 + 128]byte
	key := append(append(append(buf[:0], s.Sensor...), 0), s.Metric...)
	return timedID(ms, sha256.Sum256(key))
}
