package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "time/tzdata" // a bare gateway has no zones of its own

	"github.com/caarlos0/env/v11"
	"github.com/dustin/go-humanize"

	"gudang/internal/decode"
	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/source"
)

// config is every setting. It is the only reader of the environment; the
// packages get plain values. A field tagged secret can also be given as the
// content of the file that <NAME>_FILE names, and is never printed.
type config struct {
	MQTTURL         string `env:"MQTT_URL" secret:"true"`
	MQTTTopics      string `env:"MQTT_TOPICS" envDefault:"warehouse/{sensor}/reading"`
	MQTTQoS         uint8  `env:"MQTT_QOS" envDefault:"1"`
	MQTTClientID    string `env:"MQTT_CLIENT_ID"`
	MQTTShare       string `env:"MQTT_SHARE"`
	MQTTUsername    string `env:"MQTT_USERNAME"`
	MQTTPassword    string `env:"MQTT_PASSWORD" secret:"true"`
	MQTTCAFile      string `env:"MQTT_CA_FILE"`
	MQTTCertFile    string `env:"MQTT_CERT_FILE"`
	MQTTKeyFile     string `env:"MQTT_KEY_FILE"`
	MQTTMaxUnacked  int    `env:"MQTT_MAX_UNACKED" envDefault:"50000"`
	MQTTConnections int    `env:"MQTT_CONNECTIONS" envDefault:"1"`
	MQTTLeave       bool   `env:"MQTT_LEAVE" envDefault:"false"`
	MongoDBURI      string `env:"MONGODB_URI" secret:"true"`
	MongoDBDatabase string `env:"MONGODB_DATABASE" envDefault:"gudang"`
	DataDir         string `env:"DATA_DIR" envDefault:"data"`
	EmbeddedAddr    string `env:"EMBEDDED_MQTT_ADDR" envDefault:"127.0.0.1:1883"`
	HTTPAddr        string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	HTTPToken       string `env:"HTTP_TOKEN" secret:"true"`
	HTTPUsername    string `env:"HTTP_USERNAME"`
	HTTPPassword    string `env:"HTTP_PASSWORD" secret:"true"`
	HTTPCertFile    string `env:"HTTP_CERT_FILE"`
	HTTPKeyFile     string `env:"HTTP_KEY_FILE"`

	Journal         string   `env:"JOURNAL" envDefault:"on"`
	JournalMaxBytes byteSize `env:"JOURNAL_MAX_BYTES" envDefault:"1GiB"`

	BucketSpan      time.Duration `env:"BUCKET_SPAN" envDefault:"1m"`
	ReadingInterval time.Duration `env:"READING_INTERVAL" envDefault:"10s"`
	FlushInterval   time.Duration `env:"FLUSH_INTERVAL" envDefault:"1s"`
	FlushReadings   int           `env:"FLUSH_READINGS" envDefault:"10000"`
	LatestReadings  int           `env:"LATEST_READINGS" envDefault:"10"`
	Buckets         string        `env:"BUCKETS" envDefault:"buckets"`
	OutlierReadings int           `env:"OUTLIER_READINGS" envDefault:"1000"`
	Raw             bool          `env:"RAW" envDefault:"false"`
	Retention       time.Duration `env:"RETENTION" envDefault:"0"`
	RawRetention    time.Duration `env:"RAW_RETENTION" envDefault:"0"`
	Rollups         string        `env:"ROLLUPS"`
	RollupRetention time.Duration `env:"ROLLUP_RETENTION" envDefault:"0"`
	MaxSensors      int           `env:"MAX_SENSORS" envDefault:"100000"`
	MetricRanges    string        `env:"METRIC_RANGES"`
	ClockAhead      time.Duration `env:"CLOCK_AHEAD" envDefault:"1m"`
	ClockBehind     time.Duration `env:"CLOCK_BEHIND" envDefault:"8760h"`
	Timezone        string        `env:"TIMEZONE" envDefault:"UTC"`
	LogLevel        string        `env:"LOG_LEVEL" envDefault:"info"`
	LogFormat       string        `env:"LOG_FORMAT" envDefault:"text"`

	// Made of the above.
	span   reading.Span
	rolled []reading.Span
	zone   *time.Location
	ranges map[string][2]float64
	urls   []*url.URL
	level  slog.Level
	tls    *tls.Config
	// decoder is for one goroutine, as a decoder is.
	decoder *decode.Decoder
}

