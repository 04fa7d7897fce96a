package web

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

// How many items a list has: as asked, but at most so many. More may be asked
// for, since "next" says that there is more and nothing is silently missing.
const (
	defaultLimit = 1000
	maxLimit     = 10000
	maxSensors   = 1000 // each carries the latest readings of all its metrics
)

// params are the parameters of a request, each at most once and known by name.
// An empty one counts as left out: that is what a dashboard sends for a
// variable without a value.
type params map[string]string

func parseParams(raw string, known ...string) (params, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("the parameters can't be read: %v", err)
	}
	p := make(params, len(values))
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, badRequest("unknown parameter %q: there are %s", clip(name), strings.Join(known, ", "))
		case len(list) > 1:
			return nil, badRequest("parameter %s is given %d times", name, len(list))
		case !utf8.ValidString(list[0]):
			return nil, badRequest("parameter %s is not UTF-8", name)
		}
		p[name] = list[0]
	}
	return p, nil
}

// limit is how many items are asked for.
func (p params) limit(most int) (int, error) {
	text := p["limit"]
	if text == "" {
		return min(defaultLimit, most), nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if errors.Is(err, strconv.ErrRange) {
		return most, nil
	}
	if err != nil || n == 0 {
		return 0, badRequest("limit %q: must be a whole number from 1; at most %d are answered at once", clip(text), most)
	}
	return min(int(n), most), nil
}

// parseQuery reads what is asked of one sensor's readings or buckets. none
// says that the range is empty, which a reading.Query can't (its To of 0 is no
// end). Nothing is stored from before 1970, so nothing before it is asked for.
func parseQuery(raw string, kind byte) (q reading.Query, none bool, err error) {
	p, err := parseParams(raw, queryParams...)
	if err != nil {
		return q, false, err
	}
	return p.query(kind)
}

var queryParams = []string{"sensor", "metric", "from", "to", "limit", "after"}

func (p params) query(kind byte) (q reading.Query, none bool, err error) {
	q.Sensor, q.Metric = p["sensor"], p["metric"]
	if q.Sensor == "" {
		return q, false, badRequest("parameter sensor is missing: /api/v1/sensors lists the sensors")
	}
	if len(q.Sensor) > reading.MaxSensorID {
		return q, false, badRequest("sensor %q: an id has at most %d bytes", clip(q.Sensor), reading.MaxSensorID)
	}
	if q.Metric != "" && !isMetric(q.Metric) {
		return q, false, badRequest("metric %q: a name has letters, digits and _ only, and no digit first", clip(q.Metric))
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if text := p["from"]; text != "" {
		if from, err = parseTime(text); err != nil {
			return q, false, badRequest("from %q: %v", clip(text), err)
		}
	}
	if text := p["to"]; text != "" {
		if to, err = parseTime(text); err != nil {
			return q, false, badRequest("to %q: %v", clip(text), err)
		}
		q.To = to
	}
	if from > to {
		return q, false, badRequest("from is after to")
	}
	q.From = max(from, 0)
	if text := p["after"]; text != "" {
		if q.After, err = parseCursor(kind, text); err != nil {
			return q, false, err
		}
	}
	q.Limit, err = p.limit(maxLimit)
	return q, to <= q.From, err
}

// isMetric says whether a series can have that metric.
func isMetric(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// lastSecond is the last one of the year 9999, which RFC 3339 ends with.
const lastSecond = 253402300799

var (
	errTime   = errors.New("must be a time as 2026-12-06T09:05:10Z or in Unix seconds")
	errMillis = errors.New("must be in Unix seconds: this looks like milliseconds")
)

// parseTime reads a time as RFC 3339 or Unix seconds. The result is in whole
// ms, rounded up: that is right for both ends of a range, closed on the left
// and open on the right.
func parseTime(s string) (int64, error) {
	if len(s) > 40 {
		return 0, errTime
	}
	if !strings.ContainsAny(s, "Tt:") {
		return parseSeconds(s)
	}
	// The + of an offset reads as a space where the client didn't escape it.
	t, err := time.Parse(time.RFC3339, strings.ToUpper(strings.ReplaceAll(s, " ", "+")))
	if err != nil {
		return 0, errTime
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms, nil
}

// parseSeconds reads a decimal number by its digits: as a float64 a time in
// seconds is no whole number of ms any more.
func parseSeconds(s string) (int64, error) {
	whole, fraction, dot := strings.Cut(s, ".")
	if dot && !allDigits(fraction) || !allDigits(strings.TrimPrefix(whole, "-")) {
		return 0, errTime
	}
	ms, err := strconv.ParseInt(whole+(fraction + "000")[:3], 10, 64)
	if err != nil || ms > lastSecond*1000 || ms < -lastSecond*1000 {
		return 0, errMillis
	}
	if len(fraction) > 3 && strings.Trim(fraction[3:], "0") != "" && whole[0] != '-' {
		ms++ // before 1970 cutting off is rounding up
	}
	return ms, nil
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// A token is what "next" says and after takes: opaque to the client, safe in
// an address, and good for one kind of list only.
const (
	readingsToken byte = 'r'
	bucketsToken  byte = 'b'
	sensorsToken  byte = 's'
)

// tokenCoding is strict so that a place has one token and no other.
var tokenCoding = base64.RawURLEncoding.Strict()

func cursorToken(kind byte, c reading.Cursor) string {
	buf := binary.AppendVarint([]byte{kind}, c.Time)
	return tokenCoding.EncodeToString(append(buf, c.Metric...))
}

func parseCursor(kind byte, token string) (reading.Cursor, error) {
	buf, err := parseToken(kind, token)
	if err != nil {
		return reading.Cursor{}, err
	}
	t, n := binary.Varint(buf)
	if n <= 0 {
		return reading.Cursor{}, errAfter
	}
	c := reading.Cursor{Time: t, Metric: string(buf[n:])}
	if c.Metric == "" || !utf8.ValidString(c.Metric) || cursorToken(kind, c) != token {
		return reading.Cursor{}, errAfter
	}
	return c, nil
}

func sensorToken(id string) string {
	return tokenCoding.EncodeToString(append([]byte{sensorsToken}, id...))
}

func parseSensorToken(token string) (string, error) {
	id, err := parseToken(sensorsToken, token)
	if err != nil || len(id) == 0 || len(id) > reading.MaxSensorID || !utf8.Valid(id) {
		return "", errAfter
	}
	return string(id), nil
}

var errAfter = badRequest(`after is not the "next" of a list of this kind`)

// parseToken returns what is in a token behind its kind. Base64 skips line
// ends, so these are refused first.
func parseToken(kind byte, token string) ([]byte, error) {
	buf, err := tokenCoding.DecodeString(token)
	if err != nil || len(buf) == 0 || buf[0] != kind || strings.ContainsAny(token, "\r\n") {
		return nil, errAfter
	}
	return buf[1:], nil
}
