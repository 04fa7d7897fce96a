package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// Probed is what a broker says to a stranger. MQTT 3.1.1 has it say nothing of
// its limits.
type Probed struct {
	Took    time.Duration // to connect
	Version string        // as it publishes it, empty if it does not
}

const (
	probeTimeout = 10 * time.Second
	// versionWait is for the retained message with the version, which comes
	// with the answer to the subscription, if it comes.
	versionWait  = time.Second
	versionTopic = "$SYS/broker/version"
	// goodbyeMS is how long the broker gets to hear that we leave.
	goodbyeMS = 100
)

// Probe connects to the first URL of the configuration under a client id that
// nobody has, asks for the version and leaves without a trace: under the
// service's own id it would throw the service out.
func Probe(ctx context.Context, cfg Config) (Probed, error) {
	cfg.ClientID = fmt.Sprintf("gudang-doctor-%08x", rand.Uint32())
	if err := cfg.check(); err != nil {
		return Probed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	version := make(chan string, 1)
	opened := func(*conn) {}
	o := mqtt.NewClientOptions().
		AddBroker(cfg.URLs[0].String()).SetClientID(cfg.ClientID).
		SetUsername(cfg.Username).SetPassword(cfg.Password).
		SetCleanSession(true).SetProtocolVersion(4).
		SetAutoReconnect(false).SetStore(noStore{}).SetConnectTimeout(connectTimeout).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			select {
			case version <- string(m.Payload()):
			default:
			}
		}).
		SetCustomOpenConnectionFn(dialer{ctx: ctx, tls: cfg.TLS, timeout: connectTimeout, limit: cfg.MaxPacket, silence: cfg.silence(), opened: opened}.open)
	client := mqtt.NewClient(o)
	begun := time.Now()
	token := client.Connect()
	token.Wait() // bounded by the timeouts of the dialer and the handshake, and by ctx
	if err := token.Error(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		return Probed{}, fmt.Errorf("broker %s: %w", cfg.brokers(), connectError(err))
	}
	defer client.Disconnect(goodbyeMS)
	p := Probed{Took: time.Since(begun)}
	wait, stop := context.WithTimeout(ctx, versionWait)
	defer stop()
	client.Subscribe(versionTopic, 0, nil)
	select {
	case p.Version = <-version:
	case <-wait.Done(): // it has none, or does not tell everybody
	}
	return p, nil
}
