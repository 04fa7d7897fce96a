package query

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// Rollups implements Store.
func (m *Mongo) Rollups(ctx context.Context, q reading.Query, span reading.Span) ([]reading.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	return rollups(mongoSummaries{m, ctx}, q, span)
}

// mongoSummaries reads summaries for one answer.
type mongoSummaries struct {
	*Mongo
	ctx context.Context
}

func (m mongoSummaries) series(q reading.Query) ([]string, error) {
	if q.Metric != "" {
		return []string{q.Metric}, nil
	}
	of, err := m.metrics(m.ctx, q.Sensor)
	if err != nil {
		return nil, err
	}
	// The buckets may be gone, and the roll-ups still there.
	more, err := metricNames(q.Sensor, func(filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
		return m.Mongo.each(m.ctx, mongodb.Rollups, filter, opts, yield)
	})
	names := append(of, more...)
	slices.Sort(names)
	return slices.Compact(names), err
}

func (m mongoSummaries) progress() (map[reading.Span]reading.Progress, error) {
	all := map[reading.Span]reading.Progress{}
	err := m.Mongo.each(m.ctx, mongodb.Meta, bson.D{}, options.Find(), func(doc bson.Raw) error {
		if span, p, ok := mongodb.DecodeProgress(doc); ok {
			all[span] = p
		}
		return nil
	})
	return all, err
}

func (m mongoSummaries) each(s reading.Series, span reading.Span, from, until int64, yield func(reading.Summary) error) error {
	collection := mongodb.Buckets
	filter := bson.D{{Key: "sensorId", Value: s.Sensor}, {Key: "metric", Value: s.Metric}}
	if span != 0 {
		collection = mongodb.Rollups
		filter = append(filter, bson.E{Key: "span", Value: int64(span)})
	}
	filter = append(filter, bson.E{Key: "start", Value: bson.D{{Key: "$gte", Value: bson.DateTime(from)}, {Key: "$lt", Value: bson.DateTime(until)}}})
	opts := options.Find().SetSort(bson.D{{Key: "start", Value: 1}}).SetBatchSize(docsAtOnce).
		SetProjection(bson.D{{Key: "offsets", Value: 0}, {Key: "values", Value: 0}})
	var bucket Stored
	return m.Mongo.each(m.ctx, collection, filter, opts, func(doc bson.Raw) error {
		decodeBucket(doc, &bucket)
		return yield(bucket.Summary)
	})
}

// TTLIndexes implements Store.
func (m *Mongo) TTLIndexes(ctx context.Context) ([]TTLIndex, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	var all []TTLIndex
	for _, kind := range []reading.Kind{reading.KindBuckets, reading.KindOverflow, reading.KindRaw, reading.KindRollups} {
		found, err := ttlIndexes(ctx, db.Collection(string(kind)), kind)
		if err != nil {
			return nil, m.failed("list the indexes of "+string(kind), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

const codeNamespaceNotFound = 26

func ttlIndexes(ctx context.Context, c *mongo.Collection, kind reading.Kind) (all []TTLIndex, err error) {
	cursor, err := c.Indexes().List(ctx)
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCode(codeNamespaceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		after, ok := mongodb.Integer(cursor.Current.Lookup("expireAfterSeconds"))
		if !ok {
			continue
		}
		index := TTLIndex{Kind: kind, After: time.Duration(after) * time.Second}
		index.Name, _ = cursor.Current.Lookup("name").StringValueOK()
		index.Ours = index.Name == mongodb.TTLIndex
		key, _ := cursor.Current.Lookup("key").DocumentOK()
		if fields, err := key.Elements(); err == nil && len(fields) > 0 {
			index.Field = fields[0].Key()
		}
		all = append(all, index)
	}
	return all, cursor.Err()
}
