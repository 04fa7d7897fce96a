package web

import (
	"compress/gzip"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

const typeJSON = "application/json; charset=utf-8"

// encoder writes JSON by appending, in pieces. encoding/json would answer 500
// for a whole list if one value in it were not finite or one time beyond the
// year 9999; here that one is null. An answer that fits in the first piece
// goes out with its length; a larger one is compressed if the client can.
type encoder struct {
	buf     []byte
	header  http.Header
	out     io.Writer
	gz      *gzip.Writer
	zip     bool // the client takes gzip
	started bool // a piece is out
	err     error
}

const pieceSize = 32 << 10

// encoderPool keeps encoders, whose buffers and compressors are large.
type encoderPool struct{ pool sync.Pool }

// answer writes what f encodes. An error in writing means that the client is
// gone: there is nobody to tell.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, f func(e *encoder)) error {
	return s.answerAs(w, r, typeJSON, func(e *encoder) {
		f(e)
		e.buf = append(e.buf, '\n')
	})
}

// answerAs is answer for what is not JSON.
func (s *Server) answerAs(w http.ResponseWriter, r *http.Request, contentType string, f func(e *encoder)) error {
	e, ok := s.encoders.pool.Get().(*encoder)
	if !ok {
		e = &encoder{buf: make([]byte, 0, pieceSize+4<<10)}
	}
	e.buf, e.header, e.out, e.started, e.err = e.buf[:0], w.Header(), w, false, nil
	e.zip = takesGzip(r.Header.Get("Accept-Encoding"))
	e.header.Set("Content-Type", contentType)
	e.header.Set("Vary", "Accept-Encoding")
	f(e)
	e.finish()
	e.header, e.out = nil, nil
	if cap(e.buf) <= 8*pieceSize { // one huge sensor must not stay for ever
		s.encoders.pool.Put(e)
	}
	return nil
}

// takesGzip reads an Accept-Encoding header (RFC 9110, section 12.5.3).
func takesGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, found := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !found || strings.Trim(q, "0.") != ""
		}
	}
	return false
}

// piece sends what is encoded so far if that is enough for a piece.
func (e *encoder) piece() {
	if len(e.buf) >= pieceSize {
		e.flush()
	}
}

func (e *encoder) flush() {
	if !e.started {
		e.started = true
		if e.zip {
			e.header.Set("Content-Encoding", "gzip")
			if e.gz == nil {
				e.gz, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // errs on unknown levels only
			}
			e.gz.Reset(e.out)
			e.out = e.gz
		}
	}
	if e.err == nil {
		_, e.err = e.out.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *encoder) finish() {
	if !e.started {
		e.header.Set("Content-Length", strconv.Itoa(len(e.buf)))
		_, e.err = e.out.Write(e.buf)
		return
	}
	e.flush()
	if e.zip {
		if e.err == nil {
			e.err = e.gz.Close()
		}
		e.gz.Reset(io.Discard) // or the pool would keep the connection
	}
}

// list encodes {name: [items], "next": next}, with next only if there is one.
func list[T any](e *encoder, name string, items []T, item func(b []byte, v *T) []byte, next string) {
	e.buf = append(appendString(append(e.buf, '{'), name), ":["...)
	for i := range items {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = item(e.buf, &items[i])
		e.piece()
	}
	e.buf = append(e.buf, ']')
	if next != "" {
		e.buf = appendString(append(e.buf, `,"next":`...), next)
	}
	e.buf = append(e.buf, '}')
}

func appendReading(b []byte, r *reading.Reading) []byte {
	b = appendString(append(b, `{"sensorId":`...), r.Sensor)
	b = appendString(append(b, `,"metric":`...), r.Metric)
	b = appendTime(append(b, `,"time":`...), r.Time)
	b = appendFloat(append(b, `,"value":`...), r.Value)
	return append(b, '}')
}

func appendSummary(b []byte, s *reading.Summary) []byte {
	b = appendString(append(b, `{"sensorId":`...), s.Sensor)
	b = appendString(append(b, `,"metric":`...), s.Metric)
	b = appendTime(append(b, `,"start":`...), s.Start)
	b = strconv.AppendInt(append(b, `,"count":`...), s.Count, 10)
	b = appendFloat(append(b, `,"sum":`...), s.Sum)
	b = appendFloat(append(b, `,"min":`...), s.Min)
	b = appendFloat(append(b, `,"max":`...), s.Max)
	b = strconv.AppendBool(append(b, `,"outlier":`...), s.Outlier)
	return append(b, '}')
}

// appendSensor names the newest reading of each metric twice, by itself and
// first in latest, so that a table needs no array. Without any (the subset is
// turned off) both of its fields are null.
func appendSensor(b []byte, s *reading.Sensor) []byte {
	b = appendString(append(b, `{"sensorId":`...), s.ID)
	b = appendTime(append(b, `,"firstSeen":`...), s.FirstSeen)
	b = appendTime(append(b, `,"lastSeen":`...), s.LastSeen)
	if s.Outlier() {
		b = append(b, `,"outlier":true`...)
	}
	b = append(b, `,"metrics":{`...)
	for i, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ":{"...)
		points := s.Metrics[name]
		if len(points) > 0 {
			b = appendPoint(b, points[0])
		} else {
			b = append(b, `"time":null,"value":null`...)
		}
		b = append(b, `,"latest":[`...)
		for j, p := range points {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(appendPoint(append(b, '{'), p), '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, "}}"...)
}

func appendPoint(b []byte, p reading.Point) []byte {
	b = appendTime(append(b, `"time":`...), p.Time)
	return appendFloat(append(b, `,"value":`...), p.Value)
}

// appendTime is a time in RFC 3339, UTC, with ms; null where it can't be one.
func appendTime(b []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return append(b, "null"...)
	}
	return t.AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
}

// appendFloat is the shortest text that reads back as v; null if there is
// none. As in encoding/json, which follows ECMAScript.
func appendFloat(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	v += 0 // -0 becomes 0
	if a := math.Abs(v); a == 0 || a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, v, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 to e-9
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

const hex = "0123456789abcdef"

// appendString quotes s. What a browser or JavaScript might take for more than
// text is escaped, and bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[done:i]...), `\ufffd`...)
				done = i + size
			case r == '\u2028' || r == '\u2029':
				b = append(append(b, s[done:i]...), `\u202`...)
				b = append(b, hex[r&0xf])
				done = i + size
			}
			i += size
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			continue
		}
		b = append(b, s[done:i-1]...)
		done = i
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, s[done:]...), '"')
}
