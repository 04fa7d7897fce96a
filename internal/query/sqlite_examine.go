package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	selectRow = `SELECT rowid FROM buckets WHERE sensorId = ? AND metric = ? AND start = ?`

	// rowBytes is what a row of buckets takes besides its texts, at most.
	rowBytes       = `octet_length(sensorId) + octet_length(metric) + ifnull(octet_length(offsets), 0) + ifnull(octet_length("values"), 0) + 60`
	selectRows     = `SELECT (SELECT min(rowid) FROM buckets), (SELECT max(rowid) FROM buckets)`
	selectMark     = `SELECT start FROM buckets WHERE rowid <= ? ORDER BY rowid DESC LIMIT 1`
	selectSuspects = `SELECT sensorId, metric, start, count, isOutlier IS TRUE, ` + rowBytes + ` AS bytes FROM buckets
		WHERE rowid > ? AND rowid <= ? AND (bytes > ? OR count >= ? AND isOutlier IS NOT TRUE) LIMIT ?`
	selectFattest  = `SELECT sensorId, metric, start, count, isOutlier IS TRUE, max(` + rowBytes + `) FROM buckets WHERE rowid > ? AND rowid <= ?`
	selectRecent   = `SELECT sensorId, metric, start, count, isOutlier IS TRUE FROM buckets ORDER BY rowid DESC LIMIT ?`
	selectSeen     = `SELECT _id, firstSeen, lastSeen, octet_length(_id) + octet_length(metrics) + 20 FROM sensors`
	selectLastRows = `SELECT rowid, start FROM buckets WHERE sensorId = ? AND metric = ? ORDER BY start DESC LIMIT 3`
	selectBeside   = `SELECT start FROM buckets WHERE rowid BETWEEN ? AND ? AND sensorId <> ?`
	selectVersion  = `SELECT sqlite_version()`
)

// sqliteQueries are the queries that this program runs for its users, whose
// plans must not be scans.
var sqliteQueries = []struct{ name, table, text string }{
	{"page of sensors", "sensors", selectSensors},
	{"one sensor", "sensors", selectSensor},
	{"next metric of a sensor", "buckets", selectNextMetric},
	{"readings of a series in a range", "buckets", selectArrays},
	{"summaries of a series in a range", "buckets", selectSummaries},
	{"one bucket, by its writer", "buckets", selectRow},
	{"every bucket, in steps", "buckets", selectBuckets},
	{"readings of an outlier", "overflow", selectOverflow},
	{"raw readings in a range", "raw", selectRawPoints},
}

// Examine implements Examiner. Each of its parts is of one moment.
func (s *SQLite) Examine(ctx context.Context, outlier int64) (Examination, error) {
	e := Examination{Server: Server{Name: "SQLite", Embedded: true, Majority: true}}
	var first, last int64
	parts := []func(c *sqliteConn) error{
		func(c *sqliteConn) error { return c.examineFile(&e, &first, &last) },
		func(c *sqliteConn) error { return c.examinePlans(&e) },
		func(c *sqliteConn) error { return c.examineSizes(&e, first, last, outlier) },
		func(c *sqliteConn) error { return c.examineSensors(&e) },
		func(c *sqliteConn) error { return c.examineRecent(&e, last) },
		func(c *sqliteConn) error { return c.examineAway(&e, time.Now().UnixMilli()) },
	}
	for _, part := range parts {
		if err := s.read(ctx, part); err != nil {
			return e, fmt.Errorf("cannot examine the embedded store %q: %w", s.path, err)
		}
	}
	e.sort()
	return e, nil
}

func (c *sqliteConn) examineFile(e *Examination, first, last *int64) (err error) {
	if e.Collections, err = c.tables(false); err != nil {
		return err
	}
	e.Disk = &Disk{}
	return errors.Join(c.disk(e.Disk),
		c.each(selectVersion, func(row *sqlite3.Stmt) error {
			e.Server.Version = row.ColumnText(0)
			return nil
		}),
		c.each(selectRows, func(row *sqlite3.Stmt) error {
			if row.ColumnType(0) != sqlite3.NULL {
				*first, *last = row.ColumnInt64(0), row.ColumnInt64(1)
				e.Buckets = *last - *first + 1 // the oldest are deleted first
			}
			return nil
		}))
}

func (c *sqliteConn) examinePlans(e *Examination) error {
	for _, q := range sqliteQueries {
		p := Plan{Query: q.name, Collection: q.table, Examined: -1, Returned: -1}
		err := c.each("EXPLAIN QUERY PLAN "+q.text, func(row *sqlite3.Stmt) error {
			step := row.ColumnText(3)
			p.Scan = p.Scan || strings.HasPrefix(step, "SCAN ")
			p.Sort = p.Sort || strings.HasPrefix(step, "USE TEMP B-TREE")
			if p.Stage != "" {
				p.Stage += "; "
			}
			p.Stage += step
			return nil
		})
		if err != nil {
			return err
		}
		e.Plans = append(e.Plans, p)
	}
	return nil
}

