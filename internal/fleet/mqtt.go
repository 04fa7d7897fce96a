package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// window is how many messages a connection has unacknowledged at a time.
// Waiting for each would cost a round trip a message.
const window = 512

// ErrGivenUp is what becomes of messages that were not acknowledged when the
// publisher ended.
var ErrGivenUp = errors.New("ended before the broker acknowledged it")

// MQTTConfig is where and how messages are published.
type MQTTConfig struct {
	Broker      string // tcp://, ssl://, ws:// or wss://
	Connections int    // default 1
	QoS         byte
	Username    string
	Password    string
	ClientID    string // prefix; default: a random one
	Log         *slog.Logger
}

// MQTT publishes over several connections. Run owns them; Publish waits until
// it runs. It keeps each message until it is acknowledged, through any number
// of lost connections, so that none is lost and none counted that was not.
type MQTT struct {
	cfg   MQTTConfig
	pipes []*pipe
	ended chan struct{}
}

// pipe is one connection, one after the other.
type pipe struct {
	cfg MQTTConfig
	id  string
	in  chan Message
}

// NewMQTT checks the settings. It does not connect yet.
func NewMQTT(cfg MQTTConfig) (*MQTT, error) {
	cfg.Connections = cmp.Or(cfg.Connections, 1)
	cfg.ClientID = cmp.Or(cfg.ClientID, fmt.Sprintf("simulate-%08x", rand.Uint32()))
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Connections < 1 || cfg.QoS > 2 || cfg.Broker == "" {
		return nil, fmt.Errorf("broker %q, %d connections, QoS %d: needs an address, at least one connection, and QoS 0, 1 or 2", cfg.Broker, cfg.Connections, cfg.QoS)
	}
	m := &MQTT{cfg: cfg, ended: make(chan struct{})}
	for i := range cfg.Connections {
		m.pipes = append(m.pipes, &pipe{cfg: cfg, id: fmt.Sprintf("%s-%d", cfg.ClientID, i), in: make(chan Message, window)})
	}
	return m, nil
}

// Publish hands a message to its sensor's connection.
func (m *MQTT) Publish(ctx context.Context, msg Message) error {
	select {
	case m.pipes[msg.Sensor%len(m.pipes)].in <- msg:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ended:
		return ErrGivenUp
	}
}

// Run connects and publishes until ctx ends. Then it gives up what is not
// acknowledged. A broker that refuses the credentials is an error; one that
// is not there is tried again.
func (m *MQTT) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for _, p := range m.pipes {
		wg.Go(func() {
			if err := p.run(ctx); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	close(m.ended)
	m.giveUp()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (p *pipe) run(ctx context.Context) error {
	var pending []Message // sent, but perhaps lost with their connection
	for ctx.Err() == nil {
		client, lost, err := p.connect(ctx)
		if err != nil {
			p.drop(pending)
			return err
		}
		if client != nil {
			pending = p.session(ctx, client, lost, pending)
			client.Disconnect(100)
		}
	}
	p.drop(pending)
	return nil
}

func (p *pipe) drop(pending []Message) {
	for _, m := range pending {
		m.Done(ErrGivenUp)
	}
}

// giveUp ends what was handed over and never sent.
func (m *MQTT) giveUp() {
	for _, p := range m.pipes {
		for len(p.in) > 0 {
			(<-p.in).Done(ErrGivenUp)
		}
	}
}

// loss is the end of a connection, whoever notices it first.
type loss struct {
	once sync.Once
	ch   chan struct{}
}

func (l *loss) happen() { l.once.Do(func() { close(l.ch) }) }

// connect tries until there is a connection; no client means that ctx ended.
// paho's own reconnecting is not used: it reports messages that it is about to
// send again as acknowledged.
func (p *pipe) connect(ctx context.Context) (paho.Client, *loss, error) {
	wait := 100 * time.Millisecond
	var told time.Time
	for {
		lost := &loss{ch: make(chan struct{})}
		o := paho.NewClientOptions().AddBroker(p.cfg.Broker).SetClientID(p.id).SetUsername(p.cfg.Username).SetPassword(p.cfg.Password).
			SetOrderMatters(false).SetAutoReconnect(false).SetConnectTimeout(5 * time.Second).SetKeepAlive(60 * time.Second).
			SetPingTimeout(30 * time.Second).SetWriteTimeout(10 * time.Second).
			SetConnectionLostHandler(func(_ paho.Client, err error) {
				p.cfg.Log.Warn("connection to the broker lost: what was not acknowledged is sent again", "connection", p.id, "error", err)
				lost.happen()
			})
		client := paho.NewClient(o)
		token := client.Connect()
		<-token.Done() // bounded by the connect time-out
		err := token.Error()
		if err == nil {
			return client, lost, nil
		}
		if errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword) || errors.Is(err, packets.ErrorRefusedNotAuthorised) {
			return nil, nil, fmt.Errorf("broker %s refuses the credentials: %w", p.cfg.Broker, err)
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			p.cfg.Log.Warn("cannot reach the broker: trying again", "broker", p.cfg.Broker, "connection", p.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil, nil
		case <-time.After(wait):
			wait = min(2*wait, 3*time.Second)
		}
	}
}

// flight is a message that was sent and its token.
type flight struct {
	Message
	token paho.Token
}

// session publishes over one connection until it is lost or ctx ends, first
// what is pending. It returns what was not acknowledged, in order.
func (p *pipe) session(ctx context.Context, client paho.Client, lost *loss, pending []Message) []Message {
	inFlight := make(chan flight, window)
	var unacked []Message
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for f := range inFlight {
			if acknowledged(ctx, f.token, lost) {
				f.Done(nil)
				continue
			}
			lost.happen() // the token may have failed while the connection holds
			unacked = append(unacked, f.Message)
		}
	}()
	send := func(m Message) {
		inFlight <- flight{m, client.Publish(m.Topic, p.cfg.QoS, false, m.Payload)}
	}
	gone := func() bool {
		select {
		case <-lost.ch:
			return true
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}
	for len(pending) > 0 && !gone() {
		send(pending[0])
		pending = pending[1:]
	}
	for !gone() {
		select {
		case m := <-p.in:
			send(m)
		case <-lost.ch:
		case <-ctx.Done():
		}
	}
	close(inFlight)
	<-collected
	return append(unacked, pending...)
}

// acknowledged waits for a token. What was acknowledged before the connection
// was lost counts, whoever is noticed first.
func acknowledged(ctx context.Context, token paho.Token, lost *loss) bool {
	select {
	case <-token.Done():
		return token.Error() == nil
	case <-lost.ch:
	case <-ctx.Done():
	}
	select {
	case <-token.Done():
		return token.Error() == nil
	default:
		return false
	}
}

// RunMQTT runs the fleet over the publisher, and ends both. It is what both
// commands need.
func (f *Fleet) RunMQTT(ctx context.Context, m *MQTT, rec Recorder) (Summary, error) {
	// The connections outlive ctx: the last acknowledgements come through them.
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := m.Run(own)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	_, err := f.Run(running, m, rec)
	stop()
	if failed := <-ended; failed != nil {
		err = failed // it is why the fleet could not go on
	}
	m.giveUp() // what was handed over while it ended
	f.outstanding.Wait()
	return f.Summary(), err
}
