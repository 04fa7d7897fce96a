package sink

import (
	"context"
	"fmt"

	"gudang/internal/reading"
)

const insertRawRow = `INSERT OR IGNORE INTO raw (sensorId, metric, time, value) VALUES (?, ?, ?, ?)`

// rawAtOnce bounds a transaction, so that others get their turn.
const rawAtOnce = 20_000

// WriteRaw implements Store. A reading that is there already is passed over.
func (s *SQLite) WriteRaw(ctx context.Context, buckets []*reading.Bucket) (refused int, why string, err error) {
	for len(buckets) > 0 {
		n, rows := 0, 0
		for n < len(buckets) && (n == 0 || rows+buckets[n].Count() <= rawAtOnce) {
			rows += buckets[n].Count()
			n++
		}
		err := s.inTransaction(ctx, func(c *sqliteConn) error {
			for _, b := range buckets[:n] {
				for i, off := range b.Offsets {
					if err := c.exec(insertRawRow, b.Sensor, b.Metric, b.Start+int64(off), b.Values[i]+0); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, "", fmt.Errorf("cannot write %d raw readings to the embedded store: %w", rows, err)
		}
		buckets = buckets[n:]
	}
	return 0, "", nil
}
