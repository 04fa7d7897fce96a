package sink

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

func openTimeSeries(t *testing.T, uri string, cfg TimeSeriesConfig, opts ...MongoOption) *TimeSeries {
	t.Helper()
	s, err := OpenTimeSeries(uri, "gudang", cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ext is a document as MongoDB's extended JSON, without what the driver adds.
func ext(t *testing.T, doc bson.D) string {
	t.Helper()
	var own bson.D
	for _, e := range doc {
		if e.Key != "$db" && e.Key != "lsid" && e.Key != "_id" && e.Key != "maxTimeMS" {
			own = append(own, e)
		}
	}
	text, err := bson.MarshalExtJSON(own, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTimeSeriesCollectionIsMadeOnce(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: 10 * time.Second, Retention: 36 * time.Hour})
	b := one("S-01", 10, 20)
	for range 3 {
		if res := s.WriteBuckets(t.Context(), []*reading.Bucket{b}); res.Err != nil || len(res.Again) > 0 || res.Writes != (Writes{OK: 1}) {
			t.Fatalf("%s, error %v", told(res), res.Err)
		}
	}
	creates := server.Seen("create")
	if len(creates) != 1 {
		t.Fatalf("%d collections were made", len(creates))
	}
	const want = `{"create":"readings","timeseries":{"timeField":"time","metaField":"series","granularity":"seconds"},"expireAfterSeconds":129600}`
	if have := ext(t, creates[0]); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if n := len(server.Seen("listCollections")); n != 1 {
		t.Errorf("asked %d times whether it is there", n)
	}
	var keys []string
	for _, c := range server.Seen("createIndexes") {
		keys = append(keys, ext(t, testenv.Lookup(c, "indexes").(bson.A)[0].(bson.D)))
	}
	if have := strings.Join(keys, " "); !strings.Contains(have, `{"series.sensorId":1,"series.metric":1,"time":1}`) || !strings.Contains(have, `{"series.sensorId":1,"time":1}`) {
		t.Errorf("indexes %s", have)
	}
}

func TestTimeSeriesDocumentsAreAsTheSchemaSays(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Minute})
	b := &reading.Bucket{Series: reading.Series{Sensor: "S-01", Metric: "temperature"}, Start: time.Date(2026, 12, 6, 9, 5, 0, 0, time.UTC).UnixMilli()}
	b.Add(b.Start+10_000, 26)
	b.Add(b.Start+5, 26.5)
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{b}); res.Err != nil {
		t.Fatal(res.Err)
	}
	var have []string
	for _, d := range server.Docs["readings"] {
		have = append(have, ext(t, d))
	}
	want := `[{"time":{"$date":"2026-12-06T09:05:10Z"},"series":{"sensorId":"S-01","metric":"temperature"},"value":26.0} {"time":{"$date":"2026-12-06T09:05:00.005Z"},"series":{"sensorId":"S-01","metric":"temperature"},"value":26.5}]`
	if fmt.Sprint(have) != want {
		t.Errorf("have %v\nwant %v", have, want)
	}
	if ordered := testenv.Lookup(server.Seen("insert")[0], "ordered"); ordered != false {
		t.Errorf("ordered: %v", ordered)
	}
}

func TestTimeSeriesInsertsAreSplit(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Second})
	var buckets []*reading.Bucket
	for i := range 9 {
		b := &reading.Bucket{Series: reading.Series{Sensor: fmt.Sprint("s", i), Metric: "x"}}
		for j := range 1500 {
			b.Add(int64(j), 1)
		}
		buckets = append(buckets, b)
	}
	if res := s.WriteBuckets(t.Context(), buckets); res.Err != nil || res.Writes.OK != 9 {
		t.Fatalf("%+v", res)
	}
	if n := len(server.Seen("insert")); n != 3 || len(server.Docs["readings"]) != 9*1500 {
		t.Errorf("%d inserts of %d documents", n, len(server.Docs["readings"]))
	}
}

func TestTimeSeriesGranularityFitsTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration]string{
		time.Second: "seconds", 59 * time.Second: "seconds", time.Minute: "minutes", 10 * time.Minute: "minutes", time.Hour: "hours",
	} {
		if have := granularity(interval); have != want {
			t.Errorf("%v: %s, want %s", interval, have, want)
		}
	}
}

func TestTimeSeriesRetentionIsChanged(t *testing.T) {
	for _, c := range []struct {
		name string
		have bson.D
		want time.Duration
		mod  string // expireAfterSeconds of collMod; empty: none is sent
	}{
		{"none, and none is wanted", bson.D{}, 0, ""},
		{"the one that is wanted", bson.D{{Key: "expireAfterSeconds", Value: int64(3600)}}, time.Hour, ""},
		{"another", bson.D{{Key: "expireAfterSeconds", Value: 3600.0}}, 2 * time.Hour, `"expireAfterSeconds":7200`},
		{"none yet", bson.D{}, time.Hour, `"expireAfterSeconds":3600`},
		{"none any more", bson.D{{Key: "expireAfterSeconds", Value: int32(3600)}}, 0, `"expireAfterSeconds":"off"`},
	} {
		server := testenv.NewTimeSeriesServer(t)
		server.Options = c.have
		s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Second, Retention: c.want})
		if err := s.Ping(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		mods := server.Seen("collMod")
		if len(mods) == 0 && c.mod == "" {
			continue
		}
		if len(mods) != 1 || ext(t, mods[0]) != `{"collMod":"readings",`+c.mod+`}` {
			t.Errorf("%s: sent %v, want %s", c.name, mods, c.mod)
		}
		if len(server.Seen("create")) > 0 {
			t.Errorf("%s: made again", c.name)
		}
	}
}

