// Package source receives messages from an MQTT broker: it connects, stays
// subscribed, decodes what arrives and acknowledges it when told to.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"gudang/internal/decode"
)

// Source is one session with a broker.
type Source struct {
	cfg     Config
	filters []string
	log     *slog.Logger

	receiving sync.Mutex // held while a message is taken in
	current   *link      // the connection whose messages are taken in
	in        receiver
	session   sessionFile
	noRoom    bool // waiting for room was in vain
	finishing sync.Once
	retired   bool // it exists to be emptied and removed

	mu      sync.Mutex
	problem error // why messages don't arrive; nil when they can
}

// link is one connection.
type link struct {
	client mqtt.Client
	conn   *conn
	lost   chan error // why it ended, or has to
}

// New makes a source; Run runs it.
func New(cfg Config, decoder *decode.Decoder, reg Registerer) (*Source, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return newSession(cfg, decoder, newEntrance(cfg.MaxUnacked, cfg.Log, reg)), nil
}

// newSession makes one of the sessions of an entrance.
func newSession(cfg Config, decoder *decode.Decoder, in *entrance) *Source {
	s := &Source{cfg: cfg, log: cfg.Log, in: receiver{entrance: in, decoder: decoder}, session: sessionFile{cfg.SessionFile}, problem: errors.New("not connected yet")}
	for _, f := range decoder.Filters() {
		if cfg.Share != "" {
			f = "$share/" + cfg.Share + "/" + f
		}
		s.filters = append(s.filters, f)
	}
	in.join()
	return s
}

// Intake is where the next stage takes messages from.
func (s *Source) Intake() *Intake { return s.in.intake }

// Remember tells it, before Run, of a message without a time of its own that
// was received before the start, and which time it was given: Hash and Stamp
// of its delivery. Should it be sent again, it gets that time again.
func (s *Source) Remember(hash uint64, stamp int64) { s.in.remember(hash, stamp) }

const (
	connectTimeout = 10 * time.Second
	// pingTimeout is how long the broker may take to answer a ping. It is conn
	// that waits for it, so paho must not.
	pingTimeout   = 20 * time.Second
	neverTimeout  = 1000 * time.Hour
	subackTimeout = 30 * time.Second
	// A connection that lived this long was a good one: the next attempt
	// follows at once.
	goodLife     = 30 * time.Second
	firstPause   = 250 * time.Millisecond
	longPause    = 5 * time.Second  // the broker is away: be there soon when it is back
	contestPause = 15 * time.Second // it drops us again and again: don't fight
	// room is how long a message may wait for room. TCP holds the broker back
	// meanwhile; any longer and pings would wait too, and the session be lost.
	room = 2 * time.Second
)

