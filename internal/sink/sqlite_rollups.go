package sink

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

// A roll-up is computed and stored by one statement, so that nothing comes in
// between. What is right already is not written.
const (
	intoRollups = `INSERT INTO rollups (sensorId, metric, span, start, count, sum, min, max) `
	ifOther     = ` ON CONFLICT (sensorId, metric, span, start) DO UPDATE SET count = excluded.count, sum = excluded.sum, min = excluded.min, max = excluded.max
		WHERE count <> excluded.count OR sum <> excluded.sum OR min <> excluded.min OR max <> excluded.max`
	rollBuckets = intoRollups + `SELECT ?1, ?2, ?3, ?4, sum(count), sum("sum"), min("min"), max("max") FROM buckets
		WHERE sensorId = ?1 AND metric = ?2 AND start >= ?4 AND start < ?4 + ?3 AND count > 0 HAVING count(*) > 0` + ifOther
	rollRollups = intoRollups + `SELECT ?1, ?2, ?3, ?4, sum(count), sum("sum"), min("min"), max("max") FROM rollups
		WHERE sensorId = ?1 AND metric = ?2 AND span = ?5 AND start >= ?4 AND start < ?4 + ?3 AND count > 0 HAVING count(*) > 0` + ifOther
	hasRollup = `SELECT 1 FROM rollups WHERE sensorId = ? AND metric = ? AND span = ? AND start = ?`

	firstBucketAt = `SELECT min(start) FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ?`
	firstRollupAt = `SELECT min(start) FROM rollups WHERE sensorId = ? AND metric = ? AND span = ? AND start >= ?`

	selectProgress = `SELECT _id, value FROM meta WHERE _id >= 'rollups' AND _id < 'rollupt'`
	insertProgress = `INSERT INTO meta VALUES (?, ?) ON CONFLICT (_id) DO NOTHING`
	raiseProgress  = `UPDATE meta SET value = ?1 WHERE _id = ?2 AND value < ?1`
	deleteProgress = `DELETE FROM meta WHERE _id = ?`

	// Rows that one transaction of a long task reads at most, or a tenth of
	// that to delete: some milliseconds of the one connection.
	rowsAtOnce   = 5000
	seriesAtOnce = 500

	deleteCost    = 10 // a row of its own page of the index
	deletesAtOnce = rowsAtOnce / deleteCost
)

// nextSeries is the series of a table that comes after the given one. The index
// is asked for it, which is as cheap with years of rows behind each series.
func (c *sqliteConn) nextSeries(table string, after reading.Series) (next reading.Series, found bool, err error) {
	st, found, err := c.query(`SELECT sensorId, metric FROM `+table+` WHERE (sensorId, metric) > (?, ?) ORDER BY sensorId, metric LIMIT 1`, after.Sensor, after.Metric)
	if err != nil || !found {
		return next, false, err
	}
	next = reading.Series{Sensor: st.ColumnText(0), Metric: st.ColumnText(1)}
	return next, true, st.Reset()
}

// eachSeries calls do for each series of a table, in bounded transactions with
// a rest after each. do returns how many documents it wrote or deleted, how
// many rows that took, and whether the series is done with.
func (s *SQLite) eachSeries(ctx context.Context, table string, rest Rest, do func(c *sqliteConn, at reading.Series) (wrote, rows int, done bool, err error)) error {
	var at reading.Series
	for more := true; more; {
		wrote := 0
		step := func(c *sqliteConn) error {
			for rows := 0; rows < rowsAtOnce; {
				next, found, err := c.nextSeries(table, at)
				if more = found; err != nil || !found {
					return err
				}
				n, cost, done, err := do(c, next)
				if err != nil {
					return err
				}
				wrote += n
				rows += cost + rowsAtOnce/seriesAtOnce
				if !done {
					return nil
				}
				at = next
			}
			return nil
		}
		if err := s.inTransaction(ctx, step); err != nil {
			return err
		}
		if err := rest(ctx, wrote); err != nil {
			return err
		}
	}
	return nil
}

func tableOf(source reading.Span) string {
	if source == 0 {
		return "buckets"
	}
	return "rollups"
}

// FirstAt implements Rollups.
func (s *SQLite) FirstAt(ctx context.Context, source reading.Span, from int64) (first int64, found bool, err error) {
	first = math.MaxInt64
	err = s.eachSeries(ctx, tableOf(source), noRest, func(c *sqliteConn, at reading.Series) (int, int, bool, error) {
		st, ok, err := c.firstAt(source, at, from)
		if err != nil || !ok {
			return 0, 1, true, err
		}
		if st.ColumnType(0) == sqlite3.INTEGER {
			first, found = min(first, st.ColumnInt64(0)), true
		}
		return 0, 1, true, st.Reset()
	})
	if err != nil {
		return 0, false, fmt.Errorf("cannot find the earliest buckets of the embedded store: %w", err)
	}
	return first, found, nil
}

