package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/doctor"
	"gudang/internal/reading"
	"gudang/internal/sink"
	"gudang/internal/testenv"
)

// fleetStore is a store whose buckets are full up to now: of so many sensors,
// an hour each with a reading every 10 s, with the bucket and the document of
// a fat one and of one whose clock is ahead on demand.
type fleetStore struct {
	environ []string
	now     time.Time
	store   sink.Store
}

const hourOfReadings = 360

// openFleetStore opens the store that the settings name for writing.
func openFleetStore(t *testing.T, environ []string, opts ...sink.MongoOption) *fleetStore {
	t.Helper()
	f := &fleetStore{environ: append(environ, "BUCKET_SPAN=1h", "HTTP_ADDR=127.0.0.1:0"), now: time.Now()}
	c, err := loadConfig(f.environ)
	if err != nil {
		t.Fatal(err)
	}
	if c.MongoDBURI != "" {
		f.store, err = sink.OpenMongo(c.MongoDBURI, c.MongoDBDatabase, opts...)
	} else {
		f.store, err = sink.OpenSQLite(c.DataDir, c.span)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fleetStore) write(t *testing.T, buckets ...*reading.Bucket) {
	t.Helper()
	if res := f.store.WriteBuckets(t.Context(), buckets); res.Err != nil || len(res.Refused) > 0 {
		t.Fatalf("WriteBuckets: %v, %d refused", res.Err, len(res.Refused))
	}
}

func (f *fleetStore) sensor(t *testing.T, s reading.Series, first, last int64) {
	t.Helper()
	points := []reading.Point{}
	for i := range int64(10) {
		points = append(points, reading.Point{Time: last - i*10_000, Value: 21.5})
	}
	err := f.store.MergeSensors(t.Context(), []reading.Sensor{{ID: s.Sensor, FirstSeen: first, LastSeen: last, Metrics: map[string][]reading.Point{s.Metric: points}}}, 10)
	if err != nil {
		t.Fatal(err)
	}
}

// hourOf is the bucket of an hour of readings, up to a time.
func hourOf(s reading.Series, start, until int64) *reading.Bucket {
	b := &reading.Bucket{Series: s, Start: start}
	for i := range int64(hourOfReadings) {
		if t := start + i*10_000; t <= until {
			b.Add(t, 20+float64(i%50)/10)
		}
	}
	return b
}

// fill writes the hours of the sensors, the last of them up to now, and says
// how many readings that were.
func (f *fleetStore) fill(t *testing.T, sensors, hours int) (readings int) {
	t.Helper()
	now := f.now.UnixMilli()
	last := reading.Span(3_600_000).Start(now)
	for h := hours - 1; h >= 0; h-- {
		var buckets []*reading.Bucket
		for i := range sensors {
			b := hourOf(reading.Series{Sensor: fmt.Sprintf("S-%04d", i), Metric: "temperature"}, last-int64(h)*3_600_000, now)
			buckets = append(buckets, b)
			readings += b.Count()
		}
		f.write(t, buckets...)
	}
	for i := range sensors {
		f.sensor(t, reading.Series{Sensor: fmt.Sprintf("S-%04d", i), Metric: "temperature"}, last-int64(hours-1)*3_600_000, now-int64(i%10)*1000)
	}
	return readings
}

// ahead adds a sensor whose clock is three days ahead.
func (f *fleetStore) ahead(t *testing.T) {
	t.Helper()
	s := reading.Series{Sensor: "S-ahead", Metric: "temperature"}
	future := f.now.Add(72 * time.Hour).UnixMilli()
	start := reading.Span(3_600_000).Start(future)
	f.write(t, hourOf(s, start, future))
	f.sensor(t, s, start, future)
}

// ask runs the doctor and returns its exit status and what it said.
func (f *fleetStore) ask(t *testing.T, environ ...string) (int, doctorSaid) {
	t.Helper()
	var out, errOut strings.Builder
	status := run(context.Background(), []string{"doctor", "-json"}, append(slices.Clone(f.environ), environ...), &out, &errOut)
	var said doctorSaid
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil {
		t.Fatalf("doctor said %q %q: %v", out.String(), errOut.String(), err)
	}
	return status, said
}

type doctorSaid struct {
	OK       bool
	Findings []struct{ Level, Check, What, Evidence, Do string }
	Sampled  []string
	Facts    []doctor.Fact
}

// want checks that there is exactly one finding for each of the wanted, which
// has each of its words somewhere.
func (d doctorSaid) want(t *testing.T, findings ...[]string) {
	t.Helper()
	if len(d.Findings) != len(findings) {
		t.Errorf("%d findings, want %d", len(d.Findings), len(findings))
	}
	for _, words := range findings {
		if !slices.ContainsFunc(d.Findings, func(f struct{ Level, Check, What, Evidence, Do string }) bool {
			all := fmt.Sprint(f)
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
		}) {
			t.Errorf("no finding has all of %q", words)
		}
	}
	if t.Failed() {
		t.Logf("findings: %+v", d.Findings)
	}
}

func TestTheDoctorOfAMillionReadings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFleetStore(t, []string{"DATA_DIR=" + dir, "MQTT_URL=" + testenv.Mosquitto(t).URL})
	if n := f.fill(t, 100, 30); n < 1_000_000 {
		t.Fatalf("only %d readings", n)
	}
	begun := time.Now()
	status, said := f.ask(t)
	if took := time.Since(begun); took > 30*time.Second { // a second, on an idle machine
		t.Errorf("the doctor took %v", took)
	}
	said.want(t)
	if status != 0 || !said.OK || len(said.Sampled) > 0 {
		t.Errorf("exit status %d, ok %v, sampled %q", status, said.OK, said.Sampled)
	}

	f.ahead(t)
	plantInSQLite(t, dir)
	status, said = f.ask(t)
	said.want(t,
		[]string{"serious", "buckets", "sensorId, metric, start", "missing", "CREATE UNIQUE INDEX"},
		[]string{"serious", "document", "S-0007", "MiB"},
		[]string{"warning", "ahead", "S-ahead", "3 days", "NTP"},
	)
	if status != 1 || said.OK {
		t.Errorf("exit status %d, ok %v with something serious", status, said.OK)
	}
}

