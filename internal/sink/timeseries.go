package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// insertMost is how many readings one insert command takes.
const insertMost = 5000

// TimeSeriesConfig is what the collection is made with.
type TimeSeriesConfig struct {
	// Interval is what a sensor is expected to send in. MongoDB packs the
	// readings of an hour, a day or a month together, by what fits it.
	Interval time.Duration
	// Retention is how long readings are kept; 0 is for ever.
	Retention time.Duration
}

// TimeSeries leaves the buckets to MongoDB: readings go into a time series
// collection, one document each. MongoDB can neither update such a document
// nor keep it unique. So a reading that is sent again is stored again, and
// readers pass over the copy.
type TimeSeries struct {
	*Mongo
	cfg TimeSeriesConfig

	mu    sync.Mutex
	ready bool // the collection is there, as it should be
}

var _ Store = (*TimeSeries)(nil)

// OpenTimeSeries checks the URI and the name of the database. The server may be
// away, and is asked by the first operation whether it can have such a
// collection.
func OpenTimeSeries(uri, database string, cfg TimeSeriesConfig, opts ...MongoOption) (*TimeSeries, error) {
	m, err := OpenMongo(uri, database, opts...)
	if err != nil {
		return nil, err
	}
	return &TimeSeries{Mongo: m, cfg: cfg}, nil
}

// Ping says whether the store takes readings: the collection is made with the
// first.
func (t *TimeSeries) Ping(ctx context.Context) error {
	if err := t.Mongo.Ping(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	db, err := t.client.Database()
	if err != nil {
		return err
	}
	return t.prepareReadings(ctx, db)
}

// WriteBuckets inserts the readings. One that is sent again, because the end
// of a command is unknown, is then there twice.
func (t *TimeSeries) WriteBuckets(ctx context.Context, buckets []*reading.Bucket) Result {
	if len(buckets) == 0 {
		return Result{}
	}
	db, err := t.client.Database()
	if err == nil {
		err = t.prepareReadings(ctx, db)
	}
	if err != nil {
		return Result{Again: buckets, Err: err, Writes: Writes{Failed: len(buckets)}}
	}
	var res Result
	for from, to := 0, 0; from < len(buckets); from = to {
		for n := 0; to < len(buckets) && (to == from || n+buckets[to].Count() <= insertMost); to++ {
			n += buckets[to].Count()
		}
		if res.Err != nil {
			res.Again = append(res.Again, buckets[from:to]...)
			res.Writes.Failed += to - from
			continue
		}
		insert(ctx, db, buckets[from:to], &res)
	}
	if res.Err != nil {
		t.mu.Lock()
		t.ready = false // it may come back as another
		t.mu.Unlock()
		res.Err = fmt.Errorf("cannot write %d of %d buckets to MongoDB: %w", len(res.Again), len(buckets), t.client.Explain(res.Err))
	}
	return res
}

// place is where a document came from.
type place struct {
	bucket *reading.Bucket
	offset int32
}

// insert stores the buckets' readings by one command.
func insert(ctx context.Context, db *mongo.Database, buckets []*reading.Bucket, res *Result) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	var docs []any
	var places []place
	for _, b := range buckets {
		meta := bson.D{{Key: "sensorId", Value: b.Sensor}, {Key: "metric", Value: b.Metric}}
		for i, off := range b.Offsets {
			docs = append(docs, bson.D{
				{Key: mongodb.TimeField, Value: bson.DateTime(b.Start + int64(off))},
				{Key: mongodb.MetaField, Value: meta},
				{Key: "value", Value: b.Values[i]},
			})
			places = append(places, place{b, off})
		}
	}
	if len(docs) == 0 {
		return
	}
	_, err := db.Collection(mongodb.Readings).InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if err != nil && (!errors.As(err, &bulk) || bulk.WriteConcernError != nil) {
		res.Again, res.Err = append(res.Again, buckets...), err
		res.Writes.Failed += len(buckets)
		return
	}
	again := sortInserts(bulk.WriteErrors, places, res)
	for _, b := range buckets {
		switch was, told := again[b]; {
		case was:
			res.Again = append(res.Again, b)
			res.Writes.Failed++
		case told:
			res.Writes.Rejected++
		default:
			res.Writes.OK++
		}
	}
}

