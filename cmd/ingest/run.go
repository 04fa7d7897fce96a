package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"gudang/internal/bucketer"
	"gudang/internal/decode"
	"gudang/internal/embedded"
	"gudang/internal/query"
	"gudang/internal/sink"
	"gudang/internal/source"
	"gudang/internal/web"
)

// service is the whole program:
//
//	broker ──▶ source ──▶ bucketer ──▶ sink ──▶ store ◀── query ◀── web
//	  ▲           │ decode    │
//	  └─── ack ◀──┴───────────┘
//
// The broker is inside the process when no other is given, and so is the store.
type service struct {
	cfg      *config
	log      *slog.Logger
	broker   *embedded.Broker // nil: an outside one
	source   *source.Source
	sensors  *bucketer.Sensors
	bucketer *bucketer.Bucketer
	sink     *sink.Sink
	write    sink.Store
	read     query.Store
	web      *web.Server
}

// stopWithin bounds a stop. What is not stored by then stays with the broker.
const stopWithin = 8 * time.Second

// runService runs the service until ctx ends.
func runService(ctx context.Context, c *config, _ io.Writer, args []string) error {
	if err := parse(newFlags(""), args); err != nil {
		return err
	}
	log := c.logger(os.Stderr)
	for _, name := range unknownSettings(os.Environ()) {
		log.Warn("setting is unknown and does nothing", "name", name)
	}
	s, err := newService(c, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// newService opens and binds everything, so that what can't work says so
// before anything has started.
func newService(c *config, log *slog.Logger) (_ *service, err error) {
	s := &service{cfg: c, log: log, sensors: bucketer.NewSensors(c.MaxSensors)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gudang_build_info", Help: "Always 1; the labels say what runs."}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	reg.MustRegister(info, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gudang_sensors", Help: "Sensors known, of at most MAX_SENSORS.",
	}, func() float64 { return float64(s.sensors.Len()) }))

	if err := s.openStore(); err != nil {
		return nil, err
	}
	if err := s.openSource(reg); err != nil {
		return nil, err
	}
	s.sink = sink.New(sink.Config{Latest: c.LatestReadings, Log: log}, s.write, reg)
	s.bucketer = bucketer.New(bucketer.Config{
		Span: c.span, ReadingInterval: c.ReadingInterval, FlushInterval: c.FlushInterval, FlushReadings: c.FlushReadings, Log: log,
	}, s.source.Intake(), s.sink, s.sensors, reg)
	s.web = web.New(web.Config{
		Reader: s.read, Gatherer: reg, Registerer: reg, Log: log, Version: version,
		Health: []web.Check{{Name: "broker", Ready: s.source.Ready}, {Name: "store", Ready: s.sink.Ready}},
	})
	if err := s.web.Listen(c.HTTPAddr); err != nil {
		return nil, err
	}
	return s, nil
}

// openStore opens both sides of the store.
func (s *service) openStore() (err error) {
	c := s.cfg
	if c.MongoDBURI != "" {
		store, err := sink.OpenMongo(c.MongoDBURI, c.MongoDBDatabase, sink.MongoLog(s.log))
		if err != nil {
			return &settingError{"MONGODB_URI", err}
		}
		s.write = store
	} else {
		store, err := sink.OpenSQLite(c.DataDir, c.span)
		if err != nil {
			return fmt.Errorf("DATA_DIR=%s: %w", c.DataDir, err)
		}
		s.write = store
	}
	s.read, err = openReader(c)
	return err
}