// byteSize is a number of bytes, as people write it: 512MiB, 1GiB, 2GB.
type byteSize uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil {
		return errors.New("must be a size such as 512MiB or 1GiB")
	}
	*b = byteSize(n)
	return nil
}

// String is the size as it may be written.
func (b byteSize) String() string { return strings.ReplaceAll(humanize.IBytes(uint64(b)), " ", "") }

// loadConfig reads and checks the settings. The error is one line that names
// the setting.
func loadConfig(environ []string) (*config, error) {
	vars := env.ToMap(environ)
	if err := readSecrets(vars); err != nil {
		return nil, err
	}
	c := &config{}
	err := env.ParseWithOptions(c, env.Options{Environment: vars})
	var all env.AggregateError
	if errors.As(err, &all) && len(all.Errors) > 0 {
		var bad env.ParseError
		if errors.As(all.Errors[0], &bad) {
			if field, ok := reflect.TypeFor[config]().FieldByName(bad.Name); ok {
				name := field.Tag.Get("env")
				return nil, fmt.Errorf("%s=%q: %s", name, vars[name], wanted(field.Type, bad.Err))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if vars["FLUSH_READINGS"] == "" && c.Journal == "on" {
		c.FlushReadings = flushReadings(c.FlushInterval)
	}
	return c, c.check()
}

// flushReadings is how many readings do not wait any longer, if nothing else is
// said: with the journal behind it a flush may be as large as the interval is
// meant to make it, or 60s would be some seconds in a fleet of ten thousand.
func flushReadings(interval time.Duration) int {
	const each, most = 10_000, 100_000 // some 40 MB of buckets in memory
	return min(max(each, int(interval.Seconds()*each)), most)
}

// wanted says what a setting of a type has to be.
func wanted(t reflect.Type, err error) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "must be a duration such as 500ms, 10s or 24h"
	case t == reflect.TypeFor[byteSize]():
		return err.Error()
	case t.Kind() == reflect.Bool:
		return "must be true or false"
	default:
		return "must be a whole number"
	}
}

// settings yields each setting's name and value, and whether it is a secret.
func (c *config) settings(yield func(name string, value any, secret bool)) {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if name := field.Tag.Get("env"); name != "" {
			yield(name, v.Field(i).Interface(), field.Tag.Get("secret") != "")
		}
	}
}

