package sink

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gudang/internal/reading"
)

// An outlier bucket keeps its counters only; its readings are rows of their own
// in overflow. A bucket becomes one in a single transaction, with the flush
// that takes it over the threshold.

const (
	insertOverflow = `INSERT OR IGNORE INTO overflow (sensorId, metric, time, value) VALUES (?, ?, ?, ?)`
	selectOverflow = `SELECT value FROM overflow WHERE sensorId = ? AND metric = ? AND time = ?`
	insertOutlier  = `INSERT INTO buckets (sensorId, metric, start, count, sum, min, max, isOutlier, until) VALUES (?, ?, ?, 0, 0.0, 0.0, 0.0, 1, ?)`
	updateToOut    = `UPDATE buckets SET isOutlier = 1, until = ?, offsets = NULL, "values" = NULL WHERE rowid = ?`
	updateCounters = `UPDATE buckets SET count = ?, sum = ?, min = ?, max = ?, until = max(ifnull(until, 0), ?) WHERE rowid = ?`
)

// makeOutlier moves the readings of a stored bucket to overflow, or creates the
// bucket as an outlier without any.
func (s *SQLite) makeOutlier(c *sqliteConn, have *storedBucket, res *Result) error {
	until := s.until(have.Start)
	if have.rowid == 0 {
		if err := c.exec(insertOutlier, have.Sensor, have.Metric, have.Start, until); err != nil {
			return err
		}
		have.rowid = c.LastInsertRowID()
	} else {
		if err := c.moveReadings(have); err != nil {
			return err
		}
		if err := c.exec(updateToOut, until, have.rowid); err != nil {
			return err
		}
		have.count = int64(have.Count())
	}
	have.outlier, have.Offsets, have.Values = true, nil, nil
	res.Migrated++
	return nil
}

// until is where the span of a bucket ends.
func (s *SQLite) until(start int64) int64 { return start + int64(s.span) }

// moveReadings copies what the bucket's arrays hold to overflow.
func (c *sqliteConn) moveReadings(have *storedBucket) error {
	for i, off := range have.Offsets {
		if err := c.exec(insertOverflow, have.Sensor, have.Metric, have.Start+int64(off), have.Values[i]+0); err != nil {
			return err
		}
	}
	return nil
}

// writeOutlier stores the readings of b, which are all or a part of given, each
// by itself, and adds those that are new to the counters.
func (s *SQLite) writeOutlier(c *sqliteConn, have *storedBucket, given, b *reading.Bucket, res *Result) error {
	if have.Count() > 0 {
		// A tool left the flag and the arrays: they are moved with this write.
		if err := c.moveReadings(have); err != nil {
			return err
		}
		if err := c.exec(updateToOut, s.until(have.Start), have.rowid); err != nil {
			return err
		}
	}
	count, sum, least, most := have.count, have.Sum, have.Min, have.Max
	for i, off := range b.Offsets {
		t, v := b.Start+int64(off), b.Values[i]+0
		if err := c.exec(insertOverflow, b.Sensor, b.Metric, t, v); err != nil {
			return err
		}
		if c.Changes() == 0 {
			verdict, err := c.verdict(b, t, v)
			if err != nil {
				return err
			}
			res.Refused = append(res.Refused, reading.Refusal{Bucket: given, Offset: off, Verdict: verdict})
			continue
		}
		if count == 0 {
			least, most = v, v
		}
		count, sum, least, most = count+1, sum+v, min(least, v), max(most, v)
	}
	until := s.until(b.Start)
	res.Outliers = append(res.Outliers, Outlier{Key: b.Key(), Until: until})
	if err := c.exec(updateCounters, count, sum+0, least+0, most+0, until, have.rowid); err != nil {
		return err
	}
	if count > have.count {
		res.Writes.OK++
	}
	if count-have.count < int64(b.Count()) {
		res.Writes.Exists++
	}
	return nil
}

