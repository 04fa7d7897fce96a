package sink

import (
	"context"
	"fmt"

	"gudang/internal/reading"
)

const (
	upsertMark = `INSERT INTO stale (sensorId, metric, span, start, writes) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (sensorId, metric, span, start) DO UPDATE SET writes = excluded.writes`
	selectMarks = `SELECT sensorId, metric, span, start, writes FROM stale WHERE (sensorId, metric, span, start) > (?, ?, ?, ?)
		ORDER BY sensorId, metric, span, start LIMIT ?`
	deleteMark = `DELETE FROM stale WHERE sensorId = ? AND metric = ? AND span = ? AND start = ? AND writes = ?`
)

// MarkStale implements Marker.
func (s *SQLite) MarkStale(ctx context.Context, marks []reading.Mark) error {
	return s.eachMark(ctx, marks, func(c *sqliteConn, m reading.Mark) error {
		return c.exec(upsertMark, m.Sensor, m.Metric, int64(m.Span), m.Start, token())
	})
}

// Unmark implements Rollups.
func (s *SQLite) Unmark(ctx context.Context, marks []reading.Mark) error {
	return s.eachMark(ctx, marks, func(c *sqliteConn, m reading.Mark) error {
		return c.exec(deleteMark, m.Sensor, m.Metric, int64(m.Span), m.Start, m.Token)
	})
}

func (s *SQLite) eachMark(ctx context.Context, marks []reading.Mark, do func(*sqliteConn, reading.Mark) error) error {
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		for _, m := range marks {
			if err := do(c, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot write %d marks of outdated roll-ups in the embedded store: %w", len(marks), err)
	}
	return nil
}

// Stale implements Rollups.
func (s *SQLite) Stale(ctx context.Context, after reading.Mark, limit int) ([]reading.Mark, error) {
	var marks []reading.Mark
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		st, found, err := c.query(selectMarks, after.Sensor, after.Metric, int64(after.Span), after.Start, int64(limit))
		for more := found; more; more = st.Step() {
			marks = append(marks, reading.Mark{
				Key:  reading.Key{Series: reading.Series{Sensor: st.ColumnText(0), Metric: st.ColumnText(1)}, Start: st.ColumnInt64(3)},
				Span: reading.Span(st.ColumnInt64(2)), Token: st.ColumnInt64(4),
			})
		}
		if err != nil || !found {
			return err
		}
		return st.Reset()
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the marks of outdated roll-ups in the embedded store: %w", err)
	}
	return marks, nil
}