// unknownSettings are the names that look like settings of ours but are none: a
// slip of the pen would otherwise go unnoticed.
func unknownSettings(environ []string) (names []string) {
	known := map[string]bool{}
	plain := map[string]bool{} // without what is often got wrong
	bare := func(name string) string {
		return strings.ReplaceAll(strings.TrimPrefix(strings.ToUpper(name), "GUDANG_"), "_", "")
	}
	(&config{}).settings(func(name string, _ any, secret bool) {
		known[name], plain[bare(name)] = true, true
		known[name+"_FILE"] = secret
	})
	groups := []string{"MQTT", "MONGODB", "MONGO", "EMBEDDED", "BUCKET", "READING", "FLUSH", "LATEST", "OUTLIER", "METRIC", "CLOCK", "JOURNAL", "RAW", "ROLLUP"}
	alone := []string{"RAW", "ROLLUPS", "RETENTION", "BUCKETS", "HTTP_PORT", "HTTP_USER", "HTTP_PASS", "HTTP_CERT", "HTTP_KEY", "HTTP_CA_FILE"}
	for name := range env.ToMap(environ) {
		group, _, compound := strings.Cut(name, "_")
		if !known[name] && (compound && slices.Contains(groups, group) || slices.Contains(alone, name) || plain[bare(name)]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readSecrets takes secrets from the files that <NAME>_FILE settings name.
func readSecrets(vars map[string]string) error {
	var err error
	(&config{}).settings(func(name string, _ any, secret bool) {
		file := vars[name+"_FILE"]
		if !secret || file == "" || err != nil {
			return
		}
		if vars[name] != "" {
			err = fmt.Errorf("%s and %s_FILE: give one of them", name, name)
			return
		}
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			err = fmt.Errorf("%s_FILE: %w", name, readErr)
			return
		}
		// An empty one would be no secret at all, and open what it should guard.
		if vars[name] = strings.TrimRight(string(text), "\r\n"); vars[name] == "" {
			err = fmt.Errorf("%s_FILE: %s is empty", name, file)
		}
	})
	return err
}

// check checks each setting, and makes of them what the packages need.
func (c *config) check() (err error) {
	fail := func(name string, value any, why string, args ...any) error {
		return fmt.Errorf("%s=%v: %s", name, value, fmt.Sprintf(why, args...))
	}
	if c.span, err = reading.NewSpan(c.BucketSpan); err != nil {
		return fail("BUCKET_SPAN", c.BucketSpan, "must be from 1s to 24h and divide a day")
	}
	if err := c.checkKept(); err != nil {
		return err
	}
	if c.zone, err = time.LoadLocation(c.Timezone); err != nil || c.Timezone == "Local" {
		return fail("TIMEZONE", c.Timezone, "must be a time zone's name, such as Asia/Jakarta")
	}
	if c.ranges, err = parseRanges(c.MetricRanges); err != nil {
		return fail("METRIC_RANGES", c.MetricRanges, "%v", err)
	}
	if err := c.level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fail("LOG_LEVEL", c.LogLevel, "must be debug, info, warn or error")
	}
	if c.MQTTURL != "" {
		if c.urls, err = source.ParseURLs(c.MQTTURL); err != nil {
			return fmt.Errorf("MQTT_URL: %w", err)
		}
	}
	if c.tls, err = source.TLS(c.MQTTCAFile, c.MQTTCertFile, c.MQTTKeyFile); err != nil {
		return fmt.Errorf("MQTT_CA_FILE, MQTT_CERT_FILE, MQTT_KEY_FILE: %w", err)
	}
	if c.MQTTClientID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("MQTT_CLIENT_ID: not set, and this machine's name cannot be read: %w", err)
		}
		c.MQTTClientID = "gudang-" + host
	}
	switch {
	case c.MQTTQoS > 2:
		return fail("MQTT_QOS", c.MQTTQoS, "must be 0, 1 or 2")
	case strings.ContainsAny(c.MQTTShare, "/+#"):
		return fail("MQTT_SHARE", c.MQTTShare, "a share group must not contain /, + or #")
	case c.MQTTMaxUnacked < 1 || c.MQTTMaxUnacked > 1<<16-1:
		return fail("MQTT_MAX_UNACKED", c.MQTTMaxUnacked, "must be from 1 to 65535, which is how many MQTT can tell apart")
	case c.MQTTConnections < 1 || c.MQTTConnections > source.MaxConnections:
		return fail("MQTT_CONNECTIONS", c.MQTTConnections, "must be from 1 to %d", source.MaxConnections)
	case c.Journal != "on" && c.Journal != "off":
		return fail("JOURNAL", c.Journal, "must be on or off")
	case c.JournalMaxBytes < 1<<20 || c.JournalMaxBytes > 1<<50:
		return fail("JOURNAL_MAX_BYTES", c.JournalMaxBytes, "must be from 1MiB to 1PiB")
	case c.ReadingInterval < time.Millisecond || c.ReadingInterval > c.BucketSpan:
		return fail("READING_INTERVAL", c.ReadingInterval, "must be from 1ms to BUCKET_SPAN (%v)", c.BucketSpan)
	case c.FlushInterval < 10*time.Millisecond || c.FlushInterval > 10*time.Minute:
		return fail("FLUSH_INTERVAL", c.FlushInterval, "must be from 10ms to 10m")
	case c.FlushReadings < 1 || c.FlushReadings > 1_000_000:
		return fail("FLUSH_READINGS", c.FlushReadings, "must be from 1 to 1000000")
	case c.LatestReadings < 0 || c.LatestReadings > 1000:
		return fail("LATEST_READINGS", c.LatestReadings, "must be from 0 to 1000")
	case c.Buckets != "buckets" && c.Buckets != bucketsTimeSeries:
		return fail("BUCKETS", c.Buckets, "must be buckets or timeseries")
	case c.Buckets == bucketsTimeSeries && c.MongoDBURI == "":
		return fail("BUCKETS", c.Buckets, "needs MONGODB_URI of MongoDB 5.0 or newer")
	case c.Buckets == bucketsTimeSeries && c.Rollups != "":
		return fail("ROLLUPS", c.Rollups, "are made of our buckets, which BUCKETS=timeseries does without")
	case c.OutlierReadings < 10 || c.OutlierReadings > 100_000:
		return fail("OUTLIER_READINGS", c.OutlierReadings, "must be from 10 to 100000")
	case c.MaxSensors < 1:
		return fail("MAX_SENSORS", c.MaxSensors, "must be at least 1")
	case c.ClockAhead < 0:
		return fail("CLOCK_AHEAD", c.ClockAhead, "must not be negative")
	case c.ClockBehind < 0:
		return fail("CLOCK_BEHIND", c.ClockBehind, "must not be negative")
	case c.LogFormat != "text" && c.LogFormat != "json":
		return fail("LOG_FORMAT", c.LogFormat, "must be text or json")
	}
	if err := c.checkHTTP(); err != nil {
		return err
	}
	if err := mongodb.CheckDatabase(c.MongoDBDatabase); err != nil {
		return fmt.Errorf("MONGODB_DATABASE: %w", err)
	}
	for name, addr := range map[string]string{"EMBEDDED_MQTT_ADDR": c.EmbeddedAddr, "HTTP_ADDR": c.HTTPAddr} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fail(name, addr, "must be host:port")
		}
	}
	if c.decoder, err = decode.New(c.decoding()); err != nil {
		return fmt.Errorf("MQTT_TOPICS: %w", err)
	}
	return nil
}

