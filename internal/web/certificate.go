package web

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how long a changed certificate may go unnoticed.
const lookEvery = 2 * time.Second

// Certificate is the server's certificate and key, read from their files again
// when these change: a renewed one needs no restart, and one that cannot be
// read leaves the old one in use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	stamp   [2]stamp // of the files that pair was made of
	looked  time.Time
	trouble string // why the files that are there now are not in use
}

// stamp tells one state of a file from the next.
type stamp struct {
	size     int64
	modified time.Time
}

// LoadCertificate reads the certificate, with the chain behind it, and its
// key, both in PEM.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.looked = time.Now()
	return c, nil
}

// load takes the pair from the files. The stamps come first, so that a change
// in between is seen at the next look.
func (c *Certificate) load() error {
	stamp, err := c.stamps()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("cannot use %q with %q: %w", c.certFile, c.keyFile, err)
	}
	c.pair, c.stamp = &pair, stamp
	return nil
}

func (c *Certificate) stamps() (all [2]stamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return all, fmt.Errorf("cannot read the certificate: %w", err)
		}
		all[i] = stamp{info.Size(), info.ModTime()}
	}
	return all, nil
}

// get is the pair for a handshake.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.lookLocked()
	}
	return c.pair, nil
}

// lookLocked takes a new pair. The two files are seldom replaced at once, so
// it may not fit together yet: it is tried at each look, and logged once.
func (c *Certificate) lookLocked() {
	now, err := c.stamps()
	if err == nil && now == c.stamp {
		c.trouble = ""
		return
	}
	if err == nil {
		err = c.load()
	}
	switch {
	case err == nil:
		c.trouble = ""
		c.log.Info("http certificate is renewed", "file", c.certFile, "until", c.pair.Leaf.NotAfter)
	case c.trouble != err.Error():
		c.trouble = err.Error()
		c.log.Error("http certificate cannot be renewed, the old one stays in use", "err", err)
	}
}

func (c *Certificate) expiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.Leaf.NotAfter
}

func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
