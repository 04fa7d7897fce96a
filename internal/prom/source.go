package prom

import (
	"context"

	"gudang/internal/reading"
)

// storeError is what the store said. It is not the client's to know: see
// API.ServeHTTP.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// readings are the samples of a series of readings.
type readings struct {
	reading.Series
	store Reader
}

func (r *readings) newest(ctx context.Context, from, at int64) (reading.Stretch, error) {
	return wrapped(r.store.NewestAt(ctx, r.Series, from, at))
}

func (r *readings) stretch(ctx context.Context, from, until int64, limit int) (reading.Stretch, error) {
	return wrapped(r.store.Stretch(ctx, r.Series, from, until, limit))
}

func wrapped(s reading.Stretch, err error) (reading.Stretch, error) {
	if err != nil {
		return s, storeError{err}
	}
	return s, nil
}

// summed are the samples of a series of summaries. The time of one is the end
// of its span: what it sums up lies before it, as behind a recording rule of
// Prometheus, and a look back never sees the future.
type summed struct {
	reading.Series
	Summaries
	value func(*reading.Summary) float64
}

// newest asks for one span first, which is all there is to find but for a
// sensor that pauses, and for the one behind it, which the engine wants to see.
func (s *summed) newest(ctx context.Context, from, at int64) (reading.Stretch, error) {
	span := int64(s.Span)
	read, documents := reading.Stretch{}, 0
	for since := max(from, at+1-span); ; since = from {
		var err error
		// Where the span was once another there may be one a second.
		if read, err = s.stretch(ctx, since, at+1+span, int((at+span-since)/1000)+2); err != nil {
			return read, err
		}
		documents += read.Documents
		if since == from || len(read.Points) > 0 && read.Points[0].Time <= at {
			break
		}
	}
	read.Documents = documents
	for len(read.Points) > 1 && read.Points[1].Time <= at {
		read.Points = read.Points[1:]
	}
	return read, nil
}

func (s *summed) stretch(ctx context.Context, from, until int64, limit int) (reading.Stretch, error) {
	span := int64(s.Span)
	found, err := s.Read(ctx, reading.Query{Sensor: s.Sensor, Metric: s.Metric, From: from - span, To: toward(until - span), Limit: limit})
	if err != nil {
		return reading.Stretch{}, storeError{err}
	}
	out := reading.Stretch{Until: until, Documents: len(found)}
	for i := range found {
		// What was stored with another span may begin anywhere.
		if found[i].Start%span == 0 && found[i].Count > 0 {
			out.Points = append(out.Points, reading.Point{Time: found[i].Start + span, Value: s.value(&found[i])})
		}
	}
	if len(found) == limit {
		out.Until = min(until, found[limit-1].Start+span+1)
	}
	return out, nil
}

// toward is an end for a query, for which zero means that there is none.
func toward(ms int64) int64 {
	if ms == 0 {
		return -1
	}
	return ms
}

// statistics are what a summary has, by the name behind the colon.
var statistics = []struct {
	name  string
	words string
	value func(*reading.Summary) float64
}{
	{"avg", "Average", func(s *reading.Summary) float64 { return s.Sum / float64(s.Count) }},
	{"count", "Number", func(s *reading.Summary) float64 { return float64(s.Count) }},
	{"max", "Highest", func(s *reading.Summary) float64 { return s.Max }},
	{"min", "Lowest", func(s *reading.Summary) float64 { return s.Min }},
	{"sum", "Sum", func(s *reading.Summary) float64 { return s.Sum }},
}
