package query

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/reading"
	"gudang/internal/sqlite"
)

// scanChunk is how many buckets Scan reads in one transaction. A transaction
// that lasts keeps SQLite from emptying its log, which then grows for as long.
const scanChunk = 500

// Scan implements Store. Each chunk of buckets is of one moment, the whole is
// not: a bucket that is written meanwhile is seen as it was or as it is.
func (s *SQLite) Scan(ctx context.Context, yield func(*Stored) error) error {
	var b Stored
	var stop error
	for after, n := int64(math.MinInt64), scanChunk; n == scanChunk; {
		n = 0
		err := s.read(ctx, func(c *sqliteConn) error {
			return c.each(selectBuckets, func(st *sqlite3.Stmt) error {
				n++
				after = st.ColumnInt64(0)
				readStored(st, &b)
				if !b.Outlier {
					stop = yield(&b)
					return stop
				}
				return yieldOutlier(&b, c.overflow, func(piece *Stored) error {
					stop = yield(piece)
					return stop
				})
			}, after, int64(scanChunk))
		})
		if stop != nil {
			return stop
		}
		if err != nil {
			return fmt.Errorf("cannot scan the embedded store %q: %w", s.path, err)
		}
	}
	return nil
}

// readStored reads a row as it is. What cannot be read is what a check of the
// buckets must stumble over: a summary that is no number is NaN, an array that
// is none is empty.
func readStored(st *sqlite3.Stmt, b *Stored) {
	b.Key = reading.Key{Series: reading.Series{Sensor: st.ColumnText(1), Metric: st.ColumnText(2)}, Start: st.ColumnInt64(3)}
	b.ID = b.Series.ID(b.Start)
	b.Count, b.Outlier = st.ColumnInt64(4), st.ColumnBool(8)
	b.Sum, b.Min, b.Max = columnDouble(st, 5), columnDouble(st, 6), columnDouble(st, 7)
	b.Offsets, b.Values, _ = readArrays(st, 9, b.Offsets, b.Values)
	b.Until = st.ColumnInt64(11)
}

func columnDouble(st *sqlite3.Stmt, col int) float64 {
	if st.ColumnType(col) != sqlite3.FLOAT {
		return math.NaN()
	}
	return st.ColumnFloat(col)
}

var errNoNumber = errors.New("its summary is no number")

// readSummary reads count, sum, min, max and isOutlier from col on.
func readSummary(st *sqlite3.Stmt, col int, k reading.Key) (reading.Summary, error) {
	s := reading.Summary{
		Key: k, Count: st.ColumnInt64(col), Sum: columnDouble(st, col+1), Min: columnDouble(st, col+2), Max: columnDouble(st, col+3),
		Outlier: st.ColumnBool(col + 4),
	}
	if math.IsNaN(s.Sum + s.Min + s.Max) {
		return s, errNoNumber
	}
	return s, nil
}

var errArrays = errors.New("its arrays are not JSON arrays of numbers, of one length")

// readArrays reads offsets and values, which are JSON text, from col and the
// one after it into the given slices. Both are empty if there is an error.
func readArrays(st *sqlite3.Stmt, col int, offsets []int32, values []float64) ([]int32, []float64, error) {
	offsets, values = offsets[:0], values[:0]
	text := st.ColumnRawText(col)
	if text == nil && st.ColumnRawText(col+1) == nil { // NULL
		return offsets, values, nil // an outlier: its readings are elsewhere
	}
	offsets, err := sqlite.ParseOffsets(offsets, text)
	if err == nil {
		values, err = sqlite.ParseValues(values, st.ColumnRawText(col+1))
	}
	if err != nil || len(offsets) != len(values) {
		return offsets[:0], values[:0], errArrays
	}
	return offsets, values, nil
}
