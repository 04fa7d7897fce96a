package sink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// FixBuckets implements Store by compare-and-swap: a bucket is written only if
// its arrays and counters are still those that were read.
func (m *Mongo) FixBuckets(ctx context.Context, keys []reading.Key, fix func(have *reading.Record) *reading.Bucket) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	store := fixCollection{db.Collection(mongodb.Buckets, options.Collection().SetReadPreference(readpref.Primary()))}
	for some := range slices.Chunk(keys, fixAtOnce) {
		if err := fixBuckets(ctx, store, some, fix); err != nil {
			return fmt.Errorf("cannot mend %d buckets in MongoDB: %w", len(some), m.client.Explain(err))
		}
	}
	return nil
}

// fixStore is what fixBuckets needs of a server.
type fixStore interface {
	get(ctx context.Context, ids bson.A) ([]bson.Raw, error)
	// swap carries out updates and removals, and says how many still matched.
	swap(ctx context.Context, models []mongo.WriteModel) (int64, error)
}

type fixCollection struct{ *mongo.Collection }

func (c fixCollection) get(ctx context.Context, ids bson.A) (docs []bson.Raw, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	cursor, err := c.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return nil, err
	}
	return docs, cursor.All(ctx, &docs)
}

func (c fixCollection) swap(ctx context.Context, models []mongo.WriteModel) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	result, err := c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil {
		return 0, err
	}
	return result.MatchedCount + result.DeletedCount, nil
}

// fixPause lets a bucket that is being written come to rest.
const fixPause = 20 * time.Millisecond

func fixBuckets(ctx context.Context, store fixStore, keys []reading.Key, fix func(have *reading.Record) *reading.Bucket) error {
	ids := make(bson.A, len(keys))
	byID := make(map[[16]byte]reading.Key, len(keys))
	for i, key := range keys {
		id := key.ID(key.Start)
		ids[i], byID[id] = binaryID(id), key
	}
	for range fixRounds {
		docs, err := store.get(ctx, ids)
		if err != nil {
			return err
		}
		models, err := fixes(docs, byID, fix)
		if err != nil || len(models) == 0 {
			return err
		}
		done, err := store.swap(ctx, models)
		if err != nil || done == int64(len(models)) {
			return err
		}
		// Which of them were changed meanwhile is not said: those that are right
		// by now are found to be so.
		if err := rest(ctx, fixPause); err != nil {
			return err
		}
	}
	return errContested
}

// fixes are the writes that make of the documents what they should be.
func fixes(docs []bson.Raw, byID map[[16]byte]reading.Key, fix func(have *reading.Record) *reading.Bucket) (models []mongo.WriteModel, err error) {
	for _, doc := range docs {
		have := mongodb.DecodeRecord(doc)
		id := have.ID(have.Start)
		if key, ours := byID[id]; !ours || have.Key != key {
			return nil, fmt.Errorf("the document %s is another bucket's: sensorId %s, metric %s, start %s",
				doc.Lookup("_id"), doc.Lookup("sensorId"), doc.Lookup("metric"), doc.Lookup("start"))
		}
		if have.Outlier {
			continue
		}
		switch want := fix(have); {
		case want == nil:
		case want.Count() == 0:
			models = append(models, mongo.NewDeleteOneModel().SetFilter(asItWas(doc)))
		default:
			models = append(models, mongo.NewUpdateOneModel().SetFilter(asItWas(doc)).SetUpdate(bson.D{{Key: "$set", Value: contents(want)}}))
		}
	}
	return models, nil
}

// asItWas matches the document while it is what was read. With the fields of
// the shard key in it, it finds its shard.
func asItWas(doc bson.Raw) bson.D {
	var filter bson.D
	for _, name := range []string{"_id", "sensorId", "metric", "start"} {
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
