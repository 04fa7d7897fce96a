package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"gudang/internal/reading"
	"gudang/internal/testenv"
)

// taker is a receiver that wants what is below warehouse/ and acknowledges it
// when told to.
type taker struct {
	mu      sync.Mutex
	got     []given
	acked   int // of got
	full    chan struct{}
	ending  bool
	refused int
}

type given struct {
	client, topic, payload string
	id                     uint16
	qos                    byte
	again                  bool
	acker                  reading.Acker
}

var errEnding = errors.New("the receiver is ending")

func (r *taker) Receive(ctx context.Context, client, topic string, payload []byte, id uint16, qos byte, again bool, acker reading.Acker) (bool, error) {
	if !strings.HasPrefix(topic, "warehouse/") {
		return false, nil
	}
	r.mu.Lock()
	full := r.full
	r.mu.Unlock()
	if full != nil {
		select {
		case <-full:
		case <-ctx.Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused++
			return true, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		r.refused++
		return true, errEnding
	}
	r.got = append(r.got, given{client, topic, string(payload), id, qos, again, acker})
	return true, nil
}

func (r *taker) received() []given {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *taker) wait(t *testing.T, n int) []given {
	t.Helper()
	waitFor(t, 10*time.Second, fmt.Sprintf("%d messages are received", n), func() bool { return len(r.received()) >= n })
	return r.received()
}

// ack acknowledges the next n messages.
func (r *taker) ack(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.got[r.acked : r.acked+n] {
		if g.acker != nil {
			g.acker.Ack(g.id, g.qos)
		}
	}
	r.acked += n
}

// hold makes the receiver full, until what it returns is called.
func (r *taker) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := make(chan struct{})
	r.full = full
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.full = nil
		close(full)
	}
}

func (r *taker) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
}

func flush(t *testing.T, m *testenv.RawMQTT) {
	t.Helper()
	if err := m.Flush(); err != nil {
		t.Errorf("cannot send: %v", err)
	}
}

// wantAcks reads one acknowledgement for each id from first to last, in order.
func wantAcks(t *testing.T, m *testenv.RawMQTT, kind byte, first, last int) {
	t.Helper()
	for id := first; id <= last; id++ {
		if p, err := m.Next(10 * time.Second); err != nil || p.Kind != kind || p.ID() != uint16(id) || p.Code() != 0 {
			t.Errorf("have packet %+v, %v; want one of type %d for %d", p, err, kind, id)
			return
		}
	}
}

// wantSilence sends a ping: all that the broker had to say before is said by
// the time of its answer.
func wantSilence(t *testing.T, m *testenv.RawMQTT) {
	t.Helper()
	m.Ping()
	flush(t, m)
	if p, err := m.Next(10 * time.Second); err != nil || p.Kind != testenv.Pong {
		t.Errorf("have packet %+v, %v; want nothing but the answer to the ping", p, err)
	}
}

var versions = map[string]bool{"MQTT 3.1.1": false, "MQTT 5": true}

func TestAMessageIsAcknowledgedWhenTheReceiverSaysSo(t *testing.T) {
	for name, v5 := range versions {
		t.Run(name, func(t *testing.T) {
			r := &taker{}
			b := start(t, BrokerConfig{Receiver: r})
			m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", V5: v5})
			for i := range 500 {
				m.Publish("warehouse/S-1/reading", fmt.Sprint(i), uint16(i+1), 1, false)
			}
			flush(t, m)
			got := r.wait(t, 500)
			if g := got[7]; g.client != "p" || g.topic != "warehouse/S-1/reading" || g.payload != "7" || g.id != 8 || g.qos != 1 || g.again {
				t.Errorf("received %+v", g)
			}
			wantSilence(t, m)
			r.ack(100)
			wantAcks(t, m, testenv.Puback, 1, 100)
			wantSilence(t, m)
			r.ack(400)
			wantAcks(t, m, testenv.Puback, 101, 500)
			wantSilence(t, m)
		})
	}
}

func TestAMessageThatNobodyWantsIsAcknowledgedAtOnce(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	release := r.hold()
	defer release()
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p"})
	m.Publish("other/topic", "x", 1, 1, false)
	flush(t, m)
	wantAcks(t, m, testenv.Puback, 1, 1)
	m.Publish("other/topic", "x", 2, 2, false)
	flush(t, m)
	wantAcks(t, m, testenv.Pubrec, 2, 2)
	m.Release(2)
	flush(t, m)
	wantAcks(t, m, testenv.Pubcomp, 2, 2)
	if n := len(r.received()); n != 0 {
		t.Errorf("%d received", n)
	}
}

func TestQoS0ReachesTheReceiver(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p"})
	m.Publish("warehouse/S-1/reading", "x", 0, 0, false)
	wantSilence(t, m)
	if got := r.wait(t, 1); got[0].acker != nil || got[0].qos != 0 {
		t.Errorf("received %+v, want nobody to acknowledge it to", got[0])
	}
}

