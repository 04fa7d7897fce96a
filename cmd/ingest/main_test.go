package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"gudang/internal/fleet"
	"gudang/internal/manifest"
	"gudang/internal/testenv"
)

// program is the whole service, run in the test's process.
type program struct {
	t       *testing.T
	environ []string
	service *service
	log     *testenv.LogBuffer
	stop    context.CancelFunc
	done    chan error
}

// start starts the service on free ports with the settings given.
func start(t *testing.T, environ ...string) *program {
	t.Helper()
	p := &program{t: t, environ: append([]string{"HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0", "MQTT_CLIENT_ID=" + t.Name()}, environ...)}
	if !strings.Contains(strings.Join(environ, " "), "DATA_DIR=") {
		p.environ = append(p.environ, "DATA_DIR="+t.TempDir())
	}
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("log:\n%s", p.log)
		}
	})
	return p
}

func (p *program) start() {
	p.t.Helper()
	c, err := loadConfig(p.environ)
	if err != nil {
		p.t.Fatal(err)
	}
	p.log = &testenv.LogBuffer{}
	if p.service, err = newService(p.t.Context(), c, slog.New(slog.NewTextHandler(p.log, nil))); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.done = cancel, make(chan error, 1)
	go func() { p.done <- p.service.run(ctx) }()
}

// end stops the service in order, as SIGTERM does.
func (p *program) end() {
	p.t.Helper()
	begun := time.Now()
	p.stop()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("the service ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		p.t.Fatal("the service does not stop")
	}
	if took := time.Since(begun); took > 10*time.Second {
		p.t.Errorf("the stop took %v", took)
	}
}

// get reads a path over HTTP.
func (p *program) get(path string) (int, string) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.service.web.Addr() + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (p *program) ready() bool {
	status, _ := p.get("/readyz")
	return status == http.StatusOK
}

func (p *program) untilReady() {
	p.t.Helper()
	testenv.Eventually(p.t, 30*time.Second, "ready", p.ready)
}

// metric is the value of a sample in /metrics, labels and all.
func (p *program) metric(sample string) float64 {
	p.t.Helper()
	_, body := p.get("/metrics")
	m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(sample) + " (.+)$").FindStringSubmatch(body)
	if m == nil {
		p.t.Fatalf("no sample %s in /metrics", sample)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *program) outcomes() (sum float64) {
	for _, o := range []string{"stored", "duplicate", "ignored", "rejected"} {
		sum += p.metric(`gudang_messages_total{outcome="` + o + `"}`)
	}
	return sum
}

// verify runs ingest verify with the program's settings.
func (p *program) verify(args ...string) (int, string) {
	var out, errOut bytes.Buffer
	status := run(p.t.Context(), append([]string{"verify"}, args...), p.environ, &out, &errOut)
	return status, out.String() + errOut.String()
}

