package web

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/reading"
)

// changing is a Reader whose content is changed while it is read.
type changing struct {
	mu sync.Mutex
	memory
}

func (c *changing) add(sensor string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readings = append(c.readings, reading.Reading{Series: reading.Series{Sensor: sensor, Metric: "m"}, Time: at.UnixMilli(), Value: 1})
}

func (c *changing) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Sensors(ctx, after, limit)
}

func (c *changing) Sensor(ctx context.Context, id string) (reading.Sensor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Sensor(ctx, id)
}

// listen opens a stream and gives the names of its events.
func listen(t *testing.T, address string) (events chan string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || w.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", w.StatusCode, w.Header)
	}
	events = make(chan string, 100)
	go func() {
		defer close(events)
		defer w.Body.Close()
		for in := bufio.NewScanner(w.Body); in.Scan(); {
			if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				events <- name
			}
		}
	}()
	return events, cancel
}

func next(t *testing.T, events chan string, want string) {
	t.Helper()
	select {
	case got := <-events:
		if got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s in 20 s", want)
	}
}

func TestNewsIsToldToWhoListens(t *testing.T) {
	t.Parallel()
	m := &changing{}
	now := time.Now()
	m.add("S-01", now.Add(-time.Minute))
	m.add("S-02", now.Add(-time.Minute))
	s := New(config(m))
	base, stop := running(t, s)
	fleet, _ := listen(t, base+livePath)
	one, endOne := listen(t, base+livePath+"?sensor=S-01")
	other, _ := listen(t, base+livePath+"?sensor=S-02")
	next(t, fleet, "hello")
	next(t, one, "hello")
	next(t, other, "hello")
	m.add("S-01", now)
	next(t, one, "change")
	next(t, fleet, "change")
	if len(other) != 0 {
		t.Error("another sensor's news is told")
	}
	endOne()
	within(t, "a client that is gone frees its place", func() bool { return len(s.site.streams) == 2 })
	if err := stop(); err != nil { // they end with the server, and do not hold it
		t.Error(err)
	}
	for _, events := range []chan string{fleet, other} {
		for range events {
			continue
		}
	}
}

// A stream outlives the deadlines of a request.
func TestAStreamOutlivesTheDeadlines(t *testing.T) {
	t.Parallel()
	m := &changing{}
	m.add("S-01", time.Now())
	s := New(config(m))
	s.http.ReadTimeout, s.http.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	base, _ := running(t, s)
	events, _ := listen(t, base+livePath+"?sensor=S-01")
	next(t, events, "hello")
	for range 2 { // each a second after the one before, at least
		m.add("S-01", time.Now().Add(time.Hour))
		next(t, events, "change")
		m.mu.Lock()
		m.readings = m.readings[:1]
		m.mu.Unlock()
		next(t, events, "change")
	}
}

func TestListenersAreBounded(t *testing.T) {
	t.Parallel()
	s := New(config(example()))
	base, stop := running(t, s)
	for range maxStreams {
		events, _ := listen(t, base+livePath)
		next(t, events, "hello")
	}
	w, err := http.Get(base + livePath)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, w.Body)
	w.Body.Close()
	if w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", w.StatusCode)
	}
	if w := do(s, http.MethodGet, "/api/v1/sensors"); w.Code != http.StatusOK {
		t.Errorf("the API beside them: %d", w.Code)
	}
	begun := time.Now()
	if err := stop(); err != nil || time.Since(begun) > stopTimeout {
		t.Errorf("the stop took %v, %v", time.Since(begun), err)
	}
}

