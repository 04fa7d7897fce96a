package main

import (
	"fmt"
	"time"

	"gudang/internal/reading"
)

const (
	// longestKept is what MongoDB's TTL indexes can count in seconds.
	longestKept = 24_000 * 24 * time.Hour
	// leadOfRollups is how much longer than a window the buckets must be kept
	// that it is made of: it is rolled up some minutes after its end, or after
	// the service was away for a while.
	leadOfRollups = time.Hour
)

// checkKept checks what is rolled up, and how long what is kept.
func (c *config) checkKept() (err error) {
	if c.rolled, err = reading.ParseRollups(c.Rollups, c.span); err != nil {
		return fmt.Errorf("ROLLUPS=%s: %w", c.Rollups, err)
	}
	for _, kept := range []struct {
		name  string
		value time.Duration
	}{{"RETENTION", c.Retention}, {"RAW_RETENTION", c.RawRetention}, {"ROLLUP_RETENTION", c.RollupRetention}} {
		switch {
		case kept.value != 0 && kept.value < c.BucketSpan:
			return fmt.Errorf("%s=%v: must be 0, to keep everything, or at least BUCKET_SPAN (%v)", kept.name, kept.value, c.BucketSpan)
		case kept.value > longestKept:
			return fmt.Errorf("%s=%v: must be at most %v; 0 keeps everything", kept.name, kept.value, longestKept)
		}
	}
	for _, span := range c.rolled {
		source, least := reading.SourceOf(span, c.rolled), span.Duration()+leadOfRollups
		switch {
		case source == 0 && c.Retention != 0 && c.Retention < least:
			return fmt.Errorf("RETENTION=%v: must be at least %v, or buckets are deleted before they are summed up for ROLLUPS=%s", c.Retention, least, c.Rollups)
		case c.RollupRetention != 0 && c.RollupRetention < least:
			return fmt.Errorf("ROLLUP_RETENTION=%v: must be at least %v for ROLLUPS=%s", c.RollupRetention, least, c.Rollups)
		}
	}
	if c.RollupRetention != 0 && (c.Retention == 0 || c.RollupRetention < c.Retention) {
		return fmt.Errorf("ROLLUP_RETENTION=%v: must be 0 or at least RETENTION (%v): roll-ups are for when the buckets are gone", c.RollupRetention, c.Retention)
	}
	return nil
}