func (c *sqliteConn) firstAt(source reading.Span, at reading.Series, from int64) (*sqlite3.Stmt, bool, error) {
	if source == 0 {
		return c.query(firstBucketAt, at.Sensor, at.Metric, from)
	}
	return c.query(firstRollupAt, at.Sensor, at.Metric, int64(source), from)
}

func noRest(ctx context.Context, _ int) error { return ctx.Err() }

// RollUp implements Rollups.
func (s *SQLite) RollUp(ctx context.Context, w reading.Window, rest Rest) (series int, err error) {
	err = s.eachSeries(ctx, tableOf(w.Source), rest, func(c *sqliteConn, at reading.Series) (int, int, bool, error) {
		wrote, has, err := c.rollUp(w, at)
		rows := 1
		if has {
			series++
			rows = int(w.Span / max(w.Source, s.span))
		}
		return wrote, rows, true, err
	})
	if err != nil {
		return series, fmt.Errorf("cannot store roll-ups in the embedded store: %w", err)
	}
	return series, nil
}

// RollUpSeries implements Rollups.
func (s *SQLite) RollUpSeries(ctx context.Context, w reading.Window, series []reading.Series) (written int, _ []reading.Series, err error) {
	err = s.inTransaction(ctx, func(c *sqliteConn) error {
		written = 0
		for _, at := range series {
			n, _, err := c.rollUp(w, at)
			if err != nil {
				return err
			}
			written += n
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("cannot store %d roll-ups in the embedded store: %w", len(series), err)
	}
	return written, nil, nil
}

// rollUp stores one roll-up. It returns how many rows that wrote, none if it
// was right already, and whether there is such a roll-up now.
func (c *sqliteConn) rollUp(w reading.Window, at reading.Series) (wrote int, has bool, err error) {
	if w.Source == 0 {
		err = c.exec(rollBuckets, at.Sensor, at.Metric, int64(w.Span), w.Start)
	} else {
		err = c.exec(rollRollups, at.Sensor, at.Metric, int64(w.Span), w.Start, int64(w.Source))
	}
	if err != nil {
		return 0, false, err
	}
	if wrote = int(c.Changes()); wrote > 0 {
		return wrote, true, nil
	}
	st, has, err := c.query(hasRollup, at.Sensor, at.Metric, int64(w.Span), w.Start)
	if err != nil || !has {
		return 0, false, err
	}
	return 0, true, st.Reset()
}

// The rows of meta that hold how far the roll-ups of a span are.
func progressFrom(span reading.Span) string {
	return "rollupsFrom:" + strconv.FormatInt(int64(span), 10)
}

func progressUntil(span reading.Span) string {
	return "rollupsUntil:" + strconv.FormatInt(int64(span), 10)
}

// Progress implements Rollups.
func (s *SQLite) Progress(ctx context.Context) (map[reading.Span]reading.Progress, error) {
	var all map[reading.Span]reading.Progress
	err := s.inTransaction(ctx, func(c *sqliteConn) (err error) {
		all, err = c.progress()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read how far the roll-ups in the embedded store are: %w", err)
	}
	return all, nil
}

func (c *sqliteConn) progress() (map[reading.Span]reading.Progress, error) {
	all := map[reading.Span]reading.Progress{}
	st, found, err := c.query(selectProgress)
	for more := found; more; more = st.Step() {
		name, number, _ := strings.Cut(st.ColumnText(0), ":")
		span, parseErr := strconv.ParseInt(number, 10, 64)
		if parseErr != nil {
			continue
		}
		p := all[reading.Span(span)]
		if name == "rollupsFrom" {
			p.From = st.ColumnInt64(1)
		} else {
			p.Until = st.ColumnInt64(1)
		}
		all[reading.Span(span)] = p
	}
	if err != nil || !found {
		return all, err
	}
	return all, st.Reset()
}

// Begin implements Rollups.
func (s *SQLite) Begin(ctx context.Context, span reading.Span, p reading.Progress) error {
	return s.note(ctx, func(c *sqliteConn) error {
		if err := c.exec(insertProgress, progressFrom(span), p.From); err != nil {
			return err
		}
		return c.exec(insertProgress, progressUntil(span), p.Until)
	})
}

// Advance implements Rollups.
func (s *SQLite) Advance(ctx context.Context, span reading.Span, until int64) error {
	return s.note(ctx, func(c *sqliteConn) error {
		return c.exec(raiseProgress, until, progressUntil(span))
	})
}

func (s *SQLite) note(ctx context.Context, do func(c *sqliteConn) error) error {
	err := s.inTransaction(ctx, do)
	if err != nil {
		return fmt.Errorf("cannot note in the embedded store how far the roll-ups are: %w", err)
	}
	return nil
}

// DropProgress implements Rollups.
func (s *SQLite) DropProgress(ctx context.Context, keep []reading.Span) error {
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		all, err := c.progress()
		if err != nil {
			return err
		}
		for _, span := range keep {
			delete(all, span)
		}
		for span := range all {
			for _, id := range []string{progressFrom(span), progressUntil(span)} {
				if err := c.exec(deleteProgress, id); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot forget in the embedded store how far roll-ups are that are not kept any more: %w", err)
	}
	return nil
}