// examineSizes looks at the buckets for what has grown too large.
func (c *sqliteConn) examineSizes(e *Examination, first, last, outlier int64) error {
	ranges, sampled := rows(first, last)
	if sampled != "" {
		e.Sampled = append(e.Sampled, sampled)
	}
	document := func(row *sqlite3.Stmt) Document {
		return Document{"buckets", row.ColumnText(0), row.ColumnText(1), row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnInt64(5)}
	}
	near := int64(nearFull * float64(outlier))
	for _, r := range ranges {
		err := errors.Join(
			c.each(selectFattest, func(row *sqlite3.Stmt) error {
				if d := document(row); d.Bytes > e.Largest.Bytes {
					e.Largest = d
				}
				return nil
			}, r[0], r[1]),
			c.each(selectSuspects, func(row *sqlite3.Stmt) error {
				d := document(row)
				e.look(d)
				if d.Count >= near && !row.ColumnBool(4) {
					e.Full = append(e.Full, d)
				}
				return nil
			}, r[0], r[1], int64(fatBytes), near, int64(suspects)))
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *sqliteConn) examineSensors(e *Examination) error {
	return c.each(selectSeen, func(row *sqlite3.Stmt) error {
		s := Seen{ID: row.ColumnText(0), First: row.ColumnInt64(1), Last: row.ColumnInt64(2)}
		e.Sensors = append(e.Sensors, s)
		e.look(Document{Collection: "sensors", Sensor: s.ID, Bytes: row.ColumnInt64(3)})
		return nil
	})
}

func (c *sqliteConn) examineRecent(e *Examination, last int64) error {
	err := c.each(selectRecent, func(row *sqlite3.Stmt) error {
		r := Recent{
			Key:   reading.Key{Series: reading.Series{Sensor: row.ColumnText(0), Metric: row.ColumnText(1)}, Start: row.ColumnInt64(2)},
			Count: row.ColumnInt64(3), Outlier: row.ColumnBool(4),
		}
		r.Bytes = recentSize(r)
		e.Recent = append(e.Recent, r)
		return nil
	}, int64(recentBuckets))
	for _, newer := range e.marks() {
		err = errors.Join(err, c.each(selectMark, func(row *sqlite3.Stmt) error {
			e.Marks = append(e.Marks, Mark{newer, row.ColumnInt64(0)})
			return nil
		}, last-newer))
	}
	return err
}

// recentSize is what a bucket and its readings take.
func recentSize(r Recent) int64 {
	if r.Outlier {
		return outlierSize(len(r.Key.Sensor)+len(r.Key.Metric)) + r.Count*RawSize(r.Key.Series)
	}
	return BucketSize(r.Key.Series, r.Count)
}

// examineAway looks closer at the sensors that seem to be away. Rows lie in
// the order in which they were made: a bucket that was made beside those of a
// later time belongs to a sensor whose clock is behind, one that was made
// beside those of its own time to a sensor that is silent since.
func (c *sqliteConn) examineAway(e *Examination, now int64) error {
	if !c.indexed(e) {
		return nil // each look would read everything
	}
	for _, s := range e.away(now) {
		err := c.each(selectSensor, func(row *sqlite3.Stmt) error {
			sensor, err := readSensor(row)
			if err != nil {
				return nil // a damaged document says nothing of its sensor
			}
			s.Every = every(sensor)
			s.Lags, err = c.lags(s.ID, newestMetric(sensor))
			return err
		}, s.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *sqliteConn) indexed(e *Examination) bool {
	for _, p := range e.Plans {
		if p.Collection == "buckets" && p.Scan {
			return false
		}
	}
	return true
}

// lags is how much later the buckets began that were made beside the newest
// few of a series.
func (c *sqliteConn) lags(sensor, metric string) (lags []int64, err error) {
	const around = 20
	err = c.each(selectLastRows, func(row *sqlite3.Stmt) error {
		var starts []int64
		at, start := row.ColumnInt64(0), row.ColumnInt64(1)
		err := c.each(selectBeside, func(row *sqlite3.Stmt) error {
			starts = append(starts, row.ColumnInt64(0))
			return nil
		}, at-around, at+around, sensor)
		if len(starts) > 0 {
			lags = append(lags, median(starts)-start)
		}
		return err
	}, sensor, metric)
	return lags, err
}
