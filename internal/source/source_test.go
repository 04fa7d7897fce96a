package source

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gudang/internal/decode"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// station is a source with a next stage that acks what it takes, or holds it.
type station struct {
	input
	t    *testing.T
	log  *testenv.LogBuffer
	done chan error
	stop context.CancelFunc

	mu       sync.Mutex
	hold     bool
	held     []reading.Delivery
	got      []reading.Reading
	outcomes map[reading.Outcome]int
}

// input is what a Source and a Pool have in common.
type input interface {
	Intake() *Intake
	Remember(hash uint64, stamp int64)
	Run(ctx, stop context.Context) error
	Ready(ctx context.Context) error
}

// open starts a source on the broker at url.
func open(t *testing.T, url string, change func(*Config)) *station {
	t.Helper()
	return openTopics(t, url, []string{"warehouse/{sensor}/reading", "plain/{sensor}/{metric}"}, change)
}

func openTopics(t *testing.T, url string, topics []string, change func(*Config)) *station {
	t.Helper()
	urls, err := ParseURLs(url)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := decode.New(decode.Config{Topics: topics, Zone: time.UTC, ClockAhead: time.Minute, ClockBehind: 24 * 365 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	st := &station{t: t, log: &testenv.LogBuffer{}, done: make(chan error, 1), outcomes: map[reading.Outcome]int{}}
	cfg := Config{URLs: urls, ClientID: "test-" + t.Name(), QoS: 1, KeepAlive: 5 * time.Second, MaxUnacked: 10_000, MaxPacket: 400 << 10, Log: slog.New(slog.NewTextHandler(st.log, nil))}
	if change != nil {
		change(&cfg)
	}
	if st.input, err = New(cfg, decoder, prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	st.start()
	return st
}

func (st *station) start() {
	ctx, cancel := context.WithCancel(context.Background())
	stop, stopNow := context.WithCancel(ctx)
	st.stop = stopNow
	go func() { st.done <- st.Run(ctx, stop) }()
	go st.take()
	st.t.Cleanup(func() {
		cancel()
		if st.t.Failed() {
			st.t.Logf("log:\n%s", st.log)
		}
	})
}

// take is the next stage.
func (st *station) take() {
	var b reading.Batch
	for range st.Intake().Ready() {
		more := st.Intake().Take(&b)
		st.mu.Lock()
		st.got = append(st.got, b.Readings...)
		for _, d := range b.Deliveries {
			st.outcomes[d.Outcome]++
		}
		st.held = append(st.held, b.Deliveries...)
		if !st.hold {
			st.ackLocked()
		}
		st.mu.Unlock()
		b.Reset()
		if !more {
			return
		}
	}
}

func (st *station) ackLocked() {
	for i := range st.held {
		st.held[i].Done()
	}
	st.Intake().Done(len(st.held))
	st.held = st.held[:0]
}

func (st *station) holding(hold bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.hold = hold
	if !hold {
		st.ackLocked()
	}
}

func (st *station) readings() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.got)
}

// distinct is how many different readings arrived.
func (st *station) distinct() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	seen := map[reading.Key]bool{}
	for _, r := range st.got {
		seen[reading.Key{Series: r.Series, Start: r.Time}] = true
	}
	return len(seen)
}

func (st *station) ready() bool { return st.Ready(context.Background()) == nil }

// finish stops the source in good order.
func (st *station) finish() {
	st.t.Helper()
	st.stop()
	select {
	case err := <-st.done:
		if err != nil {
			st.t.Errorf("Run: %v", err)
		}
	case <-time.After(10 * time.Second):
		st.t.Fatal("the source does not stop")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, what, ok)
}

