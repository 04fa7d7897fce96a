package sink

import (
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

func TestRawHasAnIndexWhereRawReadingsAreKept(t *testing.T) {
	uri := testenv.FerretDB(t).URI
	for _, on := range []bool{false, true} {
		m := openMongo(t, uri, MongoWriters(1), MongoRaw(on))
		if res := m.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)}); res.Err != nil {
			t.Fatal(res.Err)
		}
		db, err := m.client.Database()
		if err != nil {
			t.Fatal(err)
		}
		specs, err := db.Collection(mongodb.Raw).Indexes().ListSpecifications(t.Context())
		if err != nil && on {
			t.Fatal(err)
		}
		var keys []string
		for _, s := range specs {
			var fields []string
			elements, err := bson.Raw(s.KeysDocument).Elements()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range elements {
				fields = append(fields, e.Key())
			}
			keys = append(keys, s.Name)
			if slices.Equal(fields, []string{"sensorId", "metric", "time"}) != (s.Name != "_id_") {
				t.Errorf("index %s is on %v", s.Name, fields)
			}
		}
		if on != (len(keys) == 2) {
			t.Errorf("raw %t: indexes %v", on, keys)
		}
	}
}

func TestRawOfAStoreThatIsAway(t *testing.T) {
	m := openMongo(t, nowhere)
	if _, _, err := m.WriteRaw(t.Context(), []*reading.Bucket{one("a", 1)}); !errors.Is(err, mongodb.ErrAway) {
		t.Errorf("raw: %v", err)
	}
	err := m.FixBuckets(t.Context(), []reading.Key{one("a", 1).Key()}, func(*reading.Record) *reading.Bucket { return nil })
	if !errors.Is(err, mongodb.ErrAway) {
		t.Errorf("fix: %v", err)
	}
}
