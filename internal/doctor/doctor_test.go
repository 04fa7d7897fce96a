package doctor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gudang/internal/query"
	"gudang/internal/reading"
)

var now = time.Date(2026, 12, 6, 9, 30, 0, 0, time.UTC)

const minute = reading.Span(60_000)

// healthy is what there is to judge of a fleet with which nothing is wrong.
func healthy() Input {
	in := Input{
		Now:     now,
		Brokers: []Broker{{Name: "tcp://broker:1883"}},
		Free:    100 << 30,
		Settings: Settings{
			EmbeddedStore: true, QoS: 1, Journal: true, JournalMaxBytes: 1 << 30, Span: minute, ReadingInterval: 10 * time.Second,
			FlushInterval: time.Second, OutlierReadings: 1000, ClockAhead: time.Minute,
		},
		Store: Examination{
			Server:      query.Server{Name: "SQLite", Version: "3", Embedded: true, Majority: true},
			Collections: []query.Collection{{Name: "buckets", Indexes: []query.Index{{Name: "buckets_series", Fields: []string{"sensorId", "metric", "start"}}}}},
			Plans:       []query.Plan{{Query: "one sensor", Collection: "sensors", Stage: "SEARCH", Examined: -1, Returned: -1}},
			Disk:        &query.Disk{Bytes: 10 << 20},
		},
	}
	for i := range 20 {
		last := now.UnixMilli() - int64(i)*1000
		in.Store.Sensors = append(in.Store.Sensors, query.Seen{ID: fmt.Sprintf("S-%02d", i), First: last - 3_600_000, Last: last})
	}
	for m := range int64(60) {
		for i := range 20 {
			in.Store.Recent = append(in.Store.Recent, query.Recent{Key: key(fmt.Sprintf("S-%02d", i), minute.Start(now.UnixMilli())-m*60_000), Count: 6, Bytes: 280})
		}
	}
	in.Store.Buckets = int64(len(in.Store.Recent))
	return in
}

func key(sensor string, start int64) reading.Key {
	return reading.Key{Series: reading.Series{Sensor: sensor, Metric: "temperature"}, Start: start}
}

// mongo is the same in MongoDB.
func mongo(in *Input) {
	in.Settings.EmbeddedStore = false
	in.Store.Server = query.Server{Name: "MongoDB", Version: "7.0.1", Set: "rs0", Majority: true, Clock: now.UnixMilli()}
	in.Store.Disk = nil
}

func ttl(collection, field string, seconds int64) query.Collection {
	return query.Collection{Name: collection, Indexes: []query.Index{
		{Fields: []string{"sensorId", "metric", field}},
		{Name: field + "_1", Fields: []string{field}, ExpireAfter: &seconds},
	}}
}

func TestNothingIsWrongWithAHealthyFleet(t *testing.T) {
	in := healthy()
	if r := Judge(in); len(r.Findings) > 0 || !r.OK() || len(r.Facts) < 6 {
		t.Errorf("embedded: %+v", r)
	}
	mongo(&in)
	if r := Judge(in); len(r.Findings) > 0 || !r.OK() {
		t.Errorf("MongoDB: %+v", r.Findings)
	}
}

