package contract

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
	"gudang/internal/upkeep"
)

func testUpkeepOutlier(t *testing.T, s *suite) {
	outlier := fast("fast", outlierReadings+10)
	quiet := bucketOf(outlier.Series, base+60_000, point{0, -1000})
	s.write(t, outlier, quiet)
	c := new(clock).at(base + 3*int64(hour))
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{Spans: []reading.Span{hour}})
	settle(t, r, c)
	more := bucketOf(outlier.Series, base, point{59_998, 1000})
	s.write(t, more)
	if err := s.sink.MarkStale(t.Context(), []reading.Mark{{Key: reading.Key{Series: outlier.Series, Start: hour.Start(base)}, Span: hour}}); err != nil {
		t.Fatal(err)
	}
	settle(t, r, c)

	// The bucket is deleted with all of its readings, not before and not without.
	end := base + int64(minute) + (24 * time.Hour).Milliseconds()
	cfg := upkeep.RetentionConfig{Buckets: 24 * time.Hour}
	if err := retentionOf(s.sink, c.at(end), cfg).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	have, err := s.query.Readings(t.Context(), reading.Query{Sensor: "fast", To: base + 60_000, Limit: 1000})
	if want := outlier.Count() + 1; err != nil || len(have) != want {
		t.Errorf("%d readings are left, want %d (%v)", len(have), want, err)
	}
	if err := retentionOf(s.sink, c.at(end+1), cfg).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantStored(t, quiet)
	s.onlyRollups(t)
	s.wantRollups(t, "fast", hour, sums(hour, outlier, quiet, more))
}

// The counters of an outlier lag while it is listed: what they say now is not
// the end of it, whatever was read.
func TestRollupsWaitForUnsettledOutliers(t *testing.T) {
	t.Parallel()
	f := testenv.FerretDB(t)
	s := &suite{harness: mongoHarness(f.URI, "unsettled", false, sink.MongoWriters(1), sink.MongoBatch(1))}
	s.sink, s.query = s.open(t)
	outlier := fast("fast", outlierReadings+10)
	s.write(t, outlier)
	db := connect(t, f.URI).Database("unsettled")
	id := outlier.ID(outlier.Start)
	key := bson.D{{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}}
	set := func(count int) {
		t.Helper()
		res, err := db.Collection("buckets").UpdateOne(t.Context(), key, bson.D{{Key: "$set", Value: bson.D{{Key: "count", Value: int64(count)}}}})
		if err != nil || res.MatchedCount != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	set(outlier.Count() + 5) // counted twice
	listed := options.UpdateOne().SetUpsert(true)
	if _, err := db.Collection("outliers").UpdateOne(t.Context(), key, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}, listed); err != nil {
		t.Fatal(err)
	}
	c := new(clock).at(base + 3*int64(hour))
	r := rollupsOf(s.sink, c, upkeep.RollupsConfig{Spans: []reading.Span{hour}})
	marks := func(want int) {
		t.Helper()
		settle(t, r, c)
		if list, err := s.sink.Stale(t.Context(), reading.Mark{}, 10); err != nil || len(list) != want {
			t.Fatalf("%d marks, want %d (%v)", len(list), want, err)
		}
	}
	marks(1)
	marks(1)
	set(outlier.Count())
	if _, err := db.Collection("outliers").DeleteOne(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	marks(0)
	s.wantRollups(t, "fast", hour, sums(hour, outlier))
}
