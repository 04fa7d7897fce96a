package sink

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
)

// wantFilter and wantUpdate are the write as design and SCHEMA.md show it.
func wantFilter(b *reading.Bucket) bson.D {
	id := b.ID(b.Start)
	return bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: 4, Data: id[:]}},
		{Key: "sensorId", Value: b.Sensor},
		{Key: "metric", Value: b.Metric},
		{Key: "start", Value: bson.DateTime(b.Start)},
		{Key: "offsets", Value: bson.D{{Key: "$nin", Value: b.Offsets}}},
		{Key: "isOutlier", Value: bson.D{{Key: "$ne", Value: true}}},
	}
}

func wantUpdate(b *reading.Bucket) bson.D {
	return bson.D{
		{Key: "$push", Value: bson.D{
			{Key: "offsets", Value: bson.D{{Key: "$each", Value: b.Offsets}}},
			{Key: "values", Value: bson.D{{Key: "$each", Value: b.Values}}},
		}},
		{Key: "$inc", Value: bson.D{{Key: "count", Value: int32(b.Count())}, {Key: "sum", Value: b.Sum}}},
		{Key: "$min", Value: bson.D{{Key: "min", Value: b.Min}}},
		{Key: "$max", Value: bson.D{{Key: "max", Value: b.Max}}},
	}
}

func checkWrite(t *testing.T, b *reading.Bucket) {
	t.Helper()
	prefix := []byte("before")
	for _, c := range []struct {
		name string
		have []byte
		want bson.D
	}{
		{"filter", appendFilter(bytes.Clone(prefix), b.ID(b.Start), b), wantFilter(b)},
		{"update", appendUpdate(bytes.Clone(prefix), b), wantUpdate(b)},
	} {
		want, err := bson.Marshal(c.want)
		if err != nil {
			t.Fatal(err)
		}
		have, ok := bytes.CutPrefix(c.have, prefix)
		if !ok || !bytes.Equal(have, want) {
			t.Errorf("%s of %v:\nhave %s\nwant %s", c.name, b.Key(), bson.Raw(have), bson.Raw(want))
		}
	}
	if size := len(appendUpdate(appendFilter(nil, b.ID(b.Start), b), b)); size > writeSize(b) || size < writeSize(b)/2 && b.Count() > 20 {
		t.Errorf("%d readings take %d bytes, reckoned with %d", b.Count(), size, writeSize(b))
	}
}

func numbered(series reading.Series, start int64, n int) *reading.Bucket {
	b := &reading.Bucket{Series: series, Start: start}
	for i := range n {
		b.Add(start+int64(i), float64(i)/4)
	}
	return b
}

func TestWriteIsWhatTheDriverWouldMarshal(t *testing.T) {
	s := reading.Series{Sensor: "S-01", Metric: "temperature"}
	for _, n := range []int{1, 6, 9, 10, 11, 100, 1001, 12345} {
		checkWrite(t, numbered(s, 1_796_547_900_000, n))
	}
	checkWrite(t, numbered(s, -60_000, 3)) // before 1970
	checkWrite(t, numbered(reading.Series{Sensor: strings.Repeat("倉", 85) + "$.", Metric: "_"}, 0, 2))
	odd := &reading.Bucket{Series: s}
	for i, v := range []float64{math.Copysign(0, -1), reading.MaxValue, -reading.MaxValue, math.SmallestNonzeroFloat64, 21} {
		odd.Add(int64(i*1000), v)
	}
	checkWrite(t, odd)
}

func FuzzWriteIsWhatTheDriverWouldMarshal(f *testing.F) {
	f.Add("S-01", "temperature", int64(1_796_547_900_000), 21.5, uint16(6))
	f.Add("", "", int64(-1), math.Copysign(0, -1), uint16(300))
	f.Fuzz(func(t *testing.T, sensor, metric string, start int64, v float64, n uint16) {
		b := &reading.Bucket{Series: reading.Series{Sensor: strings.ToValidUTF8(sensor, ""), Metric: strings.ToValidUTF8(metric, "")}, Start: start}
		for i := range int32(n%2000) + 1 {
			b.Offsets, b.Values = append(b.Offsets, i), append(b.Values, v)
			b.Sum, b.Min, b.Max = b.Sum+v, v, v
		}
		checkWrite(t, b)
	})
}

func BenchmarkBuildWrite(b *testing.B) {
	for _, n := range []int{1, 6, 100} {
		b.Run(fmt.Sprintf("readings=%d", n), func(b *testing.B) {
			bucket := numbered(reading.Series{Sensor: "warehouse-1-sensor-0042", Metric: "temperature"}, 1_796_547_900_000, n)
			buf := make([]byte, 0, writeSize(bucket))
			b.ReportAllocs()
			for b.Loop() {
				buf = appendUpdate(appendFilter(buf[:0], bucket.ID(bucket.Start), bucket), bucket)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
