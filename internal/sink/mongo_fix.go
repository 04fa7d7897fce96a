package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// FixBucket implements Store by compare-and-swap: the bucket is written only
// if its arrays and counters are still those that were read.
func (m *Mongo) FixBucket(ctx context.Context, key reading.Key, fix func(have *reading.Record) *reading.Bucket) (found bool, err error) {
	db, err := m.client.Database()
	if err != nil {
		return false, err
	}
	store := fixCollection{db.Collection(mongodb.Buckets, options.Collection().SetReadPreference(readpref.Primary()))}
	found, err = fixBucket(ctx, store, key, fix)
	if err != nil {
		return found, fmt.Errorf("cannot mend the bucket of %q, %s in MongoDB: %w", key.Sensor, key.Metric, m.client.Explain(err))
	}
	return found, nil
}

// fixStore is what fixBucket needs of a server.
type fixStore interface {
	get(ctx context.Context, id bson.Binary) (bson.Raw, error) // nil: there is none
	// swap says whether the filter still matched.
	swap(ctx context.Context, filter, update bson.D) (bool, error)
	remove(ctx context.Context, filter bson.D) (bool, error)
}

type fixCollection struct{ *mongo.Collection }

func (c fixCollection) get(ctx context.Context, id bson.Binary) (bson.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	doc, err := c.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return bytes.Clone(doc), err
}

func (c fixCollection) swap(ctx context.Context, filter, update bson.D) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	result, err := c.UpdateOne(ctx, filter, update)
	return err == nil && result.MatchedCount == 1, err
}

func (c fixCollection) remove(ctx context.Context, filter bson.D) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	result, err := c.DeleteOne(ctx, filter)
	return err == nil && result.DeletedCount == 1, err
}

// fixPause lets a bucket that is being written come to rest.
const fixPause = 20 * time.Millisecond

func fixBucket(ctx context.Context, store fixStore, key reading.Key, fix func(have *reading.Record) *reading.Bucket) (found bool, err error) {
	id := key.ID(key.Start)
	uuid := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}
	for range fixRounds {
		doc, err := store.get(ctx, uuid)
		if err != nil || doc == nil {
			return false, err
		}
		have := mongodb.DecodeRecord(doc)
		if have.Key != key {
			return true, errors.New("the document under its _id is another's")
		}
		if have.Outlier {
			return true, nil
		}
		want := fix(have)
		if want == nil {
			return true, nil
		}
		filter := asItWas(uuid, doc)
		var swapped bool
		if want.Count() == 0 {
			swapped, err = store.remove(ctx, filter)
		} else {
			swapped, err = store.swap(ctx, filter, bson.D{{Key: "$set", Value: contents(want)}})
		}
		if swapped || err != nil {
			return true, err
		}
		if err := rest(ctx, fixPause); err != nil {
			return true, err
		}
	}
	return true, errContested
}

// asItWas matches the document while it is what was read. With the fields of
// the shard key in it, it finds its shard.
func asItWas(id bson.Binary, doc bson.Raw) bson.D {
	filter := bson.D{{Key: "_id", Value: id}}
	for _, name := range []string{"sensorId", "metric", "start"} {
		filter = append(filter, bson.E{Key: name, Value: doc.Lookup(name)})
	}
	for _, name := range append([]string{"offsets", "values", "isOutlier"}, summaryFields...) {
		if have := doc.Lookup(name); have.IsZero() {
			filter = append(filter, bson.E{Key: name, Value: bson.D{{Key: "$exists", Value: false}}})
		} else {
			filter = append(filter, bson.E{Key: name, Value: bson.D{{Key: "$eq", Value: have}}})
		}
	}
	return filter
}

// contents are the fields of a bucket that a write of it adds to.
func contents(b *reading.Bucket) bson.D {
	return bson.D{
		{Key: "offsets", Value: b.Offsets},
		{Key: "values", Value: b.Values},
		{Key: "count", Value: int32(b.Count())},
		{Key: "sum", Value: b.Sum + 0},
		{Key: "min", Value: b.Min + 0},
		{Key: "max", Value: b.Max + 0},
	}
}
