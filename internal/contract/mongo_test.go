package contract

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
)

func TestFerretDB(t *testing.T) {
	// It loses concurrent updates of one document, and stops a command at its
	// first error.
	run(t, mongoHarness(testenv.FerretDB(t).URI, "gudang", false, sink.MongoWriters(1), sink.MongoBatch(1)))
}

// TestMongoDB runs against a real server, in a database of its own. Where none
// is given it has nothing to say, and TestFerretDB stands for it.
func TestMongoDB(t *testing.T) {
	uri := os.Getenv("TEST_MONGODB_URI")
	if uri == "" {
		t.Log("TEST_MONGODB_URI is not set: FerretDB stands in for MongoDB")
		return
	}
	database := fmt.Sprintf("gudang_test_%d", time.Now().UnixNano())
	t.Cleanup(func() {
		if err := connect(t, uri).Database(database).Drop(context.Background()); err != nil {
			t.Logf("cannot drop the test's database: %v", err)
		}
	})
	run(t, mongoHarness(uri, database, true))
}

func mongoHarness(uri, database string, twoWriters bool, opts ...sink.MongoOption) harness {
	return harness{
		twoWriters: twoWriters,
		rivals:     true,
		wipe: func(t *testing.T) {
			for _, name := range []string{"buckets", "raw", "overflow", "sensors"} {
				if _, err := connect(t, uri).Database(database).Collection(name).DeleteMany(t.Context(), bson.D{}); err != nil {
					t.Fatal(err)
				}
			}
		},
		open: func(t *testing.T) (sink.Store, query.Store) {
			to, err := sink.OpenMongo(uri, database, append(opts, sink.MongoOutlier(outlierReadings, minute), sink.MongoRaw(true))...)
			if err != nil {
				t.Fatal(err)
			}
			from, err := query.OpenMongo(uri, database, minute)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				to.Close()
				from.Close()
			})
			return to, from
		},
		poison: func(t *testing.T, k reading.Key) {
			id := k.ID(k.Start)
			result, err := connect(t, uri).Database(database).Collection("buckets").UpdateOne(t.Context(),
				bson.D{{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}},
				bson.D{{Key: "$set", Value: bson.D{{Key: "sum", Value: "poison"}}}})
			if err != nil || result.MatchedCount != 1 {
				t.Fatalf("cannot poison the bucket %v: %+v, %v", k, result, err)
			}
		},
		spill: func(t *testing.T, k reading.Key, moved bool, times ...int64) {
			spillMongo(t, connect(t, uri).Database(database), k, moved, times)
		},
	}
}

func connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client
}
