package sink

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sqlite"
)

const deleteBucket = `DELETE FROM buckets WHERE rowid = ?`

// FixBuckets implements Store: within a transaction nobody comes in between.
func (s *SQLite) FixBuckets(ctx context.Context, keys []reading.Key, fix func(have *reading.Record) *reading.Bucket) error {
	for some := range slices.Chunk(keys, fixAtOnce) {
		err := s.inTransaction(ctx, func(c *sqliteConn) error {
			for _, key := range some {
				if err := c.fixBucket(key, fix); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("cannot mend %d buckets of the embedded store: %w", len(some), err)
		}
	}
	return nil
}

func (c *sqliteConn) fixBucket(key reading.Key, fix func(have *reading.Record) *reading.Bucket) error {
	st, found, err := c.query(selectBucket, key.Sensor, key.Metric, key.Start)
	if err != nil || !found {
		return err
	}
	rowid, have := st.ColumnInt64(0), readRecord(st, key)
	if err := st.Reset(); err != nil || have.Outlier {
		return err
	}
	want := fix(have)
	switch {
	case want == nil:
		return nil
	case want.Count() == 0:
		return c.exec(deleteBucket, rowid)
	}
	c.text[0] = append(c.text[0][:0], '[')
	c.text[1] = append(c.text[1][:0], '[')
	c.appendArrays(want)
	return c.exec(updateBucket, int64(want.Count()), want.Sum+0, want.Min+0, want.Max+0, c.text[0], c.text[1], rowid)
}

// readRecord reads the row of selectBucket as it is.
func readRecord(st *sqlite3.Stmt, key reading.Key) *reading.Record {
	r := &reading.Record{Summary: reading.Summary{Key: key, Count: st.ColumnInt64(1), Outlier: st.ColumnBool(5)}}
	for col, to := range map[int]*float64{2: &r.Sum, 3: &r.Min, 4: &r.Max} {
		if *to = st.ColumnFloat(col); st.ColumnType(col) != sqlite3.FLOAT {
			*to = math.NaN()
		}
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
