package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gudang/internal/mongodb"
	"gudang/internal/query"
	"gudang/internal/sink"
)

// bucketsTimeSeries is the value of BUCKETS that leaves the buckets to MongoDB.
const bucketsTimeSeries = "timeseries"

// timeSeriesWithin is how long a start waits for MongoDB to say whether it has
// time series collections.
const timeSeriesWithin = 3 * time.Second

func openTimeSeries(c *config, log *slog.Logger) (sink.Store, error) {
	store, err := sink.OpenTimeSeries(c.MongoDBURI, c.MongoDBDatabase,
		sink.TimeSeriesConfig{Interval: c.ReadingInterval, Retention: c.Retention}, sink.MongoLog(log))
	if err != nil {
		return nil, &settingError{"MONGODB_URI", err}
	}
	return store, nil
}

func readTimeSeries(c *config) (query.Store, error) {
	store, err := query.OpenTimeSeries(c.MongoDBURI, c.MongoDBDatabase, c.span)
	if err != nil {
		return nil, &settingError{"MONGODB_URI", err}
	}
	return store, nil
}

// checkTimeSeries refuses a server that will never have a time series
// collection. One that is away may be started after us: it is asked when it is
// reached, and until then, or if it refuses, /readyz and the log say so.
func (s *service) checkTimeSeries() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeSeriesWithin)
	defer cancel()
	err := s.write.Ping(ctx)
	if errors.Is(err, mongodb.ErrNoTimeSeries) {
		return &settingError{"BUCKETS", err}
	}
	if err != nil {
		s.log.Warn("cannot see yet whether the store has time series collections: it is asked again when it is there", "error", err)
	}
	return nil
}
