package query

import (
	"context"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// NextSeries implements Store.
func (m *Mongo) NextSeries(ctx context.Context, after reading.Series) (next reading.Series, found bool, err error) {
	for _, collection := range []string{mongodb.Raw, mongodb.Buckets} {
		s, there, err := m.nextSeries(ctx, collection, after)
		if err != nil {
			return next, false, err
		}
		if there && (!found || s.Compare(next) < 0) {
			next, found = s, true
		}
	}
	return next, found, nil
}

// nextSeries hops in the index: to the sensor's next metric, else to the next
// sensor.
func (m *Mongo) nextSeries(ctx context.Context, collection string, after reading.Series) (next reading.Series, found bool, err error) {
	for _, filter := range []bson.D{
		{{Key: "sensorId", Value: after.Sensor}, {Key: "metric", Value: bson.D{{Key: "$gt", Value: after.Metric}}}},
		{{Key: "sensorId", Value: bson.D{{Key: "$gt", Value: after.Sensor}}}},
	} {
		opts := options.Find().SetSort(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}}).SetLimit(1).
			SetProjection(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "_id", Value: 0}})
		err := m.page(ctx, collection, filter, opts, func(doc bson.Raw) error {
			next.Sensor, found = doc.Lookup("sensorId").StringValueOK()
			next.Metric, _ = doc.Lookup("metric").StringValueOK()
			return nil
		})
		if err != nil || found {
			return next, found, err
		}
	}
	return next, false, nil
}

// page is each for a question whose answer is bounded, and so is its time.
func (m *Mongo) page(ctx context.Context, collection string, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	return m.each(ctx, collection, filter, opts, yield)
}

// RawReadings implements Store.
func (m *Mongo) RawReadings(ctx context.Context, q reading.Query) ([]reading.Point, error) {
	return m.points(ctx, mongodb.Raw, q)
}

// OverflowReadings implements Store.
func (m *Mongo) OverflowReadings(ctx context.Context, q reading.Query) ([]reading.Point, error) {
	return m.points(ctx, mongodb.Overflow, q)
}

func (m *Mongo) points(ctx context.Context, collection string, q reading.Query) ([]reading.Point, error) {
	if q.Limit <= 0 {
		return nil, errNoLimit
	}
	var found []reading.Point
	opts := options.Find().SetSort(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "time", Value: 1}}).SetLimit(int64(q.Limit)).
		SetProjection(bson.D{{Key: "time", Value: 1}, {Key: "value", Value: 1}, {Key: "_id", Value: 0}})
	err := m.page(ctx, collection, rangeOf("time", q), opts, func(doc bson.Raw) error {
		found = append(found, reading.Point{Time: mongodb.Time(doc.Lookup("time")), Value: number(doc.Lookup("value"))})
		return nil
	})
	return found, err
}

// rangeOf matches the series of the query within its range.
func rangeOf(field string, q reading.Query) bson.D {
	return seriesFilter(reading.Series{Sensor: q.Sensor, Metric: q.Metric}, field, q.From, q.Until())
}

// RawExtent implements Store. The ids of raw readings begin with their time, so
// the first and the last of them have the first and the last time.
func (m *Mongo) RawExtent(ctx context.Context) (e Extent, err error) {
	for end, order := range map[*int64]int{&e.First: 1, &e.Last: -1} {
		opts := options.Find().SetSort(bson.D{{Key: "_id", Value: order}}).SetLimit(1).SetProjection(bson.D{{Key: "_id", Value: 1}})
		err := m.page(ctx, mongodb.Raw, bson.D{}, opts, func(doc bson.Raw) error {
			if _, id, ok := doc.Lookup("_id").BinaryOK(); ok && len(id) == 16 {
				*end, e.Count = int64(binary.BigEndian.Uint64(id)>>16), 1
			}
			return nil
		})
		if err != nil || e.Count == 0 {
			return e, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return e, err
	}
	about, err := db.Collection(mongodb.Raw).EstimatedDocumentCount(ctx)
	if err != nil {
		return e, m.failed("count "+mongodb.Raw, err)
	}
	e.Count = max(1, about)
	return e, nil
}

// Records implements Store.
func (m *Mongo) Records(ctx context.Context, q reading.Query) ([]reading.Record, error) {
	if q.Limit <= 0 {
		return nil, errNoLimit
	}
	var found []reading.Record
	opts := options.Find().SetSort(bson.D{{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "start", Value: 1}}).SetLimit(int64(q.Limit))
	err := m.page(ctx, mongodb.Buckets, rangeOf("start", q), opts, func(doc bson.Raw) error {
		r := mongodb.DecodeRecord(doc)
		_, id, _ := doc.Lookup("_id").BinaryOK()
		if want := r.ID(r.Start); string(id) != string(want[:]) {
			r.Damaged = true // no writer will ever find it
		}
		found = append(found, *r)
		return nil
	})
	return found, err
}

// RawGroups implements Store: the server groups, if it can.
func (m *Mongo) RawGroups(ctx context.Context, span reading.Span, yield func(reading.Summary) error) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	cursor, err := db.Collection(mongodb.Raw).Aggregate(ctx, groupPipeline(span), options.Aggregate().SetAllowDiskUse(true).SetBatchSize(rawPage))
	if mongodb.Lacks(err) {
		return groupRaw(ctx, m, span, yield)
	}
	if err != nil {
		return m.failed("group "+mongodb.Raw, err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), mongoPingTimeout)
		defer cancel()
		cursor.Close(closing) // what it fails to free, the server does in time
	}()
	for cursor.Next(ctx) {
		if err := yield(decodeGroup(cursor.Current)); err != nil {
			return err
		}
	}
	if err := cursor.Err(); err != nil {
		return m.failed("group "+mongodb.Raw, err)
	}
	return nil
}

// groupPipeline is the honest answer: what the buckets must say.
func groupPipeline(span reading.Span) bson.A {
	unit, size := "millisecond", int64(span)
	if size%60_000 == 0 {
		unit, size = "minute", size/60_000
	} else if size%1000 == 0 {
		unit, size = "second", size/1000
	}
	d := func(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }
	start := d("$dateTrunc", bson.D{{Key: "date", Value: "$time"}, {Key: "unit", Value: unit}, {Key: "binSize", Value: size}})
	return bson.A{
		d("$group", bson.D{
			{Key: "_id", Value: bson.D{{Key: "sensorId", Value: "$sensorId"}, {Key: "metric", Value: "$metric"}, {Key: "start", Value: start}}},
			{Key: "count", Value: d("$sum", 1)},
			{Key: "sum", Value: d("$sum", "$value")},
			{Key: "min", Value: d("$min", "$value")},
			{Key: "max", Value: d("$max", "$value")},
		}),
		d("$sort", bson.D{{Key: "_id.sensorId", Value: 1}, {Key: "_id.metric", Value: 1}, {Key: "_id.start", Value: 1}}),
	}
}

func decodeGroup(doc bson.Raw) reading.Summary {
	var g reading.Summary
	g.Sensor, _ = doc.Lookup("_id", "sensorId").StringValueOK()
	g.Metric, _ = doc.Lookup("_id", "metric").StringValueOK()
	g.Start = mongodb.Time(doc.Lookup("_id", "start"))
	var ok bool
	if g.Count, ok = mongodb.Integer(doc.Lookup("count")); !ok {
		g.Count = math.MinInt64
	}
	g.Sum, g.Min, g.Max = number(doc.Lookup("sum")), number(doc.Lookup("min")), number(doc.Lookup("max"))
	return g
}