// Each case spoils one thing, which must be found and nothing else.
var spoiled = []struct {
	name  string
	spoil func(in *Input)
	level Level
	words string // each must be in the finding
}{
	{"a share without a common store", func(in *Input) { in.Settings.Share = "g" }, Serious, "MQTT_SHARE MONGODB_URI"},
	{"a share at the embedded broker", func(in *Input) {
		mongo(in)
		in.Settings.Share, in.Settings.EmbeddedBroker = "g", true
	}, Warning, "MQTT_SHARE MQTT_URL"},
	{"QoS 0", func(in *Input) { in.Settings.QoS = 0 }, Warning, "MQTT_QOS=0 lost"},
	{"leaving without others", func(in *Input) { in.Settings.Leave = true }, Warning, "MQTT_LEAVE"},
	{"no journal", func(in *Input) { in.Settings.Journal = false }, Note, "JOURNAL=off broker"},
	{"a flush that takes longer than a bucket", func(in *Input) { in.Settings.FlushInterval = 5 * time.Minute }, Warning, "FLUSH_INTERVAL=5m0s BUCKET_SPAN=1m0s"},
	{"nothing but outliers", func(in *Input) { in.Settings.OutlierReadings = 5 }, Warning, "OUTLIER_READINGS=5 6 readings"},
	{"retention of nothing", func(in *Input) { in.Settings.RawRetention = time.Hour }, Note, "RAW_RETENTION RAW"},
	{"a password without a name", func(in *Input) { in.Settings.Password = true }, Warning, "MQTT_USERNAME"},
	{"a password in the clear", func(in *Input) {
		in.Settings.Username, in.Settings.Password, in.Settings.PlainTo = true, true, "broker:1883"
	}, Warning, "broker:1883 TLS"},
	{"no broker", func(in *Input) { in.Brokers[0].Err = errors.New("connection refused") }, Serious, "connection refused MQTT_URL"},
	{"one broker of two", func(in *Input) { in.Brokers = append(in.Brokers, Broker{Err: errors.New("connection refused")}) }, Warning, "failover"},
	{"no service", func(in *Input) {
		in.Settings.EmbeddedBroker, in.Brokers[0].Err = true, errors.New("connection refused")
	}, Warning, "does not listen"},
	{"less room than the journal wants", func(in *Input) { mongo(in); in.Free = 900 << 20 }, Warning, "JOURNAL_MAX_BYTES 900.0 MiB"},
	{"a store that is away", func(in *Input) { in.StoreErr = errors.New("cannot read") }, Serious, "cannot read"},
	{"a server alone", func(in *Input) { mongo(in); in.Store.Server.Set = "" }, Note, "one machine"},
	{"writes that a primary alone has", func(in *Input) { mongo(in); in.Store.Server.Majority = false }, Warning, "rolled back"},
	{"a database with another clock", func(in *Input) { mongo(in); in.Store.Server.Clock += 60_000 }, Warning, "1m0s off"},
	{"no index", func(in *Input) {
		in.Store.Collections[0].Indexes = nil
		in.Store.Plans = append(in.Store.Plans,
			query.Plan{Query: "readings", Collection: "buckets", Stage: "SCAN buckets", Scan: true, Examined: -1, Returned: -1},
			query.Plan{Query: "summaries", Collection: "buckets", Stage: "SCAN buckets", Scan: true, Examined: -1, Returned: -1})
	}, Serious, "buckets missing readings summaries CREATE"},
	{"no index of a collection that came later", func(in *Input) {
		mongo(in)
		in.Store.Collections = append(in.Store.Collections, query.Collection{Name: "overflow", Indexes: []query.Index{{Fields: []string{"_id"}}}})
	}, Serious, "overflow missing createIndex({sensorId: 1, metric: 1, time: 1})"},
	{"an index that a query does not take", func(in *Input) { in.Store.Plans[0].Scan = true }, Serious, "one sensor"},
	{"a sort in memory", func(in *Input) { in.Store.Plans[0].Sort = true }, Serious, "one sensor"},
	{"a query that reads too much", func(in *Input) { in.Store.Plans[0].Examined, in.Store.Plans[0].Returned = 5000, 10 }, Warning, "one sensor 5000 examined for 10"},
	{"a fat document", func(in *Input) {
		in.Store.Fat = []query.Document{{Collection: "sensors", Sensor: "S-01", Bytes: 100 << 10}}
	}, Warning, "S-01 100.0 KiB"},
	{"a very fat document", func(in *Input) {
		in.Store.Fat = []query.Document{{Collection: "buckets", Sensor: "S-01", Metric: "temperature", Count: 100_000, Bytes: 2 << 20}}
		in.Store.Full = in.Store.Fat // told once
	}, Serious, "S-01 2.0 MiB"},
	{"a bucket over the threshold", func(in *Input) {
		in.Store.Full = []query.Document{{Sensor: "S-01", Metric: "temperature", Count: 1001}}
	}, Warning, "S-01 1001 OUTLIER_READINGS"},
	{"a bucket near the threshold", func(in *Input) {
		in.Store.Full = []query.Document{{Sensor: "S-01", Metric: "temperature", Count: 1000}}
	}, Note, "S-01 1000 OUTLIER_READINGS"},
	{"a disk that is full in days", func(in *Input) { in.Free, in.Settings.Journal = 1<<30, false; in.Settings.EmbeddedBroker = true }, Serious, "full in 4 days 1.0 GiB"},
	{"a disk that is full in weeks", func(in *Input) { in.Disk = 6 << 30 }, Warning, "full in 26 days"},
	{"what should be kept is deleted", func(in *Input) { mongo(in); in.Store.Collections[0] = ttl("buckets", "start", 86_400) }, Serious, "start_1 24 hours RETENTION is 0"},
	{"an index deletes at another time", func(in *Input) {
		mongo(in)
		in.Settings.Retention = 48 * time.Hour
		in.Store.Collections[0] = ttl("buckets", "start", 86_400)
	}, Warning, "start_1 24 hours RETENTION=48h0m0s"},
	{"a sensor ahead", func(in *Input) { in.Store.Sensors[3].Last = now.UnixMilli() + 3*3_600_000 }, Warning, "ahead S-03 3 hours"},
	{"a silent sensor", func(in *Input) {
		in.Store.Sensors[3].Last -= 2 * 3_600_000
		in.Store.Sensors[3].Every, in.Store.Sensors[3].Lags = 10_000, []int64{0, 60_000, 0}
	}, Warning, "silent S-03 2026-12-06T07:29:57Z"},
	{"a sensor behind", func(in *Input) {
		in.Store.Sensors[3].Last -= 7 * 3_600_000
		in.Store.Sensors[3].Every, in.Store.Sensors[3].Lags = 10_000, []int64{7 * 3_600_000, 7*3_600_000 + 60_000, 7 * 3_600_000}
	}, Warning, "behind S-03 7 hours"},
	{"a sensor of which MongoDB cannot tell", func(in *Input) {
		mongo(in)
		in.Store.Sensors[3].Last -= 7 * 3_600_000
		in.Store.Sensors[3].Every = 10_000
	}, Warning, "silent S-03 cannot tell"},
	{"a fleet that is silent", func(in *Input) { in.Now = now.Add(5 * time.Hour) }, Warning, "nothing has come for 5 hours"},
	{"a sensor that sends too often", func(in *Input) {
		for i := range in.Store.Recent {
			if in.Store.Recent[i].Key.Sensor == "S-05" {
				in.Store.Recent[i].Count = 60
			}
		}
	}, Note, "S-05 10.0 times READING_INTERVAL=10s"},
	{"a fleet that sends too often", func(in *Input) {
		for i := range in.Store.Recent {
			in.Store.Recent[i].Count = 12
		}
	}, Note, "2.0 times set READING_INTERVAL"},
	{"another span than stored, shorter", func(in *Input) {
		for i := range in.Store.Recent {
			r := &in.Store.Recent[i]
			r.Key.Start, r.Count = r.Key.Start-int64(i/20)*3_540_000-30*60_000, 360
		}
	}, Warning, "BUCKET_SPAN 1m0s 1h0m0s"},
	{"another span than stored, longer", func(in *Input) {
		in.Settings.Span = 60 * minute
	}, Warning, "BUCKET_SPAN 1h0m0s 1m0s"},
}

