package sink

import (
	"context"
	"fmt"
	"time"

	"gudang/internal/reading"
)

const (
	// Rows lie in the order in which buckets were created, so that what is old
	// mostly lies together at the beginning of the file.
	firstBuckets  = `SELECT count(*), max(rowid), sum(start < ?1) FROM (SELECT rowid, start FROM buckets WHERE rowid > ?2 ORDER BY rowid LIMIT ?3)`
	deleteByRowid = `DELETE FROM buckets WHERE rowid > ? AND rowid <= ? AND start < ?`

	selectSilent = `SELECT _id FROM sensors WHERE _id > ? AND lastSeen < ? ORDER BY _id LIMIT ?`
	deleteSilent = `DELETE FROM sensors WHERE _id = ?1 AND lastSeen < ?2
		AND NOT EXISTS (SELECT 1 FROM buckets WHERE sensorId = ?1) AND NOT EXISTS (SELECT 1 FROM overflow WHERE sensorId = ?1)
		AND NOT EXISTS (SELECT 1 FROM raw WHERE sensorId = ?1) AND NOT EXISTS (SELECT 1 FROM rollups WHERE sensorId = ?1)`
)

// ageOf is the column that says how old a row is.
var ageOf = map[reading.Kind]string{
	reading.KindBuckets: "start", reading.KindOverflow: "time", reading.KindRaw: "time", reading.KindRollups: "start",
}

// Expire implements Retention: SQLite deletes nothing by itself.
func (s *SQLite) Expire(context.Context, time.Duration, time.Duration) (bool, string, error) {
	return false, "SQLite has no such thing", nil
}

// DeleteBefore implements Retention. The table of each kind is ordered by
// series, and so gone through series by series; buckets first from the
// beginning of the file, where a step frees whole pages.
func (s *SQLite) DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest Rest) error {
	var err error
	if kind == reading.KindBuckets {
		err = s.deleteFirst(ctx, before, rest)
	}
	if err == nil {
		err = s.deleteBySeries(ctx, kind, before, rest)
	}
	if err != nil {
		return fmt.Errorf("cannot delete old %s from the embedded store: %w", kind, err)
	}
	return nil
}

// deleteFirst goes along the file until nothing of a step is old.
func (s *SQLite) deleteFirst(ctx context.Context, before int64, rest Rest) error {
	for after, more := int64(0), true; more; {
		deleted := 0
		err := s.inTransaction(ctx, func(c *sqliteConn) error {
			st, found, err := c.query(firstBuckets, before, after, int64(deletesAtOnce))
			if err != nil || !found {
				return err
			}
			rows, last, old := st.ColumnInt(0), st.ColumnInt64(1), st.ColumnInt(2)
			if err := st.Reset(); err != nil {
				return err
			}
			more = old > 0
			if old > 0 {
				err = c.exec(deleteByRowid, after, last, before)
				deleted = int(c.Changes())
				after, more = last, rows == deletesAtOnce
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := rest(ctx, deleted); err != nil {
			return err
		}
	}
	return nil
}

func (s *SQLite) deleteBySeries(ctx context.Context, kind reading.Kind, before int64, rest Rest) error {
	age := ageOf[kind]
	if kind == reading.KindRollups {
		return s.deleteRollups(ctx, before, rest)
	}
	// Where the rows of the step end: behind the last of so many, or before.
	limit := fmt.Sprintf(`SELECT %s FROM %s WHERE sensorId = ? AND metric = ? AND %s < ? ORDER BY %s LIMIT 1 OFFSET ?`, age, kind, age, age)
	remove := fmt.Sprintf(`DELETE FROM %s WHERE sensorId = ? AND metric = ? AND %s < ?`, kind, age)
	return s.eachSeries(ctx, string(kind), rest, func(c *sqliteConn, at reading.Series) (int, int, bool, error) {
		end := before
		st, more, err := c.query(limit, at.Sensor, at.Metric, before, int64(deletesAtOnce))
		if err != nil {
			return 0, 0, false, err
		}
		if more {
			end = st.ColumnInt64(0)
			if err := st.Reset(); err != nil {
				return 0, 0, false, err
			}
		}
		if err := c.exec(remove, at.Sensor, at.Metric, end); err != nil {
			return 0, 0, false, err
		}
		deleted := int(c.Changes())
		return deleted, deleteCost * deleted, !more, nil
	})
}

// deleteRollups deletes roll-ups, of which a series has few.
func (s *SQLite) deleteRollups(ctx context.Context, before int64, rest Rest) error {
	const remove = `DELETE FROM rollups WHERE (sensorId, metric, span, start) IN
		(SELECT sensorId, metric, span, start FROM rollups WHERE sensorId = ? AND metric = ? AND start < ? LIMIT ?)`
	return s.eachSeries(ctx, "rollups", rest, func(c *sqliteConn, at reading.Series) (int, int, bool, error) {
		if err := c.exec(remove, at.Sensor, at.Metric, before, int64(deletesAtOnce)); err != nil {
			return 0, 0, false, err
		}
		deleted := int(c.Changes())
		return deleted, deleteCost * deleted, deleted < deletesAtOnce, nil
	})
}

// SilentSensors implements Retention.
func (s *SQLite) SilentSensors(ctx context.Context, before int64, after string, limit int) ([]string, error) {
	var ids []string
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		st, found, err := c.query(selectSilent, after, before, int64(limit))
		for more := found; more; more = st.Step() {
			ids = append(ids, st.ColumnText(0))
		}
		if err != nil || !found {
			return err
		}
		return st.Reset()
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list silent sensors of the embedded store: %w", err)
	}
	return ids, nil
}

// DeleteSensors implements Retention.
func (s *SQLite) DeleteSensors(ctx context.Context, ids []string, before int64) ([]string, error) {
	var deleted []string
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		deleted = nil
		for _, id := range ids {
			if err := c.exec(deleteSilent, id, before); err != nil {
				return err
			}
			if c.Changes() > 0 {
				deleted = append(deleted, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot delete silent sensors from the embedded store: %w", err)
	}
	return deleted, nil
}