func TestQoS2IsAcknowledgedInTwoSteps(t *testing.T) {
	for name, v5 := range versions {
		t.Run(name, func(t *testing.T) {
			r := &taker{}
			b := start(t, BrokerConfig{Receiver: r})
			m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", V5: v5, Keep: true})
			for round := range 3 { // with the same packet identifiers
				for id := uint16(1); id <= 3; id++ {
					m.Publish("warehouse/S-1/reading", "x", id, 2, false)
				}
				flush(t, m)
				r.wait(t, 3*round+3)
				wantSilence(t, m)
				r.ack(3)
				wantAcks(t, m, testenv.Pubrec, 1, 3)
				for id := uint16(1); id <= 3; id++ {
					m.Release(id)
				}
				flush(t, m)
				wantAcks(t, m, testenv.Pubcomp, 1, 3)
			}
			// It is sent again when its PUBREC was lost, and acknowledged again.
			m.Publish("warehouse/S-1/reading", "y", 9, 2, false)
			flush(t, m)
			r.wait(t, 10)
			_ = m.Close()
			m = testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", V5: v5, Keep: true})
			m.Publish("warehouse/S-1/reading", "y", 9, 2, true)
			flush(t, m)
			if got := r.wait(t, 11); !got[10].again || got[10].id != 9 {
				t.Errorf("received %+v, want it to be told that it comes again", got[10])
			}
			r.ack(2)
			wantAcks(t, m, testenv.Pubrec, 9, 9)
			m.Release(9)
			flush(t, m)
			wantAcks(t, m, testenv.Pubcomp, 9, 9)
			wantSilence(t, m)
		})
	}
}

// The library counts what an MQTT 5 client may still send. What is
// acknowledged past it must leave that count alone.
func TestAnMQTT5WindowIsNeverUsedUp(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", V5: true})
	const window = 1024 // what CONNACK allows
	for round := range 4 {
		for i := range window {
			m.Publish("warehouse/S-1/reading", "x", uint16(i+1), byte(1+round%2), false)
		}
		flush(t, m)
		r.wait(t, (round+1)*window)
		r.ack(window)
		if round%2 == 0 {
			wantAcks(t, m, testenv.Puback, 1, window)
			continue
		}
		wantAcks(t, m, testenv.Pubrec, 1, window)
		for i := range window {
			m.Release(uint16(i + 1))
		}
		flush(t, m)
		wantAcks(t, m, testenv.Pubcomp, 1, window)
	}
	m.PublishAlias("warehouse/S-2/reading", "x", 1, 5)
	m.PublishAlias("", "y", 2, 5)
	flush(t, m)
	got := r.wait(t, 4*window+2)
	if g := got[4*window+1]; g.topic != "warehouse/S-2/reading" || g.payload != "y" {
		t.Errorf("received %+v by its alias", g)
	}
	r.ack(2)
	wantAcks(t, m, testenv.Puback, 1, 2)
}

func TestSubscribersGetWhatTheReceiverTakes(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	type seen struct {
		payload  string
		qos      byte
		retained bool
	}
	watch := func(id string) chan seen {
		got := make(chan seen, 10)
		c := connect(t, options(b, id).SetDefaultPublishHandler(func(_ paho.Client, m paho.Message) { got <- seen{string(m.Payload()), m.Qos(), m.Retained()} }))
		subscribe(t, c, "warehouse/#", 2)
		return got
	}
	want := func(got chan seen, s seen) {
		t.Helper()
		select {
		case have := <-got:
			if have != s {
				t.Errorf("have %+v, want %+v", have, s)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%+v did not come", s)
		}
	}
	early := watch("early")
	p := connect(t, options(b, "p"))
	for qos := range byte(3) {
		p.Publish("warehouse/S-1/reading", qos, false, fmt.Sprint("live ", qos))
		want(early, seen{fmt.Sprint("live ", qos), qos, false})
	}
	p.Publish("warehouse/S-1/reading", 1, true, "kept")
	want(early, seen{"kept", 1, false})
	want(watch("late"), seen{"kept", 1, true})
	r.wait(t, 4)
	r.ack(4)

	r.end()
	p.Publish("warehouse/S-1/reading", 1, true, "refused")
	waitFor(t, 10*time.Second, "the message is refused", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.refused == 1 })
	want(watch("later"), seen{"kept", 1, true})
	if len(early) != 0 {
		t.Errorf("a subscriber got %+v, which was refused", <-early)
	}
}

