// Package query is every read of the store: ranges of readings, summaries, the
// newest of each sensor, and the checks that read everything.
package query

import (
	"context"

	"gudang/internal/reading"
)

// Store is a database that is read from. Each query is served by an index, and
// its cost is bounded by its limit; Scan and Storage read everything.
type Store interface {
	SeriesReader
	// Sensors lists sensors in order of id, after the given one.
	Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error)
	// Sensor is one of them, or reading.ErrNotFound.
	Sensor(ctx context.Context, id string) (reading.Sensor, error)
	// SensorIDs yields the id of every sensor, in any order.
	SensorIDs(ctx context.Context, yield func(id string) error) error
	// Readings and Summaries answer in order of time, then metric. Limit must
	// be positive.
	Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error)
	Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error)
	// NewestAt is the newest reading of the series in [from, at], and as many
	// behind it as its bucket has. Stretch is its readings in [from, until), in
	// whole buckets: the limit or a few more, if there are so many.
	NewestAt(ctx context.Context, s reading.Series, from, at int64) (reading.Stretch, error)
	Stretch(ctx context.Context, s reading.Series, from, until int64, limit int) (reading.Stretch, error)
	// Scan yields every stored bucket, in any order, exactly as it is stored. An
	// outlier comes in pieces, one after the other, each with its summary and
	// some of its readings. What is yielded is only valid until the next call
	// of yield.
	Scan(ctx context.Context, yield func(*Stored) error) error
	Measurer
	Examiner
	Ping(ctx context.Context) error
	Close() error

	Rollups
	Expiry
}

// Stored is a bucket as it is stored, right or wrong.
type Stored struct {
	reading.Summary
	ID      [16]byte
	Offsets []int32
	Values  []float64
	Until   int64 // of an outlier: where its span ends
	More    bool  // of an outlier: more pieces of it follow
}
