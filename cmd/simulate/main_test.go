package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"gudang/internal/embedded"
	"gudang/internal/fleet"
	"gudang/internal/manifest"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// broker starts the embedded broker.
func broker(t *testing.T, addr, user, password string) string {
	t.Helper()
	b, err := embedded.NewBroker(embedded.BrokerConfig{Addr: addr, Username: user, Password: password, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "tcp://" + b.Addr()
}

// store is a subscriber that keeps each reading once, as the service does.
type store struct {
	mu       sync.Mutex
	readings map[reading.Key]float64
	messages int
}

func subscribe(t *testing.T, url string) *store {
	t.Helper()
	s := &store{readings: make(map[reading.Key]float64)}
	handler := func(_ paho.Client, m paho.Message) {
		var fields map[string]any
		if err := json.Unmarshal(m.Payload(), &fields); err != nil {
			t.Errorf("%s: %v", m.Payload(), err)
			return
		}
		at, err := time.Parse(time.RFC3339, fields["time"].(string))
		if err != nil {
			t.Error(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.messages++
		for name, v := range fields {
			if value, ok := v.(float64); ok {
				s.readings[reading.Key{Series: reading.Series{Sensor: fields["sensorId"].(string), Metric: name}, Start: at.UnixMilli()}] = value
			}
		}
	}
	o := paho.NewClientOptions().AddBroker(url).SetClientID("gudang-test").SetCleanSession(false).SetDefaultPublishHandler(handler).
		SetMaxReconnectInterval(200 * time.Millisecond).SetOnConnectHandler(func(c paho.Client) { c.Subscribe("warehouse/+/reading", 1, nil) })
	c := paho.NewClient(o)
	if tok := c.Connect(); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("cannot connect: %v", tok.Error())
	}
	t.Cleanup(func() { c.Disconnect(10) })
	if tok := c.Subscribe("warehouse/+/reading", 1, nil); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("cannot subscribe: %v", tok.Error())
	}
	return s
}

func (s *store) snapshot() map[reading.Key]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.readings)
}

func noEnv(string) string { return "" }

// simulate runs the program and returns its summary.
func simulate(t *testing.T, ctx context.Context, args ...string) (status int, sum fleet.Summary, errOut string) {
	t.Helper()
	var out, text bytes.Buffer
	status = run(ctx, append(args, "-json"), noEnv, &out, &text)
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
			t.Fatalf("%s: %v", out.Bytes(), err)
		}
	}
	return status, sum, text.String()
}

func expected(t *testing.T, name string) map[reading.Key]float64 {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := make(map[reading.Key]float64)
	if _, err := manifest.Read(file, func(e manifest.Entry) error {
		all[reading.Key{Series: e.Series, Start: e.Time}] = e.Value
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatIsReceivedIsWhatTheManifestSays(t *testing.T) {
	f := func(name string, start func(t *testing.T) string) {
		t.Run(name, func(t *testing.T) {
			url := start(t)
			s := subscribe(t, url)
			file := filepath.Join(t.TempDir(), "manifest")
			status, sum, errOut := simulate(t, t.Context(), "-broker", url, "-sensors", "100", "-count", "5000",
				"-duplicate", "0.05", "-late", "0.05", "-nan", "50", "-offline", "5", "-outlier", "1", "-manifest", file)
			if status != exitOK {
				t.Fatalf("status %d: %s", status, errOut)
			}
			want := expected(t, file)
			if sum.Messages != 5000 || sum.Duplicates != 250 || sum.Acked != 5250 || len(want) != 10000-50 || sum.Readings != int64(len(want)) {
				t.Errorf("%+v, %d readings in the manifest", sum, len(want))
			}
			testenv.Eventually(t, 20*time.Second, "every reading of the manifest arrived", func() bool { return len(s.snapshot()) >= len(want) })
			if !maps.Equal(s.snapshot(), want) {
				t.Error("the readings differ from the manifest")
			}
		})
	}
	f("through the embedded broker", func(t *testing.T) string { return broker(t, "127.0.0.1:0", "", "") })
	f("through Mosquitto", func(t *testing.T) string { return testenv.Mosquitto(t, "max_queued_messages 0").URL })
}

func TestALostBrokerCostsNothing(t *testing.T) {
	b := testenv.Mosquitto(t, "persistence true", "max_queued_messages 0")
	s := subscribe(t, b.URL)
	file := filepath.Join(t.TempDir(), "manifest")
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, sum, errOut := simulate(t, t.Context(), "-broker", b.URL, "-sensors", "50", "-rate", "2000", "-count", "6000", "-manifest", file)
		if status != exitOK || sum.Unacked() != 0 || sum.Messages != 6000 {
			t.Errorf("status %d, %+v: %s", status, sum, errOut)
		}
		if !strings.Contains(errOut, "connection to the broker lost") {
			t.Errorf("nothing was said of the loss: %s", errOut)
		}
	}()
	testenv.Eventually(t, 10*time.Second, "the fleet is under way", func() bool { return len(s.snapshot()) > 2000 })
	b.Restart()
	<-done
	want := expected(t, file)
	testenv.Eventually(t, 20*time.Second, "every reading of the manifest arrived", func() bool { return len(s.snapshot()) >= len(want) })
	if len(want) != 12000 || !maps.Equal(s.snapshot(), want) {
		t.Errorf("%d readings in the manifest, %d arrived", len(want), len(s.snapshot()))
	}
}

func TestABrokerThatComesLaterIsWaitedFor(t *testing.T) {
	b := testenv.Mosquitto(t)
	b.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, sum, errOut := simulate(t, t.Context(), "-broker", b.URL, "-count", "100")
		if status != exitOK || sum.Acked != 100 || !strings.Contains(errOut, "cannot reach the broker: trying again") {
			t.Errorf("status %d, %+v: %s", status, sum, errOut)
		}
	}()
	select {
	case <-done:
		t.Fatal("ended without a broker")
	case <-time.After(300 * time.Millisecond):
	}
	b.Start()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("did not end")
	}
}

