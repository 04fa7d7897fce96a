package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"gudang/internal/bucketer"
	"gudang/internal/decode"
	"gudang/internal/embedded"
	"gudang/internal/journal"
	"gudang/internal/query"
	"gudang/internal/sink"
	"gudang/internal/source"
	"gudang/internal/upkeep"
	"gudang/internal/web"
)

// service is the whole program:
//
//	broker ──▶ source ──▶ journal ──▶ bucketer ──▶ sink ──▶ store ◀── query ◀── web
//	  ▲        decode        │
//	  └────────── ack ◀──────┘
//
// The broker is inside the process when no other is given, and so is the store.
// Without a journal the bucketer acknowledges, once the store has committed.
type service struct {
	cfg      *config
	log      *slog.Logger
	broker   *embedded.Broker // nil: an outside one
	source   input
	journal  *journal.Journal // nil: none
	sensors  *bucketer.Sensors
	bucketer *bucketer.Bucketer
	sink     *sink.Sink
	write    sink.Store
	read     query.Store
	upkeep   []task
	web      *web.Server
	refresh  *upkeep.Refresh // nil: the store keeps no buckets of ours
}

// input is where messages come from: a session with a broker outside, or what
// the embedded one hands over.
type input interface {
	Intake() *source.Intake
	Remember(hash uint64, stamp int64)
	Run(ctx, stop context.Context) error
	Ready(ctx context.Context) error
}

const (
	// stopWithin bounds a stop. What is not stored by then stays with the
	// broker.
	stopWithin = 6 * time.Second
	// closeWithin bounds what follows: a store that hangs would hold the end as
	// well. Nothing depends on how files and connections are left, and after
	// 10 s whoever stops us loses patience.
	closeWithin = time.Second
)

// gcPercent is half of Go's own: a reading leaves little garbage, so more
// collections cost nothing that can be measured, and a million sensors take a
// quarter less memory at their peak.
const gcPercent = 50

// runService runs the service until ctx ends.
func runService(ctx context.Context, c *config, _ io.Writer, args []string) error {
	if err := parse(newFlags(""), args); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := c.logger(os.Stderr)
	for _, name := range unknownSettings(os.Environ()) {
		log.Warn("setting is unknown and does nothing", "name", name)
	}
	if c.MQTTShare != "" && c.MongoDBURI == "" {
		log.Warn("MQTT_SHARE without MONGODB_URI: each instance stores its own share, and none has all")
	}
	s, err := newService(ctx, c, log)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// newService opens and binds everything, so that what can't work says so
// before anything has started. When ctx ends it waits for nothing any more.
func newService(ctx context.Context, c *config, log *slog.Logger) (_ *service, err error) {
	s := &service{cfg: c, log: log, sensors: bucketer.NewSensors(c.MaxSensors)}
	defer func() {
		if err != nil {
			s.close(nil)
		}
	}()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gudang_build_info", Help: "Always 1; the labels say what runs."}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	reg.MustRegister(info, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gudang_sensors", Help: "Sensors known, of at most MAX_SENSORS.",
	}, func() float64 { return float64(s.sensors.Len()) }))
	registerLimits(reg, c)

	if err := s.openStore(ctx); err != nil {
		return nil, err
	}
	if err := s.openSource(reg); err != nil {
		return nil, err
	}
	health := []web.Check{{Name: "broker", Ready: s.source.Ready}}
	var intake bucketer.Intake = s.source.Intake()
	if c.Journal == "on" {
		if err := s.openJournal(reg); err != nil {
			return nil, err
		}
		intake = s.journal
		health = append(health, web.Check{Name: "journal", Ready: s.journal.Check})
	}
	s.sink = sink.New(sink.Config{Latest: c.LatestReadings, Raw: c.Raw, Rollups: c.rolled, Log: log}, s.write, reg)
	s.bucketer = bucketer.New(bucketer.Config{
		Span: c.span, ReadingInterval: c.ReadingInterval, FlushInterval: c.FlushInterval, FlushReadings: c.FlushReadings,
	}, intake, s.sink, s.sensors, reg)
	s.upkeep = s.upkeepTasks(reg)
	s.refresh = s.openRefresh(reg)
	return s, s.openWeb(reg, append(health, web.Check{Name: "store", Ready: s.sink.Ready}))
}

// openStore opens both sides of the store. It waits for whoever has locked the
// embedded one, such as someone with a tool: it will be there again.
func (s *service) openStore(ctx context.Context) error {
	for {
		err := s.tryStore()
		if !sink.Locked(err) {
			return err
		}
		s.log.Warn("another program has locked the embedded store, waiting for it", "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errStopped
		}
	}
}

