package sink

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// rawBatch is how many raw readings one insert command takes: some 300 KB.
const rawBatch = 2000

// MongoRaw says whether raw readings are kept, so that raw gets its index.
func MongoRaw(on bool) MongoOption { return func(m *Mongo) { m.raw = on } }

// WriteRaw implements Store. That a reading is there already (E11000 of its
// computed _id) is as good as having written it.
func (m *Mongo) WriteRaw(ctx context.Context, buckets []*reading.Bucket) (refused int, why string, err error) {
	db, err := m.client.Database()
	if err == nil {
		err = m.prepare(ctx, db)
	}
	if err != nil {
		return 0, "", err
	}
	store := rawCollection{m.client, db}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.writers)
	for docs := range slices.Chunk(rawDocs(buckets), rawBatch) {
		group.Go(func() error {
			n, detail, err := insertRaw(ctx, store, docs)
			mu.Lock()
			defer mu.Unlock()
			if refused += n; why == "" {
				why = detail
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		m.setup.again()
		return 0, "", fmt.Errorf("cannot write raw readings to MongoDB: %w", m.client.Explain(err))
	}
	return refused, why, nil
}

// rawStore is what insertRaw needs of a server.
type rawStore interface {
	insert(ctx context.Context, docs []bson.Raw) (mongodb.Answer, error)
}

type rawCollection struct {
	client *mongodb.Client
	db     *mongo.Database
}

func (c rawCollection) insert(ctx context.Context, docs []bson.Raw) (mongodb.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return c.client.Insert(ctx, c.db, mongodb.Raw, docs)
}

// insertRaw inserts the documents that are not there. A server that stops at
// the first error, though it was asked not to, accounts for fewer of them: the
// halves are then sent by themselves.
func insertRaw(ctx context.Context, store rawStore, docs []bson.Raw) (lost int, why string, err error) {
	answer, err := store.insert(ctx, docs)
	if err != nil {
		return 0, "", err
	}
	if answer.Concern != nil {
		return 0, "", unsafely(answer)
	}
	for _, e := range answer.Errors {
		fate, transient := fateOf(e)
		if transient != nil {
			return 0, "", transient
		}
		if fate == refused {
			if lost++; why == "" {
				why = e.Message
			}
		}
	}
	if answer.N+len(answer.Errors) == len(docs) || len(docs) == 1 {
		return lost, why, nil
	}
	half := len(docs) / 2
	n, why, err := insertRaw(ctx, store, docs[:half])
	if err != nil {
		return 0, "", err
	}
	more, also, err := insertRaw(ctx, store, docs[half:])
	if why == "" {
		why = also
	}
	return n + more, why, err
}

// rawDocs are the documents of the buckets' readings, all in one piece of
// memory.
func rawDocs(buckets []*reading.Bucket) []bson.Raw {
	size, count := 0, 0
	for _, b := range buckets {
		count += b.Count()
		size += b.Count() * readingSize(b.Series)
	}
	buf := make([]byte, 0, size)
	docs := make([]bson.Raw, 0, count)
	for _, b := range buckets {
		for i, off := range b.Offsets {
			from := len(buf)
			t := b.Start + int64(off)
			buf = appendReading(buf, b.ID(t), b.Series, t, b.Values[i])
			docs = append(docs, bson.Raw(buf[from:]))
		}
	}
	return docs
}

// ensureRawIndex makes the index that raw is read by.
func ensureRawIndex(ctx context.Context, db *mongo.Database) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return ensureSeriesIndex(ctx, db, mongodb.Raw, "time")
}