// verdict says what a reading is whose time overflow has.
func (c *sqliteConn) verdict(b *reading.Bucket, t int64, v float64) (reading.Verdict, error) {
	st, found, err := c.query(selectOverflow, b.Sensor, b.Metric, t)
	if err != nil || !found {
		return reading.Duplicate, err
	}
	same := st.ColumnFloat(0) == v
	if err := st.Reset(); err != nil {
		return 0, err
	}
	if same {
		return reading.Duplicate, nil
	}
	return reading.Conflict, nil
}

// sweepAtOnce is how many buckets a transaction of Sweep migrates: each may
// have some ten thousand readings, and ingestion waits meanwhile.
const sweepAtOnce = 4

// Sweep implements Store: buckets above the threshold are found by an index
// that has no others. There are some after the threshold was lowered, or when
// a tool has made them.
func (s *SQLite) Sweep(ctx context.Context) (Swept, error) {
	var all Swept
	last := reading.Key{Start: math.MinInt64}
	for more := true; more; {
		var res Result
		more = false
		err := s.inTransaction(ctx, func(c *sqliteConn) error {
			keys, err := c.large(s.outlier, last)
			if err != nil {
				return err
			}
			res = Result{}
			for _, k := range keys {
				last, more = k, true
				if err := s.sweepOne(c, k, &res); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return all, fmt.Errorf("cannot look after the large buckets of the embedded store: %w", err)
		}
		all.Migrated += res.Migrated
		all.Outliers = append(all.Outliers, res.Outliers...)
	}
	return all, nil
}

// sweepOne makes an outlier of one bucket. One that is damaged stays as it is:
// what it holds is not known.
func (s *SQLite) sweepOne(c *sqliteConn, k reading.Key, res *Result) error {
	have, found, err := c.readBucket(k)
	var damage *damagedError
	if errors.As(err, &damage) {
		return nil
	}
	if err != nil || !found || have.outlier || have.Count() <= s.outlier {
		return err
	}
	res.Outliers = append(res.Outliers, Outlier{Key: k, Until: s.until(k.Start)})
	return s.makeOutlier(c, have, res)
}

// large lists some of the buckets above the threshold, in order of key.
func (c *sqliteConn) large(threshold int, after reading.Key) (keys []reading.Key, err error) {
	text := fmt.Sprintf(`SELECT sensorId, metric, start FROM buckets INDEXED BY buckets_large
		WHERE isOutlier IS NULL AND count > %d AND (start, sensorId, metric) > (?, ?, ?) ORDER BY start, sensorId, metric LIMIT ?`, threshold)
	st, err := c.stmt(text)
	if err != nil {
		return nil, err
	}
	if err := bindAll(st, after.Start, after.Sensor, after.Metric, int64(sweepAtOnce)); err != nil {
		return nil, err
	}
	for st.Step() {
		keys = append(keys, reading.Key{Series: reading.Series{Sensor: st.ColumnText(0), Metric: st.ColumnText(1)}, Start: st.ColumnInt64(2)})
	}
	err = st.Err()
	if resetErr := st.Reset(); err == nil {
		err = resetErr
	}
	return keys, err
}

// indexLarge has the index for Sweep be there for this threshold. With another
// one than before it is made anew, which reads every bucket once.
func (c *sqliteConn) indexLarge(threshold int) error {
	text := fmt.Sprintf("CREATE INDEX buckets_large ON buckets (start, sensorId, metric) WHERE isOutlier IS NULL AND count > %d", threshold)
	have, err := c.textOf("SELECT sql FROM sqlite_master WHERE name = 'buckets_large'")
	if err != nil || have == text {
		return err
	}
	return c.Exec("BEGIN IMMEDIATE; DROP INDEX IF EXISTS buckets_large; " + text + "; COMMIT")
}

// prepareSweep makes the index, unless a service that runs beside may use it
// with another threshold.
func (s *SQLite) prepareSweep(c *sqliteConn) error {
	if s.beside {
		return nil
	}
	return c.indexLarge(s.outlier)
}
