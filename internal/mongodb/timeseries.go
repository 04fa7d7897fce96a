package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Readings is the time series collection that BUCKETS=timeseries writes to.
const Readings = "readings"

// Fields of the time series collection.
const (
	TimeField = "time"
	MetaField = "series"
)

// ErrNoTimeSeries says that the server will never take readings this way.
var ErrNoTimeSeries = errors.New("timeseries is not possible here")

// Codes with which servers without time series collections refuse to make one:
// older MongoDBs do not know the field, others have not built it.
var noTimeSeriesCodes = []int{
	2,     // BadValue
	9,     // FailedToParse
	59,    // CommandNotFound
	72,    // InvalidOptions
	115,   // CommandNotSupported
	238,   // NotImplemented
	40324, // an unknown stage
	40415, // an unknown field
}

// NoTimeSeries makes of a refusal to create a time series collection
// ErrNoTimeSeries, if that is what it says.
func NoTimeSeries(err error) error {
	var server mongo.ServerError
	if errors.As(err, &server) {
		for _, code := range noTimeSeriesCodes {
			if server.HasErrorCode(code) {
				return fmt.Errorf("%w, it needs MongoDB 5.0 or newer: %w", ErrNoTimeSeries, err)
			}
		}
	}
	return err
}

// TimeSeriesOptions are the options of the collection as it is; found is
// false if there is none, and an error says that it is another kind.
func TimeSeriesOptions(ctx context.Context, db *mongo.Database) (options bson.Raw, found bool, err error) {
	specs, err := db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: Readings}})
	if err != nil || len(specs) == 0 {
		return nil, false, err
	}
	if specs[0].Type != "timeseries" {
		return nil, true, fmt.Errorf("%w: the collection %q in the database %q is an ordinary one, rename it", ErrNoTimeSeries, Readings, db.Name())
	}
	return specs[0].Options, true, nil
}