func publisher(t *testing.T, url string) mqtt.Client {
	t.Helper()
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(url).SetClientID("pub-" + t.Name()).SetConnectRetry(true).SetConnectRetryInterval(50 * time.Millisecond))
	if token := c.Connect(); !token.WaitTimeout(10*time.Second) || token.Error() != nil {
		t.Fatalf("cannot connect the publisher: %v", token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// send publishes n readings with times of their own, from number first on.
func send(t *testing.T, c mqtt.Client, first, n int) {
	t.Helper()
	start := time.Now().Add(-time.Hour)
	var last mqtt.Token
	for i := first; i < first+n; i++ {
		last = c.Publish(fmt.Sprintf("warehouse/S-%d/reading", i%7), 1, false, fmt.Sprintf(`{"time":%d,"temperature":%d.5}`, start.UnixMilli()+int64(i), i%50))
	}
	if !last.WaitTimeout(20*time.Second) || last.Error() != nil {
		t.Fatalf("cannot publish: %v", last.Error())
	}
}

func TestItStartsBeforeTheBroker(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	b.Stop()
	st := open(t, b.URL, nil)
	until(t, "says why it is not ready", func() bool {
		err := st.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "refused") && strings.Contains(err.Error(), b.Addr)
	})
	b.Start()
	until(t, "ready", st.ready)
	send(t, publisher(t, b.URL), 0, 10)
	until(t, "10 readings", func() bool { return st.readings() == 10 })
	st.finish()
}

// A persistent session delivers its backlog at once. Mosquitto sends 20 and
// waits for their acks.
func TestTheBacklogOfASessionArrivesOnce(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	st.finish()
	p := publisher(t, b.URL)
	send(t, p, 0, 200)
	st = open(t, b.URL, nil)
	until(t, "200 readings", func() bool { return st.readings() == 200 })
	send(t, p, 200, 50)
	until(t, "250 readings", func() bool { return st.readings() == 250 })
	st.finish()
	st = open(t, b.URL, nil)
	until(t, "ready", st.ready)
	send(t, p, 250, 1)
	until(t, "1 reading: nothing was left unacknowledged", func() bool { return st.readings() == 1 })
	st.finish()
	if n := st.readings(); n != 1 {
		t.Errorf("%d readings after a clean stop, want 1", n)
	}
}

func TestWhatIsNotAckedComesAgain(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	st.holding(true)
	send(t, publisher(t, b.URL), 0, 30)
	until(t, "the broker's window of 20", func() bool { return st.readings() == 20 })
	st.mu.Lock()
	st.held = nil // lost in a crash
	st.mu.Unlock()
	again := open(t, b.URL, nil) // with the same client id: it takes the session over
	until(t, "all 30 for the one that acks", func() bool { return again.readings() == 30 })
	until(t, "the other says what may be the matter", func() bool { return strings.Contains(st.log.String(), "connection to broker is lost") })
}

// Without a time of its own, a message that the broker sends again must get
// the time that it got first.
func TestARedeliveredMessageWithoutATimeIsTheSameReading(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	st.holding(true)
	p := publisher(t, b.URL)
	for range 5 {
		p.Publish("plain/S-1/temperature", 1, false, "20.5").Wait()
	}
	until(t, "5 readings", func() bool { return st.readings() == 5 })
	st.input.(*Source).receiving.Lock()
	l := st.input.(*Source).current
	st.input.(*Source).receiving.Unlock()
	_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // the network fails
	until(t, "5 more readings", func() bool { return st.readings() == 10 })
	if n := st.distinct(); n != 5 {
		t.Errorf("%d distinct readings of 5 messages that came twice", n)
	}
	st.holding(false)
	st.finish()
}

func TestItSubscribesAgainWhenTheBrokerHasForgotten(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t) // without persistence
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	for round := range 3 {
		b.Restart()
		begun := time.Now()
		p := publisher(t, b.URL)
		have := st.readings()
		for n := 0; st.readings() == have; n++ {
			send(t, p, round*1000+n, 1)
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("round %d: no reading within 10 s of the broker's return", round)
			}
		}
		p.Disconnect(0)
	}
	st.finish()
}

func TestARefusedSubscriptionIsNamed(t *testing.T) {
	t.Parallel()
	// Mosquitto 2.0 grants what the list denies and then sends nothing, so a
	// broker that refuses is put together from packets.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go refuse(nc)
		}
	}()
	st := open(t, "tcp://"+ln.Addr().String(), nil)
	until(t, "the filter is named", func() bool {
		err := st.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "warehouse/+/reading")
	})
	if testutil.ToFloat64(st.input.(*Source).in.metrics.connected) != 0 {
		t.Error("counts as connected although it gets no messages")
	}
}

