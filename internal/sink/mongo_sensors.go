package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	sensorsAtOnce = 500
	sensorRounds  = 20
)

// MergeSensors merges each sensor into its document. Several instances may do
// so at once: a document is written only if it is still what it was when it
// was read, else it is read again.
func (m *Mongo) MergeSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	news := make(map[string]reading.Sensor, len(sensors))
	for _, s := range sensors {
		merged := news[s.ID]
		merged.Merge(s, max(1, keep))
		news[s.ID] = merged
	}
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	// In order of id, so that two instances go the same way.
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(news)), sensorsAtOnce) {
		if err := m.mergeChunk(ctx, db, ids, news, keep); err != nil {
			return fmt.Errorf("cannot write %d sensors to MongoDB: %w", len(ids), m.client.Explain(err))
		}
	}
	return nil
}

func (m *Mongo) mergeChunk(ctx context.Context, db *mongo.Database, ids []string, news map[string]reading.Sensor, keep int) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	collection := db.Collection(mongodb.Sensors, options.Collection().SetReadPreference(readpref.Primary()))
	for range sensorRounds {
		writes, err := sensorWrites(ctx, collection, ids, news, keep)
		if err != nil || len(writes) == 0 {
			return err
		}
		result, err := collection.BulkWrite(ctx, writes, options.BulkWrite().SetOrdered(false))
		if err != nil && !onlyDuplicates(err) {
			return err
		}
		if err == nil && result.MatchedCount+result.InsertedCount == int64(len(writes)) {
			return nil
		}
		// Someone else wrote some of them in between. Those that were written
		// now are found to be right by the next round.
	}
	return errors.New("their documents are contested by other instances")
}

// sensorWrites is what must be written for the documents to hold the news.
func sensorWrites(ctx context.Context, collection *mongo.Collection, ids []string, news map[string]reading.Sensor, keep int) ([]mongo.WriteModel, error) {
	stored, err := readSensors(ctx, collection, ids)
	if err != nil {
		return nil, err
	}
	var writes []mongo.WriteModel
	for _, id := range ids {
		old := stored[id]
		merged := reading.Sensor{}
		if old != nil {
			merged = mongodb.DecodeSensor(old)
		}
		merged.Merge(news[id], max(1, keep))
		fields := mongodb.SensorFields(merged, keep)
		if old == nil {
			writes = append(writes, mongo.NewInsertOneModel().SetDocument(append(bson.D{{Key: "_id", Value: id}}, fields...)))
			continue
		}
		filter, same, err := unchanged(id, old, fields)
		if err != nil {
			return nil, err
		}
		if !same {
			writes = append(writes, mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.D{{Key: "$set", Value: fields}}))
		}
	}
	return writes, nil
}

func readSensors(ctx context.Context, collection *mongo.Collection, ids []string) (map[string]bson.Raw, error) {
	cursor, err := collection.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	stored := make(map[string]bson.Raw, len(ids))
	for cursor.Next(ctx) {
		doc := bytes.Clone(cursor.Current)
		if id, ok := bson.Raw(doc).Lookup("_id").StringValueOK(); ok {
			stored[id] = doc
		}
	}
	return stored, cursor.Err()
}

// unchanged is the filter that matches the document while its fields are what
// they were, and whether they are already what they should be.
func unchanged(id string, old bson.Raw, fields bson.D) (filter bson.D, same bool, err error) {
	encoded, err := bson.Marshal(fields)
	if err != nil {
		return nil, false, fmt.Errorf("cannot encode sensor %q: %w", id, err)
	}
	filter, same = bson.D{{Key: "_id", Value: id}}, true
	for _, f := range fields {
		have := old.Lookup(f.Key)
		if have.IsZero() {
			filter = append(filter, bson.E{Key: f.Key, Value: bson.D{{Key: "$exists", Value: false}}})
			same = false
			continue
		}
		filter = append(filter, bson.E{Key: f.Key, Value: have})
		same = same && have.Equal(bson.Raw(encoded).Lookup(f.Key))
	}
	return filter, same, nil
}

// onlyDuplicates says whether all that went wrong is that documents were there
// already.
func onlyDuplicates(err error) bool {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return false
	}
	return !slices.ContainsFunc(bulk.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Code != codeDuplicateKey })
}