func TestTimeSeriesRightsThatAreMissingStopNothing(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	server.Options = bson.D{}
	server.Fault = func(c bson.D) bson.D {
		if c[0].Key == "collMod" || c[0].Key == "createIndexes" {
			return testenv.MongoFault(13, "not authorized on gudang")
		}
		return nil
	}
	var log testenv.LogBuffer
	s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Second, Retention: time.Hour}, MongoLog(slog.New(slog.NewTextHandler(&log, nil))))
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)}); res.Err != nil || len(server.Docs["readings"]) != 1 {
		t.Errorf("%s, error %v", told(res), res.Err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
}

// What a server says that has no time series collections is told from trouble
// that may pass.
func TestTimeSeriesAreRefusedWhereThereAreNone(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   func(*testenv.TimeSeriesServer)
		refused bool
	}{
		{"MongoDB 4.4", func(s *testenv.TimeSeriesServer) {
			failing(s, "create", 40415, "BSON field 'create.timeseries' is an unknown field.")
		}, true},
		{"a server that has not built it", func(s *testenv.TimeSeriesServer) { failing(s, "create", 238, "not implemented") }, true},
		{"an ordinary collection of the name", func(s *testenv.TimeSeriesServer) { s.Options, s.Kind = bson.D{}, "collection" }, true},
		{"no right to make it", func(s *testenv.TimeSeriesServer) { failing(s, "create", 13, "not authorized on gudang") }, false},
		{"a server that takes too long", func(s *testenv.TimeSeriesServer) { failing(s, "listCollections", 50, "operation exceeded time limit") }, false},
	} {
		server := testenv.NewTimeSeriesServer(t)
		c.fault(server)
		s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Second})
		res := s.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)})
		for what, err := range map[string]error{"write": res.Err, "ping": s.Ping(t.Context())} {
			if err == nil || errors.Is(err, mongodb.ErrNoTimeSeries) != c.refused {
				t.Errorf("%s: %s: %v", c.name, what, err)
			}
		}
		if len(res.Again) != 1 || res.Writes != (Writes{Failed: 1}) {
			t.Errorf("%s: %s", c.name, told(res))
		}
		server.Fault, server.Options, server.Kind = nil, nil, "timeseries"
		if res := s.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1)}); res.Err != nil {
			t.Errorf("%s: mended, and still: %v", c.name, res.Err)
		}
	}
}

func failing(s *testenv.TimeSeriesServer, command string, code int32, message string) {
	s.Fault = func(c bson.D) bson.D {
		if c[0].Key == command {
			return testenv.MongoFault(code, message)
		}
		return nil
	}
}

func TestTimeSeriesAreRefusedByFerretDB(t *testing.T) {
	s := openTimeSeries(t, testenv.FerretDB(t).URI, TimeSeriesConfig{Interval: time.Second})
	if err := s.Ping(t.Context()); !errors.Is(err, mongodb.ErrNoTimeSeries) || strings.Contains(err.Error(), "\n") {
		t.Errorf("ping: %v", err)
	}
}

func TestTimeSeriesThatIsAwayTakesNothingAndLosesNothing(t *testing.T) {
	s := openTimeSeries(t, nowhere, TimeSeriesConfig{Interval: time.Second})
	res := s.WriteBuckets(t.Context(), []*reading.Bucket{one("a", 1), one("b", 1)})
	if len(res.Again) != 2 || !errors.Is(res.Err, mongodb.ErrAway) || errors.Is(res.Err, mongodb.ErrNoTimeSeries) {
		t.Errorf("%s, error %v", told(res), res.Err)
	}
}

// A reading that the server refuses costs only itself; trouble that may pass
// has the bucket sent again.
func TestTimeSeriesInsertErrors(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	s := openTimeSeries(t, server.URI, TimeSeriesConfig{Interval: time.Second})
	fault := func(index, code int32) bson.D {
		return bson.D{{Key: "index", Value: index}, {Key: "code", Value: code}, {Key: "errmsg", Value: fmt.Sprint("code ", code)}}
	}
	var errs bson.A
	server.Fault = func(c bson.D) bson.D {
		if c[0].Key != "insert" {
			return nil
		}
		return bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: int32(1)}, {Key: "writeErrors", Value: errs}}
	}
	a, b, c := one("a", 1, 2), one("b", 1), one("c", 1)
	errs = bson.A{fault(1, 2), fault(2, 50)}
	res := s.WriteBuckets(t.Context(), []*reading.Bucket{a, b, c})
	if res.Writes != (Writes{OK: 1, Rejected: 1, Failed: 1}) || len(res.Again) != 1 || res.Again[0] != b || res.Err == nil {
		t.Errorf("%s, again %v, error %v", told(res), res.Again, res.Err)
	}
	if len(res.Refused) != 1 || res.Refused[0].Bucket != a || res.Refused[0].Offset != 2 || res.Refused[0].Reason != reading.StoreRefused {
		t.Errorf("refused %+v", res.Refused)
	}
	server.Fault = func(c bson.D) bson.D {
		if c[0].Key != "insert" {
			return nil
		}
		return bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: int32(2)}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: int32(64)}, {Key: "errmsg", Value: "timed out"}}}}
	}
	if res := s.WriteBuckets(t.Context(), []*reading.Bucket{b, c}); len(res.Again) != 2 || res.Err == nil || res.Writes != (Writes{Failed: 2}) {
		t.Errorf("not by a majority: %s, error %v", told(res), res.Err)
	}
}
