package sink

import (
	"context"

	"gudang/internal/reading"
)

// Fixer mends stored buckets.
type Fixer interface {
	// FixBuckets reads the buckets, asks fix of each what it should be, and puts
	// that in its place if it is still what was read; else it reads and asks
	// again. A bucket without readings is removed, nil leaves it as it is. Fix is
	// not asked about an outlier, nor about a bucket that is not there.
	FixBuckets(ctx context.Context, keys []reading.Key, fix func(have *reading.Record) *reading.Bucket) error
}

// FixBuckets mends stored buckets, and has outdated what was made of them.
func (s *Sink) FixBuckets(ctx context.Context, keys []reading.Key, fix func(*reading.Record) *reading.Bucket) error {
	return s.store.FixBuckets(ctx, keys, fix)
}

// fixRounds bounds how often a bucket is read again because someone else
// changed it.
const fixRounds = 50

// fixAtOnce is how many buckets are mended in one go.
const fixAtOnce = 200
