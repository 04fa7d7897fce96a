package sink

import (
	"context"

	"gudang/internal/reading"
)

// Fixer mends stored buckets.
type Fixer interface {
	// FixBucket reads the bucket, asks fix what it should be, and puts that in
	// its place if it is still what was read; else it reads and asks again. A
	// bucket without readings is removed, nil leaves it as it is. It reports
	// whether the bucket was there. An outlier is not asked about.
	FixBucket(ctx context.Context, key reading.Key, fix func(have *reading.Record) *reading.Bucket) (found bool, err error)
}

// fixRounds bounds how often a bucket is read again because someone else
// changed it.
const fixRounds = 50