// sortInserts refuses the readings that the server will never take, and says
// of the buckets with errors whether they are to be sent again.
func sortInserts(errs []mongo.BulkWriteError, places []place, res *Result) map[*reading.Bucket]bool {
	again := map[*reading.Bucket]bool{}
	for _, e := range errs {
		if e.Index < 0 || e.Index >= len(places) {
			continue
		}
		p := places[e.Index]
		fate, why := fateOf(e.WriteError)
		if fate == refused {
			res.Refused = append(res.Refused, reading.Refusal{Bucket: p.bucket, Offset: p.offset, Reason: reading.StoreRefused, Detail: e.Message})
			again[p.bucket] = again[p.bucket] || false
			continue
		}
		again[p.bucket] = true
		if res.Err == nil {
			res.Err = errors.Join(why, errUnknownInsert)
		}
	}
	return again
}

var errUnknownInsert = errors.New("some readings were not inserted")

// prepareReadings makes the collection if it is not there, and has MongoDB
// delete what is older than the retention. It fails if the server cannot be
// written to or has no such collections.
func (t *TimeSeries) prepareReadings(ctx context.Context, db *mongo.Database) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	have, found, err := mongodb.TimeSeriesOptions(ctx, db)
	if err == nil && !found {
		if err = t.create(ctx, db); isExists(err) {
			have, found, err = mongodb.TimeSeriesOptions(ctx, db)
		}
	}
	if err != nil {
		return t.client.Explain(err)
	}
	if found {
		t.retain(ctx, db, have)
	}
	for _, keys := range timeSeriesIndexes {
		if _, err := db.Collection(mongodb.Readings).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
			t.log.Warn("cannot make an index of the time series collection, reads will be slow", "error", t.client.Explain(err))
		}
	}
	t.ready = true
	return nil
}

// timeSeriesIndexes serve our own reads, of one metric and of all. They are on
// MongoDB's own buckets, and small.
var timeSeriesIndexes = []bson.D{
	{{Key: "series.sensorId", Value: 1}, {Key: "series.metric", Value: 1}, {Key: "time", Value: 1}},
	{{Key: "series.sensorId", Value: 1}, {Key: "time", Value: 1}},
}

func isExists(err error) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(codeNamespaceExists)
}

func (t *TimeSeries) create(ctx context.Context, db *mongo.Database) error {
	command := bson.D{{Key: "create", Value: mongodb.Readings}, {Key: "timeseries", Value: bson.D{
		{Key: "timeField", Value: mongodb.TimeField},
		{Key: "metaField", Value: mongodb.MetaField},
		{Key: "granularity", Value: granularity(t.cfg.Interval)},
	}}}
	if t.cfg.Retention > 0 {
		command = append(command, bson.E{Key: "expireAfterSeconds", Value: expireAfter(t.cfg.Retention)})
	}
	return mongodb.NoTimeSeries(db.RunCommand(ctx, command).Err())
}

// granularity is MongoDB's word for how far apart the readings of a series
// are: it should be the nearest.
func granularity(interval time.Duration) string {
	switch {
	case interval < time.Minute:
		return "seconds"
	case interval < time.Hour:
		return "minutes"
	}
	return "hours"
}

func expireAfter(retention time.Duration) int64 {
	return int64(min(math.MaxInt32, math.Ceil(retention.Seconds())))
}

// retain changes the retention of the collection that is there. Without the
// right to, readings are kept for as long as before.
func (t *TimeSeries) retain(ctx context.Context, db *mongo.Database, have bson.Raw) {
	is, _ := mongodb.Integer(have.Lookup("expireAfterSeconds"))
	var want any = "off"
	if t.cfg.Retention > 0 {
		want = expireAfter(t.cfg.Retention)
	}
	if want == is || is == 0 && want == "off" {
		return
	}
	err := db.RunCommand(ctx, bson.D{{Key: "collMod", Value: mongodb.Readings}, {Key: "expireAfterSeconds", Value: want}}).Err()
	if err != nil {
		t.log.Warn("cannot change how long the time series collection keeps readings", "seconds", want, "was", is, "error", t.client.Explain(err))
		return
	}
	t.log.Info("time series collection keeps readings for another time", "seconds", want, "was", is)
}

// Sweep implements Store: MongoDB's own buckets have no outliers.
func (t *TimeSeries) Sweep(context.Context) (Swept, error) { return Swept{}, nil }
