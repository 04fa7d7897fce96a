//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gudang/internal/fleet"
	"gudang/internal/manifest"
	"gudang/internal/testenv"
)

// The tests here each hold one way in which such services are known to fail.

// launch starts the program with a directory of its own, unless one is given.
func launch(t *testing.T, name string, env ...string) *instance {
	t.Helper()
	dir := t.TempDir()
	i := newInstance(t, dir, name, append([]string{"DATA_DIR=" + dir, "MQTT_CLIENT_ID=" + name}, env...))
	t.Cleanup(func() {
		if text, err := os.ReadFile(i.log); t.Failed() && err == nil {
			t.Logf("%s said:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	i.start(t)
	return i
}

func untilReady(t *testing.T, all ...*instance) {
	t.Helper()
	for _, i := range all {
		testenv.Eventually(t, 30*time.Second, i.name+" is ready", i.ready)
	}
}

// sample reads one metric.
func (i *instance) sample(t *testing.T, name string) float64 {
	t.Helper()
	m, err := i.metrics()
	if err != nil {
		t.Fatal(err)
	}
	v, ok := m[name]
	if !ok {
		t.Fatalf("%s has no metric %s", i.name, name)
	}
	return v
}

// simulate publishes a fleet and records it in the file.
func simulate(ctx context.Context, url, file string, cfg fleet.Config) error {
	f, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	m, err := fleet.NewMQTT(fleet.MQTTConfig{Broker: url, QoS: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w, err := manifest.NewWriter(out, manifest.Header{Seed: cfg.Seed, Start: f.Start().UnixMilli()})
	if err != nil {
		return err
	}
	sum, err := f.RunMQTT(ctx, m, w)
	if err == nil && sum.Unacked() > 0 {
		err = fmt.Errorf("%d messages are unacknowledged", sum.Unacked())
	}
	return errors.Join(err, w.Close())
}

// fleets publishes one fleet after the other until it is told to end. It
// yields the arguments for verify.
type fleets struct {
	enough  atomic.Bool
	running sync.WaitGroup
	args    []string
	err     error
}

func startFleets(t *testing.T, url string, cfg fleet.Config) *fleets {
	t.Helper()
	f, dir, now := &fleets{}, t.TempDir(), time.Now()
	f.running.Go(func() {
		for n := 1; !f.enough.Load() && f.err == nil; n++ {
			cfg.Seed, cfg.Start = uint64(n), now.Add(-time.Duration(n)*24*time.Hour) // no two have a reading in common
			file := filepath.Join(dir, fmt.Sprint("manifest-", n))
			f.args = append(f.args, "-manifest", file)
			f.err = simulate(t.Context(), url, file, cfg)
		}
	})
	return f
}

// end waits until all is acknowledged.
func (f *fleets) end(t *testing.T) []string {
	t.Helper()
	f.enough.Store(true)
	f.running.Wait()
	if f.err != nil {
		t.Fatal(f.err)
	}
	return f.args
}

// mustBeExact asks verify.
func mustBeExact(t *testing.T, env []string, manifests ...string) {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"verify", "-wait", "60s"}, manifests...)...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// mongo is a FerretDB behind a proxy, and the settings that lead through it.
func mongo(t *testing.T) (p *proxy, through, direct []string) {
	t.Helper()
	f := testenv.FerretDB(t)
	p = newProxy(t, f.Addr, true)
	return p, []string{"MONGODB_URI=mongodb://" + p.addr() + "/?maxPoolSize=1"}, []string{"MONGODB_URI=" + f.URI + "?maxPoolSize=1"}
}

// Field note 1: the store is away for longer than the broker waits for a sign
// of life (one and a half keep-alives of 30 s), and the session stays up.
func TestTheSessionOutlivesTheStore(t *testing.T) {
	for name, env := range map[string]string{"with the journal": "JOURNAL=on", "without": "JOURNAL=off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testenv.Mosquitto(t, "max_queued_messages 0")
			p, through, direct := mongo(t)
			i := launch(t, "gudang", append(through, env, "MQTT_URL="+b.URL)...)
			untilReady(t, i)
			f := startFleets(t, b.URL, fleet.Config{Sensors: 5, Metrics: []string{"temperature"}, Interval: time.Second, Count: 50, Rate: 10})
			testenv.Eventually(t, 20*time.Second, "readings are stored", func() bool { return i.sample(t, "gudang_readings_stored_total") > 0 })
			p.set(func() { p.stalled = [2]bool{true, true} })
			paused := time.Now()
			testenv.Eventually(t, 55*time.Second, "the store was away", func() bool { return time.Since(paused) > 48*time.Second })
			if status, body, err := i.get("/readyz"); err != nil || status == 200 || !strings.Contains(body, "store") {
				t.Errorf("readiness while the store is away: %d %q %v", status, body, err)
			}
			p.heal()
			args := f.end(t)
			mustBeExact(t, direct, args...)
			if n := i.sample(t, "gudang_mqtt_connects_total"); n != 1 {
				t.Errorf("%v connections to the broker, want the first alone", n)
			}
			if err := i.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Field note 4: messages that yield no reading do not hold their places at the
// broker.
func TestBadMessagesDoNotStopGoodOnes(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_queued_messages 0")
	i := launch(t, "gudang", "MQTT_URL="+b.URL)
	untilReady(t, i)
	m, err := fleet.NewMQTT(fleet.MQTTConfig{Broker: b.URL, QoS: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running, acked sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	defer running.Wait()
	defer stop()
	const bad = 5000
	for n := range bad + 1 {
		payload := []string{`{"temperature":26.4,"humi`, `[]`}[n%2]
		if n == bad {
			acked.Wait()
			payload = `{"temperature":26.4}`
		}
		acked.Add(1)
		if err := m.Publish(ctx, fleet.Message{Topic: "warehouse/S-01/reading", Payload: []byte(payload), Done: func(error) { acked.Done() }}); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, 5*time.Second, "the good one is stored", func() bool { return i.sample(t, "gudang_readings_stored_total") == 1 })
	s, err := i.metrics()
	if err != nil {
		t.Fatal(err)
	}
	if s.received() != bad+1 || s.ended() != bad+1 || s.unacked() != 0 || s[`gudang_messages_total{outcome="stored"}`] != 1 {
		t.Errorf("of %d messages: %v received, %v ended, %v unacknowledged, %v stored", bad+1, s.received(), s.ended(), s.unacked(), s[`gudang_messages_total{outcome="stored"}`])
	}
}

// Field note 10: a write whose reply is lost is sent again, and counts once.
func TestALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_queued_messages 0")
	p, through, direct := mongo(t)
	p.set(func() { p.cutEach = 10 })
	i := launch(t, "gudang", append(through, "MQTT_URL="+b.URL, "FLUSH_INTERVAL=20ms")...) // many small writes
	untilReady(t, i)
	f := startFleets(t, b.URL, fleet.Config{Sensors: 1, Metrics: []string{"temperature"}, Interval: time.Second, Count: 100, Rate: 50})
	testenv.Eventually(t, 2*time.Minute, "ten replies were lost", func() (enough bool) {
		p.set(func() { enough = p.cuts >= 10 })
		return enough
	})
	args := f.end(t)
	mustBeExact(t, direct, args...)
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}

// Field note 40: SIGTERM under load, again and again.
func TestTwentyStopsUnderLoadAreExact(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_queued_messages 0")
	i := launch(t, "gudang", "MQTT_URL="+b.URL)
	untilReady(t, i)
	f := startFleets(t, b.URL, fleet.Config{Sensors: 50, Interval: time.Second, Count: 1000, Rate: 500, Duplicate: 0.05, Late: 0.05})
	for n := range 20 {
		testenv.Eventually(t, 30*time.Second, "readings are stored", func() bool {
			m, err := i.metrics()
			return err == nil && m["gudang_readings_stored_total"] > 0
		})
		if err := i.stop(); err != nil {
			t.Errorf("stop %d: %v", n+1, err)
		}
		i.start(t)
	}
	args := f.end(t)
	mustBeExact(t, i.env, args...)
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}

// Field note 40 once more: a store that neither answers nor refuses holds
// nobody up. What it did not take is stored after the next start.
func TestAStopWithAStoreThatHangsEndsInTime(t *testing.T) {
	for name, journal := range map[string]string{"with the journal": "on", "without": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testenv.Mosquitto(t, "max_queued_messages 0")
			p, through, direct := mongo(t)
			i := launch(t, "gudang", append(through, "JOURNAL="+journal, "MQTT_URL="+b.URL)...)
			untilReady(t, i)
			f := startFleets(t, b.URL, fleet.Config{Sensors: 5, Metrics: []string{"temperature"}, Interval: time.Second, Count: 100, Rate: 50})
			testenv.Eventually(t, 30*time.Second, "readings are stored", func() bool { return i.sample(t, "gudang_readings_stored_total") > 0 })
			p.set(func() { p.stalled = [2]bool{true, true} })
			testenv.Eventually(t, 30*time.Second, "messages are here that are not stored", func() bool {
				m, err := i.metrics()
				return err == nil && m.unacked()+m["gudang_journal_bytes"] > 0
			})
			if err := i.stop(); err != nil {
				t.Error(err)
			}
			if said := i.said(); !strings.Contains(said, "stopped before everything was stored") {
				t.Errorf("the log doesn't say that not everything was stored:\n%s", said)
			}
			p.heal()
			i.start(t)
			args := f.end(t)
			mustBeExact(t, direct, args...)
		})
	}
}

// Field note 41: two instances with one client id throw each other out. They
// say so, and do not fight.
func TestTwoInstancesWithOneIDSaySo(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	begun := time.Now()
	var all []*instance
	for _, name := range []string{"one", "other"} {
		all = append(all, launch(t, name, "MQTT_URL="+b.URL, "MQTT_CLIENT_ID=gudang-twice"))
	}
	named := func(i *instance) bool {
		for line := range strings.Lines(i.said()) {
			if strings.Contains(line, "another client") && strings.Contains(line, "gudang-twice") {
				return true
			}
		}
		return false
	}
	testenv.Eventually(t, time.Minute, "the log names the id", func() bool { return named(all[0]) || named(all[1]) })
	testenv.Eventually(t, 65*time.Second, "a minute has passed", func() bool { return time.Since(begun) > time.Minute })
	for _, i := range all {
		// The first connection is none of the reconnects.
		if n := i.sample(t, "gudang_mqtt_connects_total") - 1; n >= 10 {
			t.Errorf("%s connected again %v times within a minute", i.name, n)
		}
	}
}

// Field note 43: a member of a share group leaves, and what the broker had for
// it is stored all the same: by the others if it leaves for good, else by
// itself when it is back.
func TestAMemberOfAShareGroupLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		leave string
		back  bool
	}{"for good": {"true", false}, "and comes back": {"false", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testenv.Mosquitto(t, "max_queued_messages 0")
			_, through, direct := mongo(t)
			var all []*instance
			for _, name := range []string{"one", "other"} {
				all = append(all, launch(t, name, append(through, "MQTT_URL="+b.URL, "MQTT_SHARE=warehouse", "MQTT_LEAVE="+tt.leave)...))
			}
			untilReady(t, all...)
			f := startFleets(t, b.URL, fleet.Config{Sensors: 5, Metrics: []string{"temperature"}, Interval: time.Second, Count: 250, Rate: 50})
			testenv.Eventually(t, 30*time.Second, "both have stored something", func() bool {
				return all[0].sample(t, "gudang_readings_stored_total") > 0 && all[1].sample(t, "gudang_readings_stored_total") > 0
			})
			if err := all[1].stop(); err != nil {
				t.Error(err)
			}
			have := all[0].sample(t, "gudang_messages_received_total")
			testenv.Eventually(t, 30*time.Second, "messages come without it", func() bool { return all[0].sample(t, "gudang_messages_received_total") > have+100 })
			if tt.back {
				all[1].start(t)
			}
			args := f.end(t)
			mustBeExact(t, direct, args...)
		})
	}
}
