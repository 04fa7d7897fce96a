package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	mongoTimeout     = 30 * time.Second
	mongoPingTimeout = 5 * time.Second
	// metricsAtOnce is how many metrics one query asks for. MongoDB reads the
	// index in order of time for up to 200 of them, and sorts in memory beyond.
	metricsAtOnce = 100
	// docsAtOnce bounds what the server sends ahead of what is needed.
	docsAtOnce = 200
)

// Mongo reads the store in MongoDB.
type Mongo struct {
	client *mongodb.Client
	span   reading.Span
}

var _ Store = (*Mongo)(nil)

// OpenMongo checks the URI and the name of the database. The server may be
// away: it is asked for by the first question.
func OpenMongo(uri, database string, span reading.Span) (*Mongo, error) {
	client, err := mongodb.New(uri, database)
	if err != nil {
		return nil, err
	}
	return &Mongo{client: client, span: span}, nil
}

// Close lets go of the connections.
func (m *Mongo) Close() error { return m.client.Close() }

// Ping says whether the store can be read.
func (m *Mongo) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mongoPingTimeout)
	defer cancel()
	_, err := m.Sensor(ctx, "")
	if errors.Is(err, reading.ErrNotFound) {
		return nil
	}
	return err
}

// Sensor is one sensor's document.
func (m *Mongo) Sensor(ctx context.Context, id string) (reading.Sensor, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return reading.Sensor{}, err
	}
	doc, err := db.Collection(mongodb.Sensors).FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return reading.Sensor{}, fmt.Errorf("sensor %q: %w", id, reading.ErrNotFound)
	}
	if err != nil {
		return reading.Sensor{}, m.failed("read a sensor", err)
	}
	return mongodb.DecodeSensor(doc), nil
}

// Sensors lists sensors in order of id.
func (m *Mongo) Sensors(ctx context.Context, after string, limit int) ([]reading.Sensor, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	var sensors []reading.Sensor
	err := m.each(ctx, mongodb.Sensors, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}},
		options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)),
		func(doc bson.Raw) error {
			sensors = append(sensors, mongodb.DecodeSensor(doc))
			return nil
		})
	return sensors, err
}

// SensorIDs yields the id of every sensor.
func (m *Mongo) SensorIDs(ctx context.Context, yield func(id string) error) error {
	return m.each(ctx, mongodb.Sensors, bson.D{}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}),
		func(doc bson.Raw) error {
			id, ok := doc.Lookup("_id").StringValueOK()
			if !ok {
				return nil // nothing that we have written
			}
			return yield(id)
		})
}

// Readings answers from the buckets. The first may have begun up to a span
// before the range.
func (m *Mongo) Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error) {
	var all []reading.Reading
	var bucket Stored
	err := m.inOrder(ctx, q, q.Since()-int64(m.span)+1, nil, func(doc bson.Raw) (int, error) {
		decodeBucket(doc, &bucket)
		taken := 0
		if bucket.Outlier {
			points, err := m.overflow(ctx, bucket.Series, max(bucket.Start, q.Since()), min(bucket.Until, q.Until()), q.Limit+1)
			if err != nil {
				return 0, err
			}
			for _, p := range points {
				all = append(all, reading.Reading{Series: bucket.Series, Time: p.Time, Value: p.Value})
			}
			taken += len(points)
		}
		for i, off := range bucket.Offsets[:min(len(bucket.Offsets), len(bucket.Values))] {
			t := bucket.Start + int64(off)
			if t >= q.From && t < q.Until() && q.After.Past(t, bucket.Metric) {
				all = append(all, reading.Reading{Series: bucket.Series, Time: t, Value: bucket.Values[i]})
				taken++
			}
		}
		return taken, nil
	})
	if err != nil {
		return nil, err
	}
	return q.Page(all), nil
}

// Summaries answers from the buckets' counters: the arrays stay at the server.
func (m *Mongo) Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
	var all []reading.Summary
	var bucket Stored
	arrays := bson.D{{Key: "offsets", Value: 0}, {Key: "values", Value: 0}}
	err := m.inOrder(ctx, q, q.Since(), arrays, func(doc bson.Raw) (int, error) {
		decodeBucket(doc, &bucket)
		if !q.After.Past(bucket.Start, bucket.Metric) || bucket.Outlier && bucket.Count == 0 {
			return 0, nil // or an outlier whose first readings are on their way
		}
		all = append(all, bucket.Summary)
		return 1, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b reading.Summary) int { return a.Compare(b.Key) })
	return all[:min(len(all), q.Limit)], nil
}

