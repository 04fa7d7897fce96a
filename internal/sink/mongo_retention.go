package sink

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// deletedAtOnce is how many documents one command deletes.
const deletedAtOnce = 2000

// DeleteBefore implements Retention. All _ids begin with the time, so that the
// old documents lie at the beginning of that index. Their own date decides:
// a document that someone else put there may have any _id.
func (m *Mongo) DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest Rest) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	c := db.Collection(string(kind), options.Collection().SetReadPreference(readpref.Primary()))
	old := bson.E{Key: ageField[kind], Value: bson.D{{Key: "$lt", Value: bson.DateTime(before)}}}
	for n := deletedAtOnce; n == deletedAtOnce; {
		deleted, found, err := deleteFirst(ctx, c, before, old)
		if err != nil {
			return fmt.Errorf("cannot delete old %s from MongoDB: %w", kind, m.client.Explain(err))
		}
		n = found
		if err := rest(ctx, deleted); err != nil {
			return err
		}
	}
	return nil
}

func deleteFirst(ctx context.Context, c *mongo.Collection, before int64, old bson.E) (deleted, found int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ids := bson.D{{Key: "$lt", Value: binaryID(reading.FirstID(before))}}
	cursor, err := c.Find(ctx, bson.D{{Key: "_id", Value: ids}, old}, options.Find().
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(deletedAtOnce).SetProjection(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(deletedAtOnce))
	if err != nil {
		return 0, 0, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var last bson.RawValue
	for cursor.Next(ctx) {
		id := cursor.Current.Lookup("_id")
		last = bson.RawValue{Type: id.Type, Value: append(last.Value[:0], id.Value...)}
		found++
	}
	if err := cursor.Err(); err != nil || found == 0 {
		return 0, 0, err
	}
	result, err := c.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$lte", Value: last}}}, old})
	if err != nil {
		return 0, 0, err
	}
	return int(result.DeletedCount), found, nil
}

// SilentSensors implements Retention.
func (m *Mongo) SilentSensors(ctx context.Context, before int64, after string, limit int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}, {Key: "lastSeen", Value: bson.D{{Key: "$lt", Value: bson.DateTime(before)}}}}
	cursor, err := db.Collection(mongodb.Sensors).Find(ctx, filter, options.Find().
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)).SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, fmt.Errorf("cannot list silent sensors of MongoDB: %w", m.client.Explain(err))
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var ids []string
	for cursor.Next(ctx) {
		if id, ok := cursor.Current.Lookup("_id").StringValueOK(); ok {
			ids = append(ids, id)
		}
	}
	return ids, m.client.Explain(cursor.Err())
}

// DeleteSensors implements Retention.
func (m *Mongo) DeleteSensors(ctx context.Context, ids []string, before int64) ([]string, error) {
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	var deleted []string
	for _, id := range ids {
		gone, err := deleteSensor(ctx, db, id, before)
		if err != nil {
			return deleted, fmt.Errorf("cannot delete silent sensor %q from MongoDB: %w", id, m.client.Explain(err))
		}
		if gone {
			deleted = append(deleted, id)
		}
	}
	return deleted, nil
}

func deleteSensor(ctx context.Context, db *mongo.Database, id string, before int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for _, name := range []string{mongodb.Buckets, mongodb.Overflow, mongodb.Raw, mongodb.Rollups} {
		c := db.Collection(name, options.Collection().SetReadPreference(readpref.Primary()))
		err := c.FindOne(ctx, bson.D{{Key: "sensorId", Value: id}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
		if !errors.Is(err, mongo.ErrNoDocuments) {
			return false, err
		}
	}
	result, err := db.Collection(mongodb.Sensors).DeleteOne(ctx, bson.D{
		{Key: "_id", Value: id}, {Key: "lastSeen", Value: bson.D{{Key: "$lt", Value: bson.DateTime(before)}}},
	})
	if err != nil {
		return false, err
	}
	return result.DeletedCount > 0, nil
}
