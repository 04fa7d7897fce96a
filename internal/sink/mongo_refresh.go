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

var _ Refresher = (*Mongo)(nil)

// RefreshSensor implements Refresher.
func (m *Mongo) RefreshSensor(ctx context.Context, id string, keep int, truth func(context.Context) (reading.Sensor, error)) (Refreshed, error) {
	result, err := m.refreshSensor(ctx, id, keep, truth)
	if err != nil {
		return Left, fmt.Errorf("cannot refresh sensor %q in MongoDB: %w", id, m.client.Explain(err))
	}
	return result, nil
}

func (m *Mongo) refreshSensor(ctx context.Context, id string, keep int, truth func(context.Context) (reading.Sensor, error)) (Refreshed, error) {
	db, err := m.client.Database()
	if err != nil {
		return Left, err
	}
	collection := db.Collection(mongodb.Sensors, options.Collection().SetReadPreference(readpref.Primary()))
	for range sensorRounds {
		stored, err := readSensors(ctx, collection, []string{id})
		if err != nil {
			return Left, err
		}
		have, err := truth(ctx)
		if errors.Is(err, reading.ErrNotFound) {
			return Left, nil
		}
		if err != nil {
			return Left, err
		}
		result, settled, err := swapSensor(ctx, collection, id, stored[id], have, keep)
		if err != nil || settled {
			return result, err
		}
	}
	return Left, errContestedSensor
}

// swapSensor writes the sensor's document if it is still what it was. Settled
// is false if it is not.
func swapSensor(ctx context.Context, collection *mongo.Collection, id string, old bson.Raw, truth reading.Sensor, keep int) (_ Refreshed, settled bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if old == nil {
		_, err := collection.InsertOne(ctx, bson.Raw(mongodb.AppendSensor(nil, truth, keep)))
		if mongo.IsDuplicateKeyError(err) {
			return Left, false, nil
		}
		return Created, err == nil, err
	}
	was := mongodb.DecodeSensor(old)
	seen := was.FirstSeen
	if _, ok := old.Lookup("firstSeen").DateTimeOK(); !ok {
		was.FirstSeen = truth.FirstSeen // someone has damaged it
	}
	truth = refreshed(truth, was)
	fields := bson.Raw(mongodb.AppendSensorFields(nil, truth, keep))
	filter, same := unchanged(id, old, fields)
	if same {
		return Same, true, nil
	}
	result, err := collection.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: fields}})
	if err != nil {
		return Left, false, err
	}
	was.FirstSeen = seen
	return difference(was, truth, keep), result.MatchedCount == 1, nil
}
