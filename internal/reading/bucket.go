package reading

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Span is the length of time that one bucket covers, in ms.
type Span int64

const day = 24 * time.Hour

// NewSpan checks that d can be a span: 1s to 24h in whole ms, and a divisor
// of a day, so that buckets start at the same times every day.
func NewSpan(d time.Duration) (Span, error) {
	if d < time.Second || d > day || d%time.Millisecond != 0 || day%d != 0 {
		return 0, fmt.Errorf("bucket span %v: must be from 1s to 24h and divide a day", d)
	}
	return Span(d.Milliseconds()), nil
}

// Start is the start of the bucket that time t (ms) falls in, which is what
// $dateTrunc says: a bucket is closed on the left and open on the right.
func (s Span) Start(t int64) int64 {
	start := t - t%int64(s)
	if start > t { // t before 1970: % rounds towards zero
		start -= int64(s)
	}
	return start
}

// Duration is the span as a time.Duration.
func (s Span) Duration() time.Duration { return time.Duration(s) * time.Millisecond }

// Bucket holds the readings of one series within one span, and their summary.
// Offsets are the readings' identities: no two are equal. Fill it with Add or
// make it with BucketOf; a literal with Offsets in it is not a valid bucket.
type Bucket struct {
	Series
	Start   int64     // ms since 1970, UTC
	Offsets []int32   // ms after Start, in order of arrival
	Values  []float64 // same length, same order
	Sum     float64
	Min     float64
	Max     float64

	latest int32         // the greatest offset: what is beyond it is new without a search
	index  map[int32]int // offset to position, once the bucket is large
}

// BucketOf makes the bucket of readings that are known to be distinct, such as
// those of a stored one.
func BucketOf(k Key, offsets []int32, values []float64) *Bucket {
	b := &Bucket{Series: k.Series, Start: k.Start, Offsets: offsets, Values: values}
	if len(values) == 0 {
		return b
	}
	b.Min, b.Max, b.latest = math.Inf(1), math.Inf(-1), offsets[0]
	for i, v := range values {
		b.Sum += v
		b.Min, b.Max = min(b.Min, v), max(b.Max, v)
		b.latest = max(b.latest, offsets[i])
	}
	return b
}

// Verdict is what became of a reading that was given to a bucket.
type Verdict uint8

// The verdicts.
const (
	Added     Verdict = iota
	Duplicate         // the bucket has this reading
	Conflict          // the bucket has another value for this time: the first stays
)

// indexFrom is the size from which a bucket is searched by map.
const indexFrom = 64

// Add puts a reading into the bucket unless it has one of that time. The time
// must lie within the bucket's span: that is the caller's duty.
func (b *Bucket) Add(t int64, v float64) Verdict {
	off := int32(t - b.Start)
	if i := b.Find(off); i >= 0 {
		if b.Values[i] == v {
			return Duplicate
		}
		return Conflict
	}
	v += 0 // -0 becomes 0: a dashboard that shows -0 looks broken
	if n := len(b.Offsets); n == 0 {
		b.Sum, b.Min, b.Max, b.latest = v, v, v, off
	} else {
		b.Sum += v
		b.Min = min(b.Min, v)
		b.Max = max(b.Max, v)
		b.latest = max(b.latest, off)
	}
	if b.index != nil {
		b.index[off] = len(b.Offsets)
	}
	b.Offsets = append(b.Offsets, off)
	b.Values = append(b.Values, v)
	return Added
}

// Merge adds the readings of o, a bucket of the same series and start, and
// returns how many were new.
func (b *Bucket) Merge(o *Bucket) (added int) {
	for i, off := range o.Offsets {
		if b.Add(o.Start+int64(off), o.Values[i]) == Added {
			added++
		}
	}
	return added
}

// Find is the position of the reading with that offset, -1 if there is none.
func (b *Bucket) Find(off int32) int {
	n := len(b.Offsets)
	if n == 0 || off > b.latest {
		return -1
	}
	if n < indexFrom {
		return slices.Index(b.Offsets, off)
	}
	if b.index == nil {
		b.index = make(map[int32]int, 2*n)
		for i, o := range b.Offsets {
			b.index[o] = i
		}
	}
	if i, ok := b.index[off]; ok {
		return i
	}
	return -1
}

// Count is the number of readings.
func (b *Bucket) Count() int { return len(b.Offsets) }

// Key is what tells the bucket from every other.
func (b *Bucket) Key() Key { return Key{b.Series, b.Start} }

// Key is a bucket's identity.
type Key struct {
	Series
	Start int64
}

// Compare orders keys by start, then series: the order in which their ids lie
// in the store.
func (k Key) Compare(o Key) int {
	switch {
	case k.Start < o.Start:
		return -1
	case k.Start > o.Start:
		return 1
	}
	return k.Series.Compare(o.Series)
}
