package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// bucketStore is what writeBatch needs of a server.
type bucketStore interface {
	outlierStore
	// outlier is how many readings a bucket holds at most, and until where the
	// span of one ends.
	limits() (outlier int, span reading.Span)
	upsert(ctx context.Context, items []*item) (mongodb.Answer, error)
	writable(ctx context.Context) bool
}

// rounds bounds how often a batch is sent within one attempt. The second round
// writes what the first found to be partly there, the third what others
// created in between; only a hot race takes more.
const rounds = 8

var errContested = errors.New("buckets are still contested by other writers")

// fate is what a write ended as.
type fate uint8

const (
	failed  fate = iota // not now, or unknown: to be sent again
	done                // the server took it
	exists              // E11000: the bucket is there, and did not match
	unsure              // the server did not say
	refused             // the server will never take it
	settled             // nothing is left to be written
	apart               // the bucket is an outlier: its readings are stored one by one
)

// item is a bucket on its way into the store.
type item struct {
	given   *reading.Bucket
	left    *reading.Bucket // what is not stored yet: given, or a part of it
	refused []reading.Refusal
	fate    fate
	maybe   bool // an earlier command may have written it
	detail  string

	id      [16]byte
	settles int64 // of the outlier, when it was read
}

// outlier is the bucket as one.
func (it *item) outlier(span reading.Span) Outlier {
	return Outlier{Key: it.given.Key(), Until: it.given.Start + int64(span)}
}

// writeBatch stores the buckets, which have different keys, or finds out why
// not. E11000 is an answer: the bucket holds one of the readings, or someone
// created it just now. So it is read, what it has is dropped, and the rest is
// written again. Nothing is written twice, whatever was lost on the way,
// because no write matches a bucket that has one of its readings.
func writeBatch(ctx context.Context, store bucketStore, batch []*reading.Bucket) Result {
	var res Result
	items := make([]item, len(batch))
	todo := make([]*item, 0, len(batch))
	var large []*item // outliers by themselves
	most, span := store.limits()
	for i, b := range batch {
		items[i] = item{given: b, left: b, id: b.ID(b.Start)}
		switch {
		case b.Count() > most:
			large = append(large, &items[i])
		case b.Count() == 0:
			items[i].fate = settled // an upsert would create an empty bucket
		default:
			todo = append(todo, &items[i])
		}
	}
	makeOutliers(ctx, store, span, large, &res)
	for round := 0; len(todo) > 0; round++ {
		if round == rounds {
			res.Err = errors.Join(res.Err, errContested)
			for _, it := range todo {
				it.fate = failed
			}
			break
		}
		for some := range slices.Chunk(todo, size(round, len(todo))) {
			if err := send(ctx, store, some, &res.Writes); err != nil && res.Err == nil {
				res.Err = err
			}
		}
		var look []*item
		for _, it := range todo {
			if it.fate == exists || it.fate == unsure {
				look = append(look, it)
			}
		}
		if len(look) == 0 {
			break
		}
		if err := compare(ctx, store, look); err != nil {
			if res.Err == nil {
				res.Err = fmt.Errorf("cannot read what is there: %w", err)
			}
			for _, it := range look {
				it.fate = failed
			}
			break
		}
		todo = nil
		for _, it := range look {
			if it.fate == exists || it.fate == unsure {
				todo = append(todo, it)
			} else if it.fate == refused {
				res.Writes.Rejected++
			}
		}
	}
	if err := writeOutliers(ctx, store, span, items, &res); err != nil && res.Err == nil {
		res.Err = err
	}
	for i := range items {
		switch it := &items[i]; it.fate {
		case failed:
			// What was found out about it will be found out again.
			res.Again = append(res.Again, it.given)
		case refused:
			for _, off := range it.left.Offsets {
				it.refused = append(it.refused, reading.Refusal{Bucket: it.given, Offset: off, Reason: reading.StoreRefused, Detail: it.detail})
			}
			res.Refused = append(res.Refused, it.refused...)
		default:
			res.Refused = append(res.Refused, it.refused...)
		}
	}
	return res
}

// size is how many items one command takes. From the third round on they go
// one by one: a server that stops at the first error and does not say where
// would not get past it in any other way.
func size(round, items int) int {
	if round < 2 {
		return items
	}
	return 1
}

// send sends what is left of the items as one command, and gives each its
// fate. The error says why some have failed.
func send(ctx context.Context, store bucketStore, items []*item, writes *Writes) error {
	answer, err := store.upsert(ctx, items)
	if fault, ok := permanentCommand(err); ok {
		// The server refused the command for what must be in one of the
		// writes. Halving finds it; where it is alone, a write that cannot be
		// at fault tells it from a server that refuses everything.
		if len(items) > 1 {
			for _, it := range items {
				it.maybe = true
			}
			half := len(items) / 2
			return errors.Join(send(ctx, store, items[:half], writes), send(ctx, store, items[half:], writes))
		}
		if store.writable(ctx) {
			items[0].fate, items[0].detail = refused, fault
			writes.Rejected++
			return nil
		}
	}
	err = sortAnswer(items, answer, err)
	for _, it := range items {
		switch it.fate {
		case done:
			writes.OK++
		case exists:
			writes.Exists++
		case refused:
			writes.Rejected++
		default:
			writes.Failed++
		}
	}
	return err
}
