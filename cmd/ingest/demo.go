package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"gudang/internal/fleet"
)

const (
	demoSensors = 40
	demoHistory = time.Hour // published at once, if the store is new
)

// runDemo runs the service with everything inside the process, a simulated
// warehouse included.
func runDemo(ctx context.Context, c *config, _ io.Writer, args []string) error {
	set := newFlags("demo")
	sensors := set.Int("sensors", demoSensors, "how many sensors to simulate")
	if err := parse(set, args); err != nil {
		return err
	}
	if *sensors < 1 {
		return &settingError{"-sensors", errors.New("must be at least 1")}
	}
	log := c.logger(os.Stderr)
	if err := c.forDemo(log); err != nil {
		return err
	}
	s, err := newService(ctx, c, log)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.demo(ctx, *sensors)
}

// forDemo changes the defaults, not what was set: a demo must neither meet
// what runs on the machine already nor mix its data with real readings.
func (c *config) forDemo(log *slog.Logger) error {
	if c.MQTTURL != "" || c.MongoDBURI != "" {
		return errors.New("demo brings its own broker and store: leave MQTT_URL and MONGODB_URI out, and use simulate against yours")
	}
	def, err := loadConfig(nil)
	if err != nil {
		return err
	}
	if c.DataDir == def.DataDir {
		c.DataDir = filepath.Join(c.DataDir, "demo")
	}
	for name, addr := range map[string][2]*string{"EMBEDDED_MQTT_ADDR": {&c.EmbeddedAddr, &def.EmbeddedAddr}, "HTTP_ADDR": {&c.HTTPAddr, &def.HTTPAddr}} {
		if *addr[0] != *addr[1] {
			continue
		}
		ln, err := net.Listen("tcp", *addr[0])
		if err != nil {
			log.Info("address is in use, taking a free port", "setting", name, "address", *addr[0])
			*addr[0] = "127.0.0.1:0"
			continue
		}
		if err := ln.Close(); err != nil {
			return err
		}
	}
	return nil
}

// demo runs the service and the fleet until ctx ends.
func (s *service) demo(ctx context.Context, sensors int) error {
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		defer cancel() // without the service the fleet has nobody to talk to
		return s.run(stop)
	})
	group.Go(func() error {
		if err := s.simulate(stop, sensors); err != nil {
			cancel()
			return fmt.Errorf("cannot simulate a fleet: %w", err)
		}
		return nil
	})
	return group.Wait()
}

// simulate publishes an hour of history if there is none yet, and from then on
// what the sensors measure now.
func (s *service) simulate(ctx context.Context, sensors int) error {
	known, err := s.read.Sensors(ctx, "", 1)
	if err != nil {
		return err
	}
	live := fleet.Config{Sensors: sensors, Interval: s.cfg.ReadingInterval, Seed: 1}
	if len(known) == 0 {
		past := live
		past.Count = int64(sensors) * int64(demoHistory/live.Interval)
		past.Rate = float64(past.Count) / 5 // in five seconds
		if err := s.publish(ctx, past); err != nil || ctx.Err() != nil {
			return err
		}
		s.log.Info("demo has published the last hour", "sensors", sensors, "messages", past.Count)
	}
	return s.publish(ctx, live)
}

func (s *service) publish(ctx context.Context, cfg fleet.Config) error {
	f, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	m, err := fleet.NewMQTT(fleet.MQTTConfig{
		Broker: "tcp://" + s.broker.Addr(), QoS: 1, Username: s.cfg.MQTTUsername, Password: s.cfg.MQTTPassword, ClientID: "demo", Log: s.log,
	})
	if err != nil {
		return err
	}
	_, err = f.RunMQTT(ctx, m, nil)
	if ctx.Err() != nil {
		return nil // stopped: what was not acknowledged is nobody's loss
	}
	return err
}
