package query

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

func TestTheGroupsOfRawAreThoseOfTheDocumentation(t *testing.T) {
	for _, c := range []struct {
		span reading.Span
		want string
	}{
		{60_000, `"unit":"minute","binSize":{"$numberLong":"1"}`},
		{86_400_000, `"unit":"minute","binSize":{"$numberLong":"1440"}`},
		{1000, `"unit":"second","binSize":{"$numberLong":"1"}`},
		{90_000, `"unit":"second","binSize":{"$numberLong":"90"}`},
		{1250, `"unit":"millisecond","binSize":{"$numberLong":"1250"}`},
	} {
		doc := bson.D{{Key: "p", Value: groupPipeline(c.span)}}
		have, err := bson.MarshalExtJSON(doc, true, false)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"p":[{"$group":{"_id":{"sensorId":"$sensorId","metric":"$metric","start":{"$dateTrunc":{"date":"$time",` + c.want + `}}},` +
			`"count":{"$sum":{"$numberInt":"1"}},"sum":{"$sum":"$value"},"min":{"$min":"$value"},"max":{"$max":"$value"}}},` +
			`{"$sort":{"_id.sensorId":{"$numberInt":"1"},"_id.metric":{"$numberInt":"1"},"_id.start":{"$numberInt":"1"}}}]}`
		if string(have) != want {
			t.Errorf("%v:\n%s, want\n%s", c.span.Duration(), have, want)
		}
	}
}

func TestAGroupIsRead(t *testing.T) {
	id := bson.D{{Key: "sensorId", Value: "S-01"}, {Key: "metric", Value: "temperature"}, {Key: "start", Value: bson.DateTime(60_000)}}
	key := reading.Key{Series: reading.Series{Sensor: "S-01", Metric: "temperature"}, Start: 60_000}
	for _, c := range []struct {
		name string
		doc  bson.D
		want reading.Summary
	}{
		{"as MongoDB gives it", bson.D{{Key: "_id", Value: id}, {Key: "count", Value: int32(6)}, {Key: "sum", Value: 159.6}, {Key: "min", Value: 26.4}, {Key: "max", Value: 26.8}}, reading.Summary{Key: key, Count: 6, Sum: 159.6, Min: 26.4, Max: 26.8}},
		{"of whole numbers", bson.D{{Key: "_id", Value: id}, {Key: "count", Value: int64(2)}, {Key: "sum", Value: int32(3)}, {Key: "min", Value: int32(1)}, {Key: "max", Value: int64(2)}}, reading.Summary{Key: key, Count: 2, Sum: 3, Min: 1, Max: 2}},
	} {
		if have := decodeGroup(encode(t, c.doc)); have != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, have, c.want)
		}
	}
	bad := decodeGroup(encode(t, bson.D{{Key: "_id", Value: id}, {Key: "count", Value: "x"}, {Key: "sum", Value: nil}}))
	if bad.Count >= 0 || !math.IsNaN(bad.Sum) {
		t.Errorf("a group that is none: %+v", bad)
	}
}

func TestAServerThatCannotGroupIsKnownByItsCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("reset"), false},
		{mongo.CommandError{Code: 168, Message: "Unrecognized expression '$dateTrunc'"}, true},
		{fmt.Errorf("wrapped: %w", mongo.CommandError{Code: 238}), true},
		{mongo.CommandError{Code: 40324}, true},
		{mongo.CommandError{Code: 50, Message: "operation exceeded time limit"}, false},
		{mongo.CommandError{Code: 13}, false},
	} {
		if have := mongodb.Lacks(c.err); have != c.want {
			t.Errorf("%v: %t, want %t", c.err, have, c.want)
		}
	}
}
