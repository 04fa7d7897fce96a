package main

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"gudang/internal/sink"
)

// writer writes to the store as the service does: it tries until it is taken,
// and keeps the sensors' documents up.
type writer struct {
	*sink.Sink
	store sink.Store
	stop  context.CancelFunc
	ended chan error
}

// newWriter opens the store beside a service that may be running.
func newWriter(ctx context.Context, c *config, raw bool) (*writer, error) {
	log := c.logger(logOutput)
	store, err := openWriter(c, log)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	w := &writer{Sink: sink.New(sink.Config{Latest: c.LatestReadings, Raw: raw, Rollups: c.rolled, Log: log}, store, prometheus.NewRegistry()), store: store, stop: stop, ended: make(chan error, 1)}
	go func() { w.ended <- w.Run(running, context.WithoutCancel(ctx)) }()
	return w, nil
}

// Close writes the sensors' documents and closes the store.
func (w *writer) Close() error {
	w.stop()
	return errors.Join(<-w.ended, w.store.Close())
}
