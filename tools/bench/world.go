package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// setting is what a measurement changes.
type setting struct {
	sensors  int
	messages int
	rate     int // messages a second; 0: as fast as it goes
	live     bool
	stops    bool // what is left in memory is stored by a stop, not by the next flush
	embedded bool // the embedded store in place of the counting MongoDB
	env      []string
}

// result is what was measured of the service.
type result struct {
	messages int
	rate     float64 // messages a second, from the first taken to the last acknowledged
	cpu      float64 // seconds of processor for 100,000 messages
	peakMB   float64
	writes   float64 // store writes for each reading
	p50, p99 int     // ms from publish to stored, where the load is live
	distinct int
	doubled  int
}

// world is a broker, a store and the service.
type world struct {
	*bench
	broker, store, service *process
	brokerAddr, httpAddr   string
	statsAddr              string
	before                 float64 // processor seconds
}

func (b *bench) newWorld(s setting) (w *world, err error) {
	b.run++
	w = &world{bench: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.startBroker(); err != nil {
		return w, err
	}
	env := append([]string{
		"MQTT_URL=tcp://" + w.brokerAddr, "MQTT_CLIENT_ID=bench", "DATA_DIR=" + filepath.Join(b.dir, fmt.Sprint("data", b.run)),
		"CLOCK_BEHIND=876000h", "MAX_SENSORS=2000000", "LOG_LEVEL=warn",
	}, s.env...)
	if !s.embedded {
		addr, err := w.startStore()
		if err != nil {
			return w, err
		}
		env = append(env, "MONGODB_URI=mongodb://"+addr+"/?retryWrites=false")
	}
	if w.httpAddr, err = freeAddr(); err != nil {
		return w, err
	}
	if w.service, err = b.start(append(env, "HTTP_ADDR="+w.httpAddr), b.program); err != nil {
		return w, err
	}
	err = b.await("ingest is ready: "+w.service.said.String(), 20*time.Second, func() (bool, error) {
		_, err := get("http://" + w.httpAddr + "/readyz")
		return err == nil, err
	})
	if err == nil {
		w.before, err = w.service.seconds()
	}
	return w, err
}

func (w *world) startBroker() (err error) {
	if w.brokerAddr, err = freeAddr(); err != nil {
		return err
	}
	host, port := w.brokerAddr[:9], w.brokerAddr[10:]
	conf := filepath.Join(w.dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %s %s\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\npersistence false\nlog_type error\nuser root\n", port, host)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	if w.broker, err = w.start(nil, "mosquitto", "-c", conf); err != nil {
		return err
	}
	return w.await("the broker listens", 10*time.Second, func() (bool, error) {
		c, err := net.Dial("tcp", w.brokerAddr)
		if err != nil {
			return false, err
		}
		return true, c.Close()
	})
}

func (w *world) startStore() (addr string, err error) {
	addr, err = freeAddr()
	if err != nil {
		return "", err
	}
	if w.statsAddr, err = freeAddr(); err != nil {
		return "", err
	}
	if w.store, err = w.start(nil, filepath.Join(w.dir, "nullmongo"), "-listen", addr, "-http", w.statsAddr); err != nil {
		return "", err
	}
	return addr, w.await("the store answers", 10*time.Second, func() (bool, error) {
		_, err := get("http://" + w.statsAddr + "/stats")
		return err == nil, err
	})
}

func (w *world) close() error {
	var errs []error
	for _, p := range []*process{w.service, w.store, w.broker} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	return errors.Join(errs...)
}

// load publishes, and returns when all is acknowledged to the publisher.
func (w *world) load(s setting, first int) error {
	args := []string{"-addr", w.brokerAddr, "-conns", "4", "-qos", "1", "-sensors", fmt.Sprint(s.sensors), "-n", fmt.Sprint(s.messages), "-start", fmt.Sprint(first), "-timeout", "20m"}
	if s.rate > 0 {
		args = append(args, "-rate", fmt.Sprint(s.rate))
	}
	if s.live {
		args = append(args, "-now")
	}
	text, err := exec.CommandContext(w.ctx, filepath.Join(w.dir, "mqttload"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot publish: %w: %s", err, text)
	}
	return nil
}

// measure publishes to the service and waits until it has taken and
// acknowledged everything, then until everything is stored.
func (w *world) measure(s setting, first int) (result, error) {
	taken := w.counter("gudang_messages_received_total")
	loaded := make(chan error, 1)
	begun := time.Now()
	go func() { loaded <- w.load(s, first) }()
	err := w.await("every message is taken and acknowledged", 20*time.Minute, func() (bool, error) {
		return w.counter("gudang_messages_received_total")-taken >= float64(s.messages) && w.counter("gudang_unacked_messages") == 0, nil
	})
	took := time.Since(begun)
	if n := w.counter("gudang_mqtt_connects_total"); err == nil && n != 1 {
		err = fmt.Errorf("the service connected %v times: what came again is counted as well", n)
	}
	if err := errors.Join(err, <-loaded); err != nil {
		return result{}, err
	}
	r := result{messages: s.messages, rate: float64(s.messages) / took.Seconds()}
	if s.stops {
		return r, w.finish(s, &r)
	}
	if err := w.settle(s, &r); err != nil {
		return r, err
	}
	after, err := w.service.seconds()
	if err != nil {
		return r, err
	}
	r.cpu = (after - w.before) * 100_000 / float64(s.messages)
	w.before = after
	r.peakMB, err = w.service.peakMB()
	return r, err
}

// finish stops the service, which stores what it has, and reads what it cost.
func (w *world) finish(s setting, r *result) error {
	if err := w.service.stop(); err != nil {
		return err
	}
	state := w.service.cmd.ProcessState
	w.service = nil
	r.cpu = ((state.UserTime() + state.SystemTime()).Seconds() - w.before) * 100_000 / float64(s.messages)
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		r.peakMB = float64(usage.Maxrss) / 1024
	}
	return w.settle(s, r)
}

// settle waits until what was taken is stored.
func (w *world) settle(s setting, r *result) error {
	if s.embedded {
		return nil
	}
	var stats struct {
		Distinct  int                    `json:"distinct"`
		Doubled   int                    `json:"doubled"`
		Readings  int                    `json:"readings"`
		Writes    int                    `json:"updateStatements"`
		LatencyMS struct{ P50, P99 int } `json:"latency_ms"`
	}
	err := w.await("every reading is stored", 3*time.Minute, func() (bool, error) {
		text, err := get("http://" + w.statsAddr + "/stats")
		if err != nil {
			return false, err
		}
		err = json.Unmarshal([]byte(text), &stats)
		return stats.Distinct >= s.messages, err
	})
	r.distinct, r.doubled = stats.Distinct, stats.Doubled
	r.writes = float64(stats.Writes) / float64(max(stats.Readings, 1))
	r.p50, r.p99 = stats.LatencyMS.P50, stats.LatencyMS.P99
	return err
}

// counter is the value of a metric without labels.
func (w *world) counter(name string) float64 {
	text, err := get("http://" + w.httpAddr + "/metrics")
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(m[1], 64) // it is Prometheus that wrote it
	return v
}

// bare measures the subscriber that only acknowledges.
func (b *bench) bare(messages, sensors int) (r result, err error) {
	w := &world{bench: b}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.startBroker(); err != nil {
		return r, err
	}
	sub, err := b.start(nil, filepath.Join(b.dir, "pahosub"), "-addr", "tcp://"+w.brokerAddr, "-qos", "1")
	if err != nil {
		return r, err
	}
	select { // it says nothing when it has subscribed
	case <-time.After(time.Second):
	case <-b.ctx.Done():
		return r, b.ctx.Err()
	}
	if err := w.load(setting{sensors: sensors, messages: messages}, 0); err != nil {
		return r, err
	}
	select { // it ends by itself after three seconds without a message
	case <-sub.done:
		return bareResult(sub.said.Bytes(), messages)
	case <-time.After(time.Minute):
		return r, errors.Join(errors.New("the bare subscriber does not end"), sub.stop())
	}
}

func bareResult(said []byte, messages int) (result, error) {
	var told struct {
		Received int     `json:"received"`
		Rate     float64 `json:"rate"`
		CPU      float64 `json:"cpu_per_100k"`
		MB       float64 `json:"maxrss_mb"`
	}
	if err := json.Unmarshal(said, &told); err != nil {
		return result{}, fmt.Errorf("cannot read what the bare subscriber said: %w: %s", err, said)
	}
	if told.Received != messages {
		return result{}, fmt.Errorf("the bare subscriber got %d of %d messages", told.Received, messages)
	}
	return result{messages: messages, rate: told.Rate, cpu: told.CPU, peakMB: told.MB}, nil
}
