package sink

import (
	"context"

	"gudang/internal/reading"
)

// Store is a database that buckets are written to: MongoDB or the embedded
// one. Every method may be called again after an error, with the same
// arguments, without harm. Methods other than WriteBuckets may be called
// while one is running; WriteBuckets itself is called by one goroutine.
type Store interface {
	RawWriter
	Fixer
	// WriteBuckets stores the buckets, which all have different keys. It
	// returns when each is stored, refused or in Result.Again. It may sort
	// the slice; it does not change or keep the buckets.
	WriteBuckets(ctx context.Context, buckets []*reading.Bucket) Result
	// CreateSensors stores the documents of sensors that are not there yet, as
	// far as is known: one that is there is merged.
	CreateSensors(ctx context.Context, sensors []reading.Sensor, keep int) error
	// MergeSensors merges each sensor into its document and keeps the newest
	// keep points of each metric; a sensor that is not there is created.
	MergeSensors(ctx context.Context, sensors []reading.Sensor, keep int) error
	// Reject records readings that will never be stored. What is kept of
	// them is bounded.
	Reject(ctx context.Context, rejected []Rejected) error
	// Sweep makes outliers of buckets that are above the threshold without
	// being one, and settles the counters of outliers that a crash left behind.
	Sweep(ctx context.Context) (Swept, error)
	// Ping says whether the store can be written to, and if not, why.
	Ping(ctx context.Context) error
	Close() error

	Retention
	Rollups
}

// Result is what became of the buckets given to WriteBuckets.
type Result struct {
	// Refused are the readings that were not stored: those that were there
	// already (Duplicate, Conflict) and those that the store will never take
	// (Added, with a Reason), which cost only their own bucket.
	Refused []reading.Refusal
	// Again are the buckets whose fate is unknown or which could not be
	// written now; Err says why. Writing them again is safe.
	Again []*reading.Bucket
	Err   error
	// Outliers are the buckets among them that are outliers now, of which
	// Migrated became so by this write.
	Outliers []Outlier
	Migrated int
	// Writes counts the write operations by what they ended as.
	Writes Writes
}

// Outlier is a bucket whose readings are stored one by one.
type Outlier struct {
	reading.Key
	Until int64 // where its span ends
}

// Swept is what a Sweep did.
type Swept struct {
	Outliers []Outlier // what became one
	Migrated int
	Settled  int // outliers whose counters were put right
}

// DefaultOutlier is how many readings a bucket holds at most, if nothing else
// is said.
const DefaultOutlier = 1000

// Writes counts write operations: one for each bucket each time it is sent.
type Writes struct {
	OK       int // the store took it
	Exists   int // it has one of the readings (E11000), and was asked which
	Rejected int // it will never take it
	Failed   int // unknown or not now: sent again
}

// Rejected is a reading for the collection of those that could not be stored.
type Rejected struct {
	reading.Reading
	Reason reading.Reason
	Detail string // what the store said
	At     int64  // ms since 1970
}
