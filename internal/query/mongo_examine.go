package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	// examineTimeout bounds each look that reads much. What it does not get to
	// is said.
	examineTimeout = 20 * time.Second
	// sampleDocs is how many random documents speak for a large collection.
	sampleDocs = 20_000
)

// ours are the collections that this program makes.
var ours = bson.A{
	mongodb.Buckets, mongodb.Sensors, mongodb.Overflow, mongodb.Outliers, mongodb.Raw, mongodb.Rollups, mongodb.Stale, mongodb.Rejected,
}

// Examine implements Examiner.
func (m *Mongo) Examine(ctx context.Context, outlier int64) (Examination, error) {
	var e Examination
	db, err := m.client.Database()
	if err != nil {
		return e, err
	}
	parts := []func(context.Context, *mongo.Database, *Examination) error{
		m.examineServer, m.examineLayout, m.examineRecent, m.examineSensors, m.examinePlans,
		func(ctx context.Context, db *mongo.Database, e *Examination) error {
			return m.examineSizes(ctx, db, e, outlier)
		},
	}
	for _, part := range parts {
		if err := part(ctx, db, &e); err != nil {
			return e, m.failed("examine the store", err)
		}
	}
	e.sort()
	return e, nil
}

func (m *Mongo) examineServer(ctx context.Context, db *mongo.Database, e *Examination) error {
	hello, err := db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if mongodb.Lacks(err) { // before 4.4.2
		hello, err = db.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Raw()
	}
	if err != nil {
		return err
	}
	build, err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	if err != nil {
		return err
	}
	s := serverOf(hello, build)
	s.Majority = m.client.Majority()
	truncates := false
	err = m.aggregate(ctx, mongodb.Buckets, bson.A{
		bson.D{{Key: "$limit", Value: int64(1)}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "minute", Value: bson.D{{Key: "$dateTrunc", Value: bson.D{{Key: "date", Value: "$start"}, {Key: "unit", Value: "minute"}}}}}}}},
	}, func(bson.Raw) error { return nil })
	truncates = err == nil
	for i := range s.Features {
		if s.Features[i].Name == "$dateTrunc" {
			s.Features[i].Has = truncates
		}
	}
	e.Server = s
	return nil
}

// serverOf reads what a server says of itself. FerretDB names the version of
// MongoDB whose protocol it speaks, not one whose features it has.
func serverOf(hello, build bson.Raw) Server {
	s := Server{Name: "MongoDB"}
	s.Version, _ = build.Lookup("version").StringValueOK()
	set, _ := hello.Lookup("setName").StringValueOK()
	msg, _ := hello.Lookup("msg").StringValueOK()
	s.Set, s.Sharded = set, msg == "isdbgrid"
	s.Clock = mongodb.Time(hello.Lookup("localTime"))
	genuine := true
	// It says so in one of two ways, by its version.
	for _, path := range [][]string{{"ferretdbVersion"}, {"ferretdb", "version"}} {
		if version, ok := build.Lookup(path...).StringValueOK(); ok {
			s.Name, s.Version, genuine = "FerretDB", version, false
		}
	}
	major := 0
	if text, _, ok := strings.Cut(s.Version, "."); ok && genuine {
		major, _ = strconv.Atoi(text)
	}
	s.Features = []Feature{
		{"transactions", genuine && (set != "" || s.Sharded)},
		{"$dateTrunc", false}, // asked for by itself
		{"time series", major >= 5},
		{"TTL", genuine},
	}
	return s
}

// examineLayout lists the collections and their indexes, with their sizes: the
// server keeps those at hand.
func (m *Mongo) examineLayout(ctx context.Context, db *mongo.Database, e *Examination) error {
	var err error
	if e.Collections, err = m.collections(ctx); err != nil {
		return err
	}
	e.Buckets, err = db.Collection(mongodb.Buckets).EstimatedDocumentCount(ctx)
	return err
}

