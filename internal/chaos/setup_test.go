//go:build unix

package chaos

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gudang/internal/fleet"
)

// world is what a run consists of, as far as faults depend on it.
type world uint

const (
	outside    world = 1 << iota // the broker is Mosquitto
	persistent                   // and saves what it holds when it is stopped
	inside                       // the broker is the program's own
	onSQLite                     // the store is the embedded one
	onMongo                      // the store is FerretDB
	anywhere   = ^world(0)
)

// setup is all of a run but its faults, drawn from the seed.
type setup struct {
	seed      uint64
	duration  time.Duration
	world     world
	instances int
	broker    []string // lines of Mosquitto's configuration
	env       []string // settings of the program
	fleet     fleet.Config
	writers   int           // connections of the fleet
	flush     time.Duration // FLUSH_INTERVAL
	span      time.Duration // BUCKET_SPAN
	journal   bool
	timeless  bool // the messages do not say when they were measured
}

// dice are random numbers of their own for each purpose, so that what is added
// to one does not change what the others draw.
func dice(seed uint64, purpose string) *rand.Rand {
	h := sha256.Sum256(fmt.Append(nil, seed, purpose)) // neighbouring seeds must not draw alike
	return rand.New(rand.NewChaCha8(h))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// between draws a duration.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(rng.Int64N(int64(to-from))).Round(time.Millisecond)
}

// known are the settings that the program has.
var known = sync.OnceValues(func() ([]string, error) {
	path, err := built()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(path, "config", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the settings: %w", err)
	}
	values := map[string]any{}
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("cannot list the settings: %w", err)
	}
	var names []string
	for name := range values {
		names = append(names, name)
	}
	return names, nil
})

// draw makes the setup of a seed. Of both stores every fourth seed has FerretDB.
func draw(t testing.TB, seed uint64, duration time.Duration, store string) setup {
	t.Helper()
	names, err := known()
	if err != nil {
		t.Fatal(err)
	}
	s := setup{seed: seed, duration: duration, world: onSQLite, instances: 1}
	if store == "ferretdb" || store == "both" && seed%4 == 0 {
		s.world = onMongo
	}
	rng := dice(seed, "settings")
	set := func(name string, values ...string) string {
		v := pick(rng, values...) // drawn even for nothing, so that the rest stays the same
		if !slices.Contains(names, name) {
			return ""
		}
		s.env = append(s.env, name+"="+v)
		return v
	}
	own := rng.IntN(4) == 0 && s.world == onSQLite // a broker of its own
	s.journal = set("JOURNAL", "on", "on", "off") == "on"
	flushes := []string{"1s", "1s", "5s", "60s"}
	if duration < time.Minute {
		flushes = flushes[:3] // the end would wait for the flush
	}
	s.flush, err = time.ParseDuration(set("FLUSH_INTERVAL", flushes...))
	if err != nil {
		t.Fatal(err)
	}
	set("JOURNAL_MAX_BYTES", "1GiB", "1GiB", "16MiB")
	set("FLUSH_READINGS", "10000", "10000", "500")
	set("MQTT_MAX_UNACKED", "50000", "50000", "300")
	spans := []string{"1m", "1m", "10s", "1h"}
	if s.world&onMongo != 0 {
		spans[2] = "1m" // FerretDB looks at every bucket for each that it writes
	}
	if s.span, err = time.ParseDuration(set("BUCKET_SPAN", spans...)); err != nil {
		t.Fatal(err)
	}
	set("LATEST_READINGS", "10", "10", "0")
	outliers := []string{"1000", "1000", "20"}
	if s.world&onMongo != 0 {
		outliers[2] = "1000" // FerretDB loses one of two updates of a bucket
	}
	set("OUTLIER_READINGS", outliers...)
	inflight := pick(rng, "", "", "0", "1", "1000")
	if own {
		s.world |= inside
	} else {
		s.world |= outside
		s.broker = []string{"max_queued_messages 0"}
		if inflight != "" {
			s.broker = append(s.broker, "max_inflight_messages "+inflight)
		}
	}
	s.timeless = rng.IntN(3) == 0 && s.journal && s.world&onSQLite != 0 && !own
	if save := rng.IntN(3) > 0 && !s.timeless; s.world&onMongo != 0 && rng.IntN(3) == 0 {
		s.instances = 2
		s.env = append(s.env, "MQTT_SHARE=warehouse")
	} else if save && !own {
		s.world |= persistent
		s.broker = append(s.broker, "persistence true")
	}
	s.drawFleet(inflight == "1" && !own)
	return s
}

// drawFleet chooses a load that the store and the broker can take: one message
// at a time waits for a commit each.
func (s *setup) drawFleet(oneAtATime bool) {
	rng := dice(s.seed, "fleet")
	rate, sensors := pick(rng, 200, 400, 800, 1500), pick(rng, 20, 100, 500)
	interval := pick(rng, time.Second, 10*time.Second)
	if oneAtATime || raceEnabled {
		rate = min(rate, 200)
	}
	if oneAtATime {
		rate = 60
	}
	var metrics []string // the fleet's own choice
	if s.world&onMongo != 0 {
		rate, sensors, interval, metrics = 20, 5, time.Second, []string{"temperature"}
	}
	s.writers = 1 + rng.IntN(4)
	s.fleet = fleet.Config{
		Seed: s.seed, Sensors: sensors, Metrics: metrics, Interval: interval, Format: "json",
		Rate: float64(rate), Count: int64(float64(rate) * s.duration.Seconds()),
		Duplicate: 0.05, Late: 0.05, NaN: 0.01, Offline: pick(rng, 0, 0.1),
	}
}

// describe is a line for people.
func (s *setup) describe() string {
	store, broker := "sqlite", "embedded"
	if s.world&onMongo != 0 {
		store = "ferretdb"
	}
	if s.world&outside != 0 {
		broker = "mosquitto (" + strings.Join(s.broker, ", ") + ")"
	}
	what := "msg/s"
	if s.timeless {
		what = "msg/s without times"
	}
	return fmt.Sprintf("%d × ingest, store %s, broker %s, %v %s of %d sensors, %s", s.instances, store, broker, s.fleet.Rate, what, s.fleet.Sensors, strings.Join(s.env, " "))
}