// Run keeps the session up until stop ends. Then it takes nothing more, waits
// until what it took is acknowledged, and disconnects. When ctx ends it leaves
// at once: the broker has what is not acknowledged.
func (s *Source) Run(ctx, stop context.Context) error {
	defer s.finish()
	failures := 0
	for {
		s.waitForRoom(ctx, stop)
		begun, limit := time.Now(), longPause
		l, err := s.connect(ctx, stop)
		if err != nil && !ended(ctx, stop) {
			s.log.Warn("cannot connect to broker, trying again", "broker", s.cfg.brokers(), "error", err)
		}
		if err == nil {
			err = s.stay(ctx, stop, l)
			if time.Since(begun) > goodLife {
				failures = 0
			} else {
				limit = contestPause
			}
		}
		s.down(err)
		if ended(ctx, stop) || errors.Is(err, errRemoved) {
			return nil
		}
		failures++
		pause := min(firstPause<<min(failures-1, 10), limit)
		if limit == contestPause && failures >= 3 {
			s.log.Warn("broker closes the connection soon after each connect: does another client use this id?", "client_id", s.cfg.ClientID, "times", failures, "next_in", pause)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-stop.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// finish says that nothing more comes by this session.
func (s *Source) finish() { s.finishing.Do(s.in.leave) }

func ended(ctx, stop context.Context) bool { return ctx.Err() != nil || stop.Err() != nil }

// connect makes a connection. Each has a paho client of its own, so that what
// belongs to one connection can't reach another.
func (s *Source) connect(ctx, stop context.Context) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()

	l := &link{lost: make(chan error, 1)}
	o := s.options(ctx, l)
	s.receiving.Lock() // waits for what still arrives on an older connection
	s.current = l
	s.receiving.Unlock()
	l.client = mqtt.NewClient(o)
	token := l.client.Connect().(*mqtt.ConnectToken)
	token.Wait() // bounded by the timeouts of the dialer and the handshake, and by ctx
	if err := token.Error(); err != nil {
		return nil, connectError(err)
	}
	if !l.conn.attempt() {
		s.leave(l, 0)
		return nil, ctx.Err()
	}
	s.in.metrics.connects.Inc()
	s.log.Info("connected to broker", "broker", l.conn.RemoteAddr().String(), "client_id", s.cfg.ClientID, "session_present", token.SessionPresent())
	return l, nil
}

// options are those of the connection l, whose attempt ends with ctx.
func (s *Source) options(ctx context.Context, l *link) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions().
		SetClientID(s.cfg.ClientID).
		SetUsername(s.cfg.Username).SetPassword(s.cfg.Password).
		SetCleanSession(false). // the broker keeps what comes while we are away
		SetProtocolVersion(4).
		SetOrderMatters(true).
		SetAutoAckDisabled(true).
		SetAutoReconnect(false).
		SetStore(noStore{}).
		SetConnectTimeout(connectTimeout).SetKeepAlive(s.cfg.KeepAlive).SetPingTimeout(neverTimeout).
		SetConnectionLostHandler(func(_ mqtt.Client, err error) { l.end(err) }).
		// The handler must be there before the connection: a persistent session
		// delivers its backlog at once, and what has no handler is never acked.
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { s.receive(l, m) })
	for _, u := range s.cfg.URLs {
		o.AddBroker(u.String())
	}
	d := dialer{ctx: ctx, tls: s.cfg.TLS, timeout: connectTimeout, limit: s.cfg.MaxPacket, silence: s.cfg.silence(), opened: func(c *conn) { l.conn = c }}
	o.SetCustomOpenConnectionFn(d.open)
	return o
}

// stay subscribes and lets messages arrive until the connection is lost, which
// is the error that it returns, or the work is done.
func (s *Source) stay(ctx, stop context.Context, l *link) error {
	if s.retired {
		return s.empty(ctx, stop, l)
	}
	var (
		pause  = firstPause
		answer = s.subscribe(l.client)
		again  <-chan time.Time
	)
	for {
		select {
		case <-again:
			answer = s.subscribe(l.client)
		case err := <-answer:
			if err != nil {
				s.down(err)
				s.log.Error("subscription failed, trying again", "error", err)
				pause = min(2*pause, time.Minute)
				again = time.After(pause)
				continue
			}
			s.up()
			s.log.Info("subscribed", "filters", s.filters)
		case err := <-l.lost:
			s.log.Warn("connection to broker is lost", "error", err)
			s.leave(l, 0)
			return err
		case <-stop.Done():
			if s.cfg.Leave {
				s.quit(ctx, l)
			}
			s.finish()
			if err := s.drain(ctx, l); err != nil {
				s.log.Warn("stopping with messages unacknowledged, the broker keeps them", "messages", s.in.intake.Outstanding(), "error", err)
			}
			s.leave(l, 500*time.Millisecond)
			if s.cfg.Leave {
				s.removeSession(ctx)
			}
			return errors.New("stopped")
		case <-ctx.Done():
			s.leave(l, 0)
			return ctx.Err()
		}
	}
}

const (
	quitWithin = 5 * time.Second
	quitQuiet  = 300 * time.Millisecond
)

// quit takes the session out of service: the broker is told to send nothing
// new, and what it has queued is taken in until no more comes.
func (s *Source) quit(ctx context.Context, l *link) {
	ctx, cancel := context.WithTimeout(ctx, quitWithin)
	defer cancel()
	token := l.client.Unsubscribe(s.filters...)
	select {
	case <-token.Done():
	case <-ctx.Done():
	}
	if err := cmp.Or(token.Error(), ctx.Err()); err != nil {
		s.log.Warn("cannot unsubscribe before leaving", "error", err)
	}
	for {
		s.receiving.Lock()
		last := s.in.now
		s.receiving.Unlock()
		wait := quitQuiet - time.Since(last)
		if wait <= 0 && l.conn.unacked() == 0 {
			return
		}
		select {
		case <-time.After(max(wait, 10*time.Millisecond)):
		case <-ctx.Done():
			s.log.Warn("leaving although messages still come", "after", quitWithin)
			return
		}
	}
}

