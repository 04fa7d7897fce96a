package web

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"gudang/internal/reading"
)

func TestTimesOfEachForm(t *testing.T) {
	for in, want := range map[string]int64{
		"2026-12-06T09:05:10Z":             1796547910000,
		"2026-12-06t09:05:10z":             1796547910000,
		"2026-12-06T16:05:10+07:00":        1796547910000,
		"2026-12-06T16:05:10 07:00":        1796547910000, // + unescaped
		"2026-12-06T01:05:10-08:00":        1796547910000,
		"2026-12-06T09:05:10.5Z":           1796547910500,
		"2026-12-06T09:05:10.0001Z":        1796547910001, // up, for both ends of a range
		"2026-12-06T09:05:10.000000Z":      1796547910000,
		"1969-12-31T23:59:59.9999Z":        0,
		"9999-12-31T23:59:59.999Z":         253402300799999,
		"1796547910":                       1796547910000,
		"1796547910.5":                     1796547910500,
		"1796547910.123":                   1796547910123,
		"1796547910.1230":                  1796547910123,
		"1796547910.1230001":               1796547910124,
		"0":                                0,
		"0.0005":                           1,
		"-0":                               0,
		"-1.5":                             -1500,
		"-1.5009":                          -1500,
		"253402300799":                     253402300799000,
		"00000000000000000000001796547910": 1796547910000,
	} {
		if got, err := parseTime(in); err != nil || got != want {
			t.Errorf("parseTime(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestTimesThatAreNone(t *testing.T) {
	for _, in := range []string{
		" ", "-", "--1", "+1", ".", ".5", "5.", "1.-5", "1.5.5", "1e9", "0x10", "NaN", "Infinity", "1_000", "١", "now", "T", "today",
		"2026-12-06", "2026-12-06T09:05:10", "2026-12-06T09:05Z", "2026-13-06T09:05:10Z", "2026-12-06T25:05:10Z", "10000-01-01T00:00:00Z",
		"1796547910000", "-1796547910000", "99999999999999999999", strings.Repeat("1", 50), "2026-12-06T09:05:10." + strings.Repeat("0", 50) + "Z",
	} {
		if got, err := parseTime(in); err == nil {
			t.Errorf("parseTime(%q) = %d, want an error", in, got)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2026-12-06T09:05:10.123Z", "2026-12-06T16:05:10 07:00", "1796547910.123", "-1.5", "1e9", "9999-12-31T23:59:59-23:59"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		ms, err := parseTime(in)
		if err != nil {
			return
		}
		if year := time.UnixMilli(ms).UTC().Year(); year < -1 || year > 10000 {
			t.Fatalf("parseTime(%q) = %d, in the year %d", in, ms, year)
		}
		if v, err := strconv.ParseFloat(in, 64); err == nil {
			if d := float64(ms) - v*1000; math.Abs(d) > 1.1 {
				t.Fatalf("parseTime(%q) = %d, which is %g ms off", in, ms, d)
			}
		}
		again, err := parseTime(strings.Trim(string(appendTime(nil, ms)), `"`))
		if ms >= 0 && ms <= lastSecond*1000 && (err != nil || again != ms) {
			t.Fatalf("%d, written and read again: %d, %v", ms, again, err)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add("cqCA2anJaHRlbXBlcmF0dXJl", "c1MtMDE")
	f.Add(cursorToken(bucketsToken, reading.Cursor{Time: -1, Metric: "m"}), sensorToken("å"))
	f.Add("cg==", "")
	f.Add("cgJt\n", "c1MtMDE\r\n")
	f.Fuzz(func(t *testing.T, cursor, sensor string) {
		for _, kind := range []byte{readingsToken, bucketsToken} {
			if c, err := parseCursor(kind, cursor); err == nil {
				if c.IsZero() || c.Metric == "" {
					t.Fatalf("%q is the place %v, which is none", cursor, c)
				}
				if got := cursorToken(kind, c); got != cursor {
					t.Fatalf("%q is the place %v, whose token is %q", cursor, c, got)
				}
			}
		}
		if id, err := parseSensorToken(sensor); err == nil {
			if got := sensorToken(id); id == "" || got != sensor {
				t.Fatalf("%q is the sensor %q, whose token is %q", sensor, id, got)
			}
		}
	})
}

func TestPlacesSurviveTheirToken(t *testing.T) {
	for _, want := range []reading.Cursor{{Time: 0, Metric: "m"}, {Time: start, Metric: "temperature"}, {Time: -5, Metric: "x"}, {Time: math.MaxInt64, Metric: "å b"}} {
		if got, err := parseCursor(readingsToken, cursorToken(readingsToken, want)); err != nil || got != want {
			t.Errorf("%v became %v, %v", want, got, err)
		}
	}
	id := strings.Repeat("å", reading.MaxSensorID/2)
	if got, err := parseSensorToken(sensorToken(id)); err != nil || got != id {
		t.Errorf("the longest id became %q, %v", got, err)
	}
}

// FuzzQuery sends any parameters through the whole chain: the answer is either
// a list or a 400 that says why, and always JSON.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"sensor=S-01", "sensor=S-01&metric=temperature&from=2026-12-06T09:05:50Z&to=1796547960&limit=3", "limit=1", "after=c1MtMDE",
		"sensor=S-01&after=cqCA2anJaHRlbXBlcmF0dXJl", "sensor=%00%0a%ff", "a=b&a=c", "%", ";", "sensor=S-01&from=-5&to=0",
	} {
		f.Add(seed)
	}
	s := New(config(example()))
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/api/v1/sensors", "/api/v1/sensors/S-01", "/api/v1/readings", "/api/v1/buckets"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL = &url.URL{Path: path, RawQuery: query}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
	})
}
