// Package embedded is the MQTT broker inside the process, for a service that
// is started with no settings at all.
//
// It is github.com/mochi-mqtt/server/v2 (MIT), behind a listener and a hook of
// our own. The other candidate was nats-server with its MQTT listener
// (Apache-2.0). What decided:
//
//   - Weight: mochi adds 2 MB to the binary and two small modules. nats-server
//     adds 16 MB, eight modules and a second database (JetStream) with files, limits and
//     time-outs of its own beside our store.
//   - The order of things: mochi calls a hook before it acknowledges a message,
//     so that our own journal can be what makes a message safe (see Receiver).
//     nats-server acknowledges what JetStream has stored, synced or not.
//   - Upkeep speaks for nats-server, which is released every few weeks. mochi's
//     last release is 2.7.9 of March 2025, and the faults that we found in it
//     will not be mended for us. So what it cannot be trusted with is done
//     here: see conn (acknowledging), sessions (memory) and listener
//     (accepting, closing, panics). It is used for what it does well: the
//     packets, the topic tree, the sessions.
//
// A message that the service wants is acknowledged to its publisher when the
// service says that it is safe, so it survives a crash of the process.
// Everything else is an ordinary broker's that keeps all in memory: what other
// subscribers have not fetched, and retained messages, end with the process.
package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// MaxPacket is the largest MQTT packet in bytes that is read. A larger one
// ends its connection before any of it is kept.
const MaxPacket = 1 << 20

// BrokerConfig is what a broker depends on.
type BrokerConfig struct {
	Addr     string // host:port; port 0 takes a free one
	Username string // with Password: what every client must present
	Password string
	Receiver Receiver     // nil: every message is for subscribers alone
	Log      *slog.Logger // nil: the default
}

// Stats counts what a broker does.
type Stats struct {
	Connections int
	Sessions    int
	Received    int64 // messages from publishers
	Sent        int64 // messages to subscribers
	Unacked     int   // messages that subscribers have yet to acknowledge
	Bytes       int   // what they cost
	Waiting     int   // publishers that wait for room
	Dropped     int64 // messages that a full session, or a subscriber that was too slow, did not get
	Unretained  int64 // messages that were not retained because of a bound
}

const (
	// noticed is from when on a message counts as waiting for room.
	noticed = 100 * time.Millisecond
	// patience is how long it may wait. The client's pings are not answered
	// meanwhile, so that it has given up by then, and a connection that it has
	// left can't be told from one on which it waits. If it is there it will
	// connect again and send what was not acknowledged.
	patience = 30 * time.Second
)

// Broker is an MQTT broker. Listen, then Run it.
type Broker struct {
	cfg      BrokerConfig
	log      *slog.Logger
	sessions *sessions
	hook     *hook
	server   *mqtt.Server
	lis      *listener
}

// NewBroker checks the settings. It does not listen yet.
func NewBroker(cfg BrokerConfig) (*Broker, error) {
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("EMBEDDED_MQTT_ADDR %q: must be host:port, such as 127.0.0.1:1883: %w", cfg.Addr, err)
	}
	if (cfg.Username == "") != (cfg.Password == "") {
		return nil, errors.New("the embedded broker needs both MQTT_USERNAME and MQTT_PASSWORD, or neither")
	}
	ip := net.ParseIP(host)
	if cfg.Username == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("EMBEDDED_MQTT_ADDR %q can be reached from other machines: set MQTT_USERNAME and MQTT_PASSWORD, or listen on 127.0.0.1", cfg.Addr)
	}
	b := &Broker{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), sessions: newSessions()}
	caps := mqtt.NewDefaultServerCapabilities()
	caps.MaximumPacketSize = MaxPacket - 1 // the library counts all but the first byte and the length
	caps.MaximumInflight = 65535           // our own bounds are lower
	caps.MaximumClientWritesPending = 4 * maxQueued
	caps.MaximumMessageExpiryInterval = 0 // a message does not vanish because it waited
	caps.MaximumSessionExpiryInterval = 24 * 60 * 60
	caps.MaximumClients = maxSessions
	b.server = mqtt.New(&mqtt.Options{
		Capabilities:             caps,
		ClientNetReadBufferSize:  4 << 10,
		ClientNetWriteBufferSize: 8 << 10,
		Logger:                   slog.New(newQuiet(b.log.Handler())),
		SysTopicResendInterval:   60, // each costs a stop of the world
	})
	b.hook = &hook{
		sessions: b.sessions, receiver: cfg.Receiver, topics: b.server.Topics, info: b.server.Info, anyone: cfg.Username == "",
		user: sha256.Sum256([]byte(cfg.Username)), password: sha256.Sum256([]byte(cfg.Password)),
	}
	if err := b.server.AddHook(b.hook, nil); err != nil {
		return nil, fmt.Errorf("cannot set up the embedded broker: %w", err)
	}
	return b, nil
}

