package query

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

const (
	// A bucket's size in BSON depends on the number of its readings and on its
	// names, so that a group of buckets with one count needs no look at the
	// arrays.
	measureBuckets = `SELECT isOutlier IS TRUE, offsets IS NOT NULL, count, count(*), sum(octet_length(sensorId) + octet_length(metric)) FROM buckets GROUP BY 1, 2, 3`
	measureRaw     = `SELECT count(*), sum(octet_length(sensorId) + octet_length(metric)) FROM raw`
	measureOver    = `SELECT count(*), sum(octet_length(sensorId) + octet_length(metric)) FROM overflow`
	selectTables   = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name`
	selectIndexes  = `SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY name`
	selectFields   = `SELECT name FROM pragma_index_info(?) ORDER BY seqno`
	selectPages    = `SELECT page_size, page_count, freelist_count FROM pragma_page_size, pragma_page_count, pragma_freelist_count`
)

// Storage implements Measurer. Sizes are those that the documents have in
// MongoDB. What SQLite's file takes is known of the whole: the extension that
// tells its tables apart (dbstat) is not built in.
func (s *SQLite) Storage(ctx context.Context) (Storage, error) {
	st := Storage{By: "client"}
	err := s.read(ctx, func(c *sqliteConn) error {
		if err := c.measure(&st); err != nil {
			return err
		}
		var err error
		if st.Collections, err = c.tables(true); err != nil {
			return err
		}
		st.Disk = &Disk{}
		return c.disk(st.Disk)
	})
	if err != nil {
		return Storage{}, fmt.Errorf("cannot measure the embedded store %q: %w", s.path, err)
	}
	return st, nil
}

func (c *sqliteConn) measure(s *Storage) error {
	err := c.each(measureBuckets, func(row *sqlite3.Stmt) error {
		n, docs, names := row.ColumnInt64(2), row.ColumnInt64(3), row.ColumnInt64(4)
		p, size := Part{Measure{Documents: docs}, docs * n}, int64(0)
		if row.ColumnBool(1) {
			size = bucketSize(0, n)
			if row.ColumnBool(0) {
				size += int64(outlierBSON) // not yet all in overflow
			}
		} else {
			size = outlierSize(0)
		}
		p.Bytes = docs*size + names
		if row.ColumnBool(0) {
			s.Outliers = s.Outliers.plus(p)
		} else {
			s.Buckets = s.Buckets.plus(p)
		}
		s.apart(p.Readings, p.Readings*rawSize(0)+n*names)
		return nil
	})
	if err != nil {
		return err
	}
	return c.measureSingle(s)
}

// measureSingle measures the tables with a row for each reading. The readings
// in overflow are counted by their buckets already.
func (c *sqliteConn) measureSingle(s *Storage) error {
	single := func(to *Part) func(*sqlite3.Stmt) error {
		return func(row *sqlite3.Stmt) error {
			n := row.ColumnInt64(0)
			to.Documents += n
			to.Bytes += n*rawSize(0) + row.ColumnInt64(1)
			return nil
		}
	}
	if err := c.each(measureRaw, single(&s.Raw)); err != nil {
		return err
	}
	s.Raw.Readings = s.Raw.Documents
	return c.each(measureOver, single(&s.Outliers))
}

// tables lists the tables, with their rows counted or not, and the indexes that
// were made for them.
func (c *sqliteConn) tables(count bool) ([]Collection, error) {
	var all []Collection
	err := c.each(selectTables, func(row *sqlite3.Stmt) error {
		all = append(all, Collection{Name: row.ColumnText(0), Indexes: []Index{}})
		return nil
	})
	for i := range all {
		t := &all[i]
		if err == nil && count {
			err = c.each(`SELECT count(*) FROM "`+t.Name+`"`, func(row *sqlite3.Stmt) error {
				t.Documents = row.ColumnInt64(0)
				return nil
			})
		}
		if err == nil {
			err = c.each(selectIndexes, func(row *sqlite3.Stmt) error {
				t.Indexes = append(t.Indexes, Index{Name: row.ColumnText(0)})
				return nil
			}, t.Name)
		}
		for j := range t.Indexes {
			if err == nil {
				err = c.each(selectFields, func(row *sqlite3.Stmt) error {
					t.Indexes[j].Fields = append(t.Indexes[j].Fields, row.ColumnText(0))
					return nil
				}, t.Indexes[j].Name)
			}
		}
	}
	return all, err
}

func (c *sqliteConn) disk(d *Disk) error {
	return c.each(selectPages, func(row *sqlite3.Stmt) error {
		page := row.ColumnInt64(0)
		d.Bytes, d.Free = page*row.ColumnInt64(1), page*row.ColumnInt64(2)
		return nil
	})
}
