package embedded

import (
	"bytes"
	"context"
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

	"gudang/internal/testenv"
)

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
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, ctx) }()
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

func waitFor(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	testenv.Eventually(t, within, what, done)
}

func TestASubscriberThatNeverComesBackStopsNobody(t *testing.T) {
	b := start(t, BrokerConfig{})
	stranger := connect(t, options(b, "stranger").SetCleanSession(false))
	subscribe(t, stranger, "#", 1)
	stranger.Disconnect(50)
	const publishers = 4
	total := maxUnacked + 1000
	var wg sync.WaitGroup
	for p := range publishers {
		m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: fmt.Sprint("pub-", p)})
		wg.Go(func() {
			for i := range total / publishers {
				m.Publish("t", "x", uint16(i+1), 1, false)
				if i%100 == 99 || i == total/publishers-1 {
					flush(t, m)
					wantAcks(t, m, testenv.Puback, i-i%100+1, i+1)
				}
			}
		})
	}
	wg.Wait()
	if st := b.Stats(); st.Dropped < 1000-publishers || st.Dropped > 1000 { // each publisher may pass the bound at once
		t.Errorf("dropped %d, want the 1000 beyond the stranger's bound", st.Dropped)
	}
	back := make(chan struct{}, total)
	connect(t, options(b, "stranger").SetCleanSession(false).SetDefaultPublishHandler(func(paho.Client, paho.Message) { back <- struct{}{} }))
	waitFor(t, 20*time.Second, "the stranger gets what was kept and acknowledges it", func() bool { return b.Stats().Unacked == 0 })
	if st := b.Stats(); len(back) < maxUnacked || st.Bytes != 0 {
		t.Errorf("%d came, %d bytes are booked", len(back), st.Bytes)
	}
}

func TestALargePacketEndsItsConnectionOnly(t *testing.T) {
	var log testenv.LogBuffer
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

func cannotConnect(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return true
	}
	_ = c.Close()
	return false
}