func TestAFullReceiverHoldsPublishersBackOneByOne(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	release := r.hold()
	// Its keep-alive passes meanwhile: it must not count, since it is we who
	// do not read.
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "held", KeepAlive: time.Second})
	for i := range 100 {
		m.Publish("warehouse/S-1/reading", fmt.Sprint(i), uint16(i+1), 1, false)
	}
	m.Ping()
	flush(t, m)
	waitFor(t, 10*time.Second, "the publisher waits", func() bool { return b.Stats().Waiting == 1 })
	free := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "free"})
	free.Publish("other/topic", "x", 1, 1, false)
	flush(t, free)
	wantAcks(t, free, testenv.Puback, 1, 1)
	waitFor(t, 10*time.Second, "the keep-alive has passed", func() bool { return b.lis.held(1600*time.Millisecond, false) == 1 })
	if p, err := m.Next(time.Millisecond); !errors.Is(err, testenv.ErrSilent) {
		t.Errorf("have packet %+v, %v while held back", p, err)
	}
	release()
	r.wait(t, 100)
	if p, err := m.Next(10 * time.Second); err != nil || p.Kind != testenv.Pong {
		t.Errorf("have packet %+v, %v; want the answer to the ping", p, err)
	}
	r.ack(100)
	wantAcks(t, m, testenv.Puback, 1, 100)
	if st := b.Stats(); st.Waiting != 0 {
		t.Errorf("%d wait", st.Waiting)
	}
}

func TestAHeldPublisherThatComesBackIsServedOnItsNewConnection(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	_ = testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "first"}).Close()
	var idle int // goroutines, once the broker has settled
	waitFor(t, 10*time.Second, "the first connection has ended", func() bool {
		was := idle
		idle = runtime.NumGoroutine()
		return b.Stats().Connections == 0 && idle == was
	})
	release := r.hold()
	for n := range 5 { // each taken over by the next
		m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", Keep: true})
		m.Publish("warehouse/S-1/reading", "x", 1, 1, n > 0)
		flush(t, m)
		waitFor(t, 10*time.Second, "the older connection has let go", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.refused == n
		})
		waitFor(t, 10*time.Second, "the publisher waits", func() bool { return b.Stats().Waiting == 1 })
	}
	if n := b.lis.held(0, true); n != 1 { // as when patience has ended
		t.Errorf("%d connections were held", n)
	}
	waitFor(t, 10*time.Second, "the connection is given up", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.refused == 5 })
	release()
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", Keep: true})
	m.Publish("warehouse/S-1/reading", "x", 1, 1, true)
	flush(t, m)
	if got := r.wait(t, 1); len(got) != 1 || !got[0].again {
		t.Errorf("received %+v, want the one message, told to come again", got)
	}
	r.ack(1)
	wantAcks(t, m, testenv.Puback, 1, 1)
	_ = m.Close()
	waitFor(t, 10*time.Second, "no goroutine is left of the connections", func() bool { return runtime.NumGoroutine() <= idle })
}

func TestAnAckThatComesTooLateIsNobodys(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p"})
	m.Publish("warehouse/S-1/reading", "x", 1, 1, false)
	m.Bye()
	flush(t, m)
	r.wait(t, 1)
	waitFor(t, 10*time.Second, "the connection has ended", func() bool { return b.Stats().Connections == 0 })
	m = testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p"})
	r.ack(1)
	wantSilence(t, m)
}

func TestAWillReachesTheReceiver(t *testing.T) {
	r := &taker{}
	b := start(t, BrokerConfig{Receiver: r})
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p", Will: [2]string{"warehouse/S-1/status", "offline"}})
	_ = m.Close()
	if g := r.wait(t, 1)[0]; g.topic != "warehouse/S-1/status" || g.payload != "offline" || g.acker != nil {
		t.Errorf("received %+v", g)
	}
}

// A stop: nobody new comes in, what was taken is acknowledged to the last
// message, what was not never is.
func TestAtAStopWhatWasTakenIsStillAcknowledged(t *testing.T) {
	r := &taker{}
	b, err := NewBroker(BrokerConfig{Addr: "127.0.0.1:0", Receiver: r, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, closeAll := context.WithCancel(context.Background())
	stop, stopNow := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, stop) }()
	m := testenv.DialRaw(t, b.Addr(), testenv.RawConnect{ID: "p"})
	const n = 2000
	for i := range n {
		m.Publish("warehouse/S-1/reading", "x", uint16(i+1), 1, false)
	}
	flush(t, m)
	r.wait(t, n)
	stopNow()
	r.end()
	for i := range 100 {
		m.Publish("warehouse/S-1/reading", "x", uint16(n+i+1), 1, false)
	}
	flush(t, m)
	waitFor(t, 10*time.Second, "the rest is refused", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.refused == 100 })
	waitFor(t, 10*time.Second, "nobody is let in", func() bool { return cannotConnect(b.Addr()) })
	r.ack(n)
	closeAll() // at once: the acks are on their way
	wantAcks(t, m, testenv.Puback, 1, n)
	if p, err := m.Next(10 * time.Second); err == nil {
		t.Errorf("have packet %+v, want the end of the connection", p)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
