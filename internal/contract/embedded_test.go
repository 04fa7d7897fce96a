package contract

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/decode"
	"gudang/internal/embedded"
	"gudang/internal/reading"
	"gudang/internal/source"
	"gudang/internal/testenv"
)

// gateway is the embedded broker, the source behind it, and a next stage that
// acknowledges what it has in one go, as a flush does.
type gateway struct {
	*embedded.Broker
	local   *source.Local
	stop    context.CancelFunc // takes nothing more
	closing context.CancelFunc // the broker closes
	ended   chan struct{}      // when both have ended

	mu       sync.Mutex
	batch    reading.Batch
	held     []reading.Delivery
	readings []reading.Reading // of held
	got      int
	more     bool
}

func openGateway(t testing.TB, limit int) *gateway {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	d, err := decode.New(decode.Config{Topics: []string{"warehouse/{sensor}/reading"}, Zone: time.UTC, ClockAhead: time.Minute, ClockBehind: 24 * 365 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{local: source.NewLocal(limit, d, log, prometheus.NewRegistry()), ended: make(chan struct{}), more: true}
	if g.Broker, err = embedded.NewBroker(embedded.BrokerConfig{Addr: "127.0.0.1:0", Receiver: g.local, Log: log}); err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, closing := context.WithCancel(context.Background())
	stop, stopNow := context.WithCancel(ctx)
	g.stop, g.closing = stopNow, closing
	var wg sync.WaitGroup
	for _, run := range []func() error{
		func() error { return g.Run(ctx, stop) },
		func() error { return g.local.Run(ctx, stop) },
	} {
		wg.Go(func() {
			if err := run(); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	go func() { wg.Wait(); close(g.ended) }()
	t.Cleanup(func() { closing(); <-g.ended })
	return g
}

// take takes what has arrived and says how many messages that makes in all.
func (g *gateway) take() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.more = g.local.Intake().Take(&g.batch)
	g.held = append(g.held, g.batch.Deliveries...)
	g.readings = append(g.readings, g.batch.Readings...)
	g.got += len(g.batch.Deliveries)
	g.batch.Reset()
	return g.got
}

// ack acknowledges all that was taken. safe is told of each reading before.
func (g *gateway) ack(safe func(reading.Reading)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.readings {
		safe(r)
	}
	for i := range g.held {
		g.held[i].Done()
	}
	g.local.Intake().Done(len(g.held))
	g.held, g.readings = g.held[:0], g.readings[:0]
}

// flush is a stage that acknowledges every so often, until total messages are.
func (g *gateway) flush(t testing.TB, every time.Duration, total int, safe func(reading.Reading)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		select {
		case <-g.local.Intake().Ready():
			g.take()
		case <-tick.C:
			g.ack(safe)
			if g.got >= total {
				return
			}
		case <-deadline:
			t.Errorf("%d of %d messages arrived", g.got, total)
			return
		}
	}
}

// pump publishes n messages at QoS 1, window of which are in flight, and
// checks that they are acknowledged in order and each only when acked says so.
func pump(t testing.TB, m *testenv.RawMQTT, n, window int, publish func(i int), acked func(i int) bool) {
	room := make(chan struct{}, window)
	failed := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			p, err := m.Next(30 * time.Second)
			if err != nil || p.Kind != testenv.Puback || p.ID() != packetID(i) || !acked(i) {
				t.Errorf("message %d, safe %v: have packet %+v, %v", i, acked(i), p, err)
				close(failed)
				return
			}
			<-room
		}
	}()
	for i := range n {
		select {
		case room <- struct{}{}:
		default: // full: what has gathered must go first
			if err := m.Flush(); err != nil {
				t.Errorf("cannot publish: %v", err)
				return
			}
			select {
			case room <- struct{}{}:
			case <-failed:
				return
			}
		}
		publish(i)
	}
	if err := m.Flush(); err != nil {
		t.Errorf("cannot publish: %v", err)
	}
	<-done
}

func packetID(i int) uint16 { return uint16(i%65535 + 1) }

// Four publishers with 500 messages in flight each: all arrive, in order, and
// none is acknowledged before it is safe.
func TestEmbeddedAcknowledgesWhatIsSafeAndNothingElse(t *testing.T) {
	const publishers, window = 4, 500
	total := 60_000
	if testing.Short() {
		total = 20_000
	}
	for _, every := range []time.Duration{50 * time.Millisecond, 2 * time.Millisecond} {
		t.Run(fmt.Sprintf("a flush every %v", every), func(t *testing.T) {
			g := openGateway(t, 50_000)
			safe := make([]atomic.Int32, total)
			begun := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { g.flush(t, every, total, func(r reading.Reading) { safe[int(r.Value)].Add(1) }) })
			for n := range publishers {
				m := testenv.DialRaw(t, g.Addr(), testenv.RawConnect{ID: fmt.Sprint("p-", n)})
				wg.Go(func() {
					pump(t, m, total/publishers, window,
						func(i int) {
							m.Publish(fmt.Sprintf("warehouse/S-%d/reading", i%500), fmt.Sprintf(`{"value":%d}`, i*publishers+n), packetID(i), 1, false)
						},
						func(i int) bool { return safe[i*publishers+n].Load() == 1 })
				})
			}
			wg.Wait()
			took := time.Since(begun)
			t.Logf("%d messages in %v: %.0f/s", total, took.Round(time.Millisecond), float64(total)/took.Seconds())
			for i := range safe {
				if n := safe[i].Load(); n != 1 {
					t.Fatalf("reading %d arrived %d times", i, n)
				}
			}
		})
	}
}

