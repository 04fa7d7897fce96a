package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// markMost is how many marks one look at them takes in; the others have theirs
// at the next.
const markMost = 1000

func (c bucketsCollection) mark(ctx context.Context, list []Outlier) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	models := make([]mongo.WriteModel, len(list))
	for i, o := range list {
		id := o.ID(o.Start)
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(byID(id)).SetUpdate(bson.D{
			{Key: "$set", Value: bson.D{
				{Key: "sensorId", Value: o.Sensor},
				{Key: "metric", Value: o.Metric},
				{Key: "start", Value: bson.DateTime(o.Start)},
				{Key: "until", Value: bson.DateTime(o.Until)},
			}},
			{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}},
		})
	}
	return again(func() error {
		_, err := c.Collection(mongodb.Outliers).BulkWrite(ctx, models)
		return err
	})
}

// again does once more what failed because another writer created the document
// between its search and its insert.
func again(do func() error) error {
	err := do()
	if mongo.IsDuplicateKeyError(err) {
		err = do()
	}
	return err
}

func byID(id [16]byte) bson.D { return bson.D{{Key: "_id", Value: binaryID(id)}} }

func (c bucketsCollection) flag(ctx context.Context, o Outlier) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	filter := append(byID(o.ID(o.Start)),
		bson.E{Key: "sensorId", Value: o.Sensor}, bson.E{Key: "metric", Value: o.Metric}, bson.E{Key: "start", Value: bson.DateTime(o.Start)},
		bson.E{Key: "isOutlier", Value: bson.D{{Key: "$ne", Value: true}}})
	update := bson.D{
		{Key: "$set", Value: bson.D{{Key: "isOutlier", Value: true}, {Key: "until", Value: bson.DateTime(o.Until)}, {Key: "settles", Value: int64(0)}}},
		{Key: "$setOnInsert", Value: bson.D{{Key: "count", Value: int32(0)}, {Key: "sum", Value: 0.0}}},
	}
	result, err := c.Collection(mongodb.Buckets).UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true))
	switch {
	case mongo.IsDuplicateKeyError(err):
		return false, nil // it is one, or has been made one just now
	case err != nil:
		return false, err
	}
	return result.ModifiedCount+result.UpsertedCount > 0, nil
}

// insert inserts the documents, those that are there already aside.
func (c bucketsCollection) insert(ctx context.Context, docs []bson.Raw) (exists, refused []int, err error) {
	for from := 0; from < len(docs); {
		some := docs[from:min(from+c.inserts, len(docs))]
		there, never, err := c.insertSome(ctx, some)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range there {
			exists = append(exists, from+i)
		}
		for _, i := range never {
			refused = append(refused, from+i)
		}
		from += len(some)
	}
	return exists, refused, nil
}

func (c bucketsCollection) insertSome(ctx context.Context, docs []bson.Raw) (exists, refused []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	answer, err := c.client.Insert(ctx, c.Database, mongodb.Overflow, docs)
	if err != nil {
		return nil, nil, err
	}
	if answer.Concern != nil {
		return nil, nil, unsafely(answer)
	}
	if answer.N+len(answer.Errors) != len(docs) {
		return nil, nil, errors.Join(fmt.Errorf("the server does not say what it did with %d documents", len(docs)), answer.Err())
	}
	for _, e := range answer.Errors {
		switch {
		case e.Code == mongodb.CodeDuplicateKey:
			exists = append(exists, e.Index)
		case slices.Contains(permanentCodes, e.Code):
			refused = append(refused, e.Index)
		default:
			return nil, nil, e
		}
	}
	return exists, refused, nil
}

func (c bucketsCollection) values(ctx context.Context, ids bson.A) (map[[16]byte]float64, error) {
	found := make(map[[16]byte]float64, len(ids))
	err := c.find(ctx, mongodb.Overflow, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}},
		options.Find().SetProjection(bson.D{{Key: "value", Value: 1}}), func(doc bson.Raw) {
			if _, data, ok := doc.Lookup("_id").BinaryOK(); ok && len(data) == 16 {
				if v, ok := doc.Lookup("value").AsFloat64OK(); ok {
					found[[16]byte(data)] = v
				}
			}
		})
	return found, err
}

func (c bucketsCollection) dropArrays(ctx context.Context, id [16]byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	filter := append(byID(id), bson.E{Key: "isOutlier", Value: true})
	update := bson.D{{Key: "$unset", Value: bson.D{{Key: "offsets", Value: ""}, {Key: "values", Value: ""}}}}
	_, err := c.Collection(mongodb.Buckets).UpdateOne(ctx, filter, update)
	return err
}

