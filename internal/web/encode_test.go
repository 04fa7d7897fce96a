package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gudang/internal/reading"
)

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "S-01", `"\`, "\x00\x1f\x7f\b\f\n\r\t", "<script>&", "å\u2028\u2029\ufffd", "\xff\xc3", "😀"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Skip(err)
		}
		if got := appendString(nil, s); string(got) != string(want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func FuzzAppendFloat(f *testing.F) {
	for _, seed := range []float64{0, 1, 26.4, -0.1, 1e-6, 9.9e-7, 1e-9, 1e-10, 1e20, 1e21, 1e290, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(-1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		got := string(appendFloat(nil, v))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if got != "null" {
				t.Fatalf("%g is %s", v, got)
			}
			return
		}
		want, _ := json.Marshal(v + 0)
		if back, err := strconv.ParseFloat(got, 64); got != string(want) || err != nil || back != v {
			t.Fatalf("%g is %s, want %s", v, got, want)
		}
	})
}

func TestNegativeZeroIsZero(t *testing.T) {
	if got := string(appendFloat(nil, math.Copysign(0, -1))); got != "0" {
		t.Errorf("got %s", got)
	}
}

func TestTimesOutsideTheCalendarAreNull(t *testing.T) {
	for ms, want := range map[int64]string{
		0:                  `"1970-01-01T00:00:00.000Z"`,
		start + 7:          `"2026-12-06T09:05:00.007Z"`,
		-1:                 `"1969-12-31T23:59:59.999Z"`,
		253402300799999:    `"9999-12-31T23:59:59.999Z"`,
		253402300800000:    "null",
		-62167219200000:    `"0000-01-01T00:00:00.000Z"`,
		-62167219200001:    "null",
		math.MaxInt64:      "null",
		math.MinInt64:      "null",
		math.MaxInt64 / 10: "null",
	} {
		if got := string(appendTime(nil, ms)); got != want {
			t.Errorf("appendTime(%d) = %s, want %s", ms, got, want)
		}
	}
}

func TestASensorSaysThatItIsAnOutlier(t *testing.T) {
	for until, want := range map[int64]bool{0: false, 5_000: false, 10_000: false, 40_000: true, 120_000: true} {
		s := reading.Sensor{ID: "a", LastSeen: 70_000, OutlierUntil: until}
		if have := strings.Contains(string(appendSensor(nil, &s)), `"outlier":true`); have != want {
			t.Errorf("outliers until %d, last seen %d: %v, want %v", until, s.LastSeen, have, want)
		}
	}
}

func TestSensorWithoutLatestReadings(t *testing.T) {
	got := string(appendSensor(nil, &reading.Sensor{ID: "a", Metrics: map[string][]reading.Point{"m": nil, "b": {}}}))
	want := `{"sensorId":"a","firstSeen":"1970-01-01T00:00:00.000Z","lastSeen":"1970-01-01T00:00:00.000Z","metrics":` +
		`{"b":{"time":null,"value":null,"latest":[]},"m":{"time":null,"value":null,"latest":[]}}}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func many(n int) *memory {
	m := &memory{}
	for i := range n {
		m.readings = append(m.readings, reading.Reading{
			Series: reading.Series{Sensor: "warehouse/3/S-01", Metric: "temperature"}, Time: start + int64(i)*10000, Value: 20 + float64(i%100)/10,
		})
	}
	return m
}

func TestLargeAnswersAreCompressedForWhoTakesThem(t *testing.T) {
	s := New(config(many(5000)))
	const large, small = "/api/v1/readings?limit=5000&sensor=warehouse/3/S-01", "/api/v1/readings?limit=5&sensor=warehouse/3/S-01"
	plain := do(s, http.MethodGet, large)
	if got := plain.Header().Get("Content-Encoding"); got != "" || !json.Valid(plain.Body.Bytes()) {
		t.Errorf("unasked: Content-Encoding %q", got)
	}
	for range 2 { // the second with the encoder of the first
		packed := do(s, http.MethodGet, large, "Accept-Encoding", "br;q=1.0, gzip;q=0.8, *;q=0.1")
		zr, err := gzip.NewReader(packed.Body)
		if err != nil || packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("Vary") != "Accept-Encoding" {
			t.Fatalf("no gzip: %v, %v", err, packed.Header())
		}
		if body, err := io.ReadAll(zr); err != nil || !bytes.Equal(body, plain.Body.Bytes()) {
			t.Errorf("compressed answer differs: %d bytes for %d, %v", len(body), plain.Body.Len(), err)
		}
	}
	w := do(s, http.MethodGet, small, "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		t.Errorf("a small answer has headers %v for %d bytes", w.Header(), w.Body.Len())
	}
}

func TestAcceptEncoding(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate, gzip": true, "gzip;q=0": false, "gzip; q=0.000": false, "gzip;q=0.1": true, "br": false, "identity": false, "xgzip": false,
	} {
		if got := takesGzip(header); got != want {
			t.Errorf("takesGzip(%q) = %v", header, got)
		}
	}
}

// broken is a client that has gone after so many writes.
type broken struct {
	*httptest.ResponseRecorder
	writes, left int
}

func (b *broken) Write(p []byte) (int, error) {
	b.writes++
	if b.left--; b.left < 0 {
		return 0, errors.New("connection reset")
	}
	return b.ResponseRecorder.Write(p)
}

func TestWritingStopsWhenTheClientIsGone(t *testing.T) {
	s := New(config(many(10000)))
	for _, coding := range []string{"", "gzip"} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/readings?limit=10000&sensor=warehouse/3/S-01", nil)
		r.Header.Set("Accept-Encoding", coding)
		w := &broken{ResponseRecorder: httptest.NewRecorder(), left: 1}
		s.http.Handler.ServeHTTP(w, r)
		if w.writes != 2 {
			t.Errorf("%q: %d writes, the second of which failed", coding, w.writes)
		}
	}
}

func BenchmarkEncode1000Readings(b *testing.B) {
	items := many(1000).readings
	s := New(config(&memory{}))
	for _, coding := range []string{"identity", "gzip"} {
		b.Run(coding, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", coding)
			w := discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				w.size = 0
				s.answer(&w, r, func(e *encoder) { list(e, "readings", items, appendReading, "next") })
			}
			b.ReportMetric(float64(w.size), "bytes/answer")
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/1000, "ns/reading")
		})
	}
	b.Run("encoding-json", func(b *testing.B) { // what it is instead of
		type item struct {
			SensorID string  `json:"sensorId"`
			Metric   string  `json:"metric"`
			Time     string  `json:"time"`
			Value    float64 `json:"value"`
		}
		b.ReportAllocs()
		for b.Loop() {
			out := make([]item, len(items))
			for i, r := range items {
				out[i] = item{r.Sensor, r.Metric, strings.Trim(string(appendTime(nil, r.Time)), `"`), r.Value}
			}
			json.NewEncoder(io.Discard).Encode(map[string]any{"readings": out})
		}
	})
}

// discard is a ResponseWriter that keeps only the size.
type discard struct {
	header http.Header
	size   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.size += len(p); return len(p), nil }