func TestEmbeddedPublisherThatComesBackCountsOnce(t *testing.T) {
	g := openGateway(t, 50_000)
	const n = 1000
	identities := map[reading.Key]bool{}
	safe := func(r reading.Reading) { identities[reading.Key{Series: r.Series, Start: r.Time}] = true }
	publish := func(again bool) *testenv.RawMQTT {
		m := testenv.DialRaw(t, g.Addr(), testenv.RawConnect{ID: "gw", Keep: true})
		for i := range n { // without times of their own
			m.Publish("warehouse/S-1/reading", fmt.Sprintf(`{"temperature":%d}`, i%50), packetID(i), 1, again)
		}
		if err := m.Flush(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := publish(false)
	testenv.Eventually(t, 10*time.Second, "all arrived", func() bool { return g.take() == n })
	if err := m.Close(); err != nil { // without an acknowledgement
		t.Fatal(err)
	}
	g.ack(safe)
	m = publish(true)
	testenv.Eventually(t, 10*time.Second, "all arrived again", func() bool { return g.take() == 2*n })
	g.ack(safe)
	for i := range n {
		if p, err := m.Next(10 * time.Second); err != nil || p.Kind != testenv.Puback || p.ID() != packetID(i) {
			t.Fatalf("message %d: have packet %+v, %v", i, p, err)
		}
	}
	if len(identities) != n {
		t.Errorf("%d readings, want %d: those that came again are the same", len(identities), n)
	}
}

func TestEmbeddedHoldsPublishersBackWhenTheIntakeIsFull(t *testing.T) {
	const limit, n, window = 100, 5000, 500
	g := openGateway(t, limit)
	m := testenv.DialRaw(t, g.Addr(), testenv.RawConnect{ID: "gw"})
	var sure atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		pump(t, m, n, window,
			func(i int) { m.Publish("warehouse/S-1/reading", fmt.Sprintf(`{"value":%d}`, i), packetID(i), 1, false) },
			func(i int) bool { return int64(i) < sure.Load() })
	})
	testenv.Eventually(t, 10*time.Second, "the publisher is held back", func() bool { return g.Stats().Waiting == 1 })
	if got := g.take(); got != limit {
		t.Errorf("%d messages were taken, want %d", got, limit)
	}
	g.flush(t, time.Millisecond, n, func(reading.Reading) { sure.Add(1) })
	wg.Wait()
}

// A stop with messages outstanding: they are acknowledged when they are safe,
// and what was sent behind them is not, ever.
func TestEmbeddedStopsWithMessagesOutstanding(t *testing.T) {
	g := openGateway(t, 50_000)
	const n = 1000
	m := testenv.DialRaw(t, g.Addr(), testenv.RawConnect{ID: "gw"})
	for i := range n {
		m.Publish("warehouse/S-1/reading", "20", packetID(i), 1, false)
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 10*time.Second, "all arrived", func() bool { return g.take() == n })
	testenv.Eventually(t, 10*time.Second, "it is ready", func() bool { return g.local.Ready(t.Context()) == nil })
	g.stop()
	testenv.Eventually(t, 10*time.Second, "the intake has ended", func() bool { g.take(); return !g.more })
	m.Publish("warehouse/S-1/reading", "20", packetID(n), 1, false)
	m.Ping()
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	if p, err := m.Next(10 * time.Second); err != nil || p.Kind != testenv.Pong {
		t.Fatalf("have packet %+v, %v; want nothing but the answer to the ping", p, err)
	}
	g.ack(func(reading.Reading) {})
	g.closing()
	for i := range n {
		if p, err := m.Next(10 * time.Second); err != nil || p.Kind != testenv.Puback || p.ID() != packetID(i) {
			t.Fatalf("message %d: have packet %+v, %v", i, p, err)
		}
	}
	if p, err := m.Next(10 * time.Second); err == nil {
		t.Errorf("have packet %+v, want the end", p)
	}
	<-g.ended
	if g.got != n {
		t.Errorf("%d messages were taken, want %d", g.got, n)
	}
}
