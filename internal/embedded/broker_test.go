package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/prometheus/client_golang/prometheus"
)

const consumerID = "gudang-test"

func start(t *testing.T, cfg BrokerConfig) *Broker {
	t.Helper()
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	b, err := NewBroker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker: %+v", b.Stats())
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run did not end")
		}
	})
	return b
}

func options(b *Broker, id string) *paho.ClientOptions {
	return paho.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID(id).SetOrderMatters(false).SetConnectTimeout(5 * time.Second).SetAutoReconnect(false)
}

func connect(t *testing.T, o *paho.ClientOptions) paho.Client {
	t.Helper()
	c := paho.NewClient(o)
	if tok := c.Connect(); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("cannot connect: %v", tok.Error())
	}
	t.Cleanup(func() { c.Disconnect(10) })
	return c
}

func subscribe(t *testing.T, c paho.Client, filter string, qos byte) {
	t.Helper()
	if tok := c.Subscribe(filter, qos, nil); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("cannot subscribe: %v", tok.Error())
	}
}

// waitFor polls until done says so.
func waitFor(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", within, what)
		}
	}
}

// slow is a subscriber that acknowledges late, all that it holds at once, as
// one does whose store commits every so often.
type slow struct {
	mu    sync.Mutex
	held  []paho.Message
	count map[string]int
}

func (s *slow) options(b *Broker) *paho.ClientOptions {
	return options(b, consumerID).SetCleanSession(false).SetAutoAckDisabled(true).SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count[string(m.Payload())]++
		s.held = append(s.held, m)
	})
}

func (s *slow) ackAll() {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	for _, m := range held {
		m.Ack()
	}
}

// ackEvery acknowledges until the test ends.
func (s *slow) ackEvery(t *testing.T, d time.Duration) {
	tick := time.NewTicker(d)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.ackAll()
			case <-t.Context().Done():
				return
			}
		}
	}()
}

func (s *slow) distinct() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.count)
}

// flood publishes total messages over four connections, as fast as they are
// taken, and returns when each is acknowledged.
func flood(t *testing.T, b *Broker, total int, acked *atomic.Int64) {
	t.Helper()
	var wg sync.WaitGroup
	for p := range 4 {
		c := connect(t, options(b, fmt.Sprintf("pub-%d", p)))
		wg.Go(func() {
			window := make(chan paho.Token, 500)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for tok := range window {
					if tok.Wait(); tok.Error() != nil {
						t.Errorf("cannot publish: %v", tok.Error())
					}
					acked.Add(1)
				}
			}()
			for i := p; i < total; i += 4 {
				window <- c.Publish(fmt.Sprintf("warehouse/S-%04d/reading", i%500), 1, false, fmt.Sprintf("%d", i))
			}
			close(window)
			<-done
		})
	}
	wg.Wait()
}

func TestBrokerLosesNothingOfAFlood(t *testing.T) {
	total := 60000
	if testing.Short() {
		total = 20000
	}
	t.Run("into a subscriber that acknowledges late", func(t *testing.T) {
		b := start(t, BrokerConfig{Consumer: consumerID})
		s := &slow{count: make(map[string]int)}
		subscribe(t, connect(t, s.options(b)), "warehouse/+/reading", 1)
		s.ackEvery(t, 300*time.Millisecond)
		begin := time.Now()
		var acked atomic.Int64
		flood(t, b, total, &acked)
		waitFor(t, 30*time.Second, "every message arrived", func() bool { return s.distinct() == total })
		waitFor(t, 30*time.Second, "every acknowledgement arrived", func() bool { return b.Stats().Unacked == 0 })
		st := b.Stats()
		if st.Dropped != 0 || acked.Load() != int64(total) || st.Waiting != 0 {
			t.Errorf("have %+v, acked %d; want none dropped", st, acked.Load())
		}
		t.Logf("%d messages in %v, %+v", total, time.Since(begin).Round(time.Millisecond), st)
	})
	t.Run("into a subscriber that comes and goes", func(t *testing.T) {
		total := total / 3
		b := start(t, BrokerConfig{Consumer: consumerID})
		s := &slow{count: make(map[string]int)}
		c := connect(t, s.options(b))
		subscribe(t, c, "warehouse/+/reading", 1)
		s.ackEvery(t, 20*time.Millisecond)
		var acked atomic.Int64
		done := make(chan struct{})
		go func() { defer close(done); flood(t, b, total, &acked) }()
		for n := 1; n < 8; n++ { // each return hands a session over in mid-flood
			waitFor(t, 30*time.Second, "the flood goes on", func() bool { return acked.Load() >= int64(n*total/10) })
			if n%2 == 0 {
				c.Disconnect(0)
			} // else the session is taken over from a connection that is still open
			c = connect(t, s.options(b))
		}
		<-done
		waitFor(t, 30*time.Second, "every message arrived", func() bool { return s.distinct() == total })
		if st := b.Stats(); st.Dropped != 0 {
			t.Errorf("%d dropped", st.Dropped)
		}
	})
	t.Run("into a subscriber that is away until the bound is reached", func(t *testing.T) {
		b := start(t, BrokerConfig{Consumer: consumerID})
		s := &slow{count: make(map[string]int)}
		c := connect(t, s.options(b))
		subscribe(t, c, "warehouse/+/reading", 1)
		c.Disconnect(50)
		total := maxUnacked + 4000
		var acked atomic.Int64
		done := make(chan struct{})
		go func() { defer close(done); flood(t, b, total, &acked) }()
		waitFor(t, 30*time.Second, "publishers wait at the bound", func() bool { st := b.Stats(); return st.Unacked >= maxUnacked-4 && st.Waiting > 0 })
		if acked.Load() > maxUnacked {
			t.Errorf("%d acknowledged to publishers, beyond the bound", acked.Load())
		}
		s.ackEvery(t, 20*time.Millisecond)
		connect(t, s.options(b))
		<-done
		waitFor(t, 30*time.Second, "the backlog arrived", func() bool { return s.distinct() == total })
		if st := b.Stats(); st.Dropped != 0 {
			t.Errorf("%d dropped", st.Dropped)
		}
	})
}

