package query

import (
	"context"
	"fmt"
	"math"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	// The columns stand behind start, which is in the index, so that what is
	// only passed by costs no look into the table.
	selectForward  = `SELECT start, offsets, "values", isOutlier, until FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? ORDER BY start`
	selectBackward = selectForward + ` DESC`
)

// NewestAt implements Store.
func (s *SQLite) NewestAt(ctx context.Context, series reading.Series, from, at int64) (reading.Stretch, error) {
	return s.stretch(ctx, series, func(r seriesReader, reach int64) (reading.Stretch, error) {
		return newest(r, reach, from, at)
	})
}

// Stretch implements Store.
func (s *SQLite) Stretch(ctx context.Context, series reading.Series, from, until int64, limit int) (reading.Stretch, error) {
	if limit <= 0 {
		return reading.Stretch{}, fmt.Errorf("cannot read the readings of %q: %w", series.Sensor, errNoLimit)
	}
	return s.stretch(ctx, series, func(r seriesReader, reach int64) (reading.Stretch, error) {
		return stretch(r, reach, from, until, limit)
	})
}

func (s *SQLite) stretch(ctx context.Context, series reading.Series, read func(r seriesReader, reach int64) (reading.Stretch, error)) (found reading.Stretch, err error) {
	found.Until = math.MaxInt64 // where there is no store yet there is nothing at all
	err = s.read(ctx, func(c *sqliteConn) error {
		reach, err := c.largestSpan(s.span)
		if err != nil {
			return err
		}
		found, err = read(&sqliteSeries{c: c, Series: series}, reach)
		return err
	})
	if err != nil {
		return reading.Stretch{}, fmt.Errorf("cannot read the readings of %q: %w", series.Sensor, err)
	}
	return found, nil
}

// sqliteSeries is a seriesReader.
type sqliteSeries struct {
	reading.Series
	c      *sqliteConn
	bucket Stored
}

func (r *sqliteSeries) starts(from, until int64, newestFirst bool, yield func(start int64, load func() (*Stored, error)) error) error {
	text := selectForward
	if newestFirst {
		text = selectBackward
	}
	return r.c.each(text, func(st *sqlite3.Stmt) error {
		b := &r.bucket
		b.Start = st.ColumnInt64(0)
		return yield(b.Start, func() (_ *Stored, err error) {
			if b.Offsets, b.Values, err = readArrays(st, 1, b.Offsets, b.Values); err != nil {
				return nil, damaged(r.Series, b.Start, err)
			}
			b.Outlier, b.Until = st.ColumnBool(3), st.ColumnInt64(4)
			return b, nil
		})
	}, r.Sensor, r.Metric, from, until)
}

func (r *sqliteSeries) overflow(from, until int64, limit int) ([]reading.Point, error) {
	return r.c.overflow(r.Series, from, until, limit)
}

func (r *sqliteSeries) lastOverflow(from, until int64) ([]reading.Point, error) {
	return r.c.spilled(selectLastSpill, r.Series, from, until, 1)
}
