package sink

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

func encode(t *testing.T, doc any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func asJSON(t *testing.T, doc any) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(doc, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What FerretDB cannot do is not tried there: these are the commands that a
// MongoDB is sent.
func TestTheServerSumsAWindowUp(t *testing.T) {
	start := time.Date(2026, 12, 6, 9, 0, 0, 0, time.UTC).UnixMilli()
	for _, source := range []reading.Span{0, 60_000} {
		w := reading.Window{Span: anHour, Start: start, Source: source}
		pipeline := windowPipeline(w)
		if len(pipeline) != 2 {
			t.Fatalf("%d stages", len(pipeline))
		}
		match, _ := pipeline[0][0].Value.(bson.D)
		low, high := reading.FirstID(start), reading.FirstID(start+int64(anHour))
		want := bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: binaryID(low)}, {Key: "$lt", Value: binaryID(high)}}}}
		if source != 0 {
			want = append(want, bson.E{Key: "span", Value: int64(source)})
		}
		if have := asJSON(t, match); have != asJSON(t, want) {
			t.Errorf("$match %s, want %s", have, asJSON(t, want))
		}
		const group = `{"$group":{"_id":{"sensorId":"$sensorId","metric":"$metric"},"count":{"$sum":"$count"},"sum":{"$sum":"$sum"},"min":{"$min":"$min"},"max":{"$max":"$max"},"isOutlier":{"$max":"$isOutlier"}}}`
		if have := asJSON(t, pipeline[1]); have != group {
			t.Errorf("%s, want %s", have, group)
		}
	}
}

// The answer of the pipeline, and the buckets themselves, give the same.
func TestBothWaysOfSummingUpAgree(t *testing.T) {
	w := reading.Window{Span: anHour, Start: 7_200_000}
	bucket := func(sensor string, count int32, sum, least, most float64) bson.D {
		return bson.D{{Key: "sensorId", Value: sensor}, {Key: "metric", Value: "t"}, {Key: "count", Value: count}, {Key: "sum", Value: sum}, {Key: "min", Value: least}, {Key: "max", Value: most}}
	}
	group := func(sensor string, count any, sum, least, most, outlier any) bson.D {
		return bson.D{
			{Key: "_id", Value: bson.D{{Key: "sensorId", Value: sensor}, {Key: "metric", Value: "t"}}},
			{Key: "count", Value: count},
			{Key: "sum", Value: sum},
			{Key: "min", Value: least},
			{Key: "max", Value: most},
			{Key: "isOutlier", Value: outlier},
		}
	}
	sum := func(docs ...bson.D) map[reading.Series]*total {
		totals, err := sumUp(w, func(yield func(bson.Raw, error) bool) {
			for _, d := range docs {
				if !yield(encode(t, d), nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return totals
	}
	client := sum(bucket("a", 2, 3, 1, 2), bucket("b", 1, -5, -5, -5), bucket("a", 1, 9, 9, 9),
		bson.D{{Key: "sensorId", Value: "c"}, {Key: "metric", Value: "t"}, {Key: "count", Value: 0}}, // nothing in it
		bson.D{{Key: "sensorId", Value: "d"}, {Key: "metric", Value: "t"}, {Key: "count", Value: 0}, {Key: "isOutlier", Value: true}})
	server := sum(group("a", int64(3), 12.0, 1.0, 9.0, nil), group("b", int32(1), -5.0, -5.0, -5.0, nil),
		group("c", 0, 0, nil, nil, nil), group("d", 0, 0, nil, nil, true))
	if len(client) != 3 || len(server) != 3 {
		t.Fatalf("%d and %d series, want 3", len(client), len(server))
	}
	for s, have := range client {
		if server[s] == nil || *server[s] != *have {
			t.Errorf("%v: %+v at the client, %+v at the server", s, have, server[s])
		}
	}
	if d := client[reading.Series{Sensor: "d", Metric: "t"}]; !d.outlier {
		t.Error("an outlier without counters is not looked at again")
	}
}

// A roll-up is replaced only while it is what it was before its source was
// read, or an instance that is slow would undo what another did since.
func TestARollupIsReplacedOnlyIfUnchanged(t *testing.T) {
	w := reading.Window{Span: anHour, Start: 7_200_000}
	key := reading.Key{Series: reading.Series{Sensor: "a", Metric: "t"}, Start: w.Start}
	now := total{Summary: reading.Summary{Key: key, Count: 3, Sum: 6, Min: 1, Max: 3}}
	before := encode(t, rollupDoc(w, reading.Summary{Key: key, Count: 2, Sum: 3, Min: 1, Max: 2}))

	update, ok := rollupWrite(w, now, before).(*mongo.UpdateOneModel)
	if !ok {
		t.Fatal("it is not updated")
	}
	filter := encode(t, update.Filter)
	for _, name := range []string{"_id", "count", "sum", "min", "max"} {
		if have := filter.Lookup(name); have.IsZero() || !have.Equal(before.Lookup(name)) {
			t.Errorf("the filter has %s %v, want %v", name, have, before.Lookup(name))
		}
	}
	if update.Upsert != nil && *update.Upsert {
		t.Error("it is created again")
	}
	if _, ok := rollupWrite(w, now, nil).(*mongo.InsertOneModel); !ok {
		t.Error("what is not there is not inserted")
	}
	if rollupWrite(w, now, encode(t, rollupDoc(w, now.Summary))) != nil {
		t.Error("what is right is written")
	}
	if rollupWrite(w, total{Summary: reading.Summary{Key: key}}, before) != nil {
		t.Error("a roll-up goes with its buckets")
	}
}

func TestUnknownIsToldFromBroken(t *testing.T) {
	for code, want := range map[int32]bool{59: true, 238: true, 40324: true, 15952: true, 13: false, 292: false} {
		if have := mongodb.Lacks(mongo.CommandError{Code: code}); have != want {
			t.Errorf("code %d: %t", code, have)
		}
	}
	if mongodb.Lacks(context.Canceled) || mongodb.Lacks(nil) {
		t.Error("a fault is called unknown")
	}
}

func TestTokensDiffer(t *testing.T) {
	var seen []int64
	for range 100 {
		n := token()
		if n < 0 || slices.Contains(seen, n) {
			t.Fatalf("token %d after %v", n, seen)
		}
		seen = append(seen, n)
	}
}