// decoding is what of the settings decoding depends on.
func (c *config) decoding() decode.Config {
	var topics []string
	for t := range strings.SplitSeq(c.MQTTTopics, ",") {
		topics = append(topics, strings.TrimSpace(t))
	}
	return decode.Config{Topics: topics, Zone: c.zone, ClockAhead: c.ClockAhead, ClockBehind: c.ClockBehind, Ranges: c.ranges}
}

// parseRanges reads METRIC_RANGES: temperature=-60:120,humidity=0:100.
func parseRanges(list string) (map[string][2]float64, error) {
	ranges := map[string][2]float64{}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		metric, limits, ok := strings.Cut(item, "=")
		low, high, ok2 := strings.Cut(limits, ":")
		lo, err := strconv.ParseFloat(strings.TrimSpace(low), 64)
		hi, err2 := strconv.ParseFloat(strings.TrimSpace(high), 64)
		metric = strings.TrimSpace(metric)
		if !ok || !ok2 || err != nil || err2 != nil || metric == "" || math.IsNaN(lo+hi) {
			return nil, fmt.Errorf("%q: must be metric=low:high", item)
		}
		if lo > hi {
			return nil, fmt.Errorf("%q: %v is above %v", item, lo, hi)
		}
		ranges[metric] = [2]float64{lo, hi}
	}
	return ranges, nil
}

// logger makes the service's logger.
func (c *config) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
