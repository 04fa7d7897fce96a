package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/web"
)

// checkHTTP checks who may read and how. A secret is named, never shown.
func (c *config) checkHTTP() error {
	switch {
	case strings.ContainsFunc(c.HTTPToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("HTTP_TOKEN: must be ASCII without spaces: no client can send another")
	case (c.HTTPUsername == "") != (c.HTTPPassword == ""):
		return errors.New("HTTP_USERNAME, HTTP_PASSWORD: give both or none of them")
	case strings.Contains(c.HTTPUsername, ":"):
		return errors.New("HTTP_USERNAME: must not contain a colon, which is where its password begins")
	case (c.HTTPCertFile == "") != (c.HTTPKeyFile == ""):
		return errors.New("HTTP_CERT_FILE, HTTP_KEY_FILE: give both or none of them")
	}
	return nil
}

// openWeb binds the web server.
func (s *service) openWeb(reg *prometheus.Registry, health []web.Check) error {
	c := s.cfg
	cfg := web.Config{
		Reader: s.read, Span: c.span, Rollups: c.rolled, Gatherer: reg, Registerer: reg, Log: s.log, Version: version, Page: s.page(), Health: health, Prometheus: s.promql().Serve,
		Auth: web.Auth{Token: c.HTTPToken, Username: c.HTTPUsername, Password: c.HTTPPassword},
	}
	if c.HTTPCertFile != "" {
		cert, err := web.LoadCertificate(c.HTTPCertFile, c.HTTPKeyFile, s.log)
		if err != nil {
			return &settingError{"HTTP_CERT_FILE, HTTP_KEY_FILE", err}
		}
		cfg.Certificate = cert
	}
	s.warnOpen(cfg)
	s.web = web.New(cfg)
	return s.web.Listen(c.HTTPAddr)
}

// warnOpen says what of HTTP_ADDR others on the network can read.
func (s *service) warnOpen(cfg web.Config) {
	switch {
	case onlyHere(s.cfg.HTTPAddr):
	case cfg.Auth == web.Auth{}:
		s.log.Warn("HTTP_ADDR is open to the network and asks for no password: anybody there can read every sensor (HTTP_TOKEN, or HTTP_USERNAME and HTTP_PASSWORD)", "address", s.cfg.HTTPAddr)
	case cfg.Certificate == nil:
		s.log.Warn("HTTP_ADDR is open to the network without TLS: credentials can be read on the way (HTTP_CERT_FILE and HTTP_KEY_FILE, or a proxy)", "address", s.cfg.HTTPAddr)
	}
}

// onlyHere says whether an address takes connections from this machine only.
func onlyHere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// healthTimeout is less than what those who ask again wait for one answer.
const healthTimeout = 4 * time.Second

// runHealth asks the service with the same settings on this machine, for a
// container that has no other program to ask with.
func runHealth(ctx context.Context, c *config, out io.Writer, args []string) error {
	set := newFlags("health")
	ready := set.Bool("ready", false, "whether it is ready, too: broker and store are there")
	if err := parse(set, args); err != nil {
		return err
	}
	address, err := c.localURL()
	if err != nil {
		return err
	}
	address += map[bool]string{false: "/healthz", true: "/readyz"}[*ready]
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) //nolint:gosec // HTTP_ADDR of this very machine
	if err != nil {
		return err
	}
	// No credentials are sent, and of the answer only the status counts. The
	// certificate is for the name that others use, not for the loopback address.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	resp, err := client.Do(req) //nolint:gosec // HTTP_ADDR of this very machine
	if err != nil {
		return fmt.Errorf("cannot ask the service: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", address, err)
	}
	fmt.Fprint(out, string(text))
	if resp.StatusCode != http.StatusOK {
		return errCheck
	}
	return nil
}

// localURL is where this machine reaches the service.
func (c *config) localURL() (string, error) {
	host, port, err := net.SplitHostPort(c.HTTPAddr)
	if err != nil {
		return "", fmt.Errorf("HTTP_ADDR=%s: %w", c.HTTPAddr, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	scheme := "http://"
	if c.HTTPCertFile != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port), nil
}