// simulate publishes a fleet to the broker at url and returns its manifest.
func simulate(t *testing.T, url string, cfg fleet.Config) string {
	t.Helper()
	f, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := fleet.NewMQTT(fleet.MQTTConfig{Broker: url, Connections: 2, QoS: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "manifest")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := manifest.NewWriter(file, manifest.Header{Seed: cfg.Seed, Start: f.Start().UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := f.RunMQTT(t.Context(), m, w)
	if err != nil || sum.Unacked() > 0 {
		t.Fatalf("cannot simulate: %v, %d messages unacknowledged", err, sum.Unacked())
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// pub publishes with mosquitto_pub, as a user would.
func pub(t *testing.T, b *testenv.Broker, args ...string) {
	t.Helper()
	host, port, _ := strings.Cut(b.Addr, ":")
	cmd := exec.Command(testenv.Need(t, "mosquitto_pub"), append([]string{"-h", host, "-p", port, "-q", "1"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub %q: %v %s", args, err, out)
	}
}

// stores are the settings of each store that the tests have.
func stores(t *testing.T, test func(t *testing.T, environ []string)) {
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("FerretDB", func(t *testing.T) {
		t.Parallel()
		f := testenv.FerretDB(t)
		// One connection: that server loses concurrent updates.
		test(t, []string{"MONGODB_URI=" + f.URI + "?maxPoolSize=1", "MONGODB_DATABASE=test"})
	})
}

// The worked example of the bucket pattern, published as a user would publish
// it, must give exactly its two buckets.
func TestTheWorkedExampleGivesItsTwoBuckets(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, environ []string) {
		b := testenv.Mosquitto(t)
		p := start(t, append(environ, "MQTT_URL="+b.URL, "CLOCK_AHEAD=87600h", "CLOCK_BEHIND=87600h")...)
		p.untilReady()
		values := map[string]string{
			"09:05:10": "26.4", "09:05:20": "26.6", "09:05:30": "26.5", "09:05:40": "26.7", "09:05:50": "26.8", "09:05:59": "26.6",
			"09:06:10": "27.0", "09:06:20": "27.2", "09:06:30": "27.1", "09:06:40": "27.3", "09:06:50": "27.4", "09:06:59": "27.2",
		}
		for range 2 { // the second time changes nothing
			for at, v := range values {
				pub(t, b, "-t", "warehouse/S-01/reading", "-m", fmt.Sprintf(`{"time":"2026-12-06T%sZ","temperature":%s}`, at, v))
			}
		}
		testenv.Eventually(t, 20*time.Second, "24 messages done", func() bool { return p.outcomes() == 24 })
		_, body := p.get("/api/v1/buckets?sensor=S-01")
		var got struct {
			Buckets []struct {
				SensorID, Metric, Start string
				Count                   int
				Sum, Min, Max           float64
				Outlier                 bool
			}
			Next string
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Buckets) != 2 || got.Next != "" {
			t.Fatalf("buckets: %s", body)
		}
		for i, want := range []struct {
			start       string
			sum, lo, hi float64
		}{{"2026-12-06T09:05:00.000Z", 159.6, 26.4, 26.8}, {"2026-12-06T09:06:00.000Z", 163.2, 27.0, 27.4}} {
			b := got.Buckets[i]
			if b.Start != want.start || b.Count != 6 || b.Min != want.lo || b.Max != want.hi || b.Sum < want.sum-1e-9 || b.Sum > want.sum+1e-9 {
				t.Errorf("bucket %d is %+v, want 6 readings from %+v", i, b, want)
			}
		}
		// FerretDB says of a bulk only that something in it was there already,
		// so what is new in the same bulk can't be told from what is not.
		told := p.service.cfg.MongoDBURI == ""
		if stored, dup := p.metric("gudang_readings_stored_total"), p.metric("gudang_readings_duplicate_total"); stored+dup != 24 || stored < 12 || told && dup != 12 {
			t.Errorf("%v stored and %v duplicate, want 12 of each", stored, dup)
		}
		_, body = p.get("/api/v1/readings?sensor=S-01&metric=temperature&from=2026-12-06T09:05:50Z&to=2026-12-06T09:06:20Z")
		want := `{"readings":[{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:05:50.000Z","value":26.8},{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:05:59.000Z","value":26.6},{"sensorId":"S-01","metric":"temperature","time":"2026-12-06T09:06:10.000Z","value":27}]}`
		if strings.TrimSpace(body) != want {
			t.Errorf("readings: %s\nwant %s", body, want)
		}
		for expression, want := range map[string]string{"temperature": "26.6", "temperature:max": "26.8", "count_over_time(temperature[1m])": "6"} {
			_, body = p.get("/prometheus/api/v1/query?time=2026-12-06T09:06:00Z&query=" + url.QueryEscape(expression))
			if !strings.Contains(body, `"sensor":"S-01"`) || !strings.HasSuffix(body, `[1796547960,"`+want+`"]}]}}`) {
				t.Errorf("%s: %s, want %s", expression, body, want)
			}
		}
		_, body = p.get("/api/v1/sensors/S-01")
		if !strings.Contains(body, `"lastSeen":"2026-12-06T09:06:59.000Z"`) && !strings.Contains(body, `"firstSeen"`) {
			t.Errorf("sensor: %s", body)
		}
		p.end()
	})
}

// A fleet with copies, late readings and failed measurements ends exact, and
// a manifest that expects one thing else is told apart.
func TestASimulatedFleetIsStoredExactly(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, environ []string) {
		b := testenv.Mosquitto(t)
		p := start(t, append(environ, "MQTT_URL="+b.URL)...)
		p.untilReady()
		name := simulate(t, b.URL, fleet.Config{Sensors: 30, Interval: 10 * time.Second, Count: 450, Rate: 150, Duplicate: 0.05, Late: 0.05, NaN: 0.02, Seed: 7})
		if status, said := p.verify("-manifest", name, "-wait", "60s"); status != 0 {
			t.Fatalf("verify: status %d\n%s", status, said)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range []struct{ what, from, to string }{
			{"a value", `"v":`, `"v":9`}, {"a sensor", `"s":"S-`, `"s":"T-`},
		} {
			lines := strings.SplitAfter(string(text), "\n")
			lines[len(lines)/2] = strings.Replace(lines[len(lines)/2], change.from, change.to, 1)
			if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			if status, said := p.verify("-manifest", name); status != 1 {
				t.Errorf("%s changed: status %d, want 1\n%s", change.what, status, said)
			}
		}
		p.end()
	})
}

// 60,000 messages through the embedded broker into the embedded store, and
// through a stop and a start of the service in the middle.
func TestABigFleetIsStoredExactlyWithNothingInstalled(t *testing.T) {
	t.Parallel()
	p := start(t, "READING_INTERVAL=10s")
	p.untilReady()
	begun := time.Now()
	first := simulate(t, "tcp://"+p.service.broker.Addr(), fleet.Config{Sensors: 500, Interval: 10 * time.Second, Count: 30_000, Duplicate: 0.05, Late: 0.05, Seed: 1})
	p.end() // right behind the last acknowledgement
	p.start()
	p.untilReady()
	second := simulate(t, "tcp://"+p.service.broker.Addr(), fleet.Config{Sensors: 500, Interval: 10 * time.Second, Count: 30_000, Duplicate: 0.05, Late: 0.05, Seed: 2, Start: time.Now().Add(-3 * time.Hour)})
	t.Logf("60,000 messages in %v", time.Since(begun))
	if status, said := p.verify("-manifest", first, "-manifest", second, "-wait", "60s"); status != 0 {
		t.Errorf("verify: status %d\n%s", status, said)
	}
	testenv.Eventually(t, 10*time.Second, "500 sensors are known: those of before the restart and now", func() bool { return p.metric("gudang_sensors") == 500 })
	p.end()
}

// Stops under load, one after the other, lose nothing and double nothing.
func TestStopsUnderLoadAreExact(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_queued_messages 0")
	p := start(t, "MQTT_URL="+b.URL)
	p.untilReady()
	type result struct{ name string }
	names := make(chan result, 1)
	go func() {
		names <- result{simulate(t, b.URL, fleet.Config{Sensors: 100, Interval: 10 * time.Second, Count: 8000, Rate: 1500, Duplicate: 0.02, Seed: 3})}
	}()
	stops := 0
	for {
		select {
		case r := <-names:
			if stops < 3 {
				t.Errorf("only %d stops under load", stops)
			}
			if status, said := p.verify("-manifest", r.name, "-wait", "60s"); status != 0 {
				t.Errorf("verify after %d stops: status %d\n%s", stops, status, said)
			}
			p.end()
			return
		default:
		}
		have := p.metric("gudang_messages_received_total")
		testenv.Eventually(t, 20*time.Second, "messages arrive", func() bool { return p.metric("gudang_messages_received_total") > have || len(names) > 0 })
		p.end()
		stops++
		p.start()
		p.untilReady()
	}
}

// Whatever comes with it, good traffic is complete, and every message ends as
// one outcome and is acknowledged.
func TestBadMessagesCostGoodOnesNothing(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	p := start(t, "MQTT_URL="+b.URL, "MQTT_TOPICS=warehouse/{sensor}/reading,plain/{sensor}/{metric}")
	p.untilReady()
	type bad struct{ topic, payload, reason string }
	bads := []bad{
		{"warehouse/b1/reading", `{"temperature":26.4,"humi`, "invalid_json"},
		{"warehouse/b1/reading", `{"temperature":26.4} trailing`, "trailing_data"},
		{"warehouse/b1/reading", `{"temperature":1,"temperature":2}`, "duplicate_key"},
		{"warehouse/b1/reading", strings.Repeat("[", 5000), "too_deep"},
		{"warehouse/b1/reading", `{"temperature":-3276.7}`, "out_of_range"},
		{"warehouse/b1/reading", "{\"id\":\"a\xff\",\"temperature\":1}", "invalid_utf8"},
		{"plain/b1/temperature", "26,4", "decimal_comma"},
		{"plain/b1/temperature", "1,008.31", "thousands_separator"},
		{"plain/b1/temperature", "0x1p4", "number_syntax"},
		{"plain/b1/temperature", "true", "boolean"},
		{"plain/b1/temperature", "warm", "invalid_value"},
		{"warehouse/b1/reading", `{"id":"b\u0000","temperature":26.4}`, "control_character"},
		{"plain/" + strings.Repeat("b", 257) + "/temperature", "26.4", "id_too_long"},
		{"plain/b1/temperature", "nan", "not_finite"},
		{"plain//temperature", "26.4", "no_sensor"},
	}
	const rounds = 20
	name := make(chan string, 1)
	go func() {
		name <- simulate(t, b.URL, fleet.Config{Sensors: 20, Interval: 10 * time.Second, Count: 2000, Rate: 1000, NaN: 0.1, Seed: 5})
	}()
	dir := t.TempDir()
	for i, x := range bads {
		file := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(file, []byte(x.payload), 0o600); err != nil {
			t.Fatal(err)
		}
		pub(t, b, "-t", x.topic, "-f", file, "--repeat", strconv.Itoa(rounds))
	}
	pub(t, b, "-t", "plain/b1/temperature", "-m", "unavailable", "--repeat", strconv.Itoa(rounds))
	pub(t, b, "-t", "plain/b1/temperature", "-n")
	if status, said := p.verify("-manifest", <-name, "-wait", "60s"); status != 0 {
		t.Errorf("verify: status %d\n%s", status, said)
	}
	total := float64(2000 + rounds*len(bads) + rounds + 1)
	testenv.Eventually(t, 20*time.Second, "every message has ended", func() bool { return p.outcomes() == total })
	if got := p.metric("gudang_messages_received_total"); got != total {
		t.Errorf("%v messages received, want %v", got, total)
	}
	want := map[string]float64{}
	for _, x := range bads {
		want[x.reason] += rounds
	}
	for reason, n := range want {
		got := p.metric(`gudang_rejected_total{reason="` + reason + `"}`)
		if reason == "not_finite" || reason == "invalid_value" {
			if got < n { // the fleet's failed measurements come on top
				t.Errorf("%v rejected for %s, want at least %v", got, reason, n)
			}
		} else if got != n {
			t.Errorf("%v rejected for %s, want %v", got, reason, n)
		}
	}
	if got := p.metric(`gudang_messages_total{outcome="ignored"}`); got != rounds+1 {
		t.Errorf("%v ignored, want %v", got, rounds+1)
	}
	p.end()
	if n := strings.Count(p.log.String(), "message rejected"); n > 3*len(want) {
		t.Errorf("%d log lines for %d bad messages", n, rounds*len(bads))
	}
}

// The service comes first, the broker later and the database last.
func TestTheServiceStartsBeforeEverythingElse(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	f := testenv.FerretDB(t)
	b.Stop()
	f.Stop()
	p := start(t, "MQTT_URL="+b.URL, "MONGODB_URI="+f.URI+"?maxPoolSize=1")
	testenv.Eventually(t, 30*time.Second, "both are named", func() bool {
		status, body := p.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, b.Addr) && strings.Contains(body, "store")
	})
	if status, _ := p.get("/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d while the others are away", status)
	}
	b.Start()
	testenv.Eventually(t, 30*time.Second, "the broker is no longer named", func() bool {
		_, body := p.get("/readyz")
		return !strings.Contains(body, b.Addr)
	})
	pub(t, b, "-t", "warehouse/S-01/reading", "-m", `{"temperature":20.5}`)
	f.Start()
	p.untilReady()
	testenv.Eventually(t, 30*time.Second, "the reading is stored", func() bool { return p.metric("gudang_readings_stored_total") == 1 })
	p.end()
}

func TestAStopWithTheStoreAwayEndsInTime(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	p := start(t, "MQTT_URL="+b.URL, "JOURNAL=off", "MONGODB_URI=mongodb://127.0.0.1:"+strconv.Itoa(testenv.FreePort(t)))
	testenv.Eventually(t, 30*time.Second, "the store is named", func() bool {
		_, body := p.get("/readyz")
		return strings.Contains(body, "store") && !strings.Contains(body, b.Addr)
	})
	pub(t, b, "-t", "warehouse/S-01/reading", "-m", `{"temperature":20.5}`)
	testenv.Eventually(t, 10*time.Second, "the message is here", func() bool { return p.metric("gudang_unacked_messages") == 1 })
	p.end()
	if !strings.Contains(p.log.String(), "unacknowledged_messages=1") {
		t.Error("the log doesn't say how many messages are left")
	}
	// What was not acknowledged the broker has still.
	p = start(t, "MQTT_URL="+b.URL)
	testenv.Eventually(t, 30*time.Second, "the reading is stored", func() bool { return p.metric("gudang_readings_stored_total") == 1 })
	p.end()
}

// Someone looks at the store with a tool while the service starts.
func TestTheStartWaitsForALockedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, "DATA_DIR="+dir).end()

	tool, err := sqlite3.Open(filepath.Join(dir, "gudang.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if err := tool.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig([]string{"HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0", "DATA_DIR=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	log := &testenv.LogBuffer{}
	opened := make(chan error, 1)
	begin := func(ctx context.Context) {
		s, err := newService(ctx, c, slog.New(slog.NewTextHandler(log, nil)))
		if err == nil {
			s.close(nil)
		}
		opened <- err
	}
	waits := func(times int) {
		testenv.Eventually(t, 30*time.Second, "the log says that it waits", func() bool {
			return strings.Count(log.String(), "another program has locked the embedded store") == times
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	go begin(ctx)
	waits(1)
	stop()
	if err := <-opened; !errors.Is(err, errStopped) {
		t.Errorf("a stop while it waits ends with %v, want %v", err, errStopped)
	}
	go begin(t.Context())
	waits(2)
	if err := tool.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("after the lock is gone: %v", err)
	}
}

// The first command of the README.
func TestTheDemoStoresReadings(t *testing.T) {
	t.Parallel()
	c, err := loadConfig([]string{"HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0", "DATA_DIR=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	log := &testenv.LogBuffer{}
	s, err := newService(t.Context(), c, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, service: s, log: log, done: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.done <- s.demo(ctx, 10) }()
	p.untilReady()
	testenv.Eventually(t, 30*time.Second, "the history is stored", func() bool { return p.metric("gudang_readings_stored_total") >= 10*360*2 })
	have := p.metric("gudang_readings_stored_total")
	testenv.Eventually(t, 30*time.Second, "live readings are stored", func() bool { return p.metric("gudang_readings_stored_total") > have })
	if !strings.Contains(log.String(), "open=http://"+s.web.Addr()) {
		t.Error("the log doesn't say what to open")
	}
	p.end()
}

// Every name of the contract that exists is there from the start.
func TestTheMetricsOfTheContractAreThere(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.untilReady()
	_, body := p.get("/metrics")
	for _, name := range []string{
		"gudang_messages_received_total", "gudang_messages_total", "gudang_rejected_total", "gudang_readings_received_total",
		"gudang_readings_stored_total", "gudang_readings_duplicate_total", "gudang_readings_late_total", "gudang_bucket_fill_ratio_bucket",
		"gudang_open_buckets", "gudang_unacked_messages", "gudang_last_message_timestamp_seconds", "gudang_store_lag_seconds_bucket",
		"gudang_flush_duration_seconds_bucket", "gudang_flush_readings_bucket", "gudang_store_writes_total", "gudang_sensors",
		"gudang_mqtt_connected", "gudang_store_up", "gudang_max_sensors 100000", "gudang_max_unacked_messages 50000", "gudang_journal_max_bytes 1.073741824e+09", "gudang_build_info", "go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("no metric %s", name)
		}
	}
	promtool := exec.Command(testenv.Need(t, "promtool"), "check", "metrics")
	promtool.Stdin = strings.NewReader(body)
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	p.end()
}

// 10,000 sensor ids, hostile ones among them, leave /metrics as large as it was.
func TestSensorIDsDoNotReachTheMetrics(t *testing.T) {
	t.Parallel()
	p := start(t, "MAX_SENSORS=100")
	p.untilReady()
	_, before := p.get("/metrics")
	simulate(t, "tcp://"+p.service.broker.Addr(), fleet.Config{Sensors: 3000, Interval: 10 * time.Second, Count: 3000, Seed: 9})
	testenv.Eventually(t, 30*time.Second, "every message has ended", func() bool { return p.outcomes() == 3000 })
	if n := p.metric(`gudang_rejected_total{reason="too_many_sensors"}`); n != 2900*2 {
		t.Errorf("%v readings rejected, want those of 2,900 sensors", n)
	}
	_, after := p.get("/metrics")
	if lines := strings.Count(after, "\n") - strings.Count(before, "\n"); lines > 50 {
		t.Errorf("%d more lines in /metrics", lines)
	}
	p.end()
	// The limit holds over a restart: those of before, and no others.
	p.start()
	p.untilReady()
	testenv.Eventually(t, 10*time.Second, "100 sensors are known", func() bool { return p.metric("gudang_sensors") == 100 })
	_, body := p.get("/api/v1/sensors?limit=1000")
	if n := strings.Count(body, `"sensorId"`); n != 100 {
		t.Errorf("%d sensors listed, want 100", n)
	}
	p.end()
}

func TestAnIDIsFoundWhateverIsInIt(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	p := start(t, "MQTT_URL="+b.URL)
	p.untilReady()
	ids := []string{"$rack.7", "a/b", "köln 5", `"quoted"`, "<script>", "..", "100%", "{$gt:1}"}
	for _, id := range ids {
		payload, err := json.Marshal(map[string]any{"sensorId": id, "temperature": 20})
		if err != nil {
			t.Fatal(err)
		}
		pub(t, b, "-t", "warehouse/x/reading", "-m", string(payload))
	}
	testenv.Eventually(t, 20*time.Second, "all are stored", func() bool { return p.metric("gudang_readings_stored_total") == float64(len(ids)) })
	for _, id := range ids {
		if _, body := p.get("/api/v1/readings?sensor=" + url.QueryEscape(id)); strings.Count(body, `"value":20`) != 1 {
			t.Errorf("%s: %s", id, body)
		}
	}
	p.end()
}
