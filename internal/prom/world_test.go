package prom_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/prom"
	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
)

const (
	minute = reading.Span(60_000)
	// outlierReadings is so low that a test can pass it.
	outlierReadings = 150
)

// base is 2026-01-10 00:00 UTC.
const base = int64(1_768_003_200_000)

// world is the readings of a test, by series and time.
type world map[reading.Series]map[int64]float64

func (w world) add(sensor, metric string, ms int64, v float64) {
	s := reading.Series{Sensor: sensor, Metric: metric}
	if w[s] == nil {
		w[s] = make(map[int64]float64)
	}
	w[s][base+ms] = v
}

// every adds readings at equal times apart.
func (w world) every(sensor, metric string, from, until, step int64, value func(i int64) float64) {
	for i, t := int64(0), from; t < until; i, t = i+1, t+step {
		w.add(sensor, metric, t, value(i))
	}
}

func wave(level, height, period float64) func(int64) float64 {
	return func(i int64) float64 {
		return math.Round(10*(level+height*math.Sin(float64(i)/period)))/10 + 0
	}
}

// buckets are the readings as they are written.
func (w world) buckets() []*reading.Bucket {
	byKey := make(map[reading.Key]*reading.Bucket)
	var all []*reading.Bucket
	for _, s := range w.series() {
		for _, t := range slices.Sorted(maps.Keys(w[s])) {
			k := reading.Key{Series: s, Start: minute.Start(t)}
			if byKey[k] == nil {
				byKey[k] = &reading.Bucket{Series: s, Start: k.Start}
				all = append(all, byKey[k])
			}
			byKey[k].Add(t, w[s][t])
		}
	}
	return all
}

func (w world) series() []reading.Series {
	return slices.SortedFunc(maps.Keys(w), reading.Series.Compare)
}

// openMetrics is the same for Prometheus: the readings, and of each bucket its
// summary at the end of the span.
func (w world) openMetrics() string {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	families := make(map[string]*strings.Builder)
	add := func(name, labels string, ms int64, v float64) {
		if families[name] == nil {
			families[name] = &strings.Builder{}
		}
		fmt.Fprintf(families[name], "%s{%s} %v %d.%03d\n", name, labels, v, ms/1000, ms%1000)
	}
	for _, s := range w.series() {
		for _, t := range slices.Sorted(maps.Keys(w[s])) {
			add(s.Metric, `sensor="`+escape.Replace(s.Sensor)+`"`, t, w[s][t])
		}
	}
	for _, bucket := range w.buckets() {
		labels, end := `sensor="`+escape.Replace(bucket.Sensor)+`",span="1m"`, bucket.Start+int64(minute)
		add(bucket.Metric+":avg", labels, end, bucket.Sum/float64(bucket.Count()))
		add(bucket.Metric+":sum", labels, end, bucket.Sum)
		add(bucket.Metric+":min", labels, end, bucket.Min)
		add(bucket.Metric+":max", labels, end, bucket.Max)
		add(bucket.Metric+":count", labels, end, float64(bucket.Count()))
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		b.WriteString(families[name].String())
	}
	return b.String() + "# EOF\n"
}

// write stores the readings and makes the sensors' documents.
func (w world) write(t testing.TB, to sink.Store) {
	t.Helper()
	all := w.buckets()
	for some := range slices.Chunk(all, 2000) {
		if res := to.WriteBuckets(t.Context(), some); res.Err != nil || len(res.Refused)+len(res.Again) > 0 {
			t.Fatalf("%d refused, %d to write again, error %v", len(res.Refused), len(res.Again), res.Err)
		}
	}
	sensors := make(map[string]*reading.Sensor)
	for _, s := range w.series() {
		times := slices.Sorted(maps.Keys(w[s]))
		first, last := times[0], times[len(times)-1]
		one := reading.Sensor{ID: s.Sensor, FirstSeen: first, LastSeen: last, Metrics: map[string][]reading.Point{s.Metric: {{Time: last, Value: w[s][last]}}}}
		if sensors[s.Sensor] == nil {
			sensors[s.Sensor] = &reading.Sensor{}
		}
		sensors[s.Sensor].Merge(one, 10)
	}
	var docs []reading.Sensor
	for _, id := range slices.Sorted(maps.Keys(sensors)) {
		docs = append(docs, *sensors[id])
	}
	if err := to.MergeSensors(t.Context(), docs, 10); err != nil {
		t.Fatal(err)
	}
}

