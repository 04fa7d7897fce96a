package sink

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// A server that speaks of documents that it was not sent is not believed, and
// ends nothing.
func TestAnAnswerAboutOtherDocumentsIsNone(t *testing.T) {
	at := int32(0)
	uri := testenv.ServeMongo(t, func(command bson.Raw, _ bson.D) bson.D {
		switch testenv.CommandName(command) {
		case "update", "insert":
			return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{
				bson.D{{Key: "index", Value: at}, {Key: "code", Value: int32(mongodb.CodeDuplicateKey)}, {Key: "errmsg", Value: "E11000"}},
			}}}
		case "find":
			return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
				{Key: "id", Value: int64(0)}, {Key: "ns", Value: "gudang.c"}, {Key: "firstBatch", Value: bson.A{}},
			}}}
		default:
			return bson.D{{Key: "ok", Value: 1}}
		}
	})
	m, err := OpenMongo(uri, "gudang")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	m.setup.ready = true
	db, err := m.client.Database()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := bson.Marshal(bson.D{{Key: "_id", Value: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, at = range []int32{-1, 0, 1, 99} {
		answer, err := m.client.Insert(t.Context(), db, "c", []bson.Raw{doc})
		if want := at == 0; err != nil || len(answer.Errors) == 1 != want {
			t.Errorf("index %d: %+v, error %v", at, answer, err)
		}
		if res := m.WriteBuckets(t.Context(), []*reading.Bucket{bucket("a", 1)}); len(res.Again) != 1 || res.Err == nil {
			t.Errorf("index %d: a bucket is written: %+v", at, res)
		}
		sensor := reading.Sensor{ID: "a", Metrics: map[string][]reading.Point{"t": {{Time: 1, Value: 1}}}}
		if err := m.CreateSensors(t.Context(), []reading.Sensor{sensor}, 3); err == nil {
			t.Errorf("index %d: a sensor is written", at)
		}
	}
}
