package sink

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	// windowTimeout bounds the reading of one window of the whole fleet.
	windowTimeout = 5 * time.Minute
	rollupsAtOnce = 500
	rollupRounds  = 10
)

// total is what a series has in a window.
type total struct {
	reading.Summary
	outlier bool // one of its buckets is an outlier, whose counters may lag
}

// FirstAt implements Rollups.
func (m *Mongo) FirstAt(ctx context.Context, source reading.Span, from int64) (int64, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return 0, false, err
	}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: binaryID(reading.FirstID(max(from, 0)))}}}}
	if source != 0 {
		filter = append(filter, bson.E{Key: "span", Value: int64(source)})
	}
	doc, err := m.sourceOf(db, source).FindOne(ctx, filter, options.FindOne().
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetProjection(bson.D{{Key: "start", Value: 1}})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("cannot find the earliest of what is rolled up in MongoDB: %w", m.client.Explain(err))
	}
	return mongodb.Time(doc.Lookup("start")), true, nil
}

// sourceOf is where roll-ups are made from, read as truly as writes are
// written.
func (m *Mongo) sourceOf(db *mongo.Database, source reading.Span) *mongo.Collection {
	if source == 0 {
		return m.truly(db, mongodb.Buckets)
	}
	return m.truly(db, mongodb.Rollups)
}

func (m *Mongo) truly(db *mongo.Database, collection string) *mongo.Collection {
	return db.Collection(collection, m.client.Truth())
}

// RollUp implements Rollups. Roll-ups that are not there yet are inserted,
// which fails for those that someone else has stored since. The others go the
// way of single series.
func (m *Mongo) RollUp(ctx context.Context, w reading.Window, rest Rest) (series int, err error) {
	db, err := m.client.Database()
	if err == nil {
		err = m.prepareRollups(ctx, db)
	}
	if err != nil {
		return 0, err
	}
	totals, err := m.totals(ctx, db, w)
	if err != nil {
		return 0, fmt.Errorf("cannot sum up a window in MongoDB: %w", m.client.Explain(err))
	}
	order := slices.SortedFunc(maps.Values(totals), func(a, b *total) int { return a.Compare(b.Key) })
	for some := range slices.Chunk(order, rollupsAtOnce) {
		written, err := m.rollUpChunk(ctx, db, w, some)
		if err != nil {
			return series, fmt.Errorf("cannot store %d roll-ups in MongoDB: %w", len(some), m.client.Explain(err))
		}
		series += len(some)
		if err := rest(ctx, written); err != nil {
			return series, err
		}
	}
	return series, nil
}

func (m *Mongo) rollUpChunk(ctx context.Context, db *mongo.Database, w reading.Window, totals []*total) (written int, err error) {
	written, left, err := m.insertRollups(ctx, db, w, totals)
	if err != nil || len(left) == 0 {
		return written, err
	}
	more, unsettled, err := m.RollUpSeries(ctx, w, left)
	if err != nil || len(unsettled) == 0 {
		return written + more, err
	}
	marks := make([]reading.Mark, len(unsettled))
	for i, s := range unsettled {
		marks[i] = reading.Mark{Key: reading.Key{Series: s, Start: w.Start}, Span: w.Span}
	}
	return written + more, m.MarkStale(ctx, marks)
}

