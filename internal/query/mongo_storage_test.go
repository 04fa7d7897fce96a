package query

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// fakeDB answers with documents as a server does: it adds up what the pipeline
// asks for by a way of its own, or says that it does not know the operator.
type fakeDB struct {
	docs map[string][]bson.D
	old  bool
	t    *testing.T
}

func (f fakeDB) each(_ context.Context, collection string, _ any, _ *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
	for _, d := range f.docs[collection] {
		if err := yield(encode(f.t, d)); err != nil {
			return err
		}
	}
	return nil
}

func (f fakeDB) aggregate(_ context.Context, collection string, pipeline bson.A, yield func(bson.Raw) error) error {
	if f.old {
		return mongo.CommandError{Code: 168, Name: "InvalidPipelineOperator", Message: "Unrecognized expression '$bsonSize'"}
	}
	stage := encode(f.t, pipeline[0].(bson.D))
	if _, err := stage.LookupErr("$group", "bytes", "$sum", "$bsonSize"); err != nil || len(pipeline) != 1 {
		f.t.Errorf("the pipeline is not the one this fake knows: %v", pipeline)
	}
	type sums struct{ documents, bytes, readings, apart int64 }
	groups := map[bool]sums{}
	for _, d := range f.docs[collection] {
		doc := encode(f.t, d)
		outlier, _ := doc.Lookup("isOutlier").BooleanOK()
		count, _ := doc.Lookup("count").AsInt64OK()
		sensor, metric := doc.Lookup("sensorId").StringValue(), doc.Lookup("metric").StringValue()
		g := groups[outlier]
		g.documents, g.bytes, g.readings = g.documents+1, g.bytes+int64(len(doc)), g.readings+count
		g.apart += count * int64(len(encode(f.t, ourRaw(reading.Series{Sensor: sensor, Metric: metric}))))
		groups[outlier] = g
	}
	for outlier, g := range groups {
		// A server's sums are of the smallest type that holds them.
		err := yield(encode(f.t, bson.D{{Key: "_id", Value: outlier}, {Key: "documents", Value: g.documents}, {Key: "bytes", Value: int32(g.bytes)}, {Key: "readings", Value: float64(g.readings)}, {Key: "apart", Value: g.apart}}))
		if err != nil {
			return err
		}
	}
	return nil
}

func TestTheServersSumsAreOurs(t *testing.T) {
	a, b := reading.Series{Sensor: "S-01", Metric: "temperature"}, reading.Series{Sensor: "gudang/é", Metric: "humidity"}
	docs := map[string][]bson.D{
		mongodb.Buckets:  {ourBucket(a, 6, false), ourBucket(a, 6, false), ourBucket(b, 12, false), ourBucket(b, 3, true)},
		mongodb.Overflow: {ourRaw(b), ourRaw(b), ourRaw(b)},
		mongodb.Raw:      {ourRaw(a), ourRaw(b)},
	}
	want := Storage{
		Raw:      Part{Measure{2, RawSize(a) + RawSize(b)}, 2},
		Buckets:  Part{Measure{3, 2*BucketSize(a, 6) + BucketSize(b, 12)}, 24},
		Outliers: Part{Measure{4, int64(len(encode(t, ourBucket(b, 3, true)))) + 3*RawSize(b)}, 3},
		Apart:    Measure{27, 12*RawSize(a) + 15*RawSize(b)},
	}
	for by, old := range map[string]bool{"server": false, "client": true} {
		want.By = by
		have, err := measure(t.Context(), fakeDB{docs: docs, old: old, t: t})
		if err != nil {
			t.Fatal(err)
		}
		if have.Raw != want.Raw || have.Buckets != want.Buckets || have.Outliers != want.Outliers || have.Apart != want.Apart || have.By != want.By {
			t.Errorf("added up by the %s: %+v, want %+v", by, have, want)
		}
	}
}

func TestSavedIsMeasuredAgainstRawWhereThereIsAny(t *testing.T) {
	s := Storage{Buckets: Part{Measure{2, 500}, 10}, Apart: Measure{10, 1000}}
	if each, stored := s.RawEach(); each != 100 || stored || s.Saved() != 0.5 {
		t.Errorf("without raw documents: %v, %v, %v saved", each, stored, s.Saved())
	}
	s.Raw = Part{Measure{20, 4000}, 20}
	if each, stored := s.RawEach(); each != 200 || !stored || s.Saved() != 0.75 {
		t.Errorf("with raw documents: %v, %v, %v saved", each, stored, s.Saved())
	}
	if nothing := (&Storage{}).Saved(); nothing != 0 {
		t.Errorf("an empty store saves %v", nothing)
	}
}

