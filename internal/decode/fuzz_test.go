package decode

import (
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"gudang/internal/reading"
)

var legalMetric = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkResult checks what must hold for a result of any message.
func checkResult(t testing.TB, m Message, r *Result) {
	t.Helper()
	if r.Reason == reading.DecoderFault {
		t.Fatalf("a fault: %s", r.Detail)
	}
	switch r.Outcome {
	case reading.Pending:
		if len(r.Values) == 0 || r.Reason != "" {
			t.Fatalf("pending with %d values and reason %q", len(r.Values), r.Reason)
		}
	case reading.Ignored:
		if len(r.Values) != 0 || len(r.Dropped) != 0 || !slices.Contains(reading.IgnoreReasons, r.Reason) {
			t.Fatalf("ignored: %+v", r)
		}
	case reading.Rejected:
		if len(r.Values) != 0 || !slices.Contains(reading.RejectReasons, r.Reason) {
			t.Fatalf("rejected: %+v", r)
		}
		if len(r.Dropped) > 0 && r.Reason != reading.TooManyReadings && r.Reason != r.Dropped[0].Reason {
			t.Fatalf("rejected with %q, first dropped for %q", r.Reason, r.Dropped[0].Reason)
		}
	default:
		t.Fatalf("outcome %v", r.Outcome)
	}
	for _, x := range r.Dropped {
		if !slices.Contains(reading.RejectReasons, x.Reason) {
			t.Fatalf("dropped %q for %q", x.Metric, x.Reason)
		}
	}
	seen := make(map[identity]bool)
	for _, v := range r.Values {
		if math.IsNaN(v.Value) || math.Abs(v.Value) > reading.MaxValue || v.Value == 0 && math.Signbit(v.Value) {
			t.Fatalf("value %v", v.Value)
		}
		if !legalMetric.MatchString(v.Metric) || len(v.Metric) > MaxMetric {
			t.Fatalf("metric %q", v.Metric)
		}
		if v.Sensor == "" || len(v.Sensor) > reading.MaxSensorID || !utf8.ValidString(v.Sensor) || strings.ContainsFunc(v.Sensor, unicode.IsControl) {
			t.Fatalf("sensor %q", v.Sensor)
		}
		switch {
		case v.FromPayload && (v.Time < earliest || v.Time > m.Received+60e3 || v.Time < m.Received-8760*3600e3):
			t.Fatalf("believed time %v, received %v", v.Time, m.Received)
		case !v.FromPayload && v.Time != m.Received:
			t.Fatalf("time %v is neither the payload's nor the receive time", v.Time)
		case !v.FromPayload && m.Retained:
			t.Fatalf("retained without a time of its own: %+v", v)
		}
		key := identity{v.Sensor, v.Metric, v.Time}
		if seen[key] {
			t.Fatalf("two values of %+v", key)
		}
		seen[key] = true
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// checkFresh decodes m with a decoder that remembers nothing. What a decoder
// remembers must not change what it says, which is in out, and without it a
// message must not allocate more than a small multiple of the size given.
func checkFresh(t *testing.T, d *Decoder, m Message, out *Result, size int) {
	t.Helper()
	fresh := d.Clone()
	var again Result
	used := allocated(func() { fresh.Decode(m, &again) })
	if limit := uint64(64*size + 64<<10); used > limit {
		t.Fatalf("%s: %d bytes of payload allocated %d, more than %d", m.Topic, len(m.Payload), used, limit)
	}
	if a, b := describe(out), describe(&again); a != b {
		t.Fatalf("%s: a used decoder says %s, a new one %s", m.Topic, a, b)
	}
}

// FuzzDocument compares with jsontext, which accepts the same texts but for
// depth and for numbers that are not finite.
func FuzzDocument(f *testing.F) {
	for _, c := range jsonCases {
		if len(c.payload) < 4096 {
			f.Add([]byte(c.payload))
		}
	}
	for _, s := range []string{`"\ud83d\ude00"`, `[1,]`, `{"a":1,}`, `01`, `-`, `1.`, `1e`, `[0e+1,-0.0]`, `{"\u0061":1,"a":2}`, `nul`, `[nan,-inf]`, "\"\t\"", `"\u12"`, `{"":0}`} {
		f.Add([]byte(s))
	}
	var j document
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return
		}
		accepted := j.parse(text)
		if !accepted && j.why == reading.TooDeep {
			return
		}
		plain := slices.Clone(text)
		if accepted {
			for _, n := range j.nodes {
				if n.kind == aNotFinite {
					for i := n.val.start; i < n.val.end; i++ {
						plain[i] = '0'
					}
					plain = slices.Replace(plain, int(n.val.start), int(n.val.start)+1, '7')
					for i := n.val.start + 1; i < n.val.end; i++ {
						plain[i] = ' '
					}
				}
			}
		}
		want := jsontext.Value(plain).IsValid()
		if accepted != want {
			t.Fatalf("accepted %v (%s: %s), jsontext %v", accepted, j.why, j.detail, want)
		}
		if accepted {
			compareTokens(t, &j, plain)
		}
	})
}

