package query

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
)

// documents is a database as measuring reads it.
type documents interface {
	// aggregate yields the answer of a pipeline.
	aggregate(ctx context.Context, collection string, pipeline bson.A, yield func(bson.Raw) error) error
	// each yields what a query finds.
	each(ctx context.Context, collection string, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error
}

// Storage implements Measurer.
func (m *Mongo) Storage(ctx context.Context) (Storage, error) {
	s, err := measure(ctx, m)
	if err != nil {
		return Storage{}, err
	}
	s.Collections, err = m.collections(ctx)
	return s, err
}

// aggregate implements documents. The error is the server's own, to be told.
func (m *Mongo) aggregate(ctx context.Context, collection string, pipeline bson.A, yield func(bson.Raw) error) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	cursor, err := db.Collection(collection).Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return err
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
	return cursor.Err()
}

// measure adds up at the server, and where that lacks the operators here: the
// length of a document as it came is what $bsonSize says of it.
func measure(ctx context.Context, db documents) (Storage, error) {
	s := Storage{By: "server"}
	err := errors.Join(
		atServer(ctx, db, mongodb.Buckets, true, &s),
		atServer(ctx, db, mongodb.Overflow, false, &s),
		atServer(ctx, db, mongodb.Raw, false, &s),
	)
	if !mongodb.Lacks(err) {
		return s, err
	}
	s = Storage{By: "client"}
	var bucket Stored
	err = db.each(ctx, mongodb.Buckets, bson.D{}, options.Find(), func(doc bson.Raw) error {
		decodeBucket(doc, &bucket)
		s.bucket(&bucket, int64(len(doc)))
		return nil
	})
	single := func(collection string, to *Measure) error {
		return db.each(ctx, collection, bson.D{}, options.Find(), func(doc bson.Raw) error {
			to.Add(doc)
			return nil
		})
	}
	err = errors.Join(err, single(mongodb.Overflow, &s.Outliers.Measure), single(mongodb.Raw, &s.Raw.Measure))
	s.Raw.Readings = s.Raw.Documents
	return s, err
}

// atServer adds up one collection at the server.
func atServer(ctx context.Context, db documents, collection string, buckets bool, s *Storage) error {
	return db.aggregate(ctx, collection, measuring(buckets), func(doc bson.Raw) error {
		get := func(key string) int64 {
			n, _ := mongodb.Integer(doc.Lookup(key))
			return n
		}
		p := Part{Measure{get("documents"), get("bytes")}, get("readings")}
		outlier, _ := doc.Lookup("_id").BooleanOK()
		switch {
		case buckets:
			s.apart(p.Readings, get("apart"))
			if outlier {
				s.Outliers = s.Outliers.plus(p)
			} else {
				s.Buckets = s.Buckets.plus(p)
			}
		case collection == mongodb.Raw:
			p.Readings = p.Documents
			s.Raw = p
		default: // its readings are counted by their buckets
			s.Outliers = s.Outliers.plus(p)
		}
		return nil
	})
}

// measuring is the pipeline that adds up a collection, buckets apart from
// outliers, and what their readings would take on their own. A field of another
// type than ours counts as nothing instead of failing the whole.
func measuring(buckets bool) bson.A {
	group := bson.D{
		{Key: "_id", Value: false},
		{Key: "documents", Value: bson.D{{Key: "$sum", Value: int64(1)}}},
		{Key: "bytes", Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}}},
	}
	if buckets {
		length := func(field string) bson.D {
			text := bson.D{{Key: "$convert", Value: bson.D{{Key: "input", Value: field}, {Key: "to", Value: "string"}, {Key: "onError", Value: ""}, {Key: "onNull", Value: ""}}}}
			return bson.D{{Key: "$strLenBytes", Value: text}}
		}
		count := bson.D{{Key: "$convert", Value: bson.D{{Key: "input", Value: "$count"}, {Key: "to", Value: "long"}, {Key: "onError", Value: int64(0)}, {Key: "onNull", Value: int64(0)}}}}
		each := bson.D{{Key: "$add", Value: bson.A{rawSize(0), length("$sensorId"), length("$metric")}}}
		group[0].Value = bson.D{{Key: "$eq", Value: bson.A{"$isOutlier", true}}}
		group = append(group,
			bson.E{Key: "readings", Value: bson.D{{Key: "$sum", Value: count}}},
			bson.E{Key: "apart", Value: bson.D{{Key: "$sum", Value: bson.D{{Key: "$multiply", Value: bson.A{count, each}}}}}},
		)
	}
	return bson.A{bson.D{{Key: "$group", Value: group}}}
}
