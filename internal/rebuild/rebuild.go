// Package rebuild builds buckets from raw readings: it adds what they lack,
// mends what contradicts raw or itself, and brings them to another span. Each
// of its steps leaves every reading in at least one bucket and can be done
// again, so it may be stopped anywhere, and ingestion may go on beside it.
package rebuild

import (
	"context"
	"fmt"
	"time"

	"gudang/internal/reading"
)

// Source is where raw readings and buckets are read. Each list is in order of
// time and has at most the query's limit.
type Source interface {
	NextSeries(ctx context.Context, after reading.Series) (reading.Series, bool, error)
	RawReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	OverflowReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	Records(ctx context.Context, q reading.Query) ([]reading.Record, error)
}

// Target is where buckets are written.
type Target interface {
	// Write adds the readings of the buckets to what is stored, and returns
	// which of them were not: those that were there, and those that the store
	// will never take.
	Write(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error)
	// FixBucket replaces a stored bucket by what fix makes of it, provided that
	// nobody changes it meanwhile: then fix is asked again.
	FixBucket(ctx context.Context, key reading.Key, fix func(have *reading.Record) *reading.Bucket) (found bool, err error)
}

// Config is what is rebuilt.
type Config struct {
	Span     reading.Span
	From, To int64 // ms; To is exclusive
	Slice    time.Duration
	// Progress is told after each series of a slice of time, if it is not nil.
	Progress func(Summary)
}

// Summary is what was done so far.
type Summary struct {
	Done     int64 `json:"done"`     // ms: what is before it is finished
	Raw      int64 `json:"raw"`      // raw readings gone through
	Added    int64 `json:"added"`    // readings that buckets lacked
	Mended   int64 `json:"mended"`   // buckets replaced, for they were wrong
	Moved    int64 `json:"moved"`    // readings taken out of buckets of another span
	Removed  int64 `json:"removed"`  // buckets of another span that were emptied
	Outliers int64 `json:"outliers"` // raw readings passed over, because their bucket is an outlier
	Refused  int64 `json:"refused"`  // readings that the store will never take
}

const (
	// weekly is how much time is gone through at once, for all series: what is
	// before it is finished, so that a later run can begin there.
	weekly = 7 * 24 * time.Hour
	// piece is how many raw readings of a series are in memory at once.
	piece = 50_000
	// longest is the longest span that a bucket can have, in ms.
	longest = 24 * 60 * 60 * 1000
)

// Run rebuilds. When it fails, or ctx ends, the summary says from where on it
// is to be done again.
func Run(ctx context.Context, cfg Config, from Source, to Target) (Summary, error) {
	b := builder{cfg: cfg, source: from, target: to, piece: piece}
	b.sum.Done = cfg.From
	slice := cfg.Slice.Milliseconds()
	if slice <= 0 {
		slice = weekly.Milliseconds()
	}
	for b.sum.Done < cfg.To {
		until := cfg.To
		if cfg.To-b.sum.Done > slice {
			until = b.sum.Done + slice
		}
		if err := b.slice(ctx, b.sum.Done, until); err != nil {
			return b.sum, fmt.Errorf("cannot rebuild the buckets: %w", err)
		}
		b.sum.Done = until
	}
	return b.sum, nil
}

type builder struct {
	cfg    Config
	source Source
	target Target
	piece  int
	sum    Summary
}

// slice rebuilds a range of time for every series that has raw readings.
func (b *builder) slice(ctx context.Context, from, to int64) error {
	for series := (reading.Series{}); ; {
		next, more, err := b.source.NextSeries(ctx, series)
		if err != nil || !more {
			return err
		}
		series = next
		earliest, err := b.source.RawReadings(ctx, reading.Query{Sensor: series.Sensor, Metric: series.Metric, Limit: 1})
		if err != nil {
			return err
		}
		if len(earliest) > 0 { // else its buckets are all that there is
			if err := b.series(ctx, series, max(from, b.cfg.Span.Start(earliest[0].Time)), to); err != nil {
				return err
			}
		}
		if b.cfg.Progress != nil {
			b.cfg.Progress(b.sum)
		}
	}
}

// series goes through a range of one series in pieces that fit in memory.
func (b *builder) series(ctx context.Context, series reading.Series, from, to int64) error {
	for from < to {
		raw, err := b.source.RawReadings(ctx, reading.Query{Sensor: series.Sensor, Metric: series.Metric, From: from, To: to, Limit: b.piece})
		if err != nil {
			return err
		}
		until := to
		if len(raw) == b.piece {
			until = raw[len(raw)-1].Time + 1
		}
		b.sum.Raw += int64(len(raw))
		p := newPlan(b, series, from, until)
		if err := p.read(ctx, raw); err != nil {
			return err
		}
		if err := p.carryOut(ctx); err != nil {
			return err
		}
		from = until
	}
	return nil
}