func TestVitals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		stored := prometheus.NewCounter(prometheus.CounterOpts{Name: "gudang_readings_stored_total"})
		fill := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gudang_bucket_fill_ratio", Buckets: []float64{1}})
		lag := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gudang_store_lag_seconds", Buckets: []float64{1, 2, 10}})
		journal := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gudang_journal_bytes"})
		reg.MustRegister(stored, fill, lag, journal)
		p := &pulse{gatherer: reg}
		if v := p.vitals(); !math.IsNaN(v.rate) || v.journal >= 0 {
			t.Errorf("before the first sample: %+v", v)
		}
		stored.Add(1000)
		fill.Observe(1)
		lag.Observe(3600) // from before it was watched
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.watch(ctx) }()
		synctest.Wait()
		if v := p.vitals(); !math.IsNaN(v.rate) || !math.IsNaN(v.fill) || !math.IsNaN(v.median) {
			t.Errorf("after one sample: %+v", v)
		}
		journal.Set(4096)
		time.Sleep(time.Millisecond) // what follows is between two samples
		for range 60 {
			stored.Add(80)
			fill.Observe(0.5)
			lag.Observe(0.5)
			lag.Observe(1.5)
			time.Sleep(pulsePeriod)
		}
		synctest.Wait()
		if v := p.vitals(); v.rate != 40 || len(v.rates) != 60 || v.fill != 0.5 || v.median != 1 || math.Abs(v.most-1.9) > 1e-9 || v.journal != 4096 {
			t.Errorf("%+v", v)
		}
		time.Sleep(2 * pulseSamples * pulsePeriod)
		synctest.Wait()
		v := p.vitals()
		if v.rate != 0 || len(p.samples) != pulseSamples || !math.IsNaN(v.fill) || !math.IsNaN(v.median) {
			t.Errorf("after ten quiet minutes: %+v, %d samples", v, len(p.samples))
		}
		cancel()
		<-ended
	})
}

func TestOneWildSensorDoesNotDecideTheFill(t *testing.T) {
	bounds := []float64{0.5, 0.9, 1, 1.5, 100}
	h := func(sum float64, counts ...uint64) histogram {
		return histogram{sum: sum, count: counts[len(counts)-1], bounds: bounds, counts: counts[:len(counts)-1]}
	}
	none := h(0, 0, 0, 0, 0, 0, 0)
	for name, c := range map[string]struct {
		a, b histogram
		want float64
		wild bool
	}{
		"all as expected":    {none, h(10, 0, 0, 10, 10, 10, 10), 1, false},
		"half of each":       {none, h(5, 10, 10, 10, 10, 10, 10), 0.5, false},
		"one gone wild":      {none, h(9+10000, 0, 0, 9, 9, 9, 10), 1, true},
		"it was wild before": {h(9+50, 0, 0, 9, 9, 10, 10), h(19+50, 0, 0, 19, 19, 20, 20), 1, false},
	} {
		if got, wild := fill(c.a, c.b); got != c.want || wild != c.wild {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, wild, c.want, c.wild)
		}
	}
	if got, _ := fill(none, none); !math.IsNaN(got) {
		t.Errorf("nothing counted: %v", got)
	}
}

func TestWords(t *testing.T) {
	now := time.UnixMilli(start)
	for d, want := range map[time.Duration]string{
		0: "now", time.Second: "1 s ago", 119 * time.Second: "119 s ago", 2 * time.Minute: "2 min ago", 119 * time.Minute: "119 min ago",
		47 * time.Hour: "47 h ago", 48 * time.Hour: "2 d ago", -time.Minute: "in 60 s",
	} {
		if got := ago(now.Add(-d).UnixMilli(), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.0", -18.25: "−18.2", 1e21: "1e+21", 0.001: "0.001", -1e-9: "−1e−09", math.Inf(1): "–", 12345.678: "12345.7"} {
		if got := value(v, 1); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 ms", 0.0123: "12 ms", 1.25: "1.2 s", 61: "61 s", 7200: "2 h"} {
		if got := seconds(v); got != want {
			t.Errorf("%v s: %q, want %q", v, got, want)
		}
	}
	if got := decimals(1, 2.5, 2.125, 1e9+0.5); got != 2 {
		t.Errorf("%d decimals", got)
	}
}