// removeSession removes our session at the broker, by connecting once with the
// clean session flag.
func (s *Source) removeSession(ctx context.Context) {
	o := s.options(ctx, &link{lost: make(chan error, 1)}).SetCleanSession(true)
	client := mqtt.NewClient(o)
	token := client.Connect()
	token.Wait()
	err := token.Error()
	if err == nil {
		client.Disconnect(250)
		err = s.session.write(s.cfg.ClientID, nil)
	}
	if err != nil {
		s.log.Warn("cannot remove the session at the broker", "client_id", s.cfg.ClientID, "error", connectError(err))
		return
	}
	s.log.Info("session at the broker is removed", "client_id", s.cfg.ClientID)
}

// leave ends a connection. What still arrives on it is not taken in.
func (s *Source) leave(l *link, grace time.Duration) {
	s.receiving.Lock()
	s.current = nil
	s.receiving.Unlock()
	l.client.Disconnect(uint(grace.Milliseconds()))
}

// drain waits until everything that was taken in has ended.
func (s *Source) drain(ctx context.Context, l *link) error {
	for {
		changed := s.in.intake.changed()
		if s.in.intake.Outstanding() == 0 {
			return nil
		}
		select {
		case <-changed:
		case err := <-l.lost:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscribe subscribes to all filters and says what the broker answered. It is
// done on every connection, whatever session the broker says it has.
func (s *Source) subscribe(client mqtt.Client) <-chan error {
	want := make(map[string]byte, len(s.filters))
	for _, f := range s.filters {
		want[f] = s.cfg.QoS
	}
	// What we may be subscribed to is saved before we are, so that a crash in
	// between leaves no filter that nobody knows of.
	had, err := s.session.read(s.cfg.ClientID)
	if err == nil {
		err = s.session.write(s.cfg.ClientID, append(dropped(had, s.filters), s.filters...))
	}
	if err != nil {
		s.log.Warn("filters that are taken out of MQTT_TOPICS later can't be unsubscribed", "error", err)
	}
	token := client.SubscribeMultiple(want, nil).(*mqtt.SubscribeToken)
	answer := make(chan error, 1)
	go func() {
		err := s.granted(token)
		if gone := dropped(had, s.filters); err == nil && len(gone) > 0 {
			s.unsubscribe(client, gone)
		}
		answer <- err
	}()
	return answer
}

// unsubscribe ends what the session has from earlier settings. What the broker
// has queued for it still comes, matches no entry of MQTT_TOPICS, and is
// acknowledged and counted as ignored.
func (s *Source) unsubscribe(client mqtt.Client, gone []string) {
	token := client.Unsubscribe(gone...)
	if !token.WaitTimeout(subackTimeout) || token.Error() != nil {
		s.log.Warn("cannot unsubscribe from filters that are no longer wanted", "filters", gone, "error", token.Error())
		return
	}
	s.log.Info("unsubscribed from filters that are no longer wanted", "filters", gone)
	if err := s.session.write(s.cfg.ClientID, s.filters); err != nil {
		s.log.Warn("cannot save what the session is subscribed to", "error", err)
	}
}

// granted waits for the broker's answer to a subscription and checks it.
func (s *Source) granted(token *mqtt.SubscribeToken) error {
	if !token.WaitTimeout(subackTimeout) {
		return fmt.Errorf("no answer to the subscription within %v", subackTimeout)
	}
	if err := token.Error(); err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	var refused []string
	for f, granted := range token.Result() {
		switch {
		case granted > 2:
			refused = append(refused, f)
		case granted < s.cfg.QoS:
			s.log.Warn("broker grants a lower QoS than asked for: messages may be lost", "filter", f, "granted", granted, "asked", s.cfg.QoS)
		}
	}
	if len(refused) > 0 {
		slices.Sort(refused)
		return fmt.Errorf("broker refused the subscription to %q (does its access control list allow it?)", refused)
	}
	return nil
}

// waitForRoom waits until half of the intake is free if it overflowed before.
func (s *Source) waitForRoom(ctx, stop context.Context) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for s.noRoom {
		changed := s.in.intake.changed()
		if s.in.intake.Outstanding() <= s.cfg.MaxUnacked/2 {
			s.noRoom = false
			return
		}
		select {
		case <-changed:
		case <-stop.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// receive takes in one message. paho calls it for one message after the
// other, in the order of arrival, and meanwhile reads no pings: it must not
// wait for anything but, for a bounded time, room.
func (s *Source) receive(l *link, m mqtt.Message) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	if s.current != l {
		return // the connection is given up: the broker sends the message again
	}
	msg := message{client: s.cfg.Sender, topic: m.Topic(), payload: m.Payload(), retained: m.Retained(), again: m.Duplicate(), id: m.MessageID(), qos: m.Qos(), acker: l.conn}
	s.in.decode(&msg)
	v := s.in.put(&msg)
	if v == full {
		v = s.putWhenFree(&msg)
	}
	switch {
	case v == taken:
		s.noRoom = false
		if msg.qos > 0 {
			l.conn.took()
		}
	case v == over:
	case msg.qos == 0:
		s.in.lose()
	default:
		// Nothing after this message may be acked on this connection, or the
		// order would break: the broker gets all of them to send again.
		s.current = nil
		l.end(fmt.Errorf("%d messages are unacknowledged: the broker holds the rest until there is room", s.cfg.MaxUnacked))
	}
}

// putWhenFree waits for room, unless that was in vain already.
func (s *Source) putWhenFree(m *message) verdict {
	if s.noRoom {
		return full
	}
	timer := time.NewTimer(room)
	defer timer.Stop()
	for {
		changed := s.in.intake.changed()
		if v := s.in.put(m); v != full {
			return v
		}
		select {
		case <-changed:
		case <-timer.C:
			s.noRoom = true
			return full
		}
	}
}

// end says that the connection has ended or has to.
func (l *link) end(err error) {
	select {
	case l.lost <- err:
	default:
	}
}

func (s *Source) up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != nil {
		s.in.change(1)
	}
	s.problem = nil
}

func (s *Source) down(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == nil {
		s.in.change(-1)
	}
	s.problem = cmp.Or(err, errNotConnected)
}

var errNotConnected = errors.New("not connected")

// Ready says whether messages can arrive, and if not, why.
func (s *Source) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != nil {
		return fmt.Errorf("broker %s: %w", s.cfg.brokers(), s.problem)
	}
	return nil
}

// connectError says what to do about a refused connection.
func connectError(err error) error {
	switch {
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		return fmt.Errorf("broker refused the credentials (check MQTT_USERNAME and MQTT_PASSWORD): %w", err)
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Errorf("broker refused the client id (check MQTT_CLIENT_ID): %w", err)
	}
	return err
}

// noStore is a paho store that keeps nothing: we publish nothing, and what we
// received the broker keeps until it is acknowledged.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}

// brokers names where we connect to, without credentials.
func (c *Config) brokers() string {
	var names []string
	for _, u := range c.URLs {
		names = append(names, u.Scheme+"://"+u.Host)
	}
	return strings.Join(names, ",")
}

// ParseURLs reads a comma-separated list of broker URLs.
func ParseURLs(list string) ([]*url.URL, error) {
	var urls []*url.URL
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		scheme, _, _ := strings.Cut(item, "://")
		u, err := url.Parse(item)
		if err != nil {
			if scheme == item {
				return nil, errors.New("broker URL: must be tcp://, ssl://, ws:// or wss:// and name a host")
			}
			return nil, fmt.Errorf("broker URL is malformed: %w", errors.Unwrap(err)) // the outer error quotes the URL, password and all
		}
		ports := map[string]string{"tcp": "1883", "ssl": "8883", "ws": "80", "wss": "443"}
		switch u.Scheme {
		case "mqtt":
			u.Scheme = "tcp"
		case "mqtts", "tls", "tcps":
			u.Scheme = "ssl"
		}
		port, ok := ports[u.Scheme]
		if !ok || u.Hostname() == "" {
			return nil, fmt.Errorf("broker URL %q: must be tcp://, ssl://, ws:// or wss:// and name a host", u.Redacted())
		}
		if u.Port() == "" {
			u.Host += ":" + port
		}
		urls = append(urls, u)
	}
	return urls, nil
}