// openReader opens the store to be read.
func openReader(c *config) (query.Store, error) {
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

// openSource prepares the session with the broker, and binds the embedded one
// if there is no other.
func (s *service) openSource(reg prometheus.Registerer) error {
	c := s.cfg
	if c.urls == nil {
		broker, err := embedded.NewBroker(embedded.BrokerConfig{
			Addr: c.EmbeddedAddr, Username: c.MQTTUsername, Password: c.MQTTPassword, Consumer: c.MQTTClientID, Log: s.log,
		})
		if err != nil {
			return &settingError{"EMBEDDED_MQTT_ADDR", err}
		}
		if err := broker.Listen(); err != nil {
			return err
		}
		s.broker = broker
		if err := broker.Register(reg); err != nil {
			return err
		}
		if c.urls, err = source.ParseURLs("tcp://" + broker.Addr()); err != nil {
			return err
		}
	}
	tls, err := source.TLS(c.MQTTCAFile, c.MQTTCertFile, c.MQTTKeyFile)
	if err != nil {
		return &settingError{"MQTT_CA_FILE, MQTT_CERT_FILE, MQTT_KEY_FILE", err}
	}
	decoder, err := decode.New(c.decoding())
	if err != nil {
		return fmt.Errorf("MQTT_TOPICS: %w", err)
	}
	for _, pair := range decoder.Overlaps() {
		s.log.Warn("filters overlap: a message that matches both may arrive twice, and is stored once", "filter", pair[0], "other", pair[1])
	}
	if c.MQTTQoS == 0 {
		s.log.Warn("MQTT_QOS is 0: messages that come while the service is away or busy are lost")
	}
	s.source, err = source.New(source.Config{
		URLs: c.urls, ClientID: c.MQTTClientID, QoS: c.MQTTQoS, Share: c.MQTTShare, Username: c.MQTTUsername, Password: c.MQTTPassword,
		TLS: tls, KeepAlive: 30 * time.Second, MaxUnacked: c.MQTTMaxUnacked, MaxPacket: decode.DefaultMaxPayload + 1<<17, Log: s.log,
	}, decoder, reg)
	return err
}

// run runs everything until stop ends, then stops it in the order of the data:
// no more messages, flush, acknowledge, disconnect.
func (s *service) run(stop context.Context) error {
	defer s.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The source's stop comes after the embedded broker's: what that one has
	// acknowledged to its publishers must pass first.
	noMore, stopSource := context.WithCancel(ctx)
	defer context.AfterFunc(stop, func() {
		s.log.Info("stopping")
		time.AfterFunc(stopWithin, cancel)
		if s.broker != nil {
			if err := s.broker.Drain(ctx); err != nil {
				s.log.Warn("embedded broker stops with messages that are not stored", "messages", s.broker.Stats().Unacked, "error", err)
			}
		}
		stopSource()
	})()

	group, ctx := errgroup.WithContext(ctx)
	flushed, flushedAll := context.WithCancel(ctx) // nothing more comes to the sink
	served, servedAll := context.WithCancel(ctx)   // nothing more needs the broker and the web server
	group.Go(func() error { return early(noMore, "MQTT source", s.source.Run(ctx, noMore)) })
	group.Go(func() error {
		defer flushedAll()
		if err := s.knowSensors(ctx); err != nil {
			return err
		}
		return early(noMore, "bucketer", s.bucketer.Run(ctx))
	})
	group.Go(func() error {
		defer servedAll()
		return early(flushed, "sink", s.sink.Run(flushed, ctx))
	})
	group.Go(func() error { return early(served, "web server", s.web.Run(served)) })
	if s.broker != nil {
		group.Go(func() error { return early(served, "embedded broker", s.broker.Run(served)) })
	}
	s.log.Info("started", "version", version, "open", "http://"+s.web.Addr()+"/", "broker", s.brokerName(), "store", s.storeName(), "topics", s.cfg.MQTTTopics)

	err := group.Wait()
	if stop.Err() != nil && errors.Is(err, context.Canceled) {
		s.log.Warn("stopped with messages that are neither stored nor acknowledged", "messages", s.source.Intake().Outstanding())
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
// number. It waits for the store, without which nothing could be stored anyway.
func (s *service) knowSensors(ctx context.Context) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := s.read.SensorIDs(ctx, func(id string) error {
			s.sensors.Know(id)
			return nil
		})
		if err == nil {
			return nil
		}
		s.log.Warn("cannot read the sensors from the store, trying again", "error", err)
		select {
		case <-time.After(pause):
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

func (s *service) storeName() string {
	if s.cfg.MongoDBURI != "" {
		return redact(s.cfg.MongoDBURI)
	}
	return "embedded, " + s.cfg.DataDir + "/gudang.db"
}

// close closes what newService opened.
func (s *service) close() {
	for _, c := range []io.Closer{s.read, s.write} {
		if c != nil {
			if err := c.Close(); err != nil {
				s.log.Warn("cannot close the store", "error", err)
			}
		}
	}
}
