package query

import (
	"context"

	"gudang/internal/reading"
)

// SeriesReader reads one series after the other, each in order of time: what
// the check of buckets against raw, and the rebuild, go by. All of it comes in
// pages, so that no question takes long and memory does not grow. In a Query
// both sensor and metric are given, and After is not looked at.
type SeriesReader interface {
	// NextSeries is the first series after the given one, in order, that has
	// raw readings or buckets; false: there is none.
	NextSeries(ctx context.Context, after reading.Series) (reading.Series, bool, error)
	// RawReadings are the raw readings in order of time, OverflowReadings those
	// that outlier buckets keep elsewhere.
	RawReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	OverflowReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	// RawExtent is how far raw goes, of all series together.
	RawExtent(ctx context.Context) (Extent, error)
	// Records are the stored buckets that start in the range, in order of
	// start, right or wrong.
	Records(ctx context.Context, q reading.Query) ([]reading.Record, error)
	// RawGroups yields count, sum, min and max of the raw readings of each
	// series and span, in order of series and start.
	RawGroups(ctx context.Context, span reading.Span, yield func(reading.Summary) error) error
}

// Extent is how many readings there are, and their first and last time.
type Extent struct {
	Count       int64 // about; 0: there are none
	First, Last int64 // ms
}

// rawPage is how many raw readings are asked for at once.
const rawPage = 5000

// groupRaw is RawGroups for a store that does not group: it reads all of raw,
// a page at a time.
func groupRaw(ctx context.Context, store SeriesReader, span reading.Span, yield func(reading.Summary) error) error {
	for series, more, err := store.NextSeries(ctx, reading.Series{}); ; series, more, err = store.NextSeries(ctx, series) {
		if err != nil || !more {
			return err
		}
		if err := groupSeries(ctx, store, span, series, yield); err != nil {
			return err
		}
	}
}

func groupSeries(ctx context.Context, store SeriesReader, span reading.Span, series reading.Series, yield func(reading.Summary) error) error {
	var g reading.Summary
	raw := pages{ask: store.RawReadings, q: reading.Query{Sensor: series.Sensor, Metric: series.Metric, Limit: rawPage}}
	for {
		p, ok, err := raw.next(ctx)
		if err != nil {
			return err
		}
		start := span.Start(p.Time)
		if g.Count > 0 && (!ok || start != g.Start) {
			if err := yield(g); err != nil {
				return err
			}
			g = reading.Summary{}
		}
		if !ok {
			return nil
		}
		if g.Count == 0 {
			g = reading.Summary{Key: reading.Key{Series: series, Start: start}, Min: p.Value, Max: p.Value}
		}
		g.Count++
		g.Sum += p.Value
		g.Min, g.Max = min(g.Min, p.Value), max(g.Max, p.Value)
	}
}

// pages goes through the readings of a series.
type pages struct {
	ask   func(ctx context.Context, q reading.Query) ([]reading.Point, error)
	q     reading.Query
	ready []reading.Point
	ended bool
}

// peek is the next reading, which stays the next.
func (p *pages) peek(ctx context.Context) (reading.Point, bool, error) {
	if len(p.ready) == 0 && !p.ended {
		page, err := p.ask(ctx, p.q)
		if err != nil {
			return reading.Point{}, false, err
		}
		p.ready, p.ended = page, len(page) < p.q.Limit
		if len(page) > 0 {
			p.q.From = page[len(page)-1].Time + 1
		}
	}
	if len(p.ready) == 0 {
		return reading.Point{}, false, nil
	}
	return p.ready[0], true, nil
}

func (p *pages) next(ctx context.Context) (reading.Point, bool, error) {
	point, ok, err := p.peek(ctx)
	if ok {
		p.ready = p.ready[1:]
	}
	return point, ok, err
}