func TestWhatIsWrongIsFoundAndNothingElse(t *testing.T) {
	for _, c := range spoiled {
		in := healthy()
		c.spoil(&in)
		r := Judge(in)
		if len(r.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1: %+v", c.name, len(r.Findings), r.Findings)
			continue
		}
		f := r.Findings[0]
		all := fmt.Sprint(f)
		for _, word := range strings.Fields(c.words) {
			if !strings.Contains(all, word) {
				t.Errorf("%s: nothing of %q in %s", c.name, word, all)
			}
		}
		if f.Level != c.level || r.OK() == (c.level == Serious) || f.What == "" || f.Evidence == "" || f.Do == "" {
			t.Errorf("%s: %+v, want %v", c.name, f, c.level)
		}
	}
}

// None of these is anything to be told of.
func TestWhatIsRightIsNotFound(t *testing.T) {
	for name, change := range map[string]func(in *Input){
		"a sensor that reports once a day": func(in *Input) {
			in.Store.Sensors[3].Last -= 30 * 3_600_000
			in.Store.Sensors[3].Every = 24 * 3_600_000
		},
		"a clock that is a little ahead": func(in *Input) { in.Store.Sensors[3].Last = now.UnixMilli() + 90_000 },
		"one burst of a sensor": func(in *Input) {
			in.Store.Recent[25].Count, in.Store.Recent[125].Count = 500, 500
		},
		"RETENTION that MongoDB carries out": func(in *Input) {
			mongo(in)
			in.Settings.Retention = 24 * time.Hour
			in.Store.Collections[0] = ttl("buckets", "start", 86_400)
		},
		"a disk that RETENTION keeps from filling": func(in *Input) {
			in.Settings.Retention = 24 * time.Hour
			in.Free = 2 << 30
		},
		"nothing stored yet": func(in *Input) { in.Store = Examination{} },
		"a reading of another time in a new bucket": func(in *Input) {
			in.Store.Recent[0].Key.Start -= 400 * day
		},
	} {
		in := healthy()
		change(&in)
		if r := Judge(in); len(r.Findings) > 0 {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// A history that was brought in later was made beside later buckets, too, but
// faster than time passes: the lags differ.
func TestAnImportedHistoryIsNotAClockBehind(t *testing.T) {
	in := healthy()
	in.Store.Sensors[3].Last -= 50 * 3_600_000
	in.Store.Sensors[3].Every, in.Store.Sensors[3].Lags = 10_000, []int64{50 * 3_600_000, 51 * 3_600_000, 52 * 3_600_000}
	r := Judge(in)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, "silent") {
		t.Errorf("%+v", r.Findings)
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	in := healthy()
	in.Settings.QoS, in.Settings.RawRetention = 0, time.Hour
	in.Brokers[0].Err = errors.New("connection refused")
	r := Judge(in)
	if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int { return int(a.Level - b.Level) }) || len(r.Findings) != 3 || r.Findings[0].Level != Serious {
		t.Errorf("%+v", r.Findings)
	}
}

func TestGrowth(t *testing.T) {
	in := healthy()
	all := in.Store.Recent
	// 20 sensors, a bucket a minute of 6 readings and 280 bytes.
	want := Growth{Buckets: 20 * 1440, Readings: 6 * 20 * 1440, Bytes: 280 * 20 * 1440}
	for name, c := range map[string]struct {
		e    Examination
		ok   bool
		over int64
	}{
		"an hour":                                {Examination{Recent: all}, true, 54 * 60_000}, // a twentieth at each end is left out
		"a minute alone":                         {Examination{Recent: all[:20]}, false, 60_000},
		"a minute, and how far back others lie":  {Examination{Recent: all[:20], Marks: []query.Mark{{Newer: 20, Start: all[20].Key.Start}, {Newer: 600, Start: all[600].Key.Start}}}, true, 30 * 60_000},
		"a minute, and the others are near, too": {Examination{Recent: all[:20], Marks: []query.Mark{{Newer: 20, Start: all[20].Key.Start}}}, false, 60_000},
		"nothing":                                {Examination{}, false, 0},
	} {
		g, ok := growthOf(&c.e, minute, now.UnixMilli())
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*b }
		if ok != c.ok || g.Over != c.over || ok && !(near(g.Buckets, want.Buckets) && near(g.Readings, want.Readings) && near(g.Bytes, want.Bytes)) {
			t.Errorf("%s: %+v, %v", name, g, ok)
		}
	}
}
