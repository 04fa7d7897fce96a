package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sqlite"
)

const (
	selectBucket = `SELECT rowid, count, sum, min, max, isOutlier, offsets, "values", until FROM buckets WHERE sensorId = ? AND metric = ? AND start = ?`
	insertBucket = `INSERT INTO buckets (sensorId, metric, start, count, sum, min, max, offsets, "values") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateBucket = `UPDATE buckets SET count = ?, sum = ?, min = ?, max = ?, offsets = ?, "values" = ? WHERE rowid = ?`
)

// WriteBuckets implements Store: all buckets in one transaction.
//
// Each bucket is read, merged here, and written. To have SQLite merge it in
// one statement was measured: a seventh faster at six readings a bucket, and
// slower at one, since what costs is to find the row and to write its page.
// And only this way says which reading was refused.
func (s *SQLite) WriteBuckets(ctx context.Context, buckets []*reading.Bucket) Result {
	if len(buckets) == 0 {
		return Result{}
	}
	slices.SortFunc(buckets, func(a, b *reading.Bucket) int { return a.Key().Compare(b.Key()) })
	var res Result
	err := s.inTransaction(ctx, func(c *sqliteConn) error {
		res = Result{}
		for _, b := range buckets {
			if err := s.writeBucket(c, b, &res); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Result{
			Again:  buckets,
			Err:    fmt.Errorf("cannot write %d buckets to the embedded store: %w", len(buckets), err),
			Writes: Writes{Failed: len(buckets)},
		}
	}
	return res
}

// writeBucket stores one bucket. An error is one of the store, and ends the
// transaction; what is wrong with this bucket alone goes into res.
func (s *SQLite) writeBucket(c *sqliteConn, b *reading.Bucket, res *Result) error {
	have, found, err := c.readBucket(b.Key())
	var damage *damagedError
	switch {
	case errors.As(err, &damage):
		refuseAll(b, b.Offsets, err, res)
		return nil
	case err != nil:
		return err
	}
	if b.Count() == 0 {
		return nil
	}
	if have != nil && have.outlier {
		return s.writeOutlier(c, have, b, b, res)
	}
	fresh := b
	if found && have.Count() > 0 {
		fresh = have.without(b, res)
		if fresh.Count() < b.Count() {
			res.Writes.Exists++
		}
	}
	if fresh.Count() == 0 {
		return nil
	}
	total := fresh.Count()
	if found {
		total += have.Count()
	}
	switch {
	case total > s.outlier:
		if !found {
			have = &storedBucket{Bucket: reading.BucketOf(b.Key(), nil, nil)}
		}
		if err := s.makeOutlier(c, have, res); err != nil {
			return err
		}
		return s.writeOutlier(c, have, b, fresh, res)
	case found:
		err = c.extendBucket(have, fresh)
	default:
		err = c.insertBucket(fresh)
	}
	if ofTheRow(err) {
		refuseAll(b, fresh.Offsets, err, res)
		return nil
	}
	if err == nil {
		res.Writes.OK++
	}
	return err
}

// storedBucket is a bucket as it is read to be extended.
type storedBucket struct {
	*reading.Bucket
	rowid   int64 // 0: not stored yet
	outlier bool
	count   int64 // of an outlier, whose readings are elsewhere
}

// without is b without the readings that the stored bucket has a time of,
// which are refused.
func (have *storedBucket) without(b *reading.Bucket, res *Result) *reading.Bucket {
	var fresh *reading.Bucket // made when the first is refused: mostly none is
	for i, off := range b.Offsets {
		at := have.Find(off)
		if at < 0 {
			if fresh != nil {
				fresh.Add(b.Start+int64(off), b.Values[i])
			}
			continue
		}
		if fresh == nil {
			k := b.Key()
			fresh = reading.BucketOf(k, slices.Clone(b.Offsets[:i]), slices.Clone(b.Values[:i]))
		}
		verdict := reading.Conflict
		if have.Values[at] == b.Values[i] {
			verdict = reading.Duplicate
		}
		res.Refused = append(res.Refused, reading.Refusal{Bucket: b, Offset: off, Verdict: verdict})
	}
	if fresh == nil {
		return b
	}
	return fresh
}

// damagedError says that a row is not as this program writes it. Someone with
// a tool was at it, and it is not for us to guess what was meant.
type damagedError struct{ detail string }

func (e *damagedError) Error() string { return "the stored bucket is damaged: " + e.detail }

// readBucket reads what is stored of a bucket. The text of its arrays is left
// in c.text, to be extended.
func (c *sqliteConn) readBucket(k reading.Key) (*storedBucket, bool, error) {
	st, found, err := c.query(selectBucket, k.Sensor, k.Metric, k.Start)
	if err != nil || !found {
		return nil, false, err
	}
	b, err := c.decodeBucket(st, k)
	if resetErr := st.Reset(); resetErr != nil {
		return nil, false, resetErr
	}
	return b, err == nil, err
}

func (c *sqliteConn) decodeBucket(st *sqlite3.Stmt, k reading.Key) (*storedBucket, error) {
	outlier := st.ColumnBool(5)
	array := sqlite3.TEXT
	if outlier && st.ColumnType(6) == sqlite3.NULL {
		array = sqlite3.NULL
	}
	for col, want := range [...]sqlite3.Datatype{
		0: sqlite3.INTEGER, 1: sqlite3.INTEGER, 2: sqlite3.FLOAT, 3: sqlite3.FLOAT, 4: sqlite3.FLOAT, 6: array, 7: array,
	} {
		if have := st.ColumnType(col); have != want && col != 5 {
			return nil, &damagedError{fmt.Sprintf("%s is %v, not %v", st.ColumnName(col), have, want)}
		}
	}
	var err error
	for i := range c.text {
		c.text[i] = append(c.text[i][:0], "[]"...)
		if array == sqlite3.TEXT {
			c.text[i] = append(c.text[i][:0], st.ColumnRawText(6+i)...)
		}
	}
	if c.offsets, err = sqlite.ParseOffsets(c.offsets[:0], c.text[0]); err != nil {
		return nil, &damagedError{"offsets: " + err.Error()}
	}
	if c.values, err = sqlite.ParseValues(c.values[:0], c.text[1]); err != nil {
		return nil, &damagedError{"values: " + err.Error()}
	}
	count := st.ColumnInt64(1)
	if n := len(c.offsets); n != len(c.values) || !outlier && int64(n) != count {
		return nil, &damagedError{fmt.Sprintf("%d offsets, %d values, count %d", n, len(c.values), count)}
	}
	b := reading.BucketOf(k, c.offsets, c.values)
	b.Sum, b.Min, b.Max = st.ColumnFloat(2), st.ColumnFloat(3), st.ColumnFloat(4)
	return &storedBucket{Bucket: b, rowid: st.ColumnInt64(0), outlier: outlier, count: count}, nil
}

func (c *sqliteConn) insertBucket(b *reading.Bucket) error {
	c.text[0] = append(c.text[0][:0], '[')
	c.text[1] = append(c.text[1][:0], '[')
	c.appendArrays(b)
	return c.exec(insertBucket, b.Sensor, b.Metric, b.Start, int64(b.Count()), b.Sum+0, b.Min+0, b.Max+0, c.text[0], c.text[1])
}

// extendBucket appends fresh to the stored bucket whose text is in c.text.
func (c *sqliteConn) extendBucket(have *storedBucket, fresh *reading.Bucket) error {
	n := int64(have.Count() + fresh.Count())
	sum, least, most := fresh.Sum, fresh.Min, fresh.Max
	for i := range c.text {
		c.text[i] = c.text[i][:len(c.text[i])-1] // the closing bracket
		if have.Count() > 0 {
			c.text[i] = append(c.text[i], ',')
		}
	}
	if have.Count() > 0 {
		sum, least, most = have.Sum+fresh.Sum, min(have.Min, fresh.Min), max(have.Max, fresh.Max)
	}
	c.appendArrays(fresh)
	return c.exec(updateBucket, n, sum+0, least+0, most+0, c.text[0], c.text[1], have.rowid)
}

func (c *sqliteConn) appendArrays(b *reading.Bucket) {
	c.text[0] = append(sqlite.AppendOffsets(c.text[0], b.Offsets), ']')
	c.text[1] = append(sqlite.AppendValues(c.text[1], b.Values), ']')
}

// ofTheRow says that an error is about the one row, whatever is tried with it.
// SQLite has undone the one statement then, and the transaction goes on.
func ofTheRow(err error) bool {
	return errors.Is(err, sqlite3.CONSTRAINT) || errors.Is(err, sqlite3.TOOBIG) || errors.Is(err, sqlite3.MISMATCH)
}

// refuseAll refuses these readings of b for good.
func refuseAll(b *reading.Bucket, offsets []int32, why error, res *Result) {
	for _, off := range offsets {
		res.Refused = append(res.Refused, reading.Refusal{Bucket: b, Offset: off, Reason: reading.StoreRefused, Detail: why.Error()})
	}
	res.Writes.Rejected++
}
