package sink

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// windowFilter finds the source of a window of all series: the time in the _id
// makes it one range of that index.
func windowFilter(w reading.Window) bson.D {
	filter := bson.D{{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: binaryID(reading.FirstID(w.Start))}, {Key: "$lt", Value: binaryID(reading.FirstID(w.End()))},
	}}}
	if w.Source != 0 {
		filter = append(filter, bson.E{Key: "span", Value: int64(w.Source)})
	}
	return filter
}

// windowPipeline sums a window up by series. The sum of the outliers' flags
// says whether there is one.
func windowPipeline(w reading.Window) mongo.Pipeline {
	group := bson.D{{Key: "_id", Value: bson.D{{Key: "sensorId", Value: "$sensorId"}, {Key: "metric", Value: "$metric"}}}}
	for _, f := range [][2]string{{"count", "$sum"}, {"sum", "$sum"}, {"min", "$min"}, {"max", "$max"}} {
		group = append(group, bson.E{Key: f[0], Value: bson.D{{Key: f[1], Value: "$" + f[0]}}})
	}
	group = append(group, bson.E{Key: "isOutlier", Value: bson.D{{Key: "$max", Value: "$isOutlier"}}})
	return mongo.Pipeline{{{Key: "$match", Value: windowFilter(w)}}, {{Key: "$group", Value: group}}}
}

// totals sums up what each series has in the window, at the server if it can.
func (m *Mongo) totals(ctx context.Context, db *mongo.Database, w reading.Window) (map[reading.Series]*total, error) {
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	cursor, err := m.sourceOf(db, w.Source).Aggregate(ctx, windowPipeline(w), options.Aggregate().SetAllowDiskUse(true))
	if mongodb.Lacks(err) {
		return sumUp(w, found(ctx, m.sourceOf(db, w.Source), windowFilter(w), sumFields))
	}
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	return sumUp(w, func(yield func(bson.Raw, error) bool) {
		for cursor.Next(ctx) {
			if !yield(cursor.Current, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(nil, err)
		}
	})
}

// sumFields are what a total is made of.
var sumFields = bson.D{
	{Key: "sensorId", Value: 1},
	{Key: "metric", Value: 1},
	{Key: "isOutlier", Value: 1},
	{Key: "count", Value: 1},
	{Key: "sum", Value: 1},
	{Key: "min", Value: 1},
	{Key: "max", Value: 1},
}

// sumUp adds documents up by series: buckets, roll-ups, or groups of these that
// the server has added up.
func sumUp(w reading.Window, docs func(yield func(bson.Raw, error) bool)) (map[reading.Series]*total, error) {
	totals := map[reading.Series]*total{}
	for doc, err := range docs {
		if err != nil {
			return nil, err
		}
		s := seriesOf(doc)
		if group, ok := doc.Lookup("_id").DocumentOK(); ok {
			s = seriesOf(group)
		}
		t := totals[s]
		if t == nil {
			t = &total{Summary: reading.Summary{Key: reading.Key{Series: s, Start: w.Start}}}
			totals[s] = t
		}
		t.add(doc)
	}
	for s, t := range totals {
		if t.Count == 0 && !t.outlier {
			delete(totals, s)
		}
	}
	return totals, nil
}

func (t *total) add(doc bson.Raw) {
	t.Merge(decodeRollup(doc, t.Key))
	outlier, _ := doc.Lookup("isOutlier").BooleanOK()
	t.outlier = t.outlier || outlier
}

// decodeRollup reads counters. Of a damaged document nothing counts: a sum
// that is no number must not spread.
func decodeRollup(doc bson.Raw, k reading.Key) reading.Summary {
	count, ok := mongodb.Integer(doc.Lookup("count"))
	sum, ok1 := doc.Lookup("sum").AsFloat64OK()
	least, ok2 := doc.Lookup("min").AsFloat64OK()
	most, ok3 := doc.Lookup("max").AsFloat64OK()
	if !ok || !ok1 || !ok2 || !ok3 {
		return reading.Summary{Key: k}
	}
	return reading.Summary{Key: k, Count: count, Sum: sum, Min: least, Max: most}
}

// totalOf sums one series up. It is not settled while one of its outliers is
// known to have counters that lag.
func (m *Mongo) totalOf(ctx context.Context, db *mongo.Database, w reading.Window, s reading.Series) (t total, settled bool, err error) {
	t, outliers, err := m.readTotal(ctx, db, w, s)
	if err != nil || len(outliers) == 0 {
		return t, true, err
	}
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	listed := m.truly(db, mongodb.Outliers).FindOne(limited, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: outliers}}}})
	if err := listed.Err(); err == nil || !errors.Is(err, mongo.ErrNoDocuments) {
		return t, false, err
	}
	// None is unsettled now: what is read from here on is right.
	t, _, err = m.readTotal(ctx, db, w, s)
	return t, true, err
}

func (m *Mongo) readTotal(ctx context.Context, db *mongo.Database, w reading.Window, s reading.Series) (t total, outliers bson.A, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	filter := bson.D{{Key: "sensorId", Value: s.Sensor}, {Key: "metric", Value: s.Metric}}
	if w.Source != 0 {
		filter = append(filter, bson.E{Key: "span", Value: int64(w.Source)})
	}
	filter = append(filter, bson.E{Key: "start", Value: bson.D{{Key: "$gte", Value: bson.DateTime(w.Start)}, {Key: "$lt", Value: bson.DateTime(w.End())}}})
	t.Key = reading.Key{Series: s, Start: w.Start}
	for doc, err := range found(ctx, m.sourceOf(db, w.Source), filter, sumFields) {
		if err != nil {
			return t, nil, err
		}
		t.add(doc)
		if outlier, _ := doc.Lookup("isOutlier").BooleanOK(); outlier {
			_, data, _ := doc.Lookup("_id").BinaryOK()
			outliers = append(outliers, bson.Binary{Subtype: bson.TypeBinaryUUID, Data: slices.Clone(data)})
		}
	}
	return t, outliers, nil
}
