package web

import (
	"net/http"
	"unicode/utf8"

	"gudang/internal/reading"
)

// sensors answers /api/v1/sensors: every sensor's own document, by id.
func (s *Server) sensors(w http.ResponseWriter, r *http.Request) error {
	p, err := parseParams(r.URL.RawQuery, "limit", "after")
	if err != nil {
		return err
	}
	limit, err := p.limit(maxSensors)
	if err != nil {
		return err
	}
	var after string
	if token := p["after"]; token != "" {
		if after, err = parseSensorToken(token); err != nil {
			return err
		}
	}
	found, err := s.reader.Sensors(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	found, next := cut(found, limit, func(v reading.Sensor) string { return sensorToken(v.ID) })
	return s.answer(w, r, func(e *encoder) { list(e, "sensors", found, appendSensor, next) })
}

// sensor answers /api/v1/sensors/{id}: one of these documents.
func (s *Server) sensor(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseParams(r.URL.RawQuery); err != nil {
		return err
	}
	id := r.PathValue("id")
	if len(id) > reading.MaxSensorID || !utf8.ValidString(id) {
		return errSensor // nothing of that name can be stored
	}
	found, err := s.reader.Sensor(r.Context(), id)
	if err != nil {
		return err
	}
	return s.answer(w, r, func(e *encoder) { e.buf = appendSensor(e.buf, &found) })
}

// readings answers /api/v1/readings: a sensor's readings, by time and metric.
// That there are none, or no such sensor, is an empty list.
func (s *Server) readings(w http.ResponseWriter, r *http.Request) error {
	q, none, err := parseQuery(r.URL.RawQuery, readingsToken)
	if err != nil {
		return err
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there is more
	var found []reading.Reading
	if !none {
		if found, err = s.reader.Readings(r.Context(), q); err != nil {
			return err
		}
	}
	found, next := cut(found, limit, func(v reading.Reading) string {
		return cursorToken(readingsToken, reading.Cursor{Time: v.Time, Metric: v.Metric})
	})
	return s.answer(w, r, func(e *encoder) { list(e, "readings", found, appendReading, next) })
}

// buckets answers /api/v1/buckets: the same of the buckets, by their start, or
// of the roll-ups to a longer span.
func (s *Server) buckets(w http.ResponseWriter, r *http.Request) error {
	q, span, none, err := s.parseBuckets(r.URL.RawQuery)
	if err != nil {
		return err
	}
	limit := q.Limit
	q.Limit++
	var found []reading.Summary
	if !none {
		if span == s.spans[0] {
			found, err = s.reader.Summaries(r.Context(), q)
		} else {
			found, err = s.reader.Rollups(r.Context(), q, span)
		}
		if err != nil {
			return err
		}
	}
	found, next := cut(found, limit, func(v reading.Summary) string {
		return cursorToken(bucketsToken, reading.Cursor{Time: v.Start, Metric: v.Metric})
	})
	return s.answer(w, r, func(e *encoder) { list(e, "buckets", found, appendSummary, next) })
}

// cut leaves at most limit of what was found, and the token of the last of
// them if there is more.
func cut[T any](found []T, limit int, token func(T) string) (page []T, next string) {
	if len(found) <= limit {
		return found, ""
	}
	return found[:limit], token(found[limit-1])
}