func TestABurstOfQoS0IsHeldBackNotDropped(t *testing.T) {
	b := start(t, BrokerConfig{Consumer: consumerID})
	s := &slow{count: make(map[string]int)}
	subscribe(t, connect(t, s.options(b)), "warehouse/+/reading", 1)
	const total = 4 * maxQueued * 5 // well over what a connection's queue holds
	c := connect(t, options(b, "pub"))
	for i := range total {
		c.Publish("warehouse/S-0001/reading", 0, false, fmt.Sprint(i))
	}
	waitFor(t, 20*time.Second, "every message arrived", func() bool { return s.distinct() == total })
	if st := b.Stats(); st.Dropped != 0 {
		t.Errorf("%d dropped", st.Dropped)
	}
}

func TestPublishersWaitUntilTheConsumerHasSubscribed(t *testing.T) {
	b := start(t, BrokerConfig{Consumer: consumerID})
	pub := connect(t, options(b, "early"))
	tok := pub.Publish("warehouse/S-0001/reading", 1, false, "early")
	waitFor(t, 5*time.Second, "the publisher waits", func() bool { return b.Stats().Waiting == 1 })
	s := &slow{count: make(map[string]int)}
	subscribe(t, connect(t, s.options(b)), "warehouse/+/reading", 1)
	if !tok.WaitTimeout(5*time.Second) || tok.Error() != nil {
		t.Fatalf("not acknowledged: %v", tok.Error())
	}
	waitFor(t, 5*time.Second, "the early message arrived", func() bool { return s.distinct() == 1 })
}

func TestAStrangersSessionThatNeverComesBackStopsNobody(t *testing.T) {
	b := start(t, BrokerConfig{Consumer: consumerID})
	stranger := connect(t, options(b, "stranger").SetCleanSession(false))
	subscribe(t, stranger, "#", 1)
	stranger.Disconnect(50)
	s := &slow{count: make(map[string]int)}
	subscribe(t, connect(t, s.options(b)), "warehouse/+/reading", 1)
	s.ackEvery(t, 10*time.Millisecond)
	total := maxUnacked + 1000
	var acked atomic.Int64
	flood(t, b, total, &acked)
	waitFor(t, 30*time.Second, "the consumer has all", func() bool { return s.distinct() == total })
	if st := b.Stats(); st.Dropped < 996 || st.Dropped > 1000 { // four publishers may pass the bound at once
		t.Errorf("dropped %d, want the 1000 beyond the stranger's bound", st.Dropped)
	}
}

func TestDrainWaitsForTheConsumer(t *testing.T) {
	b := start(t, BrokerConfig{Consumer: consumerID})
	s := &slow{count: make(map[string]int)}
	subscribe(t, connect(t, s.options(b)), "warehouse/+/reading", 1)
	var acked atomic.Int64
	flood(t, b, 100, &acked)
	waitFor(t, 5*time.Second, "all arrived", func() bool { return s.distinct() == 100 })
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain with unacknowledged messages: %v", err)
	}
	s.ackAll()
	if err := b.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	late := connect(t, options(b, "late"))
	if late.Publish("warehouse/S-0001/reading", 1, false, "late").WaitTimeout(100 * time.Millisecond) {
		t.Error("a message was acknowledged after Drain")
	}
}

