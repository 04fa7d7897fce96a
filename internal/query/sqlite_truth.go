package query

import (
	"context"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	selectNextSensor  = `SELECT sensorId FROM buckets WHERE sensorId > ? ORDER BY sensorId LIMIT 1`
	selectLastArrays  = `SELECT start, isOutlier, offsets, "values" FROM buckets WHERE sensorId = ? AND metric = ? ORDER BY start DESC`
	selectFirstArrays = `SELECT start, isOutlier, offsets, "values" FROM buckets WHERE sensorId = ? AND metric = ? ORDER BY start`
	selectLastSpill   = `SELECT time, value FROM overflow WHERE sensorId = ? AND metric = ? AND time >= ? AND time < ? ORDER BY time DESC LIMIT ?`
	selectFirstSpill  = `SELECT time FROM overflow WHERE sensorId = ? AND metric = ? AND time >= ? AND time < ? ORDER BY time LIMIT 1`
)

var _ TruthReader = (*SQLite)(nil)

// NextSensor implements TruthReader.
func (s *SQLite) NextSensor(ctx context.Context, after string) (string, error) {
	var next string
	err := s.read(ctx, func(c *sqliteConn) error {
		return c.each(selectNextSensor, func(st *sqlite3.Stmt) error {
			next = st.ColumnText(0)
			return nil
		}, after)
	})
	if err == nil && next == "" {
		err = reading.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the sensor after %q: %w", after, err)
	}
	return next, nil
}

// Newest implements TruthReader.
func (s *SQLite) Newest(ctx context.Context, series reading.Series, n int) (points []reading.Point, err error) {
	err = s.ends(ctx, func(e *sqliteEnds) error {
		points, err = e.newest(series, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the newest readings of %q: %w", series.Sensor, err)
	}
	return points, nil
}

// Truth implements TruthReader. All of it is of one moment.
func (s *SQLite) Truth(ctx context.Context, id string, keep int) (truth reading.Sensor, err error) {
	err = s.ends(ctx, func(e *sqliteEnds) error {
		truth, err = truthOf(e, id, keep)
		return err
	})
	if err == nil && truth.ID == "" {
		err = reading.ErrNotFound // there is no store yet
	}
	if err != nil {
		return reading.Sensor{}, fmt.Errorf("cannot read what the buckets have of %q: %w", id, err)
	}
	return truth, nil
}

func (s *SQLite) ends(ctx context.Context, do func(e *sqliteEnds) error) error {
	return s.read(ctx, func(c *sqliteConn) error {
		reach, err := c.largestSpan(s.span)
		if err != nil {
			return err
		}
		return do(&sqliteEnds{sqliteConn: c, reach: reach})
	})
}

// sqliteEnds reads the ends of series within one transaction.
type sqliteEnds struct {
	*sqliteConn
	reach   int64
	offsets []int32
	values  []float64
}

func (e *sqliteEnds) metricsOf(sensor string) ([]string, error) {
	return e.metrics(reading.Query{Sensor: sensor})
}

func (e *sqliteEnds) newest(s reading.Series, n int) ([]reading.Point, error) {
	if n <= 0 {
		return nil, errNoLimit
	}
	newest := tail{n: n, reach: e.reach}
	err := e.walk(selectLastArrays, s, newest.enough, func(start int64, outlier bool) error {
		newest.add(newestOf(start, e.offsets, e.values, n))
		if !outlier {
			return nil
		}
		points, err := e.spilled(selectLastSpill, s, start, start+e.reach, n)
		newest.add(points)
		return err
	})
	return newest.points, err
}

func (e *sqliteEnds) first(s reading.Series) (at int64, found bool, err error) {
	enough := func(start int64) bool { return found && start > at }
	see := func(t int64) {
		if !found || t < at {
			at, found = t, true
		}
	}
	err = e.walk(selectFirstArrays, s, enough, func(start int64, outlier bool) error {
		if len(e.offsets) > 0 {
			see(start + int64(slices.Min(e.offsets)))
		}
		if !outlier {
			return nil
		}
		return e.each(selectFirstSpill, func(st *sqlite3.Stmt) error {
			see(st.ColumnInt64(0))
			return nil
		}, s.Sensor, s.Metric, start, start+e.reach)
	})
	return at, found, err
}

// walk goes through the buckets of a series in the order of the statement. It
// reads the arrays of those before the one with whose start it is enough.
func (e *sqliteEnds) walk(text string, s reading.Series, enough func(start int64) bool, yield func(start int64, outlier bool) error) error {
	rows, err := e.take(text, s.Sensor, s.Metric)
	if err != nil {
		return err
	}
	defer e.keep(text, rows)
	for rows.Step() {
		start := rows.ColumnInt64(0)
		if enough(start) {
			return nil
		}
		if e.offsets, e.values, err = readArrays(rows, 2, e.offsets, e.values); err != nil {
			return damaged(s, start, err)
		}
		if err := yield(start, rows.ColumnBool(1)); err != nil {
			return err
		}
	}
	return rows.Err()
}