// errStopped says that a stop came before everything was there to start with.
var errStopped = errors.New("stopped before the start was over")

func (s *service) tryStore() (err error) {
	c := s.cfg
	switch {
	case s.write != nil: // an earlier try got so far
	case c.Buckets == bucketsTimeSeries:
		if s.write, err = openTimeSeries(c, s.log); err != nil {
			return err
		}
		if err := s.checkTimeSeries(); err != nil {
			return err
		}
	case c.MongoDBURI != "":
		store, err := sink.OpenMongo(c.MongoDBURI, c.MongoDBDatabase, sink.MongoLog(s.log), sink.MongoOutlier(c.OutlierReadings, c.span), sink.MongoRaw(c.Raw))
		if err != nil {
			return &settingError{"MONGODB_URI", err}
		}
		s.write = store
	default:
		store, err := sink.OpenSQLite(c.DataDir, c.span, sink.SQLiteOutlier(c.OutlierReadings))
		if err != nil {
			return fmt.Errorf("DATA_DIR=%s: %w", c.DataDir, err)
		}
		s.write = store
	}
	s.read, err = openReader(c)
	return err
}

// openWriter opens the store to be written to beside a service that may be
// running.
func openWriter(c *config, log *slog.Logger) (sink.Store, error) {
	if c.Buckets == bucketsTimeSeries {
		return openTimeSeries(c, log)
	}
	if c.MongoDBURI != "" {
		store, err := sink.OpenMongo(c.MongoDBURI, c.MongoDBDatabase, sink.MongoLog(log), sink.MongoOutlier(c.OutlierReadings, c.span), sink.MongoRaw(c.Raw))
		if err != nil {
			return nil, &settingError{"MONGODB_URI", err}
		}
		return store, nil
	}
	store, err := sink.OpenSQLite(c.DataDir, c.span, sink.SQLiteBeside(), sink.SQLiteOutlier(c.OutlierReadings))
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR=%s: %w", c.DataDir, err)
	}
	return store, nil
}

// openReader opens the store to be read.
func openReader(c *config) (query.Store, error) {
	if c.Buckets == bucketsTimeSeries {
		return readTimeSeries(c)
	}
	if c.MongoDBURI != "" {
		store, err := query.OpenMongo(c.MongoDBURI, c.MongoDBDatabase, c.span)
		if err != nil {
			return nil, &settingError{"MONGODB_URI", err}
		}
		return store, nil
	}
	store, err := query.OpenSQLite(c.DataDir, c.span)
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR=%s: %w", c.DataDir, err)
	}
	return store, nil
}

// openSource prepares the session with the broker, or binds the embedded one
// if there is no other.
func (s *service) openSource(reg prometheus.Registerer) error {
	c := s.cfg
	for _, pair := range c.decoder.Overlaps() {
		s.log.Warn("filters overlap: a message that matches both may arrive twice, and is stored once", "filter", pair[0], "other", pair[1])
	}
	if c.urls == nil {
		return s.openBroker(reg)
	}
	if c.MQTTQoS == 0 {
		s.log.Warn("MQTT_QOS is 0: messages that come while the service is away or busy are lost")
	}
	session, err := source.NewPool(source.Config{
		URLs: c.urls, ClientID: c.MQTTClientID, QoS: c.MQTTQoS, Share: c.MQTTShare, Username: c.MQTTUsername, Password: c.MQTTPassword,
		SessionFile: filepath.Join(c.DataDir, "mqtt-session.json"), Leave: c.MQTTLeave,
		TLS: c.tls, KeepAlive: 30 * time.Second, MaxUnacked: c.MQTTMaxUnacked, MaxPacket: decode.DefaultMaxPayload + 1<<17, Log: s.log,
	}, c.MQTTConnections, func() (*decode.Decoder, error) { return decode.New(c.decoding()) }, reg)
	if err != nil {
		return err
	}
	s.source = session
	return nil
}

// openBroker binds the embedded broker, which hands over what is published.
func (s *service) openBroker(reg prometheus.Registerer) error {
	c := s.cfg
	local := source.NewLocal(c.MQTTMaxUnacked, c.decoder, s.log, reg)
	broker, err := embedded.NewBroker(embedded.BrokerConfig{
		Addr: c.EmbeddedAddr, Username: c.MQTTUsername, Password: c.MQTTPassword, Receiver: local, Log: s.log,
	})
	if err != nil {
		return &settingError{"EMBEDDED_MQTT_ADDR", err}
	}
	if err := broker.Listen(); err != nil {
		return err
	}
	s.broker, s.source = broker, local
	return broker.Register(reg)
}