// unsettledSince matches an outlier that was not settled since it had been so
// often. One that was made by a tool has no number.
func unsettledSince(id [16]byte, settles int64) bson.D {
	var was any = settles
	if settles == 0 {
		was = bson.D{{Key: "$in", Value: bson.A{int64(0), nil}}}
	}
	return append(byID(id), bson.E{Key: "isOutlier", Value: true}, bson.E{Key: "settles", Value: was})
}

func (c bucketsCollection) add(ctx context.Context, id [16]byte, settles int64, t totals) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	result, err := c.Collection(mongodb.Buckets).UpdateOne(ctx, unsettledSince(id, settles), bson.D{
		{Key: "$inc", Value: bson.D{{Key: "count", Value: int32(t.count)}, {Key: "sum", Value: t.sum}}},
		{Key: "$min", Value: bson.D{{Key: "min", Value: t.min}}},
		{Key: "$max", Value: bson.D{{Key: "max", Value: t.max}}},
	})
	if err != nil {
		return false, err
	}
	return result.MatchedCount > 0, nil
}

func (c bucketsCollection) marks(ctx context.Context) (list []mark, err error) {
	err = c.find(ctx, mongodb.Outliers, bson.D{}, options.Find().SetLimit(markMost), func(doc bson.Raw) {
		_, data, ok := doc.Lookup("_id").BinaryOK()
		if !ok || len(data) != 16 {
			return
		}
		m := mark{id: [16]byte(data)}
		m.Sensor, _ = doc.Lookup("sensorId").StringValueOK()
		m.Metric, _ = doc.Lookup("metric").StringValueOK()
		m.Start, m.Until = mongodb.Time(doc.Lookup("start")), mongodb.Time(doc.Lookup("until"))
		m.n, _ = mongodb.Integer(doc.Lookup("n"))
		list = append(list, m)
	})
	return list, err
}

// total sums up what overflow has of a bucket, at the server if it can.
func (c bucketsCollection) total(ctx context.Context, o Outlier) (totals, error) {
	match := bson.D{
		{Key: "sensorId", Value: o.Sensor},
		{Key: "metric", Value: o.Metric},
		{Key: "time", Value: bson.D{{Key: "$gte", Value: bson.DateTime(o.Start)}, {Key: "$lt", Value: bson.DateTime(o.Until)}}},
	}
	t, err := c.group(ctx, match)
	if !mongodb.Lacks(err) {
		return t, err
	}
	t = totals{}
	err = c.find(ctx, mongodb.Overflow, match, options.Find().SetProjection(bson.D{{Key: "value", Value: 1}, {Key: "_id", Value: 0}}), func(doc bson.Raw) {
		v, _ := doc.Lookup("value").AsFloat64OK()
		t.add(v)
	})
	return t, err
}

func (c bucketsCollection) group(ctx context.Context, match bson.D) (t totals, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	cursor, err := c.truth(mongodb.Overflow).Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: match}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: nil},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "sum", Value: bson.D{{Key: "$sum", Value: "$value"}}},
			{Key: "min", Value: bson.D{{Key: "$min", Value: "$value"}}},
			{Key: "max", Value: bson.D{{Key: "$max", Value: "$value"}}},
		}}},
	})
	if err != nil {
		return t, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		t = stateOf(cursor.Current).totals
	}
	return t, cursor.Err()
}

func (c bucketsCollection) settle(ctx context.Context, id [16]byte, was outlierState, t totals) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	filter := append(unsettledSince(id, was.settles), bson.E{Key: "count", Value: was.count})
	fields := bson.D{{Key: "count", Value: int32(t.count)}, {Key: "sum", Value: t.sum}, {Key: "settles", Value: was.settles + 1}}
	if t.count > 0 {
		fields = append(fields, bson.E{Key: "min", Value: t.min}, bson.E{Key: "max", Value: t.max})
	}
	result, err := c.Collection(mongodb.Buckets).UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: fields}})
	if err != nil {
		return false, err
	}
	return result.MatchedCount > 0, nil
}

func (c bucketsCollection) unmark(ctx context.Context, m mark) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := c.Collection(mongodb.Outliers).DeleteOne(ctx, append(byID(m.id), bson.E{Key: "n", Value: m.n}))
	return err
}

// sweepMost is how many buckets one Sweep migrates.
const sweepMost = 100

// skipMost is how many damaged buckets Sweep knows not to ask for.
const skipMost = 1000

