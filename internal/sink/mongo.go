package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	// attemptTimeout bounds one operation. What a server that hangs has not
	// done by then is sent again; it is long, because a slow server makes
	// progress only if it may finish.
	attemptTimeout = 30 * time.Second
	pingTimeout    = 5 * time.Second

	// A batch is one update command. MongoDB takes 48 MB and 100,000 writes;
	// small batches spread over the writers, and a lost one costs less.
	batchMost  = 1000
	batchLeast = 100
	batchBytes = 4 << 20
)

// Mongo is the store in MongoDB.
type Mongo struct {
	client  *mongodb.Client
	writers int
	batch   int
	raw     bool // raw readings are kept
	log     *slog.Logger
	setup   setup
	rollups setup // of their index
	outlier int
	span    reading.Span

	// Of Sweep, which one goroutine calls.
	settler settler
	skip    [][16]byte // large buckets that are damaged
}

var _ Store = (*Mongo)(nil)

// MongoOption changes how a Mongo works.
type MongoOption func(*Mongo)

// MongoWriters sets how many update commands are under way at once. A server
// that loses concurrent updates needs 1.
func MongoWriters(n int) MongoOption { return func(m *Mongo) { m.writers = max(1, n) } }

// MongoBatch sets how many buckets one update command takes at most. A server
// that stops at the first error without a word of what it had done needs 1, or
// some duplicates are counted as stored.
func MongoBatch(n int) MongoOption { return func(m *Mongo) { m.batch = min(max(1, n), batchMost) } }

// MongoLog sets where trouble goes that fails no write.
func MongoLog(log *slog.Logger) MongoOption { return func(m *Mongo) { m.log = log } }

// OpenMongo checks the URI and the name of the database. The server may be
// away: it is asked for by the first operation.
func OpenMongo(uri, database string, opts ...MongoOption) (*Mongo, error) {
	client, err := mongodb.New(uri, database)
	if err != nil {
		return nil, err
	}
	m := &Mongo{
		client: client, writers: min(4, runtime.GOMAXPROCS(0)), batch: batchMost, log: slog.New(slog.DiscardHandler),
		outlier: DefaultOutlier, span: reading.Span(time.Minute.Milliseconds()), settler: settler{now: time.Now},
	}
	for _, opt := range opts {
		opt(m)
	}
	return m, nil
}

// Close lets go of the connections.
func (m *Mongo) Close() error { return m.client.Close() }

// Ping writes nothing in the way in which everything else is written: the
// server must be there, be a primary with a majority behind it, and let this
// user write.
func (m *Mongo) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	nobody := bson.D{{Key: "_id", Value: ""}}
	_, err = db.Collection(mongodb.Sensors).UpdateOne(ctx, nobody, bson.D{{Key: "$set", Value: bson.D{{Key: "lastSeen", Value: bson.DateTime(0)}}}})
	return m.client.Explain(err)
}