func (w world) sqlite(t testing.TB) query.Store {
	t.Helper()
	dir := t.TempDir()
	to, err := sink.OpenSQLite(dir, minute, sink.SQLiteOutlier(outlierReadings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	w.write(t, to)
	from, err := query.OpenSQLite(dir, minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	return from
}

func (w world) ferret(t testing.TB) (query.Store, *mongo.Database) {
	t.Helper()
	uri := testenv.FerretDB(t).URI
	to, err := sink.OpenMongo(uri, "gudang", sink.MongoWriters(1), sink.MongoBatch(1), sink.MongoOutlier(outlierReadings, minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	w.write(t, to)
	from, err := query.OpenMongo(uri, "gudang", minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return from, client.Database("gudang")
}

// halfMigrated stores the buckets as a process leaves them that dies while it
// makes outliers of them: all readings still stand in the arrays, but one that
// came since, and the first half in overflow as well.
func (w world) halfMigrated(t testing.TB, db *mongo.Database) {
	t.Helper()
	insert := func(collection string, doc bson.D) {
		if _, err := db.Collection(collection).InsertOne(t.Context(), doc); err != nil {
			t.Fatal(err)
		}
	}
	id := func(s reading.Series, ms int64) bson.Binary {
		id := s.ID(ms)
		return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}
	}
	for _, b := range w.buckets() {
		last := b.Count() - 1
		insert("buckets", bson.D{
			{Key: "_id", Value: id(b.Series, b.Start)},
			{Key: "sensorId", Value: b.Sensor},
			{Key: "metric", Value: b.Metric},
			{Key: "start", Value: bson.DateTime(b.Start)},
			{Key: "offsets", Value: b.Offsets[:last]},
			{Key: "values", Value: b.Values[:last]},
			{Key: "count", Value: b.Count()},
			{Key: "sum", Value: b.Sum},
			{Key: "min", Value: b.Min},
			{Key: "max", Value: b.Max},
			{Key: "isOutlier", Value: true},
			{Key: "until", Value: bson.DateTime(b.Start + int64(minute))},
		})
		for i, off := range b.Offsets {
			if at := b.Start + int64(off); i < last/2 || i == last {
				insert("overflow", bson.D{
					{Key: "_id", Value: id(b.Series, at)}, {Key: "sensorId", Value: b.Sensor}, {Key: "metric", Value: b.Metric}, {Key: "time", Value: bson.DateTime(at)}, {Key: "value", Value: b.Values[i]},
				})
			}
		}
	}
	for s := range w {
		insert("sensors", bson.D{
			{Key: "_id", Value: s.Sensor},
			{Key: "firstSeen", Value: bson.DateTime(base)},
			{Key: "lastSeen", Value: bson.DateTime(base)},
			{Key: "metrics", Value: bson.D{{Key: s.Metric, Value: bson.D{{Key: "time", Value: bson.DateTime(base)}, {Key: "value", Value: 1.0}}}}},
		})
	}
}

// api is what the store is asked through.
func api(store query.Store) *prom.API {
	return prom.New(prom.Config{
		Reader:    store,
		Summaries: []prom.Summaries{{Span: minute, Read: store.Summaries}},
		Unit:      func(metric string) string { return map[string]string{"temperature": "°C"}[metric] },
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// serve is the address of the API, whose errors of the store are 500.
func serve(t testing.TB, a *prom.API) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix("/api/v1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.Serve(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})))
	t.Cleanup(server.Close)
	return server.URL
}
