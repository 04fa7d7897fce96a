package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAFlushIsAsLargeAsItsIntervalIsMeantToMakeIt(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    int
	}{
		{nil, 10_000},
		{[]string{"FLUSH_INTERVAL=100ms"}, 10_000},
		{[]string{"FLUSH_INTERVAL=2s"}, 20_000},
		{[]string{"FLUSH_INTERVAL=60s"}, 100_000},
		{[]string{"FLUSH_INTERVAL=10m"}, 100_000},
		{[]string{"FLUSH_INTERVAL=60s", "FLUSH_READINGS=10000"}, 10_000},
		{[]string{"FLUSH_INTERVAL=60s", "FLUSH_READINGS=500000"}, 500_000},
		{[]string{"FLUSH_INTERVAL=60s", "JOURNAL=off"}, 10_000}, // the broker waits for its acks
	} {
		cfg, err := loadConfig(c.environ)
		if err != nil || cfg.FlushReadings != c.want {
			t.Errorf("%v: %+v, error %v, want %d", c.environ, cfg, err, c.want)
		}
	}
}

func TestSettingsHaveTheDefaultsOfTheContract(t *testing.T) {
	c, err := loadConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	c.settings(func(name string, value any, _ bool) { got[name] = value })
	for name, want := range map[string]any{
		"MQTT_URL": "", "MQTT_TOPICS": "warehouse/{sensor}/reading", "MQTT_QOS": uint8(1), "MQTT_SHARE": "",
		"MONGODB_URI": "", "MONGODB_DATABASE": "gudang", "DATA_DIR": "data", "EMBEDDED_MQTT_ADDR": "127.0.0.1:1883",
		"HTTP_ADDR": "127.0.0.1:8080", "BUCKET_SPAN": time.Minute, "READING_INTERVAL": 10 * time.Second,
		"FLUSH_INTERVAL": time.Second, "FLUSH_READINGS": 10000, "LATEST_READINGS": 10, "BUCKETS": "buckets", "MAX_SENSORS": 100000,
		"CLOCK_AHEAD": time.Minute, "CLOCK_BEHIND": 8760 * time.Hour, "JOURNAL": "on", "JOURNAL_MAX_BYTES": byteSize(1 << 30), "TIMEZONE": "UTC", "LOG_LEVEL": "info", "LOG_FORMAT": "text",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if c.MQTTClientID != "gudang-"+host {
		t.Errorf("client id %q", c.MQTTClientID)
	}
}

// A wrong setting stops the start with one line that names it, and status 2.
func TestAWrongSettingIsOneLineThatNamesIt(t *testing.T) {
	for _, setting := range []string{
		"MQTT_URL=broker:1883", "MQTT_URL=http://broker", "MQTT_TOPICS=a/#/b", "MQTT_TOPICS=a/{sensor}=nonsense", "MQTT_QOS=3", "MQTT_QOS=one",
		"MQTT_SHARE=a/b", "MQTT_MAX_UNACKED=0", "MQTT_MAX_UNACKED=70000", "MONGODB_URI=postgres://db", "MONGODB_DATABASE=a.b", "EMBEDDED_MQTT_ADDR=1883",
		"HTTP_ADDR=localhost", "BUCKET_SPAN=7s", "BUCKET_SPAN=60", "READING_INTERVAL=0s", "READING_INTERVAL=2m", "FLUSH_INTERVAL=0s", "FLUSH_INTERVAL=1h",
		"FLUSH_READINGS=0", "FLUSH_READINGS=many", "LATEST_READINGS=-1", "BUCKETS=raw", "BUCKETS=timeseries", "MAX_SENSORS=0", "METRIC_RANGES=temperature", "METRIC_RANGES=temperature=9:1",
		"METRIC_RANGES=temperature=NaN:1", "CLOCK_AHEAD=-1m", "CLOCK_BEHIND=soon", "TIMEZONE=Mars/Olympus", "LOG_LEVEL=loud", "LOG_FORMAT=xml", "JOURNAL=maybe", "JOURNAL_MAX_BYTES=lots", "JOURNAL_MAX_BYTES=5", "MQTT_LEAVE=perhaps",
		"MQTT_PASSWORD_FILE=/does/not/exist", "MQTT_PASSWORD_FILE=/dev/null", "MQTT_CA_FILE=/does/not/exist",
		"HTTP_TOKEN=two words", "HTTP_TOKEN=köln", "HTTP_TOKEN_FILE=/dev/null", "HTTP_USERNAME=fleet", "HTTP_PASSWORD=x", "HTTP_USERNAME=a:b", "HTTP_CERT_FILE=/does/not/exist", "HTTP_KEY_FILE=x",
	} {
		name, _, _ := strings.Cut(setting, "=")
		name = strings.TrimSuffix(name, "_FILE")
		var out, errOut bytes.Buffer
		environ := []string{"DATA_DIR=" + t.TempDir(), "HTTP_ADDR=127.0.0.1:0", "EMBEDDED_MQTT_ADDR=127.0.0.1:0", setting}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // if it starts nevertheless
		status := run(ctx, nil, environ, &out, &errOut)
		cancel()
		if status != 2 {
			t.Errorf("%s: status %d, want 2", setting, status)
		}
		if text := errOut.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, name) {
			t.Errorf("%s: said %q, want one line that names it", setting, text)
		}
	}
}

func TestASecretComesFromItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig([]string{"MQTT_PASSWORD_FILE=" + file})
	if err != nil || c.MQTTPassword != "hunter2" {
		t.Errorf("password %q, error %v", c.MQTTPassword, err)
	}
	if _, err := loadConfig([]string{"MQTT_PASSWORD_FILE=" + file, "MQTT_PASSWORD=x"}); err == nil {
		t.Error("both the setting and its file were accepted")
	}
}

func TestConfigShowsNoSecret(t *testing.T) {
	for _, form := range [][]string{{"config"}, {"config", "-json"}} {
		var out, errOut bytes.Buffer
		status := run(t.Context(), form, []string{
			"HTTP_TOKEN=hunter2", "HTTP_USERNAME=u", "HTTP_PASSWORD=hunter2",
			"MQTT_PASSWORD=hunter2", "MQTT_URL=tcp://u:hunter2@a:1883,ssl://b",
			"MONGODB_URI=mongodb://root:hunter2/x@h1:27017,h2:27017/?replicaSet=rs&authMechanismProperties=AWS_SESSION_TOKEN:hunter2",
		}, &out, &errOut)
		if strings.Contains(out.String()+errOut.String(), "hunter2") {
			t.Errorf("%v shows a secret: %s%s", form, &out, &errOut)
		}
		_ = status // this URI is refused by some drivers, which must not show it either
	}
}

func TestUnknownSettingsAreNoticed(t *testing.T) {
	got := unknownSettings([]string{"MQTT_TOPIC=a", "MQTT_TOPICS=a", "MQTT_PASSWORD_FILE=f", "MQTT_QOS_FILE=f", "PATH=x", "FLUSH_INTERVALL=1s", "RAW_DATA=true", "HOME=/", "DATADIR=x", "GUDANG_MQTT_URL=x", "MONGO_URI=x", "HTTP_PROXY=x", "HTTP_TOKEN_FILE=f", "HTTP_USER=x"})
	if want := []string{"DATADIR", "FLUSH_INTERVALL", "GUDANG_MQTT_URL", "HTTP_USER", "MONGO_URI", "MQTT_QOS_FILE", "MQTT_TOPIC", "RAW_DATA"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://a:1883":                                        "tcp://a:1883",
		"tcp://u:p@a:1883,ssl://b:8883":                       "tcp://u:********@a:1883,ssl://b:8883",
		"mongodb://u:p@h1:1,h2:2/?replicaSet=rs":              "mongodb://u:********@h1:1,h2:2/?replicaSet=rs",
		"mongodb://u:p@ss/w@h1/db":                            "mongodb://u:********@h1/db",
		"mongodb+srv://h/?authMechanismProperties=TOKEN:t":    "mongodb+srv://h/?authMechanismProperties=********",
		"mongodb://h/?TLSCertificateKeyFilePassword=p&ssl=on": "mongodb://h/?TLSCertificateKeyFilePassword=********&ssl=on",
		"u:p@host": "********",
	} {
		if got := redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"help"}, 0, "ingest verify"},
		{[]string{"version"}, 0, "ingest development"},
		{[]string{"version", "-json"}, 0, `"version":"development"`},
		{[]string{"config"}, 0, "BUCKET_SPAN=1m0s"},
		{[]string{"nonsense"}, 2, "nonsense"},
		{[]string{"version", "extra"}, 2, ""},
		{[]string{"verify"}, 2, ""},
		{[]string{"health", "extra"}, 2, ""},
	} {
		var out, errOut bytes.Buffer
		if status := run(t.Context(), c.args, nil, &out, &errOut); status != c.status {
			t.Errorf("%v: status %d, want %d", c.args, status, c.status)
		}
		if !strings.Contains(out.String()+errOut.String(), c.says) {
			t.Errorf("%v: said %q, want %q in it", c.args, out.String()+errOut.String(), c.says)
		}
	}
}
