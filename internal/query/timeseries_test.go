package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"gudang/internal/reading"
	"gudang/internal/testenv"
)

func openTimeSeries(t *testing.T, span reading.Span) (*testenv.TimeSeriesServer, *TimeSeries) {
	t.Helper()
	server := testenv.NewTimeSeriesServer(t)
	s, err := OpenTimeSeries(server.URI, "gudang", span)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return server, s
}

func put(server *testenv.TimeSeriesServer, s reading.Series, at int64, v float64) {
	server.Docs["readings"] = append(server.Docs["readings"], bson.D{
		{Key: "time", Value: bson.DateTime(at)},
		{Key: "series", Value: bson.D{{Key: "sensorId", Value: s.Sensor}, {Key: "metric", Value: s.Metric}}},
		{Key: "value", Value: v},
	})
}

// model answers as a store does that has each reading once.
type model map[reading.Key]float64

func (m model) readings(q reading.Query) []reading.Reading {
	var all []reading.Reading
	for k, v := range m {
		if k.Sensor == q.Sensor {
			all = append(all, reading.Reading{Series: k.Series, Time: k.Start, Value: v})
		}
	}
	return q.Page(all)
}

func (m model) summaries(q reading.Query, span reading.Span) []string {
	buckets := map[reading.Key]*reading.Bucket{}
	for k, v := range m {
		key := reading.Key{Series: k.Series, Start: span.Start(k.Start)}
		if q.Metric != "" && k.Metric != q.Metric || k.Sensor != q.Sensor || key.Start < q.From || key.Start >= q.Until() || !q.After.Past(key.Start, key.Metric) {
			continue
		}
		if buckets[key] == nil {
			buckets[key] = &reading.Bucket{Series: key.Series, Start: key.Start}
		}
		buckets[key].Add(k.Start, v)
	}
	var keys []reading.Key
	for k := range buckets {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, reading.Key.Compare)
	var out []string
	for _, k := range keys[:min(len(keys), q.Limit)] {
		b := buckets[k]
		out = append(out, fmt.Sprint(reading.Summary{Key: k, Count: int64(b.Count()), Sum: b.Sum, Min: b.Min, Max: b.Max}))
	}
	return out
}

// Random readings, some of them sent several times, are answered as if each
// had been sent once: in pages of every size, from and to every time.
func TestTimeSeriesAnswersAsIfEachReadingWereThereOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	server, s := openTimeSeries(t, minute)
	m := model{}
	for range 250 {
		series := reading.Series{Sensor: []string{"a", "b"}[rnd.IntN(2)], Metric: []string{"x", "y", "z"}[rnd.IntN(3)]}
		at := rnd.Int64N(40)*17_000 - 100_000
		if rnd.IntN(4) == 0 {
			at += 50_000_000 // a long silence in between
		}
		k, v := reading.Key{Series: series, Start: at}, float64(rnd.IntN(100))
		for range 1 + rnd.IntN(3)*rnd.IntN(3) {
			put(server, series, at, v)
		}
		if have, again := m[k]; again {
			v = min(have, v)
		}
		m[k] = v
	}
	rnd.Shuffle(len(server.Docs["readings"]), func(i, j int) {
		d := server.Docs["readings"]
		d[i], d[j] = d[j], d[i]
	})
	for _, limit := range []int{1, 2, 3, 7, 50, 1000} {
		for range 15 {
			q := reading.Query{Sensor: "a", Metric: []string{"", "x", "y"}[rnd.IntN(3)], Limit: limit}
			if rnd.IntN(2) == 0 {
				q.From, q.To = rnd.Int64N(300_000)-50_000, rnd.Int64N(60_000_000)
			}
			wantPages(t, s, m, q)
		}
	}
}