// insertRollups inserts what is missing, and returns the series that were not
// right.
func (m *Mongo) insertRollups(ctx context.Context, db *mongo.Database, w reading.Window, totals []*total) (written int, left []reading.Series, err error) {
	series := make([]reading.Series, len(totals))
	for i, t := range totals {
		series[i] = t.Series
	}
	stored, err := m.storedRollups(ctx, db, w, series)
	if err != nil {
		return 0, nil, err
	}
	var docs []any
	var fresh []reading.Series
	for _, t := range totals {
		old := stored[t.Series]
		switch {
		case t.outlier, old != nil && !decodeRollup(old, t.Key).Same(t.Summary):
			left = append(left, t.Series)
		case old == nil:
			docs = append(docs, rollupDoc(w, t.Summary))
			fresh = append(fresh, t.Series)
		}
	}
	if len(docs) == 0 {
		return 0, left, nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err = db.Collection(mongodb.Rollups).InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	if onlyDuplicates(err) {
		return 0, append(left, fresh...), nil
	}
	return len(docs), left, err
}

// RollUpSeries implements Rollups. A roll-up is written only if it is still
// what it was before its source was read, else all is read again.
func (m *Mongo) RollUpSeries(ctx context.Context, w reading.Window, series []reading.Series) (written int, unsettled []reading.Series, err error) {
	db, err := m.client.Database()
	if err != nil {
		return 0, nil, err
	}
	for some := range slices.Chunk(series, rollupsAtOnce) {
		n, lag, err := m.rollUpSeries(ctx, db, w, some)
		if err != nil {
			return written, nil, fmt.Errorf("cannot store %d roll-ups in MongoDB: %w", len(some), m.client.Explain(err))
		}
		written += n
		unsettled = append(unsettled, lag...)
	}
	return written, unsettled, nil
}

func (m *Mongo) rollUpSeries(ctx context.Context, db *mongo.Database, w reading.Window, series []reading.Series) (written int, unsettled []reading.Series, err error) {
	for range rollupRounds {
		stored, err := m.storedRollups(ctx, db, w, series)
		if err != nil {
			return written, nil, err
		}
		unsettled = nil
		var writes []mongo.WriteModel
		for _, s := range series {
			t, settled, err := m.totalOf(ctx, db, w, s)
			if err != nil {
				return written, nil, err
			}
			if !settled {
				unsettled = append(unsettled, s)
			}
			if model := rollupWrite(w, t, stored[s]); model != nil {
				writes = append(writes, model)
			}
		}
		if len(writes) == 0 {
			return written, unsettled, nil
		}
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		result, err := db.Collection(mongodb.Rollups).BulkWrite(limited, writes, options.BulkWrite().SetOrdered(false))
		cancel()
		if err != nil && !onlyDuplicates(err) {
			return written, nil, err
		}
		if result != nil {
			written += int(result.MatchedCount + result.InsertedCount)
		}
		if err == nil && result.MatchedCount+result.InsertedCount == int64(len(writes)) {
			return written, unsettled, nil
		}
	}
	return written, nil, errors.New("they are contested by other instances")
}

// rollupWrite is what makes a roll-up right that was old, or absent, when it
// was read; nil if nothing does.
func rollupWrite(w reading.Window, t total, old bson.Raw) mongo.WriteModel {
	switch {
	case t.Count == 0:
		return nil // it has been deleted, and the roll-up stays
	case old == nil:
		return mongo.NewInsertOneModel().SetDocument(rollupDoc(w, t.Summary))
	case decodeRollup(old, t.Key).Same(t.Summary):
		return nil
	}
	filter := bson.D{{Key: "_id", Value: old.Lookup("_id")}}
	for _, name := range summaryFields {
		if v := old.Lookup(name); !v.IsZero() {
			filter = append(filter, bson.E{Key: name, Value: v})
		}
	}
	return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.D{{Key: "$set", Value: summaryDoc(t.Summary)}})
}

func rollupDoc(w reading.Window, s reading.Summary) bson.D {
	return append(bson.D{
		{Key: "_id", Value: binaryID(s.WindowID(w.Start, w.Span))},
		{Key: "sensorId", Value: s.Sensor},
		{Key: "metric", Value: s.Metric},
		{Key: "span", Value: int64(w.Span)},
		{Key: "start", Value: bson.DateTime(w.Start)},
	}, summaryDoc(s)...)
}

func summaryDoc(s reading.Summary) bson.D {
	return bson.D{{Key: "count", Value: s.Count}, {Key: "sum", Value: s.Sum}, {Key: "min", Value: s.Min}, {Key: "max", Value: s.Max}}
}

// storedRollups are the roll-ups of the series that are stored.
func (m *Mongo) storedRollups(ctx context.Context, db *mongo.Database, w reading.Window, series []reading.Series) (map[reading.Series]bson.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ids := make(bson.A, len(series))
	for i, s := range series {
		ids[i] = binaryID(s.WindowID(w.Start, w.Span))
	}
	stored := make(map[reading.Series]bson.Raw, len(series))
	for doc, err := range found(ctx, m.truly(db, mongodb.Rollups), bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, nil) {
		if err != nil {
			return nil, err
		}
		stored[seriesOf(doc)] = slices.Clone(doc)
	}
	return stored, nil
}

// found yields what a query finds; each is valid until the next.
func found(ctx context.Context, c *mongo.Collection, filter, fields bson.D) iter.Seq2[bson.Raw, error] {
	return func(yield func(bson.Raw, error) bool) {
		opts := options.Find()
		if fields != nil {
			opts.SetProjection(fields)
		}
		cursor, err := c.Find(ctx, filter, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			if !yield(cursor.Current, nil) {
				return
			}
		}
		if err := cursor.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func seriesOf(doc bson.Raw) (s reading.Series) {
	s.Sensor, _ = doc.Lookup("sensorId").StringValueOK()
	s.Metric, _ = doc.Lookup("metric").StringValueOK()
	return s
}
