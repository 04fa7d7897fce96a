package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
)

const (
	selectNextMetric  = `SELECT metric FROM buckets WHERE sensorId = ? AND metric > ? ORDER BY metric LIMIT 1`
	selectLargestSpan = `SELECT value FROM meta WHERE _id = 'largestSpan'`
	selectArrays      = `SELECT start, offsets, "values", isOutlier FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? ORDER BY start`
	selectSummaries   = `SELECT start, count, sum, min, max, isOutlier FROM buckets WHERE sensorId = ? AND metric = ? AND start >= ? AND start < ? ORDER BY start LIMIT ?`
	selectBuckets     = `SELECT rowid, sensorId, metric, start, count, sum, min, max, isOutlier, offsets, "values", until FROM buckets WHERE rowid > ? ORDER BY rowid LIMIT ?`
	selectOverflow    = `SELECT time, value FROM overflow WHERE sensorId = ? AND metric = ? AND time >= ? AND time < ? ORDER BY time LIMIT ?`
)

// keepTaken is how much room for an answer a connection keeps for the next.
const keepTaken = 20_000

var errNoLimit = errors.New("the limit must be positive")

// Readings implements Store. It steps through the buckets of each metric side
// by side and stops at the limit: what lies beyond is never read.
func (s *SQLite) Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error) {
	var found []reading.Reading
	err := s.read(ctx, func(c *sqliteConn) (err error) {
		found, err = c.readings(q, s.span)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the readings of %q: %w", q.Sensor, err)
	}
	return found, nil
}

func (c *sqliteConn) readings(q reading.Query, span reading.Span) ([]reading.Reading, error) {
	if q.Limit <= 0 {
		return nil, errNoLimit
	}
	metrics, err := c.metrics(q)
	if err != nil {
		return nil, err
	}
	reach, err := c.largestSpan(span)
	if err != nil {
		return nil, err
	}
	streams := make([]*stream, 0, len(metrics))
	defer func() {
		for _, st := range streams {
			c.keep(selectArrays, st.rows)
		}
	}()
	for _, metric := range metrics {
		// The first reading may lie in a bucket that began a span earlier.
		rows, err := c.take(selectArrays, q.Sensor, metric, before(q.Since(), reach-1), q.Until())
		if err != nil {
			return nil, err
		}
		st := &stream{q: q, series: reading.Series{Sensor: q.Sensor, Metric: metric}, rows: rows, reach: reach, overflow: c.overflow}
		streams = append(streams, st)
		if err := st.step(); err != nil {
			return nil, err
		}
	}
	taken, err := merge(streams, c.taken[:0], q.Limit)
	if err != nil {
		return nil, err
	}
	found := make([]reading.Reading, len(taken))
	for i, t := range taken {
		found[i] = reading.Reading{Series: streams[t.stream].series, Time: t.Time, Value: t.Value}
	}
	if c.taken = taken; cap(taken) > keepTaken {
		c.taken = nil
	}
	return found, nil
}

// takenPoint is a point of one of the streams. Without the names an answer is
// put together in a third of the memory, which is used again.
type takenPoint struct {
	reading.Point
	stream int32
}

// merge takes up to limit points of the streams in order of time.
func merge(streams []*stream, taken []takenPoint, limit int) ([]takenPoint, error) {
	for len(taken) < limit {
		next := -1
		for i, st := range streams {
			if err := st.fill(); err != nil {
				return nil, err
			}
			if len(st.ready) > 0 && (next < 0 || st.ready[0].Time < streams[next].ready[0].Time) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		most := 1 // another stream may have the one after it
		if len(streams) == 1 {
			most = limit - len(taken)
		}
		taken = streams[next].pop(taken, int32(next), most)
	}
	return taken, nil
}

// before is t less d, unless that is before all time.
func before(t, d int64) int64 {
	if t < math.MinInt64+d {
		return math.MinInt64
	}
	return t - d
}

// metrics are those of the query, in order. The index is asked for one after
// another, which is as cheap for a sensor with years of buckets.
func (c *sqliteConn) metrics(q reading.Query) ([]string, error) {
	if q.Metric != "" {
		return []string{q.Metric}, nil
	}
	var metrics []string
	for last, more := "", true; more; {
		more = false
		err := c.each(selectNextMetric, func(st *sqlite3.Stmt) error {
			last, more = st.ColumnText(0), true
			metrics = append(metrics, last)
			return nil
		}, q.Sensor, last)
		if err != nil {
			return nil, err
		}
	}
	return metrics, nil
}

// largestSpan is the longest time that any stored bucket can cover.
func (c *sqliteConn) largestSpan(span reading.Span) (int64, error) {
	largest := int64(span)
	err := c.each(selectLargestSpan, func(st *sqlite3.Stmt) error {
		largest = max(largest, st.ColumnInt64(0))
		return nil
	})
	return largest, err
}

// stream gives the readings of one series in order of time. Buckets come in
// order of their start but may overlap, where the span was changed: readings
// are ready once no bucket that is yet to come can hold an earlier one.
type stream struct {
	q      reading.Query
	series reading.Series
	rows   *sqlite3.Stmt // standing on the next bucket if there is more
	more   bool
	start  int64
	reach  int64 // how long a bucket may be

	overflow overflowReader

	ready   []reading.Point // in order of time, within buffer
	buffer  []reading.Point
	offsets []int32
	values  []float64
}

func (s *stream) step() error {
	if s.more = s.rows.Step(); s.more {
		s.start = s.rows.ColumnInt64(0)
		return nil
	}
	return s.rows.Err()
}

// fill reads buckets until the first reading that is ready is the next one.
func (s *stream) fill() error {
	for s.more && (len(s.ready) == 0 || s.start <= s.ready[0].Time) {
		if err := s.readBucket(); err != nil {
			return err
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) readBucket() error {
	var err error
	if s.offsets, s.values, err = readArrays(s.rows, 1, s.offsets, s.values); err != nil {
		return damaged(s.series, s.start, err)
	}
	waiting := len(s.ready)
	if waiting == 0 {
		s.ready = s.buffer[:0]
	}
	if s.rows.ColumnBool(3) {
		if err := s.readOutlier(); err != nil {
			return err
		}
	}
	from, until := s.q.Since(), s.q.Until()
	for i, off := range s.offsets {
		t := s.start + int64(off)
		if t >= from && t < until && (t > from || s.q.After.Past(t, s.series.Metric)) {
			s.ready = append(s.ready, reading.Point{Time: t, Value: s.values[i]})
		}
	}
	if waiting == 0 {
		s.buffer = s.ready
	}
	byTime := func(a, b reading.Point) int { return cmp.Compare(a.Time, b.Time) }
	if waiting > 0 || !slices.IsSortedFunc(s.ready, byTime) {
		slices.SortStableFunc(s.ready, byTime)
	}
	return nil
}

// readOutlier reads of an outlier as much as the answer can take. What lies
// beyond it, and is of the next bucket already, comes again with that one.
func (s *stream) readOutlier() error {
	from := max(s.start, s.q.Since())
	points, err := s.overflow(s.series, from, min(s.start+s.reach, s.q.Until()), s.q.Limit+1)
	for _, p := range points {
		if s.q.After.Past(p.Time, s.series.Metric) {
			s.ready = append(s.ready, p)
		}
	}
	return err
}

// overflow is an overflowReader.
func (c *sqliteConn) overflow(s reading.Series, from, until int64, limit int) ([]reading.Point, error) {
	return c.spilled(selectOverflow, s, from, until, limit)
}

// spilled is the same in the order of the statement.
func (c *sqliteConn) spilled(text string, s reading.Series, from, until int64, limit int) (points []reading.Point, err error) {
	err = c.each(text, func(st *sqlite3.Stmt) error {
		points = append(points, reading.Point{Time: st.ColumnInt64(0), Value: st.ColumnFloat(1)})
		return nil
	}, s.Sensor, s.Metric, from, until, int64(limit))
	return points, err
}

// pop moves points that are ready to taken: one, and those behind it that are
// before the next bucket, up to so many. Of several of one time the first stays:
// after a change of the span a reading may have been sent again into a bucket of
// the other span.
func (s *stream) pop(taken []takenPoint, stream int32, most int) []takenPoint {
	i := 0
	for most += len(taken); i < len(s.ready) && (i == 0 || !s.more || s.ready[i].Time < s.start); i++ {
		if i > 0 && s.ready[i].Time == s.ready[i-1].Time {
			continue
		}
		if len(taken) == most {
			break
		}
		taken = append(taken, takenPoint{s.ready[i], stream})
	}
	s.ready = s.ready[i:]
	return taken
}

func damaged(series reading.Series, start int64, err error) error {
	return fmt.Errorf("the bucket of %q, %s at %s is damaged: %w", series.Sensor, series.Metric, time.UnixMilli(start).UTC().Format(time.RFC3339), err)
}

// Summaries implements Store. A bucket is in the range if its start is.
func (s *SQLite) Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
	var found []reading.Summary
	err := s.read(ctx, func(c *sqliteConn) (err error) {
		found, err = c.summaries(q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the buckets of %q: %w", q.Sensor, err)
	}
	return found, nil
}

func (c *sqliteConn) summaries(q reading.Query) ([]reading.Summary, error) {
	if q.Limit <= 0 {
		return nil, errNoLimit
	}
	metrics, err := c.metrics(q)
	if err != nil {
		return nil, err
	}
	var found []reading.Summary
	for _, metric := range metrics {
		k := reading.Key{Series: reading.Series{Sensor: q.Sensor, Metric: metric}}
		since := q.Since()
		if since == q.After.Time && !q.After.Past(since, metric) {
			since++
		}
		err := c.each(selectSummaries, func(st *sqlite3.Stmt) error {
			k.Start = st.ColumnInt64(0)
			summary, err := readSummary(st, 1, k)
			if err != nil {
				return damaged(k.Series, k.Start, err)
			}
			found = append(found, summary)
			return nil
		}, q.Sensor, metric, since, q.Until(), int64(q.Limit))
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b reading.Summary) int { return a.Key.Compare(b.Key) })
	return found[:min(q.Limit, len(found))], nil
}