// wantPages goes through all pages of both questions.
func wantPages(t *testing.T, s *TimeSeries, m model, q reading.Query) {
	t.Helper()
	for page, of := 0, q; ; page++ {
		have, err := s.Readings(t.Context(), of)
		if want := m.readings(of); err != nil || !slices.Equal(have, want) {
			t.Fatalf("%+v: readings %v\nwant %v, error %v", of, have, want, err)
		}
		if len(have) < q.Limit || page == 3 {
			break
		}
		last := have[len(have)-1]
		of.After = reading.Cursor{Time: last.Time, Metric: last.Metric}
	}
	for page, of := 0, q; ; page++ {
		found, err := s.Summaries(t.Context(), of)
		var have []string
		for _, f := range found {
			have = append(have, fmt.Sprint(f))
		}
		if want := m.summaries(of, minute); err != nil || !slices.Equal(have, want) {
			t.Fatalf("%+v: summaries %v\nwant %v, error %v", of, have, want, err)
		}
		if len(have) < q.Limit || page == 3 {
			break
		}
		last := found[len(found)-1]
		of.After = reading.Cursor{Time: last.Start, Metric: last.Metric}
	}
}

// These are the documents that a real MongoDB is sent.
func TestTimeSeriesQuestions(t *testing.T) {
	server, s := openTimeSeries(t, minute)
	put(server, reading.Series{Sensor: "S-01", Metric: "x"}, 90_000, 1)
	q := reading.Query{Sensor: "S-01", Metric: "x", From: 30_000, To: 200_000, Limit: 2}
	if _, err := s.Readings(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Summaries(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	find, aggregate := server.Seen("find")[0], server.Seen("aggregate")[0]
	for _, c := range []struct {
		have any
		want string
	}{
		{testenv.Lookup(find, "filter"), `{"v":{"series.sensorId":"S-01","series.metric":"x","time":{"$gte":{"$date":"1970-01-01T00:00:30Z"},"$lt":{"$date":"1970-01-01T00:03:20Z"}}}}`},
		{testenv.Lookup(find, "sort"), `{"v":{"time":1}}`},
		{testenv.Lookup(find, "limit"), `{"v":6}`},
		{testenv.Lookup(aggregate, "pipeline"), `{"v":[` +
			`{"$match":{"series.sensorId":"S-01","series.metric":"x","time":{"$gte":{"$date":"1970-01-01T00:01:00Z"},"$lt":{"$date":"1970-01-01T00:03:00Z"}}}},` +
			`{"$group":{"_id":{"metric":"$series.metric","time":"$time"},"value":{"$min":"$value"}}},` +
			`{"$group":{"_id":{"metric":"$_id.metric","start":{"$dateTrunc":{"date":"$_id.time","unit":"second","binSize":60}}},"count":{"$sum":1},"sum":{"$sum":"$value"},"min":{"$min":"$value"},"max":{"$max":"$value"}}},` +
			`{"$sort":{"_id.start":1,"_id.metric":1}},{"$limit":2}]}`},
		{testenv.Lookup(aggregate, "allowDiskUse"), `{"v":true}`},
	} {
		have, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: c.have}}, false, false)
		if err != nil || string(have) != c.want {
			t.Errorf("have %s\nwant %s, error %v", have, c.want, err)
		}
	}
}

func TestTimeSeriesSpanOfMilliseconds(t *testing.T) {
	have := fmt.Sprint(truncation(1500), truncation(86_400_000))
	if want := fmt.Sprint(
		bson.D{{Key: "date", Value: "$_id.time"}, {Key: "unit", Value: "millisecond"}, {Key: "binSize", Value: int64(1500)}},
		bson.D{{Key: "date", Value: "$_id.time"}, {Key: "unit", Value: "second"}, {Key: "binSize", Value: int64(86_400)}},
	); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
}

