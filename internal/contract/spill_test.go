package contract

import (
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/reading"
)

func spillMongo(t *testing.T, db *mongo.Database, k reading.Key, moved bool, times []int64) {
	t.Helper()
	uuid := func(ms int64) bson.Binary {
		id := k.ID(ms)
		return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}
	}
	for _, at := range times {
		_, err := db.Collection("overflow").InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: uuid(base + at)},
			{Key: "sensorId", Value: k.Sensor},
			{Key: "metric", Value: k.Metric},
			{Key: "time", Value: bson.DateTime(base + at)},
			{Key: "value", Value: float64(at) + 0.5},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	change := bson.D{{Key: "$set", Value: bson.D{{Key: "isOutlier", Value: true}}}}
	if moved {
		change = append(change, bson.E{Key: "$unset", Value: bson.D{{Key: "offsets", Value: ""}, {Key: "values", Value: ""}}})
	}
	result, err := db.Collection("buckets").UpdateOne(t.Context(), bson.D{{Key: "_id", Value: uuid(k.Start)}}, change)
	if err != nil || result.MatchedCount != 1 {
		t.Fatalf("cannot make %v an outlier: %+v, %v", k, result, err)
	}
}

func spillSQLite(t *testing.T, dir string, k reading.Key, moved bool, times []int64) {
	t.Helper()
	for _, at := range times {
		alter(t, dir, `INSERT INTO overflow (sensorId, metric, time, value) SELECT ?1, ?2, ?3, ?3 - `+strconv.FormatInt(base, 10)+` + 0.5`,
			reading.Key{Series: k.Series, Start: base + at})
	}
	change := `UPDATE buckets SET isOutlier = 1`
	if moved {
		change += `, offsets = NULL, "values" = NULL`
	}
	alter(t, dir, change+` WHERE sensorId = ? AND metric = ? AND start = ?`, k)
}
