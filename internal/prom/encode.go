package prom

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	typeJSON  = "application/json; charset=utf-8"
	pieceSize = 32 << 10
	// maxNotes is how many warnings, and how many infos, an answer has.
	maxNotes = 10
)

// encoder writes JSON by appending, in pieces: an answer may be large. One that
// fits in the first piece goes out with its length.
type encoder struct {
	buf     []byte
	w       http.ResponseWriter
	started bool
}

// success answers with the result. An error in writing means that the client is
// gone: there is nobody to tell.
func success(w http.ResponseWriter, res result) {
	e := &encoder{w: w}
	w.Header().Set("Content-Type", typeJSON)
	e.raw(`{"status":"success","data":`)
	res.encode(e)
	warnings, infos := res.annotations.AsStrings(res.query, maxNotes, maxNotes)
	e.notes("warnings", warnings)
	e.notes("infos", infos)
	e.raw("}")
	if !e.started {
		w.Header().Set("Content-Length", strconv.Itoa(len(e.buf)))
	}
	w.Write(e.buf)
}

func (e *encoder) raw(s string) { e.buf = append(e.buf, s...) }

// piece sends what is encoded so far if that is enough for a piece.
func (e *encoder) piece() {
	if len(e.buf) >= pieceSize {
		e.started = true
		e.w.Write(e.buf)
		e.buf = e.buf[:0]
	}
}

func (e *encoder) notes(name string, all []string) {
	if len(all) > 0 {
		e.raw(`,"` + name + `":`)
		slices.Sort(all)
		e.strings(all)
	}
}

func (e *encoder) strings(all []string) {
	list(e, all, func(s string) { e.buf = appendString(e.buf, s) })
}

func (e *encoder) series(all []labels.Labels) { list(e, all, e.labels) }

// list encodes an array.
func list[T any](e *encoder, items []T, item func(T)) {
	e.raw("[")
	for i := range items {
		if i > 0 {
			e.raw(",")
		}
		item(items[i])
		e.piece()
	}
	e.raw("]")
}

func (e *encoder) labels(l labels.Labels) {
	e.raw("{")
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			e.raw(",")
		}
		first = false
		e.buf = appendString(e.buf, l.Name)
		e.raw(":")
		e.buf = appendString(e.buf, l.Value)
	})
	e.raw("}")
}

// value encodes what a query gave.
func (e *encoder) value(v parser.Value) {
	e.raw(`{"resultType":"` + string(v.Type()) + `","result":`)
	switch v := v.(type) {
	case promql.Matrix:
		list(e, v, e.matrixSeries)
	case promql.Vector:
		list(e, v, func(s promql.Sample) {
			e.raw(`{"metric":`)
			e.labels(s.Metric)
			e.raw(`,"value":`)
			e.sample(s.T, s.F)
			e.raw("}")
		})
	case promql.Scalar:
		e.sample(v.T, v.V)
	case promql.String:
		e.raw("[")
		e.buf = appendTime(e.buf, v.T)
		e.raw(",")
		e.buf = appendString(e.buf, v.V)
		e.raw("]")
	}
	e.raw("}")
}

func (e *encoder) matrixSeries(s promql.Series) {
	e.raw(`{"metric":`)
	e.labels(s.Metric)
	e.raw(`,"values":`)
	list(e, s.Floats, func(p promql.FPoint) { e.sample(p.T, p.F) })
	e.raw("}")
}

func (e *encoder) sample(t int64, v float64) {
	e.raw("[")
	e.buf = appendTime(e.buf, t)
	e.raw(`,"`)
	e.buf = appendFloat(e.buf, v)
	e.raw(`"]`)
}

// appendTime is a time in seconds, with ms if it has any.
func appendTime(b []byte, ms int64) []byte {
	if ms < 0 {
		b, ms = append(b, '-'), -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if part := ms % 1000; part != 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	return b
}

// appendFloat is the shortest text that reads back as v, in the form in which
// Prometheus writes it.
func appendFloat(b []byte, v float64) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}

const hex = "0123456789abcdef"

// appendString quotes s. What a browser might take for more than text is
// escaped, and bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == '<' || r == '>' || r == '&' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		case r == '\u2028' || r == '\u2029':
			b = append(b, '\\', 'u', '2', '0', '2', hex[r&0xf])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