func compareTokens(t *testing.T, j *document, plain []byte) {
	dec := jsontext.NewDecoder(strings.NewReader(string(plain)))
	next := func() jsontext.Token {
		tok, err := dec.ReadToken()
		if err != nil {
			t.Fatalf("jsontext: %v", err)
		}
		return tok
	}
	var walk func(at int32, member bool) int32
	walk = func(at int32, member bool) int32 {
		n := &j.nodes[at]
		if member {
			if key := next().String(); key != string(j.key(n)) {
				t.Fatalf("key %q, jsontext %q", j.key(n), key)
			}
		}
		tok := next()
		kinds := map[jsontext.Kind]kind{'n': aNull, 't': aBool, 'f': aBool, '"': aString, '0': aNumber, '{': anObject, '[': anArray}
		if k := kinds[tok.Kind()]; k != n.kind && n.kind != aNotFinite {
			t.Fatalf("kind %v, jsontext %v", n.kind, tok.Kind())
		}
		switch n.kind {
		case aString:
			if tok.String() != string(j.val(n)) {
				t.Fatalf("string %q, jsontext %q", j.val(n), tok.String())
			}
		case aNumber:
			if tok.String() != string(j.val(n)) {
				t.Fatalf("number %q, jsontext %q", j.val(n), tok.String())
			}
		case anObject, anArray:
			i := at + 1
			for i < n.next {
				i = walk(i, n.kind == anObject)
			}
			next() // its end
		}
		return n.next
	}
	walk(0, false)
}

// FuzzParseNumber compares with strconv, which reads more than is wanted here.
func FuzzParseNumber(f *testing.F) {
	for _, s := range []string{"26.4", "-0.0", "+.5e1", "1e400", "0x1p4", "1_000", "nan", "-Infinity", "26,4", "1.", ".", "", "-", "9007199254740993", "0.1234567890123456789", "123456789012345.6", "1e-400", "٣"} {
		f.Add(s)
	}
	plain := regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	f.Fuzz(func(t *testing.T, s string) {
		v, why := parseNumber([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		switch {
		case !plain.MatchString(s):
			if !notNumeric(why) && why != reading.NotFinite {
				t.Fatalf("%q is %v (%s), want no number", s, v, why)
			}
		case math.IsInf(want, 0):
			if why != reading.OutOfRange {
				t.Fatalf("%q is %v (%s), want out of range", s, v, why)
			}
		case why != "" || err != nil || v != want:
			t.Fatalf("%q is %v (%s), strconv says %v (%v)", s, v, why, want, err)
		}
	})
}

var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func FuzzTime(f *testing.F) {
	for _, s := range timeSeeds {
		f.Add(s, int64(1796547930000))
	}
	zone, err := time.LoadLocation("Europe/Rome")
	if err != nil {
		f.Fatal(err)
	}
	c := clock{zone: zone, ahead: 60e3, behind: 876000 * 3600e3}
	f.Fuzz(func(t *testing.T, s string, at int64) {
		at = at % 253402300800000 // year 9999
		ms, ok := c.parse([]byte(s), at)
		if want, err := time.Parse(time.RFC3339Nano, s); err == nil && rfc3339.MatchString(s) && len(s) <= maxTime { // Parse takes T1:00 and +01:60, too
			if !ok || ms != want.UnixMilli() {
				t.Fatalf("%q is %d (%v), time.Parse says %d", s, ms, ok, want.UnixMilli())
			}
		}
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && s[0] != '+' && s != "-" && len(s) <= 20 {
			digits := strings.TrimPrefix(s, "-")
			if len(digits) <= 19 && (!ok || ms != epochMillis(n)) {
				t.Fatalf("%q is %d (%v)", s, ms, ok)
			}
		}
		if ok && c.doubt(ms, at) == "" && (ms < earliest || ms > at+c.ahead || ms < at-c.behind) {
			t.Fatalf("%q, received %d, believed", s, at)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range templateSeeds {
		f.Add(s, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, entry, topic string) {
		r, err := parseRoute(entry)
		if err != nil {
			return
		}
		if r.filter == "" || strings.ContainsAny(r.filter, "{}\x00") {
			t.Fatalf("entry %q has filter %q", entry, r.filter)
		}
		var c captures
		got := c.match(r, topic)
		if want := slowMatch(r, topic); got != want {
			t.Fatalf("entry %q matches topic %q: %v, want %v", entry, topic, got, want)
		}
		if got && !filterMatches(r.filter, topic) {
			t.Fatalf("topic %q matches entry %q but not its filter %q", topic, entry, r.filter)
		}
		for _, s := range append(c.loose, c.sensor, c.metric) {
			if got && (s.start > s.end || int(s.end) > len(topic)) {
				t.Fatalf("span %v of topic %q", s, topic)
			}
		}
	})
}