// inOrder goes through the buckets of the query that start at from or later,
// in order of start. Take says how much of a bucket the answer takes; the
// walk ends with the start at which the limit is reached, because buckets of
// other metrics with the same start come in any order.
func (m *Mongo) inOrder(ctx context.Context, q reading.Query, from int64, fields bson.D, take func(bson.Raw) (int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	if q.Limit <= 0 || from >= q.Until() {
		return nil
	}
	metrics := []string{q.Metric}
	if q.Metric == "" {
		var err error
		if metrics, err = m.metrics(ctx, q.Sensor); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(metrics, metricsAtOnce) {
		filter := bson.D{
			{Key: "sensorId", Value: q.Sensor},
			{Key: "metric", Value: bson.D{{Key: "$in", Value: some}}},
			{Key: "start", Value: bson.D{{Key: "$gte", Value: bson.DateTime(from)}, {Key: "$lt", Value: bson.DateTime(q.Until())}}},
		}
		opts := options.Find().SetSort(bson.D{{Key: "start", Value: 1}}).SetBatchSize(int32(min(q.Limit+1, docsAtOnce)))
		if fields != nil {
			opts.SetProjection(fields)
		}
		var start int64
		taken := 0
		err := m.each(ctx, mongodb.Buckets, filter, opts, func(doc bson.Raw) error {
			at := mongodb.Time(doc.Lookup("start"))
			if taken >= q.Limit && at != start {
				return errEnough
			}
			start = at
			n, err := take(doc)
			taken += n
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// metrics is the names of the sensor's metrics, by hopping from one to the next
// in the index. The sensor's own document may lag behind its buckets.
func (m *Mongo) metrics(ctx context.Context, sensor string) ([]string, error) {
	return metricNames(sensor, func(filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
		return m.each(ctx, mongodb.Buckets, filter, opts, yield)
	})
}

func metricNames(sensor string, find func(filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error) ([]string, error) {
	var names []string
	last := ""
	for more := true; more; {
		more = false
		filter := bson.D{{Key: "sensorId", Value: sensor}, {Key: "metric", Value: bson.D{{Key: "$gt", Value: last}}}}
		opts := options.Find().SetSort(bson.D{{Key: "metric", Value: 1}}).SetLimit(1).
			SetProjection(bson.D{{Key: "metric", Value: 1}, {Key: "_id", Value: 0}})
		err := find(filter, opts, func(doc bson.Raw) error {
			if last, more = doc.Lookup("metric").StringValueOK(); more {
				names = append(names, last)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Scan yields every bucket. It takes as long as it takes: the time of one step
// is bounded, not that of the whole.
func (m *Mongo) Scan(ctx context.Context, yield func(*Stored) error) error {
	var bucket Stored
	return m.each(ctx, mongodb.Buckets, bson.D{}, options.Find(), func(doc bson.Raw) error {
		decodeBucket(doc, &bucket)
		if !bucket.Outlier {
			return yield(&bucket)
		}
		return yieldOutlier(&bucket, func(s reading.Series, from, until int64, limit int) ([]reading.Point, error) {
			return m.overflow(ctx, s, from, until, limit)
		}, yield)
	})
}

// overflow reads the readings of a series in overflow, in order of time.
func (m *Mongo) overflow(ctx context.Context, s reading.Series, from, until int64, limit int) ([]reading.Point, error) {
	return m.spilled(ctx, s, from, until, 1, limit)
}

// spilled is the same in either order: 1, or -1 for the newest first.
func (m *Mongo) spilled(ctx context.Context, s reading.Series, from, until int64, order, limit int) (points []reading.Point, err error) {
	opts := options.Find().SetSort(bson.D{{Key: "time", Value: order}}).SetLimit(int64(limit)).
		SetProjection(bson.D{{Key: "time", Value: 1}, {Key: "value", Value: 1}, {Key: "_id", Value: 0}})
	err = m.each(ctx, mongodb.Overflow, seriesFilter(s, "time", from, until), opts, func(doc bson.Raw) error {
		points = append(points, reading.Point{Time: mongodb.Time(doc.Lookup("time")), Value: number(doc.Lookup("value"))})
		return nil
	})
	return points, err
}

// each yields what a query finds, which is only valid until the next.
func (m *Mongo) each(ctx context.Context, collection string, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
	return m.eachOf(ctx, collection, options.Collection(), filter, opts, yield)
}

// eachOf is each, of a collection that is read in a way of its own.
func (m *Mongo) eachOf(ctx context.Context, collection string, how *options.CollectionOptionsBuilder, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	cursor, err := db.Collection(collection, how).Find(ctx, filter, opts)
	if err != nil {
		return m.failed("read "+collection, err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), mongoPingTimeout)
		defer cancel()
		cursor.Close(closing) // what it fails to free, the server does in time
	}()
	for cursor.Next(ctx) {
		if err := yield(cursor.Current); err != nil {
			return err
		}
	}
	if err := cursor.Err(); err != nil {
		return m.failed("read "+collection, err)
	}
	return nil
}

func (m *Mongo) failed(what string, err error) error {
	return fmt.Errorf("cannot %s from MongoDB: %w", what, m.client.Explain(err))
}
