package contract

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/query"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
)

// timeSeriesCases are what of the contract a time series collection keeps.
var timeSeriesCases = []struct {
	name string
	test func(t *testing.T, s *suite)
}{
	{"readings and summaries are those of the buckets", testTimeSeriesAnswers},
	{"what is sent again is answered once", testTimeSeriesAgain},
	{"a late reading is found in its span", testTimeSeriesLate},
}

func runTimeSeries(t *testing.T, uri, database string) {
	cfg := sink.TimeSeriesConfig{Interval: 10 * time.Second, Retention: 10 * 365 * 24 * time.Hour}
	to, err := sink.OpenTimeSeries(uri, database, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from, err := query.OpenTimeSeries(uri, database, minute)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, c := range timeSeriesCases {
		t.Run(c.name, func(t *testing.T) { c.test(t, &suite{sink: to, query: from}) })
	}
}

// Here a server that knows the commands stands in for MongoDB, which
// TestTimeSeriesOfMongoDB asks.
func TestTimeSeries(t *testing.T) {
	runTimeSeries(t, testenv.NewTimeSeriesServer(t).URI, "gudang")
}

func TestTimeSeriesOfMongoDB(t *testing.T) {
	uri := os.Getenv("TEST_MONGODB_URI")
	if uri == "" {
		t.Log("TEST_MONGODB_URI is not set: TestTimeSeries stands in")
		return
	}
	database := fmt.Sprintf("gudang_series_%d", time.Now().UnixNano())
	db := connect(t, uri).Database(database)
	t.Cleanup(func() {
		if err := db.Drop(context.Background()); err != nil {
			t.Logf("cannot drop the test's database: %v", err)
		}
	})
	runTimeSeries(t, uri, database)

	// The retention is changed where the collection is there.
	again, err := sink.OpenTimeSeries(uri, database, sink.TimeSeriesConfig{Interval: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	specs, err := db.ListCollectionSpecifications(t.Context(), bson.D{{Key: "name", Value: "readings"}})
	if err != nil || len(specs) != 1 || specs[0].Type != "timeseries" || !specs[0].Options.Lookup("expireAfterSeconds").IsZero() {
		t.Errorf("%+v, error %v", specs, err)
	}
}

func testTimeSeriesAnswers(t *testing.T, s *suite) {
	var buckets []*reading.Bucket
	for i := range int64(5) {
		for _, metric := range []string{"temperature", "humidity"} {
			b := bucketOf(series("ts", metric), base+i*60_000, point{10_000, 20 + float64(i)}, point{0, 20.5}, point{59_999, -3})
			buckets = append(buckets, b)
		}
	}
	s.write(t, buckets...)
	s.wantAnswers(t, "ts", buckets)
}

func testTimeSeriesAgain(t *testing.T, s *suite) {
	b := bucketOf(series("ts-again", "x"), base, point{1, 1}, point{2, 2})
	more := bucketOf(b.Series, base, point{2, 2}, point{3, 3})
	for range 3 {
		s.write(t, b)
	}
	s.write(t, more)
	b.Merge(more)
	s.wantAnswers(t, b.Sensor, []*reading.Bucket{b})
}

func testTimeSeriesLate(t *testing.T, s *suite) {
	late := bucketOf(series("ts-late", "x"), base-3600_000, point{5, 1})
	now := bucketOf(late.Series, base, point{5, 2})
	s.write(t, now)
	s.write(t, late)
	s.wantAnswers(t, late.Sensor, []*reading.Bucket{late, now})
}