// refuse plays a broker that grants the last filter and refuses the others.
func refuse(nc net.Conn) {
	defer nc.Close()
	buf := make([]byte, 4096)
	for {
		n, err := nc.Read(buf)
		if err != nil || n < 4 {
			return
		}
		switch buf[0] >> 4 {
		case 1:
			_, _ = nc.Write([]byte{0x20, 2, 0, 0})
		case 8:
			var codes []byte
			for rest := buf[4:n]; len(rest) > 3; {
				size := int(rest[0])<<8 | int(rest[1])
				code := byte(1)
				if strings.HasPrefix(string(rest[2:2+size]), "warehouse/") {
					code = 0x80
				}
				codes = append(codes, code)
				rest = rest[3+size:]
			}
			_, _ = nc.Write(append([]byte{0x90, byte(2 + len(codes)), buf[2], buf[3]}, codes...))
		}
	}
}

func TestAWrongPasswordIsToldApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command(testenv.Need(t, "mosquitto_passwd"), "-b", "-c", filepath.Join(dir, "passwd"), "gudang", "right").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(filepath.Join(dir, "passwd"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := testenv.Mosquitto(t, "allow_anonymous false", "password_file "+filepath.Join(dir, "passwd"))
	st := open(t, b.URL, func(c *Config) { c.Username, c.Password = "gudang", "wr0ng-secret" })
	until(t, "the credentials are named", func() bool {
		err := st.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "MQTT_PASSWORD")
	})
	if strings.Contains(st.log.String(), "wr0ng-secret") {
		t.Error("the password is in the log")
	}
	st.finish()
	st = open(t, b.URL, func(c *Config) { c.Username, c.Password = "gudang", "right" })
	until(t, "ready with the right one", st.ready)
	st.finish()
}

func TestTheNextBrokerOfTheListIsTried(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, fmt.Sprintf("tcp://127.0.0.1:%d,%s", testenv.FreePort(t), b.URL), nil)
	until(t, "ready", st.ready)
	st.finish()
}

func TestASharedSubscriptionIsShared(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	share := func(id string) func(*Config) {
		return func(c *Config) { c.Share, c.ClientID = "g", id }
	}
	one, two := open(t, b.URL, share("one")), open(t, b.URL, share("two"))
	until(t, "both ready", func() bool { return one.ready() && two.ready() })
	send(t, publisher(t, b.URL), 0, 100)
	until(t, "100 readings", func() bool { return one.readings()+two.readings() == 100 })
	if one.readings() == 0 || two.readings() == 0 {
		t.Errorf("%d and %d readings, want a share for each", one.readings(), two.readings())
	}
	one.finish()
	two.finish()
}

// A sensor that died weeks ago must not get a new reading at every restart.
func TestRetainedMessagesWithoutATimeAreIgnored(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	p := publisher(t, b.URL)
	p.Publish("plain/dead/temperature", 1, true, "19.8").Wait()
	p.Publish("warehouse/alive/reading", 1, true, fmt.Sprintf(`{"ts":%d,"temperature":20}`, time.Now().Unix()-100)).Wait()
	for range 3 {
		st := open(t, b.URL, nil)
		until(t, "both messages", func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.outcomes[reading.Ignored] == 1 && st.outcomes[reading.Pending] == 1
		})
		st.finish()
		if st.readings() != 1 || st.got[0].Sensor != "alive" {
			t.Errorf("readings %v, want the one that has a time", st.got)
		}
	}
}

// With a broker that doesn't limit what is in flight, the bound is ours.
func TestAFloodIsBoundedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_inflight_messages 0", "max_queued_messages 0")
	st := open(t, b.URL, func(c *Config) { c.MaxUnacked = 100 })
	until(t, "ready", st.ready)
	st.holding(true)
	send(t, publisher(t, b.URL), 0, 2000)
	until(t, "the bound is named", func() bool {
		err := st.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "100 messages are unacknowledged")
	})
	if n := st.Intake().Outstanding(); n != 100 {
		t.Errorf("%d messages outstanding, want 100", n)
	}
	st.holding(false)
	until(t, "all 2,000", func() bool { return st.distinct() == 2000 })
	st.finish()
}