func (m *Mongo) examineRecent(ctx context.Context, _ *mongo.Database, e *Examination) error {
	// Ids begin with the time: the newest lie together at the index's end.
	opts := options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(recentBuckets).
		SetProjection(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "start", Value: 1}, {Key: "count", Value: 1}, {Key: "isOutlier", Value: 1}})
	var b Stored
	err := m.each(ctx, mongodb.Buckets, bson.D{}, opts, func(doc bson.Raw) error {
		decodeBucket(doc, &b)
		r := Recent{Key: b.Key, Count: b.Count, Outlier: b.Outlier}
		r.Bytes = recentSize(r)
		e.Recent = append(e.Recent, r)
		return nil
	})
	for _, newer := range e.marks() {
		opts := options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetSkip(newer).SetLimit(1).SetProjection(bson.D{{Key: "start", Value: 1}})
		err = errors.Join(err, m.each(ctx, mongodb.Buckets, bson.D{}, opts, func(doc bson.Raw) error {
			e.Marks = append(e.Marks, Mark{newer, mongodb.Time(doc.Lookup("start"))})
			return nil
		}))
	}
	return err
}

func (m *Mongo) examineSensors(ctx context.Context, _ *mongo.Database, e *Examination) error {
	opts := options.Find().SetProjection(bson.D{{Key: "firstSeen", Value: 1}, {Key: "lastSeen", Value: 1}})
	err := m.each(ctx, mongodb.Sensors, bson.D{}, opts, func(doc bson.Raw) error {
		if id, ok := doc.Lookup("_id").StringValueOK(); ok {
			e.Sensors = append(e.Sensors, Seen{ID: id, First: mongodb.Time(doc.Lookup("firstSeen")), Last: mongodb.Time(doc.Lookup("lastSeen"))})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range e.away(time.Now().UnixMilli()) {
		sensor, err := m.Sensor(ctx, s.ID)
		if err != nil && !errors.Is(err, reading.ErrNotFound) {
			return err
		}
		s.Every = every(sensor)
	}
	return nil
}

// examineSizes looks for what has grown too large. The server measures its
// documents; where it cannot, they are read.
func (m *Mongo) examineSizes(ctx context.Context, db *mongo.Database, e *Examination, outlier int64) error {
	for _, collection := range []string{mongodb.Buckets, mongodb.Sensors} {
		n, err := db.Collection(collection).EstimatedDocumentCount(ctx)
		if err != nil {
			return err
		}
		err = m.sizesOf(ctx, e, collection, n, outlier)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			e.Sampled = append(e.Sampled, fmt.Sprintf("sizes in %s: as far as %v went", collection, examineTimeout))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Mongo) sizesOf(ctx context.Context, e *Examination, collection string, n, outlier int64) error {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	look := func(doc bson.Raw, bytes int64) {
		var b Stored
		decodeBucket(doc, &b)
		d := Document{collection, b.Sensor, b.Metric, b.Start, b.Count, bytes}
		if collection == mongodb.Sensors {
			d.Sensor, _ = doc.Lookup("_id").StringValueOK()
		}
		e.look(d)
		if collection == mongodb.Buckets && float64(d.Count) >= nearFull*float64(outlier) && !b.Outlier && len(e.Full) < suspects {
			e.Full = append(e.Full, d)
		}
	}
	whole := n <= examineRows/2
	for _, sample := range samples(whole) {
		err := m.aggregate(ctx, collection, append(sample, sized()...), func(doc bson.Raw) error {
			bytes, _ := mongodb.Integer(doc.Lookup("bytes"))
			look(doc, bytes)
			return nil
		})
		if mongodb.Lacks(err) {
			whole = n <= recentBuckets
			err = m.each(ctx, collection, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(recentBuckets), func(doc bson.Raw) error {
				look(doc, int64(len(doc)))
				return nil
			})
			if err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	if !whole {
		e.Sampled = append(e.Sampled, fmt.Sprintf("sizes in %s: the newest %d of %d documents, and some from all over the rest", collection, min(n, recentBuckets), n))
	}
	return nil
}

// samples are the beginnings of the pipelines that look at a collection.
func samples(whole bool) []bson.A {
	if whole {
		return []bson.A{{}}
	}
	return []bson.A{
		{bson.D{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}}, bson.D{{Key: "$limit", Value: int64(recentBuckets)}}},
		{bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: int64(sampleDocs)}}}}},
	}
}

// sized is the rest: the largest by their size, and the fullest.
func sized() bson.A {
	fields := bson.D{{Key: "bytes", Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}}
	for _, name := range []string{"sensorId", "metric", "start", "count", "isOutlier"} {
		fields = append(fields, bson.E{Key: name, Value: 1})
	}
	return bson.A{
		bson.D{{Key: "$project", Value: fields}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: "bytes", Value: -1}}}},
		bson.D{{Key: "$limit", Value: int64(suspects)}},
	}
}
