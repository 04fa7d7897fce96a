package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	detailMost = 500 // bytes
	// rejectSlack is how far a collection that is not capped may grow beyond
	// its bound, so that it is not cut each time.
	rejectSlack = 1000
)

// Reject records the readings in a collection that is capped, or is cut by us
// where a server or an operator has made it another.
func (m *Mongo) Reject(ctx context.Context, rejected []Rejected) error {
	if len(rejected) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err == nil {
		err = m.prepare(ctx, db)
	}
	if err != nil {
		return err
	}
	collection := db.Collection(mongodb.Rejected)
	_, err = collection.BulkWrite(ctx, rejectedWrites(rejected), options.BulkWrite().SetOrdered(false))
	if err != nil && onlyDuplicates(err) {
		err = nil // another instance has just recorded the same
	}
	if err == nil {
		err = cut(ctx, collection)
	}
	if err != nil {
		return fmt.Errorf("cannot record %d rejected readings in MongoDB: %w", len(rejected), m.client.Explain(err))
	}
	return nil
}

// rejectedWrites is the upserts of the readings' documents. The _id is a
// function of what is rejected and why, so that the same again is one document.
func rejectedWrites(rejected []Rejected) []mongo.WriteModel {
	writes := make([]mongo.WriteModel, len(rejected))
	for i, r := range rejected {
		value := binary.BigEndian.AppendUint64(nil, math.Float64bits(r.Value))
		id := reading.Series{Sensor: r.Sensor, Metric: r.Metric + "\x00" + string(r.Reason) + "\x00" + string(value)}.ID(r.Time)
		writes[i] = mongo.NewUpdateOneModel().SetUpsert(true).
			SetFilter(bson.D{{Key: "_id", Value: binaryID(id)}}).
			SetUpdate(bson.D{{Key: "$setOnInsert", Value: bson.D{
				{Key: "sensorId", Value: r.Sensor},
				{Key: "metric", Value: r.Metric},
				{Key: "time", Value: bson.DateTime(r.Time)},
				{Key: "value", Value: r.Value},
				{Key: "reason", Value: string(r.Reason)},
				{Key: "detail", Value: strings.ToValidUTF8(r.Detail[:min(len(r.Detail), detailMost)], "")},
				{Key: "at", Value: bson.DateTime(r.At)},
			}}})
	}
	return writes
}

// cut deletes the oldest documents beyond the bound.
func cut(ctx context.Context, collection *mongo.Collection) error {
	count, err := collection.EstimatedDocumentCount(ctx)
	if err != nil || count < rejectedMost+rejectSlack {
		return err
	}
	cursor, err := collection.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}).
		SetSort(bson.D{{Key: "at", Value: 1}}).SetLimit(count-rejectedMost))
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var ids bson.A
	for cursor.Next(ctx) {
		var doc struct {
			ID bson.RawValue `bson:"_id"`
		}
		if err := cursor.Decode(&doc); err != nil {
			return err
		}
		ids = append(ids, doc.ID)
	}
	if err := cursor.Err(); err != nil || len(ids) == 0 {
		return err
	}
	_, err = collection.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	return err
}
