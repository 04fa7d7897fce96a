package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gudang/internal/reading"
)

const (
	// sampleReadings bounds how many readings a simulation of other spans
	// reads, and samplePage how many at once.
	sampleReadings = 1_000_000
	samplePage     = 10_000
	// sampleSeries is how many series at most they are taken from if there
	// are more readings than that.
	sampleSeries = 50
)

// SpanCost is what the readings would take in buckets of another span.
type SpanCost struct {
	Span     reading.Span `json:"span"`
	Buckets  Measure      `json:"buckets"`
	Readings int64        `json:"readings"`
	Raw      int64        `json:"raw"` // bytes of the same readings as raw documents
	// Largest is how many readings the fullest bucket has: beyond
	// OUTLIER_READINGS they are in overflow, and save nothing.
	Largest int64 `json:"largest"`
}

// Each is the bytes of a reading.
func (c SpanCost) Each() float64 { return Part{c.Buckets, c.Readings}.Each() }

// Saved is which part of the bytes of raw documents the span saves.
func (c SpanCost) Saved() float64 {
	return saved(c.Each(), Part{Measure{Bytes: c.Raw}, c.Readings}.Each())
}

// SpanCosts is the cost of each of some spans.
type SpanCosts struct {
	Spans []SpanCost `json:"spans"`
	// Sampled says that it is computed from Series of AllSeries, and at most
	// so many of the readings of each as Readings is in all.
	Sampled   bool  `json:"sampled"`
	Series    int   `json:"series"`
	AllSeries int   `json:"allSeries"`
	Readings  int64 `json:"readings"`
}

// reader is what the simulation reads.
type reader interface {
	Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error)
	Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error)
}

// Simulate computes what the stored readings would take in buckets of the
// spans, each with at most outlier readings: what is beyond, costs a document a
// reading. Of a store with more readings than it may read it takes a sample:
// series from all over the fleet, each from its beginning to the end of a day.
func Simulate(ctx context.Context, from reader, total, outlier int64, spans ...reading.Span) (SpanCosts, error) {
	all, err := everySeries(ctx, from)
	if err != nil {
		return SpanCosts{}, err
	}
	costs := SpanCosts{AllSeries: len(all), Sampled: total > sampleReadings}
	for _, span := range spans {
		costs.Spans = append(costs.Spans, SpanCost{Span: span})
	}
	share := int64(sampleReadings)
	if costs.Sampled {
		all = spread(all, sampleSeries)
		share /= int64(max(1, len(all)))
	}
	for _, series := range all {
		times, err := timesOf(ctx, from, series, share)
		if err != nil {
			return SpanCosts{}, fmt.Errorf("cannot read what another span would cost: %w", err)
		}
		if len(times) == 0 {
			continue
		}
		costs.Series++
		costs.Readings += int64(len(times))
		for i := range costs.Spans {
			costs.Spans[i].add(series, times, outlier)
		}
	}
	return costs, nil
}

// everySeries is the fleet's series, in order. The sensors' documents name
// them; those of a sensor with no document yet are left out.
func everySeries(ctx context.Context, from reader) ([]reading.Series, error) {
	const page = 1000
	var all []reading.Series
	for after, more := "", true; more; {
		sensors, err := from.Sensors(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, s := range sensors {
			after = s.ID
			for _, metric := range slices.Sorted(maps.Keys(s.Metrics)) {
				all = append(all, reading.Series{Sensor: s.ID, Metric: metric})
			}
		}
		more = len(sensors) == page
	}
	return all, nil
}

// spread is n of the items, evenly from all over them.
func spread[T any](items []T, n int) []T {
	if len(items) <= n {
		return items
	}
	picked := make([]T, 0, n)
	for i := range n {
		picked = append(picked, items[i*len(items)/n])
	}
	return picked
}

// timesOf is the times of a series' readings in order, at most some more than
// most. Where there are more it ends with a whole day, so that long buckets
// are not cut in the middle, unless the first day alone has more.
func timesOf(ctx context.Context, from reader, s reading.Series, most int64) ([]int64, error) {
	var times []int64
	q := reading.Query{Sensor: s.Sensor, Metric: s.Metric, Limit: samplePage}
	for more := true; more; {
		page, err := from.Readings(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			times = append(times, r.Time)
			q.After = reading.Cursor{Time: r.Time, Metric: s.Metric}
		}
		more = len(page) == samplePage && int64(len(times)) < most
		if len(page) == samplePage && !more {
			day := reading.Span(24 * time.Hour / time.Millisecond)
			whole, _ := slices.BinarySearch(times, day.Start(times[len(times)-1]))
			if whole > 0 {
				times = times[:whole]
			}
		}
	}
	return times, nil
}

// add counts the buckets that the times, which are in order, would be in.
func (c *SpanCost) add(s reading.Series, times []int64, outlier int64) {
	n := int64(0)
	for i, t := range times {
		n++
		if i+1 < len(times) && c.Span.Start(times[i+1]) == c.Span.Start(t) {
			continue
		}
		c.Buckets.Documents++
		if n > outlier {
			c.Buckets.Documents += n
			c.Buckets.Bytes += outlierSize(len(s.Sensor)+len(s.Metric)) + n*RawSize(s)
		} else {
			c.Buckets.Bytes += BucketSize(s, n)
		}
		c.Largest = max(c.Largest, n)
		n = 0
	}
	c.Readings += int64(len(times))
	c.Raw += int64(len(times)) * RawSize(s)
}