// Scan shows what is stored, copies included, so that verify can tell of them.
func TestTimeSeriesScanShowsCopies(t *testing.T) {
	server, s := openTimeSeries(t, minute)
	x, y := reading.Series{Sensor: "a", Metric: "x"}, reading.Series{Sensor: "a", Metric: "y"}
	server.Docs["sensors"] = []bson.D{{{Key: "_id", Value: "a"}}, {{Key: "_id", Value: "silent"}}}
	for _, at := range []int64{-1, 10, 20, 10, 70_000} {
		put(server, x, at, float64(at))
	}
	put(server, y, 30, 3)
	var have []string
	err := s.Scan(t.Context(), func(b *Stored) error {
		if b.ID != b.Series.ID(b.Start) {
			t.Errorf("%v: id %x", b.Key, b.ID)
		}
		have = append(have, fmt.Sprint(b.Metric, b.Start, b.Count, b.Sum, b.Min, b.Max, b.Offsets, b.Values))
		return nil
	})
	want := []string{
		"x-60000 1 -1 -1 -1 [59999] [-1]", "x0 3 40 10 20 [10 10 20] [10 10 20]",
		"x60000 1 70000 70000 70000 [10000] [70000]", "y0 1 3 3 3 [30] [3]",
	}
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%q, error %v\nwant %q", have, err, want)
	}
}

// What PromQL reads.
func TestTimeSeriesSeeksAndStretches(t *testing.T) {
	server, s := openTimeSeries(t, minute)
	x, y := reading.Series{Sensor: "a", Metric: "x"}, reading.Series{Sensor: "a", Metric: "y"}
	for _, at := range []int64{10, 20, 20, 30, 40} {
		put(server, x, at, float64(at))
	}
	put(server, x, 20, 7) // a copy with another value: the least counts
	put(server, y, 25, 1)
	told := func(found reading.Stretch, err error) string {
		return fmt.Sprint(found.Points, " until ", found.Until, " ", err)
	}
	for have, want := range map[string]string{
		told(s.NewestAt(t.Context(), x, 0, 25)):     "[{20 7}] until 26 <nil>",
		told(s.NewestAt(t.Context(), x, 21, 25)):    "[] until 26 <nil>",
		told(s.NewestAt(t.Context(), x, 40, 40)):    "[{40 40}] until 41 <nil>",
		told(s.Stretch(t.Context(), x, 15, 40, 10)): "[{20 7} {30 30}] until 40 <nil>",
		told(s.Stretch(t.Context(), x, 0, 100, 2)):  "[{10 10} {20 7}] until 21 <nil>",
		told(s.Stretch(t.Context(), y, 26, 100, 2)): "[] until 100 <nil>",
		told(s.Stretch(t.Context(), y, 0, 100, 0)):  "[] until 0 " + errNoLimit.Error(),
	} {
		if have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

func TestTimeSeriesHasNoTruthToRefreshFrom(t *testing.T) {
	_, s := openTimeSeries(t, minute)
	if _, err := s.Truth(t.Context(), "a", 1); err == nil {
		t.Error("truth")
	}
	if _, err := s.NextSensor(t.Context(), ""); err == nil {
		t.Error("next")
	}
	if _, err := s.Newest(t.Context(), reading.Series{}, 1); err == nil {
		t.Error("newest")
	}
}

// The fleet list is one find in one collection, by key: no bucket is read.
func TestMongoFleetListIsOneQuery(t *testing.T) {
	server := testenv.NewTimeSeriesServer(t)
	for i := range 50 {
		server.Docs["sensors"] = append(server.Docs["sensors"], bson.D{{Key: "_id", Value: fmt.Sprintf("S-%02d", i)}})
	}
	m, err := OpenMongo(server.URI, "gudang", minute)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if found, err := m.Sensors(t.Context(), "S-", 100); err != nil || len(found) != 50 {
		t.Fatalf("%d sensors, error %v", len(found), err)
	}
	finds := server.Seen("find")
	if len(finds) != 1 || len(server.Seen("aggregate")) > 0 {
		t.Fatalf("%d finds", len(finds))
	}
	have, err := bson.MarshalExtJSON(bson.D{finds[0][0], {Key: "filter", Value: testenv.Lookup(finds[0], "filter")}, {Key: "sort", Value: testenv.Lookup(finds[0], "sort")}}, false, false)
	if want := `{"find":"sensors","filter":{"_id":{"$gt":"S-"}},"sort":{"_id":1}}`; err != nil || string(have) != want {
		t.Errorf("have %s, want %s, error %v", have, want, err)
	}
}
