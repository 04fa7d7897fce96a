package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"gudang/internal/reading"
)

// marking is a store whose roll-ups are told of late readings. The mark is
// stored before the readings, so that no crash can lose it. It is made again
// behind them if they took long, or became late only meanwhile: a roll-up may
// have been made in between.
type marking struct {
	Store
	spans []reading.Span // ascending, at least one
	now   func() time.Time
}

// lastMark is how long a mark may take when there is no time left.
const lastMark = 300 * time.Millisecond

// newMarking makes a marking store, or returns the store where there are no
// roll-ups.
func newMarking(store Store, spans []reading.Span) Store {
	if len(spans) == 0 {
		return store
	}
	return &marking{Store: store, spans: spans, now: time.Now}
}

// WriteBuckets implements Store. What could not be marked is not written, or
// is to be written again.
func (m *marking) WriteBuckets(ctx context.Context, buckets []*reading.Bucket) Result {
	begun := m.now()
	before := m.late(buckets, begun)
	if err := m.mark(ctx, before); err != nil {
		return Result{Again: buckets, Err: err, Writes: Writes{Failed: len(buckets)}}
	}
	res := m.Store.WriteBuckets(ctx, buckets)
	ended := m.now()
	// By the time of day: the other clock may stand while the machine sleeps.
	slow := ended.UnixMilli()-begun.UnixMilli() > (reading.QuietFor / 2).Milliseconds()
	after := m.late(buckets, ended)
	if len(after) == 0 || !slow && len(after) == len(before) {
		return res
	}
	if ctx.Err() != nil {
		// For what was stored nevertheless. A stop cannot wait for long; what is
		// not acknowledged comes again, and is marked then.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastMark)
		defer cancel()
		ctx = limited
	}
	if err := m.mark(ctx, after); err != nil {
		return Result{Again: buckets, Err: errors.Join(res.Err, err), Writes: res.Writes}
	}
	return res
}

func (m *marking) mark(ctx context.Context, marks map[reading.Mark]struct{}) error {
	if len(marks) == 0 {
		return nil
	}
	if err := m.MarkStale(ctx, slices.Collect(maps.Keys(marks))); err != nil {
		return fmt.Errorf("cannot mark %d roll-ups that late readings outdate: %w", len(marks), err)
	}
	return nil
}

// late is the marks for those of the buckets that lie in a window which may
// have been rolled up; nil if there are none, which is the usual case.
func (m *marking) late(buckets []*reading.Bucket, now time.Time) map[reading.Mark]struct{} {
	var marks map[reading.Mark]struct{}
	limit := now.Add(-reading.RollupGrace / 2).UnixMilli()
	for _, b := range buckets {
		for _, span := range m.spans {
			if span.Start(b.Start)+int64(span) >= limit {
				continue
			}
			if marks == nil {
				marks = map[reading.Mark]struct{}{}
			}
			// One mark stands for the windows of every span.
			least := m.spans[0]
			marks[reading.Mark{Key: reading.Key{Series: b.Series, Start: least.Start(b.Start)}, Span: least}] = struct{}{}
			break
		}
	}
	return marks
}

// FixBuckets implements Store. What was rolled up of a bucket is outdated when
// the bucket is another.
func (m *marking) FixBuckets(ctx context.Context, keys []reading.Key, fix func(*reading.Record) *reading.Bucket) error {
	buckets := make([]*reading.Bucket, len(keys))
	for i, k := range keys {
		buckets[i] = reading.BucketOf(k, nil, nil)
	}
	if err := m.mark(ctx, m.late(buckets, m.now())); err != nil {
		return err
	}
	if err := m.Store.FixBuckets(ctx, keys, fix); err != nil {
		return err
	}
	return m.mark(ctx, m.late(buckets, m.now()))
}

// token is a number that no other mark of the window has had.
func token() int64 { return rand.Int64N(1 << 53) }
