// Package web answers over HTTP: the JSON API over what is stored, the
// metrics, whether the service is alive and ready, and pages for people.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gudang/internal/reading"
)

// Reader is the part of the store that is answered from.
type Reader interface {
	// Sensors lists sensors in order of id, after the given one.
	Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error)
	// Sensor is one of them, or reading.ErrNotFound.
	Sensor(ctx context.Context, id string) (reading.Sensor, error)
	// Readings and Summaries answer in order of time, then metric.
	Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error)
	Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error)
	// Rollups are the same for longer spans than that of a bucket.
	Rollups(ctx context.Context, q reading.Query, span reading.Span) ([]reading.Summary, error)
}

// Config is what a Server is made from. Health, Rollups, Page, Auth, Certificate
// and Prometheus may be left out.
type Config struct {
	Reader     Reader
	Span       reading.Span   // of buckets
	Rollups    []reading.Span // longer ones that may be asked for
	Health     []Check
	Gatherer   prometheus.Gatherer   // what /metrics shows
	Registerer prometheus.Registerer // where the server's own metrics go
	Log        *slog.Logger
	Version    string
	Page       PageConfig

	Auth        Auth         // who may read
	Certificate *Certificate // nil: HTTP without TLS

	// Prometheus answers what lies below /prometheus/api/v1, the paths cut to
	// what follows. An error that it returns is the store's, and nothing is
	// written then. Without it there is nothing.
	Prometheus func(http.ResponseWriter, *http.Request) error
}

// The bounds on one request. Together they decide how long anybody can hold a
// connection, and with the gate below how much memory answers can take.
const (
	headerTimeout = 5 * time.Second  // to send the request's head
	readTimeout   = 10 * time.Second // to send all of it
	writeTimeout  = 30 * time.Second // from the head read to the last byte answered; must exceed patience + promqlTimeout
	idleTimeout   = 2 * time.Minute  // between requests
	queryTimeout  = 10 * time.Second // for the store to answer
	patience      = 2 * time.Second  // in the queue for the store
	checkTimeout  = 2 * time.Second  // for all health checks together
	stopTimeout   = 3 * time.Second  // for answers under way at the stop

	maxHeader = 16 << 10 // bytes; beyond it net/http answers 431
	maxURI    = 8 << 10  // bytes; the longest sensible one is below 2 kB
	maxBody   = 64 << 10 // bytes; only a query in PromQL has a body
)

// The gate: so many requests are answered from the store at a time, and so
// many wait for their turn. An answer of 10,000 readings takes about 1 MB
// while it is read and encoded, so a flood of dashboards costs about 20 MB.
const (
	maxQueries = 16
	maxWaiting = 128
)

// Server is the HTTP listener and what answers behind it.
type Server struct {
	reader   Reader
	spans    []reading.Span // that may be asked for: first that of buckets
	health   []*probe
	log      *slog.Logger
	version  string
	metrics  *metrics
	gate     *gate
	guard    *guard // nil: everybody may read
	encoders encoderPool
	trouble  throttle // for the log of store errors
	site     *site

	prometheus func(http.ResponseWriter, *http.Request) error

	queryTimeout time.Duration
	checkTimeout time.Duration
	stopTimeout  time.Duration

	http        *http.Server
	listener    net.Listener
	certificate *Certificate // nil: no TLS
}

// New prepares a server. It opens nothing: call Listen, then Run.
func New(c Config) *Server {
	s := &Server{
		reader:       c.Reader,
		spans:        append([]reading.Span{c.Span}, c.Rollups...),
		log:          c.Log,
		version:      c.Version,
		prometheus:   c.Prometheus,
		metrics:      newMetrics(c.Registerer, c.Certificate),
		gate:         newGate(maxQueries, maxWaiting, patience),
		guard:        newGuard(c.Auth),
		certificate:  c.Certificate,
		queryTimeout: queryTimeout,
		checkTimeout: checkTimeout,
		stopTimeout:  stopTimeout,
	}
	for _, check := range c.Health {
		s.health = append(s.health, &probe{check: check})
	}
	s.site = newSite(c)
	errorLog := slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn)
	s.http = &http.Server{
		Handler:           s.handler(s.routes(c.Gatherer, c.Registerer)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog,
	}
	if c.Certificate != nil {
		s.http.TLSConfig = c.Certificate.config()
	}
	return s
}

// route is one row of the table of what is served. A handler returns an error
// instead of writing it; see Server.fail. All of them answer GET and HEAD.
type route struct {
	pattern string
	handle  func(http.ResponseWriter, *http.Request) error
	store   bool          // it reads the store: it passes the gate and has a deadline
	within  time.Duration // of that deadline; 0: queryTimeout
	post    bool          // it answers POST as well, of a form, and changes nothing
}

func (s *Server) routes(g prometheus.Gatherer, r prometheus.Registerer) []route {
	scrape := promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector must not hide the others
		Registry:            r,
		MaxRequestsInFlight: 8,
	})
	routes := append(s.pageRoutes(), []route{
		{pattern: "/api/v1/sensors", handle: s.sensors, store: true},
		{pattern: sensorsPath + "{id}", handle: s.sensor, store: true},
		{pattern: "/api/v1/readings", handle: s.readings, store: true},
		{pattern: "/api/v1/buckets", handle: s.buckets, store: true},
		{pattern: "/metrics", handle: plain(scrape)},
		{pattern: alivePath, handle: s.alive},
		{pattern: readyPath, handle: s.ready},
		{pattern: "/", handle: notFound},
	}...)
	if s.prometheus != nil {
		routes = append(routes, route{pattern: prometheusPath, handle: s.promql, store: true, within: promqlTimeout, post: true})
	}
	return routes
}

// plain lets a handler that writes its own errors stand in the table.
func plain(h http.Handler) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// Listen binds addr, so that a port in use is one clear error before anything
// has started.
func (s *Server) Listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot listen on HTTP_ADDR %q: %w", addr, err)
	}
	s.listener = l
	return nil
}

// Addr is the address that is listened on, with the port that was really
// taken where the setting said 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is where the page is. The host is what is listened on.
func (s *Server) URL() string {
	if s.certificate != nil {
		return "https://" + s.Addr() + "/"
	}
	return "http://" + s.Addr() + "/"
}

func (s *Server) serveConnections() error {
	if s.certificate != nil {
		return s.http.ServeTLS(s.listener, "", "") // the files are Certificate's
	}
	return s.http.Serve(s.listener)
}

// Run serves until ctx ends, then lets the answers under way finish for a few
// seconds and cuts off the rest.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		return errors.New("cannot serve HTTP: nothing is listened on")
	}
	served := make(chan error, 1)
	go func() { served <- s.serveConnections() }()
	watched := make(chan struct{})
	watching, stopWatching := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		s.site.watch(watching)
	}()
	defer func() {
		stopWatching()
		<-watched
	}()
	select {
	case err := <-served:
		return fmt.Errorf("cannot serve HTTP on %q: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		s.log.Warn("http answers cut off at the stop", "err", err)
		s.http.Close()
	}
	<-served
	return nil
}
