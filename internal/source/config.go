package source

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"
)

// Config is what a session depends on.
type Config struct {
	URLs        []*url.URL // tried in this order
	ClientID    string     // stable, or the broker can't keep our session
	QoS         byte
	Share       string // share group; empty: not shared
	Username    string
	Password    string
	TLS         *tls.Config // for ssl and wss
	KeepAlive   time.Duration
	MaxUnacked  int    // messages that may be unacknowledged
	SessionFile string // remembers what the session is subscribed to; empty: nothing does
	Sender      string // tells this session's packet identifiers from those of others; empty where there is one
	Leave       bool   // at the stop, take what is queued and remove the session
	MaxPacket   int    // bytes of a PUBLISH that are read; must be above the decoder's limit
	Log         *slog.Logger
}

// silence is how long a broker may say nothing: paho asks it at least every
// KeepAlive.
func (c *Config) silence() time.Duration { return c.KeepAlive + pingTimeout }

func (c *Config) check() error {
	switch {
	case len(c.URLs) == 0:
		return errors.New("no broker URL")
	case c.ClientID == "":
		return errors.New("client id is empty: the session could not persist")
	case c.QoS > 2:
		return fmt.Errorf("QoS %d: must be 0, 1 or 2", c.QoS)
	case c.MaxUnacked < 1:
		return fmt.Errorf("limit of %d unacknowledged messages: must be at least 1", c.MaxUnacked)
	}
	if c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}

// TLS makes the configuration of a TLS client: which authority it trusts
// beside (or, if given, instead of) the system's, and the certificate that it
// shows to the broker.
func TLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the CA certificate: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot use the CA certificate %q: no PEM certificate in it", caFile)
		}
	}
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("a client certificate needs both its file and its key's file")
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use the client certificate %q: %w", certFile, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