// WriteBuckets stores the buckets by several writers, which share none of
// them. Each writer goes through its buckets in order of key, so that two
// instances whose server locks to the end of a batch cannot wait for each
// other.
func (m *Mongo) WriteBuckets(ctx context.Context, buckets []*reading.Bucket) Result {
	slices.SortFunc(buckets, func(a, b *reading.Bucket) int { return a.Key().Compare(b.Key()) })
	batches := split(buckets, m.writers, m.batch)
	if len(batches) == 0 {
		return Result{}
	}
	db, err := m.client.Database()
	if err == nil {
		err = m.prepare(ctx, db)
	}
	if err != nil {
		return Result{Again: buckets, Err: err, Writes: Writes{Failed: len(buckets)}}
	}
	store := m.collection(db)

	results := make([]Result, len(batches))
	var next atomic.Int64
	var away atomic.Bool // one writer found the server away: the others need not
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(batches) {
				return
			}
			if err := ctx.Err(); err != nil || away.Load() {
				results[i] = Result{Again: batches[i], Err: err, Writes: Writes{Failed: len(batches[i])}}
				continue
			}
			results[i] = writeBatch(ctx, store, batches[i])
			if kind := m.client.Explain(results[i].Err); errors.Is(kind, mongodb.ErrAway) {
				away.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(m.writers, len(batches)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	res := join(results)
	if res.Err != nil {
		m.setup.again()
		res.Err = fmt.Errorf("cannot write %d of %d buckets to MongoDB: %w", len(res.Again), len(buckets), m.client.Explain(res.Err))
	}
	return res
}

func (m *Mongo) collection(db *mongo.Database) bucketsCollection {
	return bucketsCollection{Database: db, client: m.client, probe: m.Ping, outlier: m.outlier, span: m.span, inserts: insertsMost(m.batch)}
}

// insertsMost is how many documents one insert command takes.
func insertsMost(batch int) int {
	if batch < batchMost {
		return batch // a server that cannot take many updates takes no more inserts
	}
	return 5000
}

// split cuts the buckets into batches: enough of them for each writer to have
// one, unless they would be so small that the round trips cost more than the
// writers gain.
func split(buckets []*reading.Bucket, writers, most int) [][]*reading.Bucket {
	return chunks(buckets, min(max((len(buckets)+writers-1)/writers, batchLeast), most), writeSize)
}

// chunks cuts a list into parts of at most so many, and of at most batchBytes
// unless a single one is larger.
func chunks[T any](list []T, most int, sizeOf func(T) int) [][]T {
	var parts [][]T
	size, from := 0, 0
	for i, item := range list {
		n := sizeOf(item)
		if i > from && (i-from == most || size+n > batchBytes) {
			parts = append(parts, list[from:i:i])
			size, from = 0, i
		}
		size += n
	}
	if from < len(list) {
		parts = append(parts, list[from:])
	}
	return parts
}

func join(results []Result) Result {
	out := results[0]
	for _, r := range results[1:] {
		out.Refused = append(out.Refused, r.Refused...)
		out.Again = append(out.Again, r.Again...)
		if out.Err == nil {
			out.Err = r.Err
		}
		out.Writes.OK += r.Writes.OK
		out.Writes.Exists += r.Writes.Exists
		out.Writes.Rejected += r.Writes.Rejected
		out.Writes.Failed += r.Writes.Failed
	}
	return out
}

// bucketsCollection is the buckets as writeBatch needs them.
type bucketsCollection struct {
	*mongo.Database
	client  *mongodb.Client
	outlier int
	span    reading.Span
	inserts int // documents in one insert command
	probe   func(context.Context) error
}

// upsert sends what is left of the items as one update command.
func (c bucketsCollection) upsert(ctx context.Context, items []*item) (mongodb.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	size := 0
	for _, it := range items {
		size += writeSize(it.left)
	}
	return c.client.Update(ctx, c.Database, mongodb.Buckets, len(items), size, func(dst []byte, i int) []byte {
		dst = appendFilter(mongodb.AppendKey(dst, bson.TypeEmbeddedDocument, "q"), items[i].id, items[i].left)
		dst = appendUpdate(mongodb.AppendKey(dst, bson.TypeEmbeddedDocument, "u"), items[i].left)
		return mongodb.AppendBool(dst, "upsert", true)
	})
}

// read yields those of the buckets that are stored. It is the truth that is
// wanted: a reading that is called a duplicate is acknowledged, so it must be
// as safe as one that was written. With a majority to write to, what only
// the primary has yet does not count.
func (c bucketsCollection) read(ctx context.Context, ids bson.A, yield func(bson.Raw)) error {
	fields := bson.D{}
	for _, name := range append([]string{"sensorId", "metric", "start", "offsets", "values", "isOutlier", "settles"}, summaryFields...) {
		fields = append(fields, bson.E{Key: name, Value: 1})
	}
	return c.find(ctx, mongodb.Buckets, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetProjection(fields), yield)
}

// truth is a collection as whoever decides by what is there reads it.
func (c bucketsCollection) truth(name string) *mongo.Collection {
	return c.Collection(name, c.client.Truth())
}

func (c bucketsCollection) find(ctx context.Context, collection string, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw)) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	cursor, err := c.truth(collection).Find(ctx, filter, opts)
	if err != nil {
		return err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		yield(cursor.Current)
	}
	return cursor.Err()
}

func (c bucketsCollection) limits() (int, reading.Span) { return c.outlier, c.span }

// writable says whether the server takes a write that cannot be at fault.
func (c bucketsCollection) writable(ctx context.Context) bool { return c.probe(ctx) == nil }
