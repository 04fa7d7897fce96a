package query

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"gudang/internal/reading"
)

// Rollups answers for longer spans than that of a bucket.
type Rollups interface {
	// Rollups is what Summaries would answer if a bucket covered span. It is
	// read from the roll-ups of that span where these are complete, from
	// shorter ones where those are, and summed up from buckets for the rest,
	// which are the newest windows.
	Rollups(ctx context.Context, q reading.Query, span reading.Span) ([]reading.Summary, error)
}

// Expiry says which deletion is the server's.
type Expiry interface {
	// TTLIndexes are the indexes by which the server deletes, ours and others,
	// of the collections that hold readings.
	TTLIndexes(ctx context.Context) ([]TTLIndex, error)
}

// TTLIndex is an index by which a server deletes what is older than After.
type TTLIndex struct {
	Kind  reading.Kind
	Name  string
	Field string
	After time.Duration
	Ours  bool
}

// summarySource is what roll-ups are read from, within one answer.
type summarySource interface {
	// series is the sensor's metrics, of buckets and of roll-ups.
	series(q reading.Query) ([]string, error)
	progress() (map[reading.Span]reading.Progress, error)
	// each yields the summaries of one series that begin in [from, until), in
	// order: the roll-ups of a span, or the buckets if it is 0.
	each(s reading.Series, span reading.Span, from, until int64, yield func(reading.Summary) error) error
}

var errNoSpan = errors.New("the span must be positive")

// rollups answers a query from a source. Of each metric it reads no more
// windows than the answer can have.
func rollups(src summarySource, q reading.Query, span reading.Span) ([]reading.Summary, error) {
	switch {
	case q.Limit <= 0:
		return nil, errNoLimit
	case span <= 0:
		return nil, errNoSpan
	}
	metrics, err := src.series(q)
	if err != nil {
		return nil, err
	}
	progress, err := src.progress()
	if err != nil {
		return nil, err
	}
	r := windowReader{src: src, progress: progress, spans: slices.Sorted(maps.Keys(progress))}
	from, until := firstFrom(span, q.Since()), endOf(span, q.Until())
	var all []reading.Summary
	for _, metric := range metrics {
		n := 0
		err := r.windows(reading.Series{Sensor: q.Sensor, Metric: metric}, span, from, until, func(s reading.Summary) error {
			if !q.After.Past(s.Start, metric) {
				return nil
			}
			all = append(all, s)
			if n++; n >= q.Limit {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b reading.Summary) int { return a.Compare(b.Key) })
	return all[:min(len(all), q.Limit)], nil
}

// firstFrom is the first window that begins at t or later.
func firstFrom(span reading.Span, t int64) int64 {
	start := span.Start(t)
	if start < t {
		start += int64(span)
	}
	return start
}

// endOf is where the last window ends that begins before t.
func endOf(span reading.Span, t int64) int64 {
	if t > math.MaxInt64-int64(span) {
		return math.MaxInt64
	}
	return firstFrom(span, t)
}

// windowReader reads windows from the roll-ups that are complete.
type windowReader struct {
	src      summarySource
	progress map[reading.Span]reading.Progress
	spans    []reading.Span
}

// windows yields the windows of a series that begin in [from, until), which
// are borders of windows.
func (r *windowReader) windows(s reading.Series, span reading.Span, from, until int64, yield func(reading.Summary) error) error {
	p := r.progress[span]
	complete := min(max(firstFrom(span, p.From), from), until)
	rest := min(max(p.Until, complete), until)
	if err := r.grouped(s, span, from, complete, yield); err != nil {
		return err
	}
	if complete < rest {
		if err := r.src.each(s, span, complete, rest, yield); err != nil {
			return err
		}
	}
	return r.grouped(s, span, rest, until, yield)
}

// grouped sums windows up from what is shorter.
func (r *windowReader) grouped(s reading.Series, span reading.Span, from, until int64, yield func(reading.Summary) error) error {
	if from >= until {
		return nil
	}
	var window reading.Summary
	add := func(part reading.Summary) error {
		if start := span.Start(part.Start); window.Count > 0 && start != window.Start {
			if err := yield(window); err != nil {
				return err
			}
			window = reading.Summary{}
		}
		window.Key = reading.Key{Series: s, Start: span.Start(part.Start)}
		window.Merge(part)
		return nil
	}
	var err error
	if source := reading.SourceOf(span, r.spans); source > 0 {
		err = r.windows(s, source, from, until, add)
	} else {
		err = r.src.each(s, 0, from, until, add)
	}
	if err != nil || window.Count == 0 {
		return err
	}
	return yield(window)
}
