package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
)

const (
	rejectedBytes = 16 << 20
	rejectedMost  = 10_000
	// setupEvery is how often an index that cannot be made is tried again.
	setupEvery = time.Minute

	codeNamespaceExists = 48
)

// setup is whether the collections and indexes are known to be there.
type setup struct {
	mu    sync.Mutex
	ready bool
	tried time.Time
	large string // the index of largeBuckets
}

func (s *setup) largeIndex() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.large
}

// again has the next write look after the indexes: a store that was away may
// have come back as another.
func (s *setup) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.tried = false, time.Time{}
}

// prepare makes the collections and indexes that are missing. It fails only if
// the server cannot be written to. An index that cannot be made, for want of
// rights or because someone made another of its name, makes reads slow; to
// keep readings out for that would be worse.
func (m *Mongo) prepare(ctx context.Context, db *mongo.Database) error {
	m.setup.mu.Lock()
	defer m.setup.mu.Unlock()
	if m.setup.ready || time.Since(m.setup.tried) < setupEvery {
		return nil
	}
	if err := m.Ping(ctx); err != nil {
		return err
	}
	m.setup.tried = time.Now()
	err := ensureIndexes(ctx, db)
	if err == nil {
		m.setup.large, err = ensureLargeIndex(ctx, db, m.outlier)
	}
	if err == nil && m.raw {
		err = ensureRawIndex(ctx, db)
	}
	if m.setup.ready = err == nil; !m.setup.ready {
		m.log.Warn("cannot make the indexes of the store, reads will be slow", "error", m.client.Explain(err))
	}
	return nil
}

// ensureIndexes makes the index of people and of our own reads, and the
// bounded collection of rejected readings. Where both are there it changes
// nothing.
func ensureIndexes(ctx context.Context, db *mongo.Database) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := ensureSeriesIndex(ctx, db, mongodb.Buckets, "start"); err != nil {
		return err
	}
	if err := ensureSeriesIndex(ctx, db, mongodb.Overflow, "time"); err != nil {
		return err
	}
	err := db.CreateCollection(ctx, mongodb.Rejected,
		options.CreateCollection().SetCapped(true).SetSizeInBytes(rejectedBytes).SetMaxDocuments(rejectedMost))
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCode(codeNamespaceExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot make the collection %q: %w", mongodb.Rejected, err)
	}
	return nil
}

// ensureSeriesIndex makes the index by which a collection is read in order of
// series, then time.
func ensureSeriesIndex(ctx context.Context, db *mongo.Database, collection, time string) error {
	_, err := db.Collection(collection).Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: time, Value: 1}},
	})
	if err != nil {
		return fmt.Errorf("cannot make the index of %q: %w", collection, err)
	}
	return nil
}