// Listen binds the address, so that a port in use is told before anything
// starts. Connections are answered once Run is called.
func (b *Broker) Listen() error {
	ln, err := net.Listen("tcp", b.cfg.Addr)
	if err != nil {
		return fmt.Errorf("cannot listen for MQTT on EMBEDDED_MQTT_ADDR %q: %w", b.cfg.Addr, err)
	}
	if a, ok := ln.Addr().(*net.TCPAddr); b.cfg.Username == "" && (!ok || !a.IP.IsLoopback()) {
		_ = ln.Close()
		return fmt.Errorf("EMBEDDED_MQTT_ADDR %q is %v, which is not loopback: set MQTT_USERNAME and MQTT_PASSWORD", b.cfg.Addr, ln.Addr())
	}
	b.lis = &listener{ln: ln, left: b.sessions.gone, log: slog.New(newQuiet(b.log.Handler())), conns: make(map[*conn]struct{})}
	return b.server.AddListener(b.lis)
}

// Addr is the address that is listened on, with the real port.
func (b *Broker) Addr() string {
	if b.lis == nil {
		return b.cfg.Addr
	}
	return b.lis.Address()
}

// Run serves until stop ends. Then it takes no more connections, and until ctx
// ends, which closes those there are, the receiver can have what it took
// acknowledged. What it has not by then its publishers send again.
func (b *Broker) Run(ctx, stop context.Context) error {
	if b.lis == nil {
		return errors.New("BUG: embedded broker: Run before Listen")
	}
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("cannot start the embedded broker: %w", err)
	}
	b.log.Info("embedded broker listens", "addr", b.Addr())
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	var last Stats
	stopped := stop.Done()
	for {
		select {
		case <-stopped:
			b.lis.refuse()
			stopped = nil
		case <-tick.C:
			last = b.report(last)
		case <-ctx.Done():
			if err := b.server.Close(); err != nil {
				return fmt.Errorf("cannot close the embedded broker: %w", err)
			}
			return nil
		}
	}
}

// report logs what an operator should know since the last time, and ends
// connections that wait in vain.
func (b *Broker) report(last Stats) Stats {
	st := b.Stats()
	if n := st.Dropped - last.Dropped; n > 0 {
		b.log.Warn("messages dropped: a subscriber is too slow or away", "dropped", n)
	}
	if n := st.Unretained - last.Unretained; n > 0 {
		b.log.Warn("messages not retained: too many or too large", "messages", n, "limit", maxRetained)
	}
	if n := b.lis.held(patience, true); n > 0 {
		b.log.Warn("publishers disconnected: the service has had no room for their messages", "publishers", n, "for", patience)
	} else if st.Waiting > 0 && last.Waiting > 0 {
		b.log.Warn("publishers wait: the service has no room for their messages", "publishers", st.Waiting)
	}
	return st
}

// Stats is what the broker has done until now.
func (b *Broker) Stats() Stats {
	st := b.sessions.snapshot()
	st.Received = b.server.Info.Clone().MessagesReceived
	st.Unretained = b.hook.unretained.Load()
	if b.lis != nil {
		st.Waiting = b.lis.held(noticed, false)
	}
	return st
}