// plantInSQLite drops the index and makes one document fat.
func plantInSQLite(t *testing.T, dir string) {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, "gudang.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(`
		UPDATE buckets SET offsets = '[' || substr(replace(hex(zeroblob(1500000)), '00', ',1'), 2) || ']' WHERE rowid = (SELECT rowid FROM buckets WHERE sensorId = 'S-0007' LIMIT 1);
		DROP INDEX buckets_series;`); err != nil {
		t.Fatal(err)
	}
}

func TestTheDoctorOfMongoDB(t *testing.T) {
	t.Parallel()
	uri, sensors, hours := os.Getenv("TEST_MONGODB_URI"), 100, 30
	var opts []sink.MongoOption
	if uri == "" { // FerretDB scans the collection for every write
		uri, sensors, hours = testenv.FerretDB(t).URI, 8, 2
		opts = append(opts, sink.MongoWriters(1), sink.MongoBatch(1))
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	db := client.Database(fmt.Sprintf("gudang_doctor_%d", time.Now().UnixNano()))
	defer db.Drop(context.Background())

	f := openFleetStore(t, []string{"DATA_DIR=" + t.TempDir(), "MQTT_URL=" + testenv.Mosquitto(t).URL, "MONGODB_URI=" + uri, "MONGODB_DATABASE=" + db.Name()}, opts...)
	f.fill(t, sensors, hours)
	status, said := f.ask(t)
	said.Findings = slices.DeleteFunc(said.Findings, func(f struct{ Level, Check, What, Evidence, Do string }) bool {
		return strings.Contains(f.What, "one machine alone") // true of many a test server
	})
	said.want(t)
	if status != 0 {
		t.Errorf("exit status %d", status)
	}

	f.ahead(t)
	plantInMongoDB(t, db)
	status, said = f.ask(t)
	said.Findings = slices.DeleteFunc(said.Findings, func(f struct{ Level, Check, What, Evidence, Do string }) bool {
		return strings.Contains(f.What, "one machine alone")
	})
	said.want(t,
		[]string{"serious", "buckets", "sensorId, metric, start", "missing", "createIndex"},
		[]string{"serious", "document", "S-0007", "MiB"},
		[]string{"warning", "ahead", "S-ahead", "3 days"},
	)
	if status != 1 {
		t.Errorf("exit status %d with something serious", status)
	}
}

func plantInMongoDB(t *testing.T, db *mongo.Database) {
	t.Helper()
	result, err := db.Collection("buckets").UpdateOne(t.Context(), bson.D{{Key: "sensorId", Value: "S-0007"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "note", Value: strings.Repeat("x", 1500000)}}}})
	if err != nil || result.MatchedCount != 1 {
		t.Fatalf("cannot make a document fat: %+v, %v", result, err)
	}
	if err := db.Collection("buckets").Indexes().DropOne(t.Context(), "sensorId_1_metric_1_start_1"); err != nil {
		t.Fatal(err)
	}
}

func TestTheDoctorOfNothing(t *testing.T) {
	t.Parallel()
	f := &fleetStore{environ: []string{"DATA_DIR=" + t.TempDir(), "MQTT_URL=tcp://127.0.0.1:1", "MONGODB_URI=mongodb://:wrong-password@127.0.0.1:1/?serverSelectionTimeoutMS=100"}}
	status, said := f.ask(t)
	f2 := &fleetStore{environ: []string{"DATA_DIR=" + filepath.Join(t.TempDir(), "not", "there"), "EMBEDDED_MQTT_ADDR=127.0.0.1:0"}}
	status2, said2 := f2.ask(t)
	said.want(t, []string{"serious", "broker", "refused"}, []string{"serious", "store", "cannot"})
	said2.want(t)
	if status != 1 || status2 != 0 {
		t.Errorf("exit status %d and %d, want 1 and 0", status, status2)
	}
	if strings.Contains(fmt.Sprint(said), "wrong-password") {
		t.Errorf("the password is shown: %v", said)
	}
}

func TestTheDoctorFindsTheServiceListening(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.untilReady()
	var out strings.Builder
	environ := append(slices.Clone(p.environ), "EMBEDDED_MQTT_ADDR="+p.service.broker.Addr())
	if status := run(t.Context(), []string{"doctor"}, environ, &out, io.Discard); status != 0 || !strings.Contains(out.String(), "takes connections") {
		t.Errorf("exit status %d:\n%s", status, out.String())
	}
}

// A sensor whose clock is behind writes now under times long past; one that is
// silent wrote when its times were. The store tells them apart by the order in
// which buckets were made.
func TestTheDoctorTellsBehindFromSilent(t *testing.T) {
	t.Parallel()
	f := openFleetStore(t, []string{"DATA_DIR=" + t.TempDir(), "MQTT_URL=" + testenv.Mosquitto(t).URL})
	const hour, late, hours = int64(3_600_000), int64(9), int64(24)
	now := f.now.UnixMilli()
	last := reading.Span(hour).Start(now)
	named := func(id string) reading.Series { return reading.Series{Sensor: id, Metric: "temperature"} }
	for h := hours - 1; h >= 0; h-- {
		start := last - h*hour
		buckets := []*reading.Bucket{hourOf(named("S-behind"), start-late*hour, now)}
		for i := range 30 {
			buckets = append(buckets, hourOf(named(fmt.Sprintf("S-%04d", i)), start, now))
		}
		if h >= late {
			buckets = append(buckets, hourOf(named("S-silent"), start, now))
		}
		f.write(t, buckets...)
	}
	for i := range 30 {
		f.sensor(t, named(fmt.Sprintf("S-%04d", i)), last-(hours-1)*hour, now)
	}
	f.sensor(t, named("S-behind"), last-(hours+late-1)*hour, now-late*hour)
	f.sensor(t, named("S-silent"), last-(hours-1)*hour, last-(late-1)*hour-10_000)
	status, said := f.ask(t)
	said.want(t, []string{"warning", "behind", "S-behind", "9 hours"}, []string{"warning", "silent", "S-silent"})
	if status != 0 {
		t.Errorf("exit status %d for warnings", status)
	}
}
