package query

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sqlite"
)

const (
	selectNextSeries = `SELECT sensorId, metric FROM (SELECT sensorId, metric FROM raw WHERE (sensorId, metric) > (?1, ?2) ORDER BY sensorId, metric LIMIT 1)
		UNION SELECT sensorId, metric FROM (SELECT sensorId, metric FROM buckets WHERE (sensorId, metric) > (?1, ?2) ORDER BY sensorId, metric LIMIT 1)
		ORDER BY sensorId, metric LIMIT 1`
	selectRawPoints = `SELECT time, value FROM raw WHERE sensorId = ? AND metric = ? AND time >= ? AND time < ? ORDER BY time LIMIT ?`
	selectExtent    = `SELECT count(*), min(time), max(time) FROM raw`
	selectRecords   = `SELECT start, count, sum, min, max, isOutlier, offsets, "values", until FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? ORDER BY start LIMIT ?`
)

// NextSeries implements Store.
func (s *SQLite) NextSeries(ctx context.Context, after reading.Series) (next reading.Series, found bool, err error) {
	err = s.read(ctx, func(c *sqliteConn) error {
		return c.each(selectNextSeries, func(st *sqlite3.Stmt) error {
			next, found = reading.Series{Sensor: st.ColumnText(0), Metric: st.ColumnText(1)}, true
			return nil
		}, after.Sensor, after.Metric)
	})
	if err != nil {
		return next, false, fmt.Errorf("cannot list the series of the embedded store %q: %w", s.path, err)
	}
	return next, found, nil
}

// RawReadings implements Store.
func (s *SQLite) RawReadings(ctx context.Context, q reading.Query) ([]reading.Point, error) {
	return s.points(ctx, selectRawPoints, q)
}

// OverflowReadings implements Store.
func (s *SQLite) OverflowReadings(ctx context.Context, q reading.Query) ([]reading.Point, error) {
	return s.points(ctx, selectOverflow, q)
}

func (s *SQLite) points(ctx context.Context, text string, q reading.Query) (found []reading.Point, err error) {
	err = s.read(ctx, func(c *sqliteConn) error {
		if q.Limit <= 0 {
			return errNoLimit
		}
		return c.each(text, func(st *sqlite3.Stmt) error {
			found = append(found, reading.Point{Time: st.ColumnInt64(0), Value: columnDouble(st, 1)})
			return nil
		}, q.Sensor, q.Metric, q.From, q.Until(), int64(q.Limit))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the single readings of %q, %s: %w", q.Sensor, q.Metric, err)
	}
	return found, nil
}

// RawExtent implements Store. It reads all of raw, whose order is by series.
func (s *SQLite) RawExtent(ctx context.Context) (e Extent, err error) {
	err = s.read(ctx, func(c *sqliteConn) error {
		return c.each(selectExtent, func(st *sqlite3.Stmt) error {
			e = Extent{st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnInt64(2)}
			return nil
		})
	})
	if err != nil {
		return e, fmt.Errorf("cannot find how far the raw readings go: %w", err)
	}
	return e, nil
}

// Records implements Store.
func (s *SQLite) Records(ctx context.Context, q reading.Query) (found []reading.Record, err error) {
	k := reading.Key{Series: reading.Series{Sensor: q.Sensor, Metric: q.Metric}}
	err = s.read(ctx, func(c *sqliteConn) error {
		if q.Limit <= 0 {
			return errNoLimit
		}
		return c.each(selectRecords, func(st *sqlite3.Stmt) error {
			k.Start = st.ColumnInt64(0)
			found = append(found, readRecord(st, k))
			return nil
		}, q.Sensor, q.Metric, q.From, q.Until(), int64(q.Limit))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the buckets of %q, %s: %w", q.Sensor, q.Metric, err)
	}
	return found, nil
}

// readRecord reads a row of selectRecords as it is. An array that is damaged
// ends where it is.
func readRecord(st *sqlite3.Stmt, k reading.Key) reading.Record {
	r := reading.Record{Summary: reading.Summary{
		Key: k, Count: st.ColumnInt64(1), Sum: columnDouble(st, 2), Min: columnDouble(st, 3), Max: columnDouble(st, 4), Outlier: st.ColumnBool(5),
	}}
	if r.Outlier {
		r.Until = st.ColumnInt64(8)
	}
	if r.Outlier && st.ColumnType(6) == sqlite3.NULL {
		return r
	}
	var errOffsets, errValues error
	r.Offsets, errOffsets = sqlite.ParseOffsets(nil, st.ColumnRawText(6))
	r.Values, errValues = sqlite.ParseValues(nil, st.ColumnRawText(7))
	r.Damaged = errOffsets != nil || errValues != nil || st.ColumnType(1) != sqlite3.INTEGER
	return r
}

// RawGroups implements Store. SQLite could group, but not in the pages that
// let the writer in.
func (s *SQLite) RawGroups(ctx context.Context, span reading.Span, yield func(reading.Summary) error) error {
	return groupRaw(ctx, s, span, yield)
}