func TestPlanOf(t *testing.T) {
	stats := bson.D{{Key: "totalDocsExamined", Value: int32(7)}, {Key: "nReturned", Value: int64(6)}}
	ixscan := bson.D{{Key: "stage", Value: "FETCH"}, {Key: "inputStage", Value: bson.D{{Key: "stage", Value: "IXSCAN"}, {Key: "indexBounds", Value: bson.D{{Key: "start", Value: bson.A{"[1, 2)"}}}}}}}
	for name, c := range map[string]struct {
		winner     any
		stage      string
		scan, sort bool
	}{
		"the classic engine":    {ixscan, "FETCH < IXSCAN", false, false},
		"the slot-based engine": {bson.D{{Key: "queryPlan", Value: ixscan}, {Key: "slotBasedPlan", Value: bson.D{{Key: "stage", Value: "COLLSCAN"}}}}, "FETCH < IXSCAN", false, false},
		"a scan and a sort":     {bson.D{{Key: "stage", Value: "SORT"}, {Key: "inputStage", Value: bson.D{{Key: "stage", Value: "COLLSCAN"}}}}, "SORT < COLLSCAN", true, true},
		"shards of which one scans": {bson.D{{Key: "stage", Value: "SHARD_MERGE"}, {Key: "shards", Value: bson.A{
			bson.D{{Key: "shardName", Value: "a"}, {Key: "winningPlan", Value: ixscan}},
			bson.D{{Key: "shardName", Value: "b"}, {Key: "winningPlan", Value: bson.D{{Key: "stage", Value: "COLLSCAN"}}}},
		}}}, "SHARD_MERGE < FETCH < IXSCAN < COLLSCAN", true, false},
		"merged index scans": {bson.D{{Key: "stage", Value: "SORT_MERGE"}, {Key: "inputStages", Value: bson.A{ixscan, ixscan}}}, "SORT_MERGE < FETCH < IXSCAN < FETCH < IXSCAN", false, false},
	} {
		p, ok := planOf(encode(t, bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: c.winner}}}, {Key: "executionStats", Value: stats}}))
		if !ok || p.Stage != c.stage || p.Scan != c.scan || p.Sort != c.sort || p.Examined != 7 || p.Returned != 6 {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
	}
	if p, ok := planOf(encode(t, bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "Plan", Value: bson.D{}}}}})); ok {
		t.Errorf("an explanation of another kind was taken for a plan: %+v", p)
	}
}

func FuzzPlanOf(f *testing.F) {
	f.Add([]byte(encode(f, bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: bson.D{{Key: "stage", Value: "COLLSCAN"}}}}}})))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, doc []byte) {
		if p, ok := planOf(doc); ok && p.Stage == "" {
			t.Errorf("a plan without a stage: %+v", p)
		}
	})
}

func TestServerOf(t *testing.T) {
	has := func(s Server, name string) bool {
		for _, f := range s.Features {
			if f.Name == name {
				return f.Has
			}
		}
		t.Errorf("%v says nothing of %s", s, name)
		return false
	}
	for name, c := range map[string]struct {
		hello, build                  bson.D
		server                        string
		transactions, timeSeries, ttl bool
	}{
		"a replica set":      {bson.D{{Key: "setName", Value: "rs0"}}, bson.D{{Key: "version", Value: "7.0.14"}}, "MongoDB 7.0.14", true, true, true},
		"a shard router":     {bson.D{{Key: "msg", Value: "isdbgrid"}}, bson.D{{Key: "version", Value: "5.0.0"}}, "MongoDB 5.0.0", true, true, true},
		"an old one, alone":  {bson.D{}, bson.D{{Key: "version", Value: "4.4.29"}}, "MongoDB 4.4.29", false, false, true},
		"one that speaks so": {bson.D{}, bson.D{{Key: "version", Value: "7.0.42"}, {Key: "ferretdbVersion", Value: "v1.24.0"}}, "FerretDB v1.24.0", false, false, false},
		"a later one":        {bson.D{}, bson.D{{Key: "version", Value: "7.0.77"}, {Key: "ferretdb", Value: bson.D{{Key: "version", Value: "v2.5.0"}}}}, "FerretDB v2.5.0", false, false, false},
	} {
		s := serverOf(encode(t, c.hello), encode(t, c.build))
		if s.Name+" "+s.Version != c.server || has(s, "transactions") != c.transactions || has(s, "time series") != c.timeSeries || has(s, "TTL") != c.ttl {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestIndexOf(t *testing.T) {
	i := indexOf(encode(t, bson.D{{Key: "name", Value: "x"}, {Key: "key", Value: bson.D{{Key: "sensorId", Value: int32(1)}, {Key: "start", Value: -1.0}, {Key: "metric", Value: "hashed"}}}, {Key: "expireAfterSeconds", Value: 60.0}}))
	if len(i.Fields) != 3 || i.Fields[0] != "sensorId" || i.Fields[1] == "start" || i.Fields[2] == "metric" || i.ExpireAfter == nil || *i.ExpireAfter != 60 {
		t.Errorf("%+v", i)
	}
}
