package sink

import (
	"context"
	"errors"
	"fmt"

	"gudang/internal/reading"
)

var _ Refresher = (*SQLite)(nil)

// RefreshSensor implements Refresher. The buckets are read outside of any
// transaction of ours, so that nobody waits for that.
func (s *SQLite) RefreshSensor(ctx context.Context, id string, keep int, truth func(context.Context) (reading.Sensor, error)) (Refreshed, error) {
	result, err := s.refreshSensor(ctx, id, keep, truth)
	if err != nil {
		return Left, fmt.Errorf("cannot refresh sensor %q in the embedded store: %w", id, err)
	}
	return result, nil
}

func (s *SQLite) refreshSensor(ctx context.Context, id string, keep int, truth func(context.Context) (reading.Sensor, error)) (Refreshed, error) {
	for range sensorRounds {
		old, was, err := s.readSensor(ctx, id)
		if err != nil {
			return Left, err
		}
		have, err := truth(ctx)
		if errors.Is(err, reading.ErrNotFound) {
			return Left, nil
		}
		if err != nil {
			return Left, err
		}
		have = refreshed(have, was)
		text, err := encodeMetrics(have.Metrics, keep)
		if err != nil {
			return Left, err
		}
		row := sensorRow{true, have.FirstSeen, have.LastSeen, string(text), have.OutlierUntil}
		if row == old {
			return Same, nil
		}
		swapped, err := s.swapSensor(ctx, id, old, row)
		switch {
		case err != nil:
			return Left, err
		case swapped && old.found:
			return difference(was, have, keep), nil
		case swapped:
			return Created, nil
		}
	}
	return Left, errContestedSensor
}

// sensorRow is a sensor's row as it is stored.
type sensorRow struct {
	found     bool
	firstSeen int64
	lastSeen  int64
	metrics   string
	until     int64
}

// readSensor is a sensor's row, as it is and decoded.
func (s *SQLite) readSensor(ctx context.Context, id string) (row sensorRow, was reading.Sensor, err error) {
	c, err := s.take(ctx)
	if err != nil {
		return row, was, err
	}
	defer s.give(c)
	return c.readSensor(id)
}

func (c *sqliteConn) readSensor(id string) (row sensorRow, was reading.Sensor, err error) {
	st, found, err := c.query(selectSensor, id)
	if err != nil || !found {
		return row, was, err
	}
	row = sensorRow{true, st.ColumnInt64(0), st.ColumnInt64(1), string(st.ColumnRawText(2)), st.ColumnInt64(3)}
	was = decodeSensor(st, id)
	return row, was, st.Reset()
}

// swapSensor writes the sensor's row if it is still what it was.
func (s *SQLite) swapSensor(ctx context.Context, id string, old, row sensorRow) (swapped bool, err error) {
	err = s.inTransaction(ctx, func(c *sqliteConn) error {
		now, _, err := c.readSensor(id)
		if err != nil || now != old {
			return err
		}
		swapped = true
		return c.exec(upsertSensor, id, row.firstSeen, row.lastSeen, row.metrics, row.until)
	})
	return swapped && err == nil, err
}
