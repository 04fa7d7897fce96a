package sink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

func openMongo(t *testing.T, uri string, opts ...MongoOption) *Mongo {
	t.Helper()
	m, err := OpenMongo(uri, "gudang", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// nowhere is a server that is not there, and soon known not to be.
const nowhere = "mongodb://reader:s3cret%2Fpass@127.0.0.1:1/?serverSelectionTimeoutMS=200"

func TestStoreThatIsAwayTakesNothingAndLosesNothing(t *testing.T) {
	m := openMongo(t, nowhere)
	batch := []*reading.Bucket{one("a", 1), one("b", 1)}
	res := m.WriteBuckets(t.Context(), batch)
	if len(res.Again) != 2 || !errors.Is(res.Err, mongodb.ErrAway) || res.Writes != (Writes{Failed: 2}) {
		t.Errorf("%s, error %v", told(res), res.Err)
	}
	for name, err := range map[string]error{
		"write": res.Err, "ping": m.Ping(t.Context()),
		"sensors": m.MergeSensors(t.Context(), []reading.Sensor{{ID: "a"}}, 1),
		"reject":  m.Reject(t.Context(), []Rejected{{}}),
	} {
		if !errors.Is(err, mongodb.ErrAway) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStoreThatGoesAndComesBackIsWrittenToAgain(t *testing.T) {
	f := testenv.FerretDB(t)
	m := openMongo(t, f.URI+"?serverSelectionTimeoutMS=300", MongoWriters(1))
	if res := m.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)}); res.Err != nil {
		t.Fatal(res.Err)
	}
	f.Kill()
	batch := []*reading.Bucket{one("a", 1, 2), one("b", 1)}
	if res := m.WriteBuckets(t.Context(), slices.Clone(batch)); len(res.Again) != 2 || !errors.Is(res.Err, mongodb.ErrAway) {
		t.Fatalf("%s, error %v", told(res), res.Err)
	}
	f.Start()
	var res Result
	testenv.Eventually(t, 20*time.Second, "the store takes writes", func() bool {
		res = m.WriteBuckets(t.Context(), slices.Clone(batch))
		return res.Err == nil
	})
	if have := told(res); !strings.HasPrefix(have, "duplicate a+1, ok 2") && !strings.HasPrefix(have, "ok 2") {
		t.Error(have)
	}
}

func TestWrongCredentialsAreToldFromAServerThatIsAway(t *testing.T) {
	f := testenv.FerretDB(t)
	// This server knows no SCRAM, so that it refuses every user.
	m := openMongo(t, strings.Replace(f.URI, "://", "://reader:s3cret@", 1))
	err := m.Ping(t.Context())
	if !errors.Is(err, mongodb.ErrCredentials) || errors.Is(err, mongodb.ErrAway) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("ping: %v", err)
	}
	if res := m.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)}); len(res.Again) != 1 || !errors.Is(res.Err, mongodb.ErrCredentials) {
		t.Errorf("%s, error %v", told(res), res.Err)
	}
}

func TestDocumentsAreAsTheSchemaSays(t *testing.T) {
	m := openMongo(t, testenv.FerretDB(t).URI, MongoWriters(1))
	start := time.Date(2026, 12, 6, 9, 5, 0, 0, time.UTC)
	b := &reading.Bucket{Series: reading.Series{Sensor: "S-01", Metric: "temperature"}, Start: start.UnixMilli()}
	b.Add(b.Start+10_000, 21)
	if res := m.WriteBuckets(t.Context(), []*reading.Bucket{b}); res.Err != nil {
		t.Fatal(res.Err)
	}
	s := reading.Sensor{
		ID: "S-01", FirstSeen: b.Start + 10_000, LastSeen: b.Start + 10_000,
		Metrics: map[string][]reading.Point{"temperature": {{Time: b.Start + 10_000, Value: 21}}},
	}
	if err := m.MergeSensors(t.Context(), []reading.Sensor{s}, 10); err != nil {
		t.Fatal(err)
	}
	r := Rejected{Reading: reading.Reading{Series: b.Series, Time: b.Start, Value: 1}, Reason: reading.StoreRefused, Detail: "why", At: b.Start}
	if err := m.Reject(t.Context(), []Rejected{r, r}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ collection, want string }{
		{mongodb.Buckets, "_id:binary count:32-bit integer max:double metric:string min:double offsets:array of 32-bit integer sensorId:string start:UTC datetime sum:double values:array of double"},
		{mongodb.Sensors, "_id:string firstSeen:UTC datetime lastSeen:UTC datetime metrics:embedded document"},
		{mongodb.Rejected, "_id:binary at:UTC datetime detail:string metric:string reason:string sensorId:string time:UTC datetime value:double"},
	} {
		docs := allDocs(t, m, c.collection)
		if len(docs) != 1 {
			t.Fatalf("%d documents in %s", len(docs), c.collection)
		}
		if have := shape(docs[0]); have != c.want {
			t.Errorf("%s:\nhave %s\nwant %s", c.collection, have, c.want)
		}
	}
	if sub, data := allDocs(t, m, mongodb.Buckets)[0].Lookup("_id").Binary(); sub != bson.TypeBinaryUUID || [16]byte(data) != b.ID(b.Start) {
		t.Errorf("_id of subtype %d: %x", sub, data)
	}
	metric := allDocs(t, m, mongodb.Sensors)[0].Lookup("metrics", "temperature").Document()
	if have, want := shape(metric), "latest:array of embedded document time:UTC datetime value:double"; have != want {
		t.Errorf("metric %s, want %s", have, want)
	}
	db, err := m.client.Database()
	if err != nil {
		t.Fatal(err)
	}
	specs, err := db.Collection(mongodb.Buckets).Indexes().ListSpecifications(t.Context())
	if err != nil || len(specs) != 2 || specs[1].Name != "sensorId_1_metric_1_start_1" {
		t.Errorf("indexes %+v, error %v", specs, err)
	}
	colls, err := db.ListCollectionSpecifications(t.Context(), bson.D{{Key: "name", Value: mongodb.Rejected}})
	if err != nil || len(colls) != 1 || !colls[0].Options.Lookup("capped").Boolean() {
		t.Errorf("%s is not capped: %+v, error %v", mongodb.Rejected, colls, err)
	}
}