// Sweep implements Store.
func (m *Mongo) Sweep(ctx context.Context) (Swept, error) {
	var all Swept
	db, err := m.client.Database()
	if err != nil {
		return all, err
	}
	store := m.collection(db)
	large, err := m.largeBuckets(ctx, store)
	if err != nil {
		m.setup.again() // the index may be gone: an import with another threshold makes its own
		return all, fmt.Errorf("cannot look for large buckets: %w", m.client.Explain(err))
	}
	for _, o := range large {
		fresh, err := migrate(ctx, store, o)
		if errors.Is(err, errDamaged) {
			m.skip = append(m.skip[max(0, len(m.skip)-skipMost):], o.ID(o.Start))
			m.log.Warn("a bucket above OUTLIER_READINGS is left as it is", "sensor", o.Sensor, "metric", o.Metric, "start", time.UnixMilli(o.Start).UTC(), "error", err)
			continue
		}
		if err != nil {
			return all, fmt.Errorf("cannot make an outlier of a bucket: %w", m.client.Explain(err))
		}
		all.Outliers = append(all.Outliers, o)
		if fresh {
			all.Migrated++
		}
	}
	all.Settled, err = m.settler.settleAll(ctx, store)
	return all, m.client.Explain(err)
}

// largeBuckets lists buckets above the threshold that are not outliers. The
// index for it has nothing else in it, so that asking costs next to nothing;
// without the index the question would read every bucket, and is not asked.
func (m *Mongo) largeBuckets(ctx context.Context, store bucketsCollection) (list []Outlier, err error) {
	index := m.setup.largeIndex()
	if index == noIndexYet {
		return nil, nil
	}
	skip := bson.A{}
	for _, id := range m.skip {
		skip = append(skip, binaryID(id))
	}
	filter := bson.D{
		{Key: "isOutlier", Value: nil}, {Key: "count", Value: bson.D{{Key: "$gt", Value: int32(m.outlier)}}},
	}
	if len(skip) > 0 {
		filter = append(filter, bson.E{Key: "_id", Value: bson.D{{Key: "$nin", Value: skip}}})
	}
	opts := options.Find().SetLimit(sweepMost).SetProjection(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "start", Value: 1}})
	if index != noPartialIndex {
		opts.SetHint(index)
	}
	err = store.find(ctx, mongodb.Buckets, filter, opts, func(doc bson.Raw) {
		var o Outlier
		o.Sensor, _ = doc.Lookup("sensorId").StringValueOK()
		o.Metric, _ = doc.Lookup("metric").StringValueOK()
		o.Start = mongodb.Time(doc.Lookup("start"))
		o.Until = o.Start + int64(m.span)
		if o.Sensor != "" && o.Metric != "" {
			list = append(list, o)
		}
	})
	return list, err
}

const (
	noIndexYet     = ""
	noPartialIndex = "-" // the server has none: it is a small one
	largePrefix    = "large_"
)

// ensureLargeIndex has the index of largeBuckets be there for this threshold,
// and no other.
func ensureLargeIndex(ctx context.Context, db *mongo.Database, threshold int) (name string, err error) {
	indexes := db.Collection(mongodb.Buckets).Indexes()
	name = fmt.Sprint(largePrefix, threshold)
	list, err := indexes.ListSpecifications(ctx)
	if err != nil {
		return noIndexYet, fmt.Errorf("cannot list the indexes of %q: %w", mongodb.Buckets, err)
	}
	for _, have := range list {
		if have.Name == name {
			return name, nil
		}
		if strings.HasPrefix(have.Name, largePrefix) {
			if err := indexes.DropOne(ctx, have.Name); err != nil {
				return noIndexYet, fmt.Errorf("cannot drop the index %q: %w", have.Name, err)
			}
		}
	}
	_, err = indexes.CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "isOutlier", Value: 1}, {Key: "count", Value: 1}},
		Options: options.Index().SetName(name).SetPartialFilterExpression(
			bson.D{{Key: "count", Value: bson.D{{Key: "$gt", Value: int32(threshold)}}}}),
	})
	if mongodb.Lacks(err) {
		return noPartialIndex, nil
	}
	if err != nil {
		return noIndexYet, fmt.Errorf("cannot make the index %q: %w", name, err)
	}
	return name, nil
}

// MongoOutlier sets how many readings a bucket holds at most before it becomes
// an outlier, and how long its span is.
func MongoOutlier(n int, span reading.Span) MongoOption {
	return func(m *Mongo) { m.outlier, m.span = n, span }
}