func TestAHugePayloadIsRefusedWithoutBeingRead(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	p := publisher(t, b.URL)
	p.Publish("warehouse/big/reading", 1, false, `{"temperature":26.4,"pad":"`+strings.Repeat("x", 10<<20)+`"}`).Wait()
	send(t, p, 0, 5)
	until(t, "the good readings behind it", func() bool { return st.readings() == 5 })
	st.finish()
	if st.outcomes[reading.Rejected] != 1 {
		t.Errorf("outcomes %v, want one rejected", st.outcomes)
	}
	if log := st.log.String(); len(log) > 10_000 || !strings.Contains(log, string(reading.TooLarge)) {
		t.Errorf("%d bytes of log; want a short line with the reason", len(log))
	}
}

func TestBadMessagesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	p := publisher(t, b.URL)
	for range 500 {
		p.Publish("warehouse/S/reading", 1, false, "{\"temperature\":26.4,\"hu\x1b[31m")
	}
	send(t, p, 0, 1)
	until(t, "the good reading", func() bool { return st.readings() == 1 })
	st.finish()
	if n := strings.Count(st.log.String(), "message rejected"); n != quotaLines {
		t.Errorf("%d lines for 500 bad messages, want %d", n, quotaLines)
	}
	if strings.Contains(st.log.String(), "\x1b") {
		t.Error("an escape sequence reached the log")
	}
}

// A persistent session keeps a filter that was taken out of the settings.
func TestAFilterThatIsNoLongerWantedIsUnsubscribed(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	file := func(c *Config) { c.SessionFile = filepath.Join(b.Dir, "session.json") }
	st := open(t, b.URL, file)
	until(t, "ready", st.ready)
	st.finish()
	p := publisher(t, b.URL)
	for range 30 { // the broker queues these for the session
		p.Publish("plain/S-1/temperature", 1, false, "20.5").Wait()
	}
	send(t, p, 0, 5)
	st = openTopics(t, b.URL, []string{"warehouse/{sensor}/reading"}, file)
	until(t, "the backlog has ended", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.outcomes[reading.Ignored] == 30 && len(st.got) == 5
	})
	until(t, "it is unsubscribed", func() bool { return strings.Contains(st.log.String(), "unsubscribed from filters") })
	p.Publish("plain/S-1/temperature", 1, false, "20.5").Wait()
	send(t, p, 5, 1)
	until(t, "the reading behind it", func() bool { return st.readings() == 6 })
	st.finish()
	if n := st.outcomes[reading.Ignored]; n != 30 {
		t.Errorf("%d messages of the filter that is no longer wanted, want the 30 of the backlog", n)
	}
}

// Whoever leaves for good takes what waits for it along, and leaves no session
// behind in which messages would wait for nobody.
func TestLeavingRemovesTheSessionAndLosesNothing(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t, "max_queued_messages 0")
	member := func(id string, leave bool) func(*Config) {
		return func(c *Config) { c.Share, c.ClientID, c.Leave = "g", id, leave }
	}
	stays, leaves := open(t, b.URL, member("stays", false)), open(t, b.URL, member("leaves", true))
	until(t, "both ready", func() bool { return stays.ready() && leaves.ready() })
	leaves.holding(true) // so that the broker queues for it
	p := publisher(t, b.URL)
	send(t, p, 0, 200)
	until(t, "its window is full", func() bool { return leaves.readings() == 20 })
	leaves.stop()
	leaves.holding(false)
	leaves.finish()
	send(t, p, 200, 100)
	until(t, "all 300", func() bool { return stays.readings()+leaves.readings() == 300 })
	back := open(t, b.URL, member("leaves", false))
	until(t, "ready", back.ready)
	if !strings.Contains(back.log.String(), "session_present=false") {
		t.Error("its session is there still")
	}
	stays.finish()
	back.finish()
}