// shape is the names and types of a document's fields, in order of name.
func shape(doc bson.Raw) string {
	elements, _ := doc.Elements()
	var fields []string
	for _, e := range elements {
		text := e.Key() + ":" + e.Value().Type.String()
		if values, ok := e.Value().ArrayOK(); ok && len(values) > 5 {
			text += " of " + values.Index(0).Type.String()
		}
		fields = append(fields, text)
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

func allDocs(t *testing.T, m *Mongo, collection string) []bson.Raw {
	t.Helper()
	db, err := m.client.Database()
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := db.Collection(collection).Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.Raw
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	return docs
}

// TestSensorsMergedBetweenReadAndWriteAreReadAgain has a second instance write
// in the gap. It is the filter that must notice.
func TestSensorsMergedBetweenReadAndWriteAreReadAgain(t *testing.T) {
	uri := testenv.FerretDB(t).URI
	a, b := openMongo(t, uri), openMongo(t, uri)
	at := func(ms int64) reading.Sensor {
		return reading.Sensor{ID: "S-01", FirstSeen: ms, LastSeen: ms, Metrics: map[string][]reading.Point{"t": {{Time: ms, Value: float64(ms)}}}}
	}
	db, err := a.client.Database()
	if err != nil {
		t.Fatal(err)
	}
	news := map[string]reading.Sensor{"S-01": at(10)}
	for _, gap := range []int64{20, 30} { // the first finds no document, the second finds one
		stored, err := readSensors(t.Context(), db.Collection(mongodb.Sensors), []string{"S-01"})
		if err != nil {
			t.Fatal(err)
		}
		writes := mergedSensors(stored, []string{"S-01"}, news, 5)
		if len(writes.inserts)+len(writes.updates) != 1 {
			t.Fatalf("%+v", writes)
		}
		if err := b.MergeSensors(t.Context(), []reading.Sensor{at(gap)}, 5); err != nil {
			t.Fatal(err)
		}
		if settled, err := a.writeSensors(t.Context(), db, writes); settled || err != nil {
			t.Fatalf("a write over what another wrote: settled %t, %v", settled, err)
		}
	}
	if err := a.MergeSensors(t.Context(), []reading.Sensor{at(10), at(5)}, 5); err != nil {
		t.Fatal(err)
	}
	have := mongodb.DecodeSensor(allDocs(t, a, mongodb.Sensors)[0])
	var times []int64
	for _, p := range have.Metrics["t"] {
		times = append(times, p.Time)
	}
	if have.FirstSeen != 5 || have.LastSeen != 30 || !slices.Equal(times, []int64{30, 20, 10, 5}) {
		t.Errorf("%+v", have)
	}
}

func TestManySensorsAreMergedInChunks(t *testing.T) {
	m := openMongo(t, testenv.FerretDB(t).URI)
	var sensors []reading.Sensor
	for i := range sensorsAtOnce + 7 {
		sensors = append(sensors, reading.Sensor{
			ID: fmt.Sprintf("S-%04d", i), FirstSeen: 1, LastSeen: 2,
			Metrics: map[string][]reading.Point{"t": {{Time: 2, Value: 1}}},
		})
	}
	if err := m.MergeSensors(t.Context(), sensors, 3); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, doc := range allDocs(t, m, mongodb.Sensors) {
		ids[mongodb.DecodeSensor(doc).ID] = true
	}
	if len(ids) != len(sensors) {
		t.Errorf("%d sensors, want %d", len(ids), len(sensors))
	}
}

// TestWritersShareTheBatches has several writers over a server that takes
// everything, and looks whether each bucket was sent once.
func TestWritersShareTheBatches(t *testing.T) {
	var all []*reading.Bucket
	for i := range 450 {
		all = append(all, one(fmt.Sprintf("s%03d", i), 1))
	}
	f := newFake()
	var wg sync.WaitGroup
	results := make([]Result, 5)
	for i, batch := range split(all, 4, batchMost) {
		wg.Go(func() { results[i] = writeBatch(t.Context(), f, batch) })
	}
	wg.Wait()
	if res := join(results); res.Writes.OK != len(all) || f.sent != len(all) || len(f.docs) != len(all) {
		t.Errorf("%+v, %d sent, %d stored", res.Writes, f.sent, len(f.docs))
	}
}