// openJournal opens the journal, and tells the source of messages in it that
// the broker may send again.
func (s *service) openJournal(reg prometheus.Registerer) (err error) {
	c := s.cfg
	s.journal, err = journal.Open(journal.Config{
		Dir: filepath.Join(c.DataDir, "journal"), MaxBytes: int64(c.JournalMaxBytes), Log: s.log,
	}, s.source.Intake(), reg)
	if err != nil {
		return fmt.Errorf("DATA_DIR=%s: %w (JOURNAL=off does without it)", c.DataDir, err)
	}
	for stamp := range s.journal.Stamps() {
		s.source.Remember(stamp.Hash, stamp.Time)
	}
	return nil
}

// run runs everything until stop ends, then stops it in the order of the data:
// no more messages, flush, acknowledge, disconnect.
func (s *service) run(stop context.Context) error {
	overdue := make(chan struct{})
	defer s.close(overdue)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(stop, func() {
		s.log.Info("stopping")
		time.AfterFunc(stopWithin, cancel)
		time.AfterFunc(stopWithin+closeWithin, func() { close(overdue) })
	})()

	group, ctx := errgroup.WithContext(ctx)
	flushed, flushedAll := context.WithCancel(ctx) // nothing more comes to the sink
	served, servedAll := context.WithCancel(ctx)   // nothing more needs the broker and the web server
	group.Go(func() error { return early(stop, "MQTT source", s.source.Run(ctx, stop)) })
	if s.journal != nil {
		group.Go(func() error { return early(stop, "journal", s.journal.Run(ctx)) })
	}
	group.Go(func() error {
		defer flushedAll()
		if err := s.knowSensors(ctx, stop); err != nil {
			return err
		}
		return early(stop, "bucketer", s.bucketer.Run(ctx))
	})
	group.Go(func() error {
		defer servedAll()
		return early(flushed, "sink", s.sink.Run(flushed, ctx))
	})
	for _, task := range s.upkeep {
		group.Go(func() error { return early(stop, "upkeep", task.Run(stop)) })
	}
	group.Go(func() error { return early(served, "web server", s.web.Run(served)) })
	if s.refresh != nil {
		group.Go(func() error { return early(flushed, "refresh", s.refresh.Run(flushed)) })
	}
	if s.broker != nil {
		group.Go(func() error { return early(served, "embedded broker", s.broker.Run(served, stop)) })
	}
	s.log.Info("started", "version", version, "open", s.web.URL(), "broker", s.brokerName(), "store", s.cfg.storeName(), "topics", s.cfg.MQTTTopics)

	err := group.Wait()
	if stop.Err() != nil && errors.Is(err, context.Canceled) {
		s.log.Warn("stopped before everything was stored: what was acknowledged is in the journal, the rest is left to who sent it",
			"journal", s.journal != nil, "unacknowledged_messages", s.source.Intake().Outstanding())
		return nil
	}
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// early makes an error of a part that ends before it should: the group stops
// the others only for an error.
func early(until context.Context, part string, err error) error {
	if err == nil && until.Err() == nil {
		return fmt.Errorf("%s ended by itself", part)
	}
	return err
}

// knowSensors learns which sensors the store has, for the limit on their
// number. It waits for the store, without which nothing could be stored anyway;
// so a stop before it is there need not wait for anything.
func (s *service) knowSensors(ctx, stop context.Context) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := s.read.SensorIDs(ctx, func(id string) error {
			s.sensors.Know(id)
			s.sink.Know(id)
			return nil
		})
		if err == nil {
			return nil
		}
		s.log.Warn("cannot read the sensors from the store, trying again", "error", err)
		select {
		case <-time.After(pause):
		case <-stop.Done():
			return stop.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *service) brokerName() string {
	if s.broker != nil {
		return "embedded, mqtt://" + s.broker.Addr()
	}
	return redact(s.cfg.MQTTURL)
}

// storeName says where readings are stored, without secrets.
func (c *config) storeName() string {
	if c.MongoDBURI != "" {
		return redact(c.MongoDBURI)
	}
	return filepath.Join(c.DataDir, "gudang.db")
}

// close closes what newService opened, and waits for it until overdue.
func (s *service) close(overdue <-chan struct{}) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, c := range []io.Closer{s.read, s.write} {
			if c != nil {
				if err := c.Close(); err != nil {
					s.log.Warn("cannot close the store", "error", err)
				}
			}
		}
		if s.journal != nil {
			if err := s.journal.Close(); err != nil {
				s.log.Warn("cannot close the journal", "error", err)
			}
		}
	}()
	select {
	case <-closed:
	case <-overdue:
		s.log.Warn("store takes too long to close: ending without that")
	}
}