func TestALargePacketEndsItsConnectionOnly(t *testing.T) {
	var log syncBuffer
	b := start(t, BrokerConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	got := make(chan int, 10)
	sub := connect(t, options(b, "sub"))
	if tok := sub.Subscribe("#", 1, func(_ paho.Client, m paho.Message) { got <- len(m.Payload()) }); !tok.WaitTimeout(5*time.Second) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	var gone atomic.Bool
	big := connect(t, options(b, "big").SetConnectionLostHandler(func(paho.Client, error) { gone.Store(true) }))
	big.Publish("t", 1, false, make([]byte, 10<<20))
	waitFor(t, 10*time.Second, "the connection ended", gone.Load)
	small := connect(t, options(b, "small"))
	if tok := small.Publish("t", 1, false, make([]byte, 1000<<10)); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
		t.Fatalf("a large but allowed packet: %v", tok.Error())
	}
	select {
	case n := <-got:
		if n != 1000<<10 {
			t.Errorf("got %d bytes", n)
		}
	case <-time.After(10 * time.Second):
		t.Error("the allowed packet did not arrive")
	}
	waitFor(t, 5*time.Second, "the log names it", func() bool { return strings.Contains(log.String(), "packet too large") })
}

func TestNewBrokerRefuses(t *testing.T) {
	f := func(name string, cfg BrokerConfig, want string) {
		t.Run(name, func(t *testing.T) {
			if _, err := NewBroker(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("have %v, want an error with %q", err, want)
			}
		})
	}
	f("every address without credentials", BrokerConfig{Addr: ":1883"}, "MQTT_USERNAME")
	f("another machine's reach without credentials", BrokerConfig{Addr: "192.168.1.5:1883"}, "EMBEDDED_MQTT_ADDR")
	f("a host name without credentials", BrokerConfig{Addr: "gateway:1883"}, "EMBEDDED_MQTT_ADDR")
	f("all IPv6 addresses without credentials", BrokerConfig{Addr: "[::]:1883"}, "EMBEDDED_MQTT_ADDR")
	f("a user without a password", BrokerConfig{Addr: "127.0.0.1:0", Username: "u"}, "MQTT_PASSWORD")
	f("an address without a port", BrokerConfig{Addr: "127.0.0.1"}, "host:port")
}

func TestAPortInUseIsOneClearError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err := NewBroker(BrokerConfig{Addr: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Listen(); err == nil || !strings.Contains(err.Error(), "EMBEDDED_MQTT_ADDR") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("have %v", err)
	}
}

func TestCredentialsAreChecked(t *testing.T) {
	b := start(t, BrokerConfig{Addr: "0.0.0.0:0", Username: "ayu", Password: "rahasia"})
	_, port, _ := net.SplitHostPort(b.Addr())
	try := func(user, password string) error {
		o := paho.NewClientOptions().AddBroker("tcp://127.0.0.1:" + port).SetClientID("c").SetUsername(user).SetPassword(password)
		c := paho.NewClient(o)
		tok := c.Connect()
		tok.WaitTimeout(5 * time.Second)
		c.Disconnect(0)
		return tok.Error()
	}
	if err := try("ayu", "rahasia"); err != nil {
		t.Errorf("the right ones: %v", err)
	}
	for _, bad := range [][2]string{{"ayu", "rahasi"}, {"ayu", ""}, {"", ""}, {"Ayu", "rahasia"}} {
		if try(bad[0], bad[1]) == nil {
			t.Errorf("%q was let in", bad)
		}
	}
}

func TestRetainedMessagesAreBounded(t *testing.T) {
	b := start(t, BrokerConfig{})
	c := connect(t, options(b, "p"))
	put := func(topic string, size int) {
		if tok := c.Publish(topic, 1, true, bytes.Repeat([]byte{'x'}, size)); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
			t.Fatal(tok.Error())
		}
	}
	put("large", maxRetainedBytes+1)
	if st := b.Stats(); st.Unretained != 1 {
		t.Errorf("have %+v, want the large one not retained", st)
	}
	for i := range maxRetained + 5 {
		put(fmt.Sprintf("t/%d", i), 1)
	}
	st := b.Stats()
	if n := b.server.Topics.Retained.Len(); n > maxRetained || st.Unretained < 6 {
		t.Errorf("%d retained, %d refused", n, st.Unretained)
	}
	refused := st.Unretained
	put("t/0", 2)
	if b.Stats().Unretained != refused {
		t.Error("a retained message could not be replaced at the bound")
	}
}

func TestMetricsAreRegistered(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := start(t, BrokerConfig{}).Register(reg); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 6 {
		t.Errorf("have %d families, error %v", len(families), err)
	}
}

// syncBuffer is a log that is written by one goroutine and read by another.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