func TestAStopWaitsForTheAcks(t *testing.T) {
	t.Parallel()
	b := testenv.Mosquitto(t)
	st := open(t, b.URL, nil)
	until(t, "ready", st.ready)
	st.holding(true)
	p := publisher(t, b.URL)
	send(t, p, 0, 10)
	until(t, "10 readings", func() bool { return st.readings() == 10 })
	st.stop()
	select {
	case <-st.done:
		t.Fatal("the source left with messages unacknowledged")
	case <-time.After(200 * time.Millisecond):
	}
	st.holding(false)
	if err := <-st.done; err != nil {
		t.Fatal(err)
	}
	again := open(t, b.URL, nil)
	until(t, "ready", again.ready)
	send(t, p, 10, 1)
	until(t, "the new reading alone", func() bool { return again.readings() == 1 })
	again.finish()
}

func TestTLSAndWebsockets(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.issue("server", "localhost")
	ca.issue("client", "gudang")
	port := func() int { return testenv.FreePort(t) }
	tlsPort, mutualPort, wsPort, wssPort := port(), port(), port(), port()
	files := []string{"cafile " + ca.file("ca.crt"), "certfile " + ca.file("server.crt"), "keyfile " + ca.file("server.key")}
	conf := append([]string{fmt.Sprintf("listener %d 127.0.0.1", tlsPort)}, files...)
	conf = append(append(conf, fmt.Sprintf("listener %d 127.0.0.1", mutualPort), "require_certificate true"), files...)
	conf = append(conf, fmt.Sprintf("listener %d 127.0.0.1", wsPort), "protocol websockets")
	conf = append(append(conf, fmt.Sprintf("listener %d 127.0.0.1", wssPort), "protocol websockets"), files...)
	b := testenv.Mosquitto(t, conf...)
	p := publisher(t, b.URL)
	trusting := func(cert, key string) func(*Config) {
		cfg, err := TLS(ca.file("ca.crt"), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *Config) { c.TLS = cfg }
	}
	for i, c := range []struct {
		name   string
		url    string
		change func(*Config)
		fails  string
	}{
		{"TLS", fmt.Sprintf("ssl://localhost:%d", tlsPort), trusting("", ""), ""},
		{"TLS to a broker that nobody vouches for", fmt.Sprintf("ssl://localhost:%d", tlsPort), nil, "certificate"},
		{"mutual TLS", fmt.Sprintf("ssl://localhost:%d", mutualPort), trusting(ca.file("client.crt"), ca.file("client.key")), ""},
		{"websockets", fmt.Sprintf("ws://127.0.0.1:%d", wsPort), nil, ""},
		{"websockets over TLS", fmt.Sprintf("wss://localhost:%d", wssPort), trusting("", ""), ""},
	} {
		st := open(t, c.url, func(cfg *Config) {
			cfg.ClientID = fmt.Sprintf("tls-%d", i)
			if c.change != nil {
				c.change(cfg)
			}
		})
		if c.fails != "" {
			until(t, c.name+" fails", func() bool {
				err := st.Ready(t.Context())
				return err != nil && strings.Contains(err.Error(), c.fails)
			})
			st.finish()
			continue
		}
		until(t, c.name+" is ready", st.ready)
		send(t, p, 100*i, 3)
		until(t, c.name+" delivers", func() bool { return st.readings() == 3 })
		st.finish()
	}
}

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	if err := os.Chmod(a.dir, 0o755); err != nil { // the broker drops its privileges
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.newKey("ca")
	a.cert = a.sign("ca", template, template, a.key)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) issue(name, host string) {
	a.sign(name, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, a.newKey(name))
}

func (a *authority) newKey(name string) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", der)
	return key
}

func (a *authority) sign(name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	signer := a.key
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func TestTLSFilesThatAreWrongAreNamed(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("client", "gudang")
	for name, c := range map[string][3]string{
		"no such CA":        {ca.file("missing"), "", ""},
		"a key as a CA":     {ca.file("ca.key"), "", ""},
		"no key":            {"", ca.file("client.crt"), ""},
		"another one's key": {"", ca.file("client.crt"), ca.file("ca.key")},
	} {
		if _, err := TLS(c[0], c[1], c[2]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if cfg, err := TLS("", "", ""); err != nil || cfg.MinVersion != tls.VersionTLS12 {
		t.Errorf("no files: %v", err)
	}
}
