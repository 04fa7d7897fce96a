package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gudang/internal/manifest"
	"gudang/internal/reading"
)

var noon = time.Date(2026, 12, 6, 12, 0, 0, 0, time.UTC)

// collector is a broker in memory: it acknowledges at once, except what fail
// says.
type collector struct {
	mu       sync.Mutex
	messages []Message
	at       []time.Time
	fail     func(n int) error
}

func (c *collector) Publish(ctx context.Context, m Message) error {
	c.mu.Lock()
	c.messages = append(c.messages, m)
	c.at = append(c.at, time.Now())
	n := len(c.messages)
	c.mu.Unlock()
	var err error
	if c.fail != nil {
		err = c.fail(n)
	}
	m.Done(err)
	return ctx.Err()
}

func (c *collector) text() string {
	var b strings.Builder
	for _, m := range c.messages {
		fmt.Fprintf(&b, "%s %s\n", m.Topic, m.Payload)
	}
	return b.String()
}

func fixed() time.Time { return noon }

// publish runs a fleet into memory.
func publish(t *testing.T, cfg Config, c *collector) (Summary, *bytes.Buffer) {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = fixed
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var rec Recorder
	var text bytes.Buffer
	var w *manifest.Writer
	if f.Timed() {
		if w, err = manifest.NewWriter(&text, manifest.Header{Seed: cfg.Seed}); err != nil {
			t.Fatal(err)
		}
		rec = w
	}
	sum, err := f.Run(t.Context(), c, rec)
	if err != nil {
		t.Fatal(err)
	}
	if w != nil {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return sum, &text
}

// expected is what a manifest says, by identity.
func expected(t *testing.T, text *bytes.Buffer) map[reading.Key]float64 {
	t.Helper()
	all := make(map[reading.Key]float64)
	if _, err := manifest.Read(text, func(e manifest.Entry) error {
		k := reading.Key{Series: e.Series, Start: e.Time}
		if _, twice := all[k]; twice {
			return fmt.Errorf("%v stands in it twice", k)
		}
		all[k] = e.Value
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// received is what a service would store of the messages: each reading once.
func received(t *testing.T, messages []Message) map[reading.Key]float64 {
	t.Helper()
	all := make(map[reading.Key]float64)
	for _, m := range messages {
		var fields map[string]any
		if err := json.Unmarshal(m.Payload, &fields); err != nil {
			t.Fatalf("%s: %v", m.Payload, err)
		}
		at, err := time.Parse(time.RFC3339, fields["time"].(string))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range fields {
			if value, ok := v.(float64); ok {
				k := reading.Key{Series: reading.Series{Sensor: fields["sensorId"].(string), Metric: name}, Start: at.UnixMilli()}
				if have, again := all[k]; again && have != value {
					t.Errorf("%v is %v and %v", k, have, value)
				}
				all[k] = value
			}
		}
	}
	return all
}

func TestTheSameSeedAndStartGiveTheSameBytes(t *testing.T) {
	cfg := Config{Sensors: 20, Interval: 10 * time.Second, Count: 2000, Seed: 7, Duplicate: 0.1, Late: 0.1, NaN: 0.1, Offline: 3, Outlier: 1}
	var one, two, other collector
	publish(t, cfg, &one)
	publish(t, cfg, &two)
	cfg.Seed = 8
	publish(t, cfg, &other)
	if one.text() != two.text() {
		t.Error("two runs differ")
	}
	if one.text() == other.text() {
		t.Error("another seed gives the same")
	}
}

func TestAFaultDoesNotChangeWhatIsMeasured(t *testing.T) {
	cfg := Config{Sensors: 20, Interval: 10 * time.Second, Count: 2000, Seed: 7}
	var plain, faulty collector
	publish(t, cfg, &plain)
	cfg.Duplicate, cfg.Late, cfg.Offline = 0.2, 0.2, 0.2
	publish(t, cfg, &faulty)
	if !maps.Equal(received(t, plain.messages), received(t, faulty.messages)) {
		t.Error("the readings differ")
	}
}

func TestTheManifestIsWhatMustBeStored(t *testing.T) {
	const count = 3000
	cfg := Config{Sensors: 30, Interval: 10 * time.Second, Count: count, Seed: 3, Duplicate: 0.05, Late: 0.05, NaN: 40, Offline: 4}
	var c collector
	sum, text := publish(t, cfg, &c)
	want := expected(t, text)
	if have := received(t, c.messages); !maps.Equal(have, want) {
		t.Errorf("%d readings in the messages, %d in the manifest, and not the same", len(have), len(want))
	}
	if len(want) != 2*count-40 {
		t.Errorf("%d readings, want one less for each of 40 NaN", len(want))
	}
	wantSum := Summary{Messages: count, Readings: 2*count - 40, Published: count + 150, Acked: count + 150, Duplicates: 150, NaN: 40, Late: sum.Late, Backlog: sum.Backlog}
	if sum != wantSum {
		t.Errorf("have %+v, want %+v", sum, wantSum)
	}
	if sum.Late < 120 || sum.Late > 150 || sum.Backlog == 0 {
		t.Errorf("late %d, backlog %d", sum.Late, sum.Backlog)
	}
	nulls, texts, disorder := 0, 0, 0
	latest := make(map[int]string)
	for _, m := range c.messages {
		nulls += bytes.Count(m.Payload, []byte(":null"))
		texts += bytes.Count(m.Payload, []byte(`:"NaN"`))
		at := string(m.Payload[bytes.Index(m.Payload, []byte(`"time"`)):][:34])
		if at < latest[m.Sensor] {
			disorder++
		}
		latest[m.Sensor] = max(at, latest[m.Sensor])
	}
	if nulls == 0 || texts == 0 || nulls+texts < 40 {
		t.Errorf("%d nulls and %d texts for 40 NaN", nulls, texts)
	}
	if disorder < int(sum.Late)/2 {
		t.Errorf("only %d messages out of order", disorder)
	}
}

func TestWhatIsNotAcknowledgedIsNotInTheManifest(t *testing.T) {
	c := collector{fail: func(n int) error {
		if n%10 == 0 {
			return errors.New("gone")
		}
		return nil
	}}
	sum, text := publish(t, Config{Sensors: 5, Interval: time.Second, Count: 100, Seed: 1}, &c)
	if n := len(expected(t, text)); n != 180 || sum.Unacked() != 10 || sum.Errors != 10 || sum.Readings != 180 {
		t.Errorf("%d readings, %+v", n, sum)
	}
}

func TestAMessageIsRecordedWhicheverCopyIsAcknowledged(t *testing.T) {
	c := collector{fail: func(n int) error {
		if n == 1 {
			return errors.New("gone")
		}
		return nil
	}}
	sum, text := publish(t, Config{Sensors: 1, Interval: time.Second, Count: 1, Seed: 1, Duplicate: 1}, &c)
	if n := len(expected(t, text)); n != 2 || sum.Duplicates != 1 {
		t.Errorf("%d readings, %+v", n, sum)
	}
}

func TestTimesAreDistinctEvenAndNeverInTheFuture(t *testing.T) {
	cfg := Config{Sensors: 50, Interval: 10 * time.Second, Count: 5000, Seed: 1, Outlier: 2}
	var c collector
	_, text := publish(t, cfg, &c)
	times := make(map[string][]int64)
	for k := range expected(t, text) {
		if k.Metric == "temperature" {
			times[k.Sensor] = append(times[k.Sensor], k.Start)
		}
	}
	wild := 0
	newest := int64(0)
	for sensor, ts := range times {
		slices.Sort(ts)
		newest = max(newest, ts[len(ts)-1])
		gap := int64(10000)
		if len(ts) > 1000 {
			wild++
			gap = 100
		}
		for i := 1; i < len(ts); i++ {
			if ts[i]-ts[i-1] != gap {
				t.Fatalf("%s: %d ms between two readings, want %d", sensor, ts[i]-ts[i-1], gap)
			}
		}
	}
	if len(times) != 50 || wild != 2 {
		t.Errorf("%d sensors, %d of them wild", len(times), wild)
	}
	if age := noon.UnixMilli() - newest; age < 0 || age > 10000 {
		t.Errorf("the newest reading is %d ms old", age)
	}
}

func TestTheWarehouseHasItsClimate(t *testing.T) {
	day := int64(24 * time.Hour / time.Millisecond)
	type stats struct{ mean, low, high, afternoon, night, correlation, step float64 }
	measure := func(i int) (s stats) {
		var ts, hs []float64
		sensor := newSensor(5, i)
		var after, dark []float64
		for at := int64(0); at < day; at += 10000 {
			v := sensor.sample(noon.UnixMilli() - day/2 + at)
			if math.Abs(v[0]*10-math.Round(v[0]*10)) > 1e-9 || v[1] < 0 || v[1] > 100 || math.Signbit(v[0]) && v[0] == 0 {
				t.Fatalf("a DHT22 does not say %v", v)
			}
			ts, hs = append(ts, v[0]), append(hs, v[1])
			switch hour := float64(at) / 3600000; {
			case hour >= 13.5 && hour < 15.5:
				after = append(after, v[0])
			case hour >= 1.5 && hour < 3.5:
				dark = append(dark, v[0])
			}
		}
		s.mean, s.afternoon, s.night = mean(ts), mean(after), mean(dark)
		s.low, s.high = slices.Min(ts), slices.Max(ts)
		s.correlation = correlation(ts, hs)
		for i := 1; i < len(ts); i++ {
			s.step = max(s.step, math.Abs(ts[i]-ts[i-1]))
		}
		return s
	}
	f := func(name string, i int, mean, swing float64) {
		t.Run(name, func(t *testing.T) {
			s := measure(i)
			t.Logf("%+v", s)
			if math.Abs(s.mean-mean) > 2.5 {
				t.Errorf("mean %v, want about %v", s.mean, mean)
			}
			if have := s.afternoon - s.night; math.Abs(have-swing) > 1 {
				t.Errorf("the afternoon is %v above the night, want about %v", have, swing)
			}
			if s.correlation > -0.2 {
				t.Errorf("correlation of temperature and humidity %v: not against each other", s.correlation)
			}
			if s.step > 0.7 {
				t.Errorf("a step of %v between two readings: that is no drift", s.step)
			}
		})
	}
	f("between the aisles", 0, 26.4, 4.2)
	f("at the dock", 1, 28.5, 8.4)
	f("in the cold room", 3, 4, 0.6)
	f("in the freezer", 7, -18, 0.4)
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func correlation(a, b []float64) float64 {
	ma, mb := mean(a), mean(b)
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

func TestPayloads(t *testing.T) {
	f := func(name, format string, o observation, want string) {
		t.Run(name, func(t *testing.T) {
			o.sensor, o.time = "S-0001", 1796547910000
			if have := string(formats()[format].encode(nil, &o)); have != want {
				t.Errorf("\nhave %s\nwant %s", have, want)
			}
		})
	}
	both := observation{metrics: []string{"temperature", "humidity"}, values: []float64{26.4, 61}, bad: -1}
	f("json", "json", both, `{"sensorId":"S-0001","time":"2026-12-06T09:05:10.000Z","temperature":26.4,"humidity":61.0}`)
	f("senml", "senml", both, `[{"bn":"S-0001/","bt":1796547910.000,"n":"temperature","u":"Cel","v":26.4},{"n":"humidity","u":"%RH","v":61.0}]`)
	f("number", "number", observation{metrics: []string{"temperature"}, values: []float64{-18.2}, bad: -1}, "-18.2")
	both.bad = 1
	f("json with null", "json", both, `{"sensorId":"S-0001","time":"2026-12-06T09:05:10.000Z","temperature":26.4,"humidity":null}`)
	f("senml with a text", "senml", both, `[{"bn":"S-0001/","bt":1796547910.000,"n":"temperature","u":"Cel","v":26.4},{"n":"humidity","u":"%RH","vs":"NaN"}]`)
	both.bad, both.seq = 0, 1
	f("json with NaN", "json", both, `{"sensorId":"S-0001","time":"2026-12-06T09:05:10.000Z","temperature":"NaN","humidity":61.0}`)
	f("number with nan", "number", observation{metrics: []string{"temperature"}, values: []float64{1}, bad: 0}, "nan")
}

func TestANumberFleetPublishesEachMetricOnItsTopic(t *testing.T) {
	var c collector
	sum, _ := publish(t, Config{Sensors: 2, Interval: time.Second, Count: 8, Format: "number", Seed: 1}, &c)
	topics := make(map[string]int)
	for _, m := range c.messages {
		topics[m.Topic]++
	}
	want := map[string]int{"warehouse/S-0001/temperature": 2, "warehouse/S-0001/humidity": 2, "warehouse/S-0002/temperature": 2, "warehouse/S-0002/humidity": 2}
	if !maps.Equal(topics, want) || sum.Readings != 8 {
		t.Errorf("topics %v, %+v", topics, sum)
	}
	f, err := New(Config{Sensors: 1, Interval: time.Second, Count: 1, Format: "number", Now: fixed})
	if err != nil {
		t.Fatal(err)
	}
	w, err := manifest.NewWriter(&bytes.Buffer{}, manifest.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(t.Context(), &c, w); err == nil || !strings.Contains(err.Error(), "no manifest") {
		t.Errorf("a manifest of numbers: %v", err)
	}
}

func TestRealTimeGoesWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c collector
		begun := time.Now()
		sum, text := publish(t, Config{Sensors: 4, Interval: 10 * time.Second, Duration: time.Minute, Seed: 1, Late: 0.2, Now: time.Now}, &c)
		if took := time.Since(begun); took < 50*time.Second || took > time.Minute {
			t.Errorf("took %v", took)
		}
		if sum.Messages != 24 || len(expected(t, text)) != 48 {
			t.Errorf("%+v", sum)
		}
		for i, m := range c.messages[:12] {
			var p struct{ Time time.Time }
			if err := json.Unmarshal(m.Payload, &p); err != nil {
				t.Fatal(err)
			}
			if d := c.at[i].Sub(p.Time); d < -5*time.Millisecond || d > 5*time.Millisecond {
				t.Errorf("message %d was published %v after its time", i, d)
			}
		}
	})
}

func TestTheRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c collector
		sum, _ := publish(t, Config{Sensors: 10, Interval: 10 * time.Second, Count: 1000, Rate: 100, Seed: 1, Now: time.Now}, &c)
		if sum.Seconds < 9.5 || sum.Seconds > 10.5 {
			t.Errorf("1000 messages at 100 a second took %v s", sum.Seconds)
		}
	})
}

func TestARateForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c collector
		sum, _ := publish(t, Config{Sensors: 10, Interval: 10 * time.Second, Duration: 5 * time.Second, Rate: 200, Seed: 1, Now: time.Now}, &c)
		if sum.Messages != 1000 {
			t.Errorf("%+v", sum)
		}
	})
}

func TestAStoppedFleetKeepsWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		f, err := New(Config{Sensors: 10, Interval: 10 * time.Second, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		var c collector
		var text bytes.Buffer
		w, err := manifest.NewWriter(&text, manifest.Header{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := f.Run(ctx, &c, w)
		if err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if n := len(expected(t, &text)); n == 0 || n != int(sum.Readings) || sum.Messages < 25 {
			t.Errorf("%d readings recorded, %+v", n, sum)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	f := func(name string, change func(*Config), want string) {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Sensors: 10, Interval: 10 * time.Second, Count: 10, Now: fixed}
			change(&cfg)
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("have %v, want an error with %q", err, want)
			}
		})
	}
	f("no sensors", func(c *Config) { c.Sensors = 0 }, "sensors")
	f("no interval", func(c *Config) { c.Interval = 0 }, "interval")
	f("an unknown format", func(c *Config) { c.Format = "xml" }, `format "xml"`)
	f("an unknown metric", func(c *Config) { c.Metrics = []string{"mood"} }, `metric "mood"`)
	f("a metric twice", func(c *Config) { c.Metrics = []string{"humidity", "humidity"} }, "twice")
	f("a count and a duration", func(c *Config) { c.Duration = time.Second }, "not both")
	f("a rate without an end", func(c *Config) { c.Count, c.Rate = 0, 5 }, "a rate needs")
	f("a topic without a sensor", func(c *Config) { c.Topic = "t" }, "{sensor}")
	f("a topic that is a filter", func(c *Config) { c.Topic = "t/{sensor}/#" }, "filters")
	f("numbers on one topic", func(c *Config) { c.Format, c.Topic = "number", "t/{sensor}" }, "{metric}")
	f("a start that leads into the future", func(c *Config) { c.Start = noon.Add(time.Hour) }, "future")
	f("a negative fault", func(c *Config) { c.Late = -1 }, "late")
	f("a number of faults without a count", func(c *Config) { c.Count, c.Duplicate = 0, 5 }, "fractions")
	f("outliers faster than a millisecond", func(c *Config) { c.Interval, c.Outlier = 50*time.Millisecond, 1 }, "outliers")
}

// BenchmarkFleet is what the fleet itself costs; its broker is free.
func BenchmarkFleet(b *testing.B) {
	b.ReportAllocs()
	const count = 10000
	for b.Loop() {
		f, err := New(Config{Sensors: 500, Interval: 10 * time.Second, Count: count, Duplicate: 0.05, Late: 0.05})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Run(b.Context(), discard{}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/message")
}

type discard struct{}

func (discard) Publish(_ context.Context, m Message) error { m.Done(nil); return nil }