func TestAStopLeavesAWholeManifest(t *testing.T) {
	url := broker(t, "127.0.0.1:0", "", "")
	s := subscribe(t, url)
	file := filepath.Join(t.TempDir(), "manifest")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, sum, errOut := simulate(t, ctx, "-broker", url, "-rate", "500", "-count", "1000000", "-manifest", file)
		if status != exitOK || sum.Unacked() != 0 {
			t.Errorf("status %d, %+v: %s", status, sum, errOut)
		}
	}()
	testenv.Eventually(t, 10*time.Second, "the fleet is under way", func() bool { return len(s.snapshot()) > 300 })
	cancel()
	<-done
	want := expected(t, file)
	testenv.Eventually(t, 10*time.Second, "every reading of the manifest arrived", func() bool { return len(s.snapshot()) >= len(want) })
	if !maps.Equal(s.snapshot(), want) {
		t.Error("the readings differ from the manifest")
	}
}

func TestAWrongPasswordEndsAtOnce(t *testing.T) {
	url := broker(t, "127.0.0.1:0", "ayu", "rahasia")
	if status, _, errOut := simulate(t, t.Context(), "-broker", url, "-count", "5000", "-username", "ayu", "-password", "salah"); status != exitFailed || !strings.Contains(errOut, "refuses the credentials") {
		t.Errorf("status %d: %s", status, errOut)
	}
	env := func(name string) string {
		return map[string]string{"MQTT_USERNAME": "ayu", "MQTT_PASSWORD": "rahasia"}[name]
	}
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("rahasia\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := func(name string) string {
		return map[string]string{"MQTT_USERNAME": "ayu", "MQTT_PASSWORD_FILE": secret}[name]
	}
	file := filepath.Join(t.TempDir(), "manifest")
	for _, env := range []func(string) string{env, fromFile} {
		var out, errOut bytes.Buffer
		if status := run(t.Context(), []string{"-broker", url, "-count", "10", "-manifest", file}, env, &out, &errOut); status != exitOK {
			t.Errorf("status %d: %s", status, errOut.String())
		}
	}
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("rahasia")) {
		t.Errorf("the manifest has the password in it, or cannot be read: %v", err)
	}
}

func TestWrongFlagsAreOneLineAndStatusTwo(t *testing.T) {
	f := func(name, want string, args ...string) {
		t.Run(name, func(t *testing.T) {
			status, _, errOut := simulate(t, t.Context(), args...)
			if status != exitUsage || !strings.Contains(errOut, want) {
				t.Errorf("status %d: %s", status, errOut)
			}
		})
	}
	f("an unknown flag", "-sensor", "-sensor", "5")
	f("an argument", `unexpected argument "x"`, "x")
	f("a broker without a scheme", "-broker", "-broker", "localhost")
	f("a start that is no time", "-start", "-start", "yesterday")
	f("a QoS that is none", "-qos 3", "-qos", "3")
	f("no connections", "connections", "-connections", "-1")
	f("a manifest of numbers", "-manifest needs a format with the time", "-format", "number", "-manifest", filepath.Join(t.TempDir(), "m"))
	f("a fleet that cannot be", "not both", "-count", "5", "-duration", "5s")
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if status := run(t.Context(), []string{"-version"}, noEnv, &out, io.Discard); status != exitOK || !strings.HasPrefix(out.String(), "simulate ") {
		t.Errorf("status %d, %q", status, out.String())
	}
}
