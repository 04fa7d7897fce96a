package decode

import (
	"encoding/json"
	"testing"
	"time"

	"gudang/internal/reading"
)

func benchmarkDecode(b *testing.B, template, topic, payload string) {
	d, err := New(Config{Topics: []string{template}, ClockAhead: time.Minute, ClockBehind: 8760 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	m := Message{Topic: topic, Payload: []byte(payload), Received: time.Date(2025, 1, 1, 0, 1, 0, 0, time.UTC).UnixMilli()}
	var out Result
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		d.Decode(m, &out)
	}
	if out.Outcome != reading.Pending || out.BadClock {
		b.Fatalf("%+v", out)
	}
}

const (
	flatJSON   = `{"sensorId":"S-000001","time":"2025-01-01T00:00:10.000Z","temperature":26.4}`
	nestedJSON = `{"Time":"2025-01-01T00:00:10","AM2301":{"Temperature":4.6,"Humidity":78.2,"DewPoint":1.1},"BMP280":{"Pressure":1003.2},"TempUnit":"C"}`
	batchJSON  = `{"id":"rack-71","readings":[{"ts":1735689610,"t":4.1,"h":80},{"ts":1735689620,"t":4.2,"h":80},{"ts":1735689630,"t":4.6,"h":79}]}`
)

func BenchmarkNumber(b *testing.B) {
	benchmarkDecode(b, "warehouse/+/{sensor}/{metric}", "warehouse/bay-a1/dht22-07/temperature", "26.4")
}

func BenchmarkFlatJSON(b *testing.B) {
	benchmarkDecode(b, "warehouse/{sensor}/reading", "warehouse/S-000001/reading", flatJSON)
}

func BenchmarkNestedJSON(b *testing.B) {
	benchmarkDecode(b, "tele/{sensor}/SENSOR", "tele/cold-room-1/SENSOR", nestedJSON)
}

func BenchmarkBatchJSON(b *testing.B) {
	benchmarkDecode(b, "warehouse/{sensor}/batch", "warehouse/rack-71/batch", batchJSON)
}

// The yardstick: encoding/json into a map, with nothing made of it yet.
func BenchmarkEncodingJSON(b *testing.B) {
	for _, c := range []struct{ name, payload string }{{"flat", flatJSON}, {"nested", nestedJSON}, {"batch", batchJSON}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.payload)))
			for b.Loop() {
				var v map[string]any
				if err := json.Unmarshal([]byte(c.payload), &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
