package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const codeNamespaceNotFound = 26

// expiring are the collections from which a server with TTL indexes deletes.
var expiring = []reading.Kind{reading.KindBuckets, reading.KindOverflow, reading.KindRaw}

// ageField is the date that says how old a document is.
var ageField = map[reading.Kind]string{
	reading.KindBuckets: "start", reading.KindOverflow: "time", reading.KindRaw: "time", reading.KindRollups: "start",
}

// Expire implements Retention by TTL indexes. An index of ours is known by its
// name and key; others are left alone. A server is only believed to delete if
// it says that its TTL monitor runs: some take such an index and never do.
func (m *Mongo) Expire(ctx context.Context, buckets, raw time.Duration) (byServer bool, why string, err error) {
	db, err := m.client.Database()
	if err != nil {
		return false, "", err
	}
	for _, kind := range expiring {
		after := buckets
		if kind == reading.KindRaw {
			after = raw
		}
		err := expire(ctx, db, kind, after)
		var without *noIndexError
		switch {
		case errors.As(err, &without) && ctx.Err() == nil && !errors.Is(m.client.Explain(without.error), mongodb.ErrAway):
			why = m.client.Explain(err).Error()
		case err != nil:
			return false, "", fmt.Errorf("cannot change the TTL index of %s: %w", kind, m.client.Explain(err))
		}
	}
	if why == "" {
		why, err = monitored(ctx, m.client, db)
	}
	return why == "" && err == nil, why, err
}

// noIndexError says that there is no TTL index of ours: we delete ourselves.
type noIndexError struct{ error }

func (e *noIndexError) Unwrap() error { return e.error }

// expire gives a collection the TTL index that it should have, or none.
func expire(ctx context.Context, db *mongo.Database, kind reading.Kind, after time.Duration) error {
	field := ageField[kind]
	want := int64(math.Ceil(after.Seconds()))
	have, err := ttlOf(ctx, db.Collection(string(kind)), field)
	if err != nil {
		return err
	}
	indexes := db.Collection(string(kind)).Indexes()
	switch {
	case have == want:
		return nil
	case want == 0:
		return indexes.DropOne(ctx, mongodb.TTLIndex)
	case have > 0:
		err := db.RunCommand(ctx, bson.D{{Key: "collMod", Value: string(kind)}, {Key: "index", Value: bson.D{
			{Key: "name", Value: mongodb.TTLIndex}, {Key: "expireAfterSeconds", Value: want},
		}}}).Err()
		if err == nil || ctx.Err() != nil {
			return err
		}
		// The role readWrite may make and drop indexes, but not change them.
		if err := indexes.DropOne(ctx, mongodb.TTLIndex); err != nil {
			return err
		}
	}
	_, err = indexes.CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: field, Value: 1}},
		Options: options.Index().SetName(mongodb.TTLIndex).SetExpireAfterSeconds(int32(min(want, math.MaxInt32))),
	})
	if err != nil {
		return &noIndexError{err}
	}
	return nil
}

// ttlOf is after how many seconds our index has the server delete; 0 if there
// is none of ours.
func ttlOf(ctx context.Context, c *mongo.Collection, field string) (int64, error) {
	cursor, err := c.Indexes().List(ctx)
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCode(codeNamespaceNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		name, _ := cursor.Current.Lookup("name").StringValueOK()
		_, ours := cursor.Current.Lookup("key", field).AsInt64OK()
		if name == mongodb.TTLIndex && ours {
			after, _ := mongodb.Integer(cursor.Current.Lookup("expireAfterSeconds"))
			return after, nil
		}
	}
	return 0, cursor.Err()
}

// monitored says why the server cannot be relied on to delete; "" if it can.
func monitored(ctx context.Context, client *mongodb.Client, db *mongo.Database) (string, error) {
	const parameter = "ttlMonitorEnabled"
	answer, err := db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "getParameter", Value: 1}, {Key: parameter, Value: 1}}).Raw()
	if err != nil {
		if explained := client.Explain(err); errors.Is(explained, mongodb.ErrAway) || ctx.Err() != nil {
			return "", explained
		}
		return "the server does not say whether it deletes by TTL indexes", nil
	}
	if runs, ok := answer.Lookup(parameter).BooleanOK(); !ok || !runs {
		return "the server's TTL monitor is off (ttlMonitorEnabled)", nil
	}
	return "", nil
}
