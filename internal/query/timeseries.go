package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// TimeSeries reads the store whose buckets are MongoDB's own: a time series
// collection. A reading may be in it several times; it counts once, with the
// least value that was sent for it.
type TimeSeries struct {
	*Mongo
}

var _ Store = (*TimeSeries)(nil)

// OpenTimeSeries checks the URI and the name of the database. The server may be
// away: it is asked for by the first question.
func OpenTimeSeries(uri, database string, span reading.Span) (*TimeSeries, error) {
	m, err := OpenMongo(uri, database, span)
	if err != nil {
		return nil, err
	}
	return &TimeSeries{m}, nil
}

// Readings implements Store. The time at which what was read ends may be cut,
// so it is left for the next page, or more is read.
func (t *TimeSeries) Readings(ctx context.Context, q reading.Query) ([]reading.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	if q.Limit <= 0 || q.Since() >= q.Until() {
		return nil, nil
	}
	for n := 2 * (q.Limit + 1); ; n *= 2 {
		found := make(map[reading.Key]float64, min(n, docsAtOnce))
		var last int64
		read := 0
		err := t.inTime(ctx, seriesMatch(q, q.Since(), q.Until()), n, func(r reading.Reading) error {
			read++
			last = r.Time
			k := reading.Key{Series: r.Series, Start: r.Time}
			if v, again := found[k]; !again || r.Value < v {
				found[k] = r.Value
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all := make([]reading.Reading, 0, len(found))
		for k, v := range found {
			if k.Start != last || read < n {
				all = append(all, reading.Reading{Series: k.Series, Time: k.Start, Value: v})
			}
		}
		if page := q.Page(all); len(page) == q.Limit || read < n {
			return page, nil
		}
	}
}

// seriesMatch is the filter for the readings of a query's series from a time
// until another.
func seriesMatch(q reading.Query, from, until int64) bson.D {
	match := bson.D{{Key: "series.sensorId", Value: q.Sensor}}
	if q.Metric != "" {
		match = append(match, bson.E{Key: "series.metric", Value: q.Metric})
	}
	return append(match, bson.E{Key: mongodb.TimeField, Value: bson.D{
		{Key: "$gte", Value: bson.DateTime(max(from, minTime))}, {Key: "$lt", Value: bson.DateTime(min(until, maxTime))},
	}})
}

// inTime yields up to n readings in order of time; 0 is all.
func (t *TimeSeries) inTime(ctx context.Context, match bson.D, n int, yield func(reading.Reading) error) error {
	opts := options.Find().SetSort(bson.D{{Key: mongodb.TimeField, Value: 1}}).SetLimit(int64(n)).SetAllowDiskUse(true).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: mongodb.TimeField, Value: 1}, {Key: mongodb.MetaField, Value: 1}, {Key: "value", Value: 1}})
	return t.each(ctx, mongodb.Readings, match, opts, func(doc bson.Raw) error {
		r := reading.Reading{Time: mongodb.Time(doc.Lookup(mongodb.TimeField)), Value: number(doc.Lookup("value"))}
		r.Sensor, _ = doc.Lookup(mongodb.MetaField, "sensorId").StringValueOK()
		r.Metric, _ = doc.Lookup(mongodb.MetaField, "metric").StringValueOK()
		return yield(r)
	})
}

// Summaries implements Store: the server makes them of the readings. It is
// given a window of time that should fill the page, and wider ones while the
// readings turn out to be thin.
func (t *TimeSeries) Summaries(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	span := int64(t.span)
	from, until := ceil(t.span, q.Since()), ceil(t.span, q.Until())
	var all []reading.Summary
	for width := span * int64(max(1, q.Limit)); q.Limit > len(all) && from < until; width = min(2*width, maxTime) {
		first, found, err := t.next(ctx, q, from, until)
		if err != nil || !found {
			return all, err
		}
		from = t.span.Start(first)
		end := min(from+width, until)
		err = t.summarize(ctx, q, from, end, q.Limit-len(all), func(s reading.Summary) { all = append(all, s) })
		if err != nil {
			return nil, err
		}
		from = end
	}
	return all, nil
}

// ceil is the first start of a span that is not before at.
func ceil(span reading.Span, at int64) int64 {
	at = min(max(at, minTime), maxTime)
	if start := span.Start(at); start < at {
		return start + int64(span)
	}
	return at
}

// next is the time of the first reading of the query's series in a range.
func (t *TimeSeries) next(ctx context.Context, q reading.Query, from, until int64) (at int64, found bool, err error) {
	err = t.inTime(ctx, seriesMatch(q, from, until), 1, func(r reading.Reading) error {
		at, found = r.Time, true
		return nil
	})
	return at, found, err
}

func (t *TimeSeries) summarize(ctx context.Context, q reading.Query, from, until int64, limit int, yield func(reading.Summary)) error {
	db, err := t.client.Database()
	if err != nil {
		return err
	}
	cursor, err := db.Collection(mongodb.Readings).Aggregate(ctx, summaryPipeline(q, t.span, from, until, limit), options.Aggregate().SetAllowDiskUse(true))
	if err != nil {
		return t.failed("summarize "+mongodb.Readings, err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		doc := cursor.Current
		s := reading.Summary{Sum: number(doc.Lookup("sum")), Min: number(doc.Lookup("min")), Max: number(doc.Lookup("max"))}
		s.Count, _ = mongodb.Integer(doc.Lookup("count"))
		s.Sensor, s.Start = q.Sensor, mongodb.Time(doc.Lookup("_id", "start"))
		s.Metric, _ = doc.Lookup("_id", "metric").StringValueOK()
		yield(s)
	}
	if err := cursor.Err(); err != nil {
		return t.failed("summarize "+mongodb.Readings, err)
	}
	return nil
}

// summaryPipeline groups twice: first the copies of a reading into one.
func summaryPipeline(q reading.Query, span reading.Span, from, until int64, limit int) bson.A {
	stage := func(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }
	of := func(op string, value any) bson.D { return bson.D{{Key: op, Value: value}} }
	pipeline := bson.A{
		stage("$match", seriesMatch(q, from, until)),
		stage("$group", bson.D{
			{Key: "_id", Value: bson.D{{Key: "metric", Value: "$series.metric"}, {Key: "time", Value: "$time"}}},
			{Key: "value", Value: of("$min", "$value")},
		}),
		stage("$group", bson.D{
			{Key: "_id", Value: bson.D{{Key: "metric", Value: "$_id.metric"}, {Key: "start", Value: of("$dateTrunc", truncation(span))}}},
			{Key: "count", Value: of("$sum", 1)},
			{Key: "sum", Value: of("$sum", "$value")},
			{Key: "min", Value: of("$min", "$value")},
			{Key: "max", Value: of("$max", "$value")},
		}),
	}
	if !q.After.IsZero() {
		pipeline = append(pipeline, stage("$match", of("$or", bson.A{
			bson.D{{Key: "_id.start", Value: of("$gt", bson.DateTime(q.After.Time))}},
			bson.D{{Key: "_id.start", Value: bson.DateTime(q.After.Time)}, {Key: "_id.metric", Value: of("$gt", q.After.Metric)}},
		})))
	}
	return append(pipeline, stage("$sort", bson.D{{Key: "_id.start", Value: 1}, {Key: "_id.metric", Value: 1}}), stage("$limit", limit))
}

// truncation is $dateTrunc's way to say Span.Start: its bins begin at the year
// 2000, so that a divisor of a day falls together with ours.
func truncation(span reading.Span) bson.D {
	unit, size := "second", int64(span)/1000
	if int64(span)%1000 != 0 {
		unit, size = "millisecond", int64(span)
	}
	return bson.D{{Key: "date", Value: "$_id.time"}, {Key: "unit", Value: unit}, {Key: "binSize", Value: size}}
}

// Scan implements Store: each sensor's readings in order of time, cut into
// buckets here. What is stored twice is twice in them.
func (t *TimeSeries) Scan(ctx context.Context, yield func(*Stored) error) error {
	var ids []string
	err := t.SensorIDs(ctx, func(id string) error {
		ids = append(ids, id)
		return nil
	})
	for _, id := range ids {
		if err == nil {
			err = t.scanSensor(ctx, id, yield)
		}
	}
	return err
}

func (t *TimeSeries) scanSensor(ctx context.Context, id string, yield func(*Stored) error) error {
	open := map[string]*Stored{}
	err := t.inTime(ctx, bson.D{{Key: "series.sensorId", Value: id}}, 0, func(r reading.Reading) error {
		b, start := open[r.Metric], t.span.Start(r.Time)
		if b != nil && b.Start != start {
			if err := yield(b); err != nil {
				return err
			}
			b = nil
		}
		if b == nil {
			b = &Stored{ID: r.Series.ID(start)}
			b.Key = reading.Key{Series: r.Series, Start: start}
			b.Min, b.Max = r.Value, r.Value
			open[r.Metric] = b
		}
		b.Offsets, b.Values = append(b.Offsets, int32(r.Time-start)), append(b.Values, r.Value)
		b.Count++
		b.Sum += r.Value
		b.Min, b.Max = min(b.Min, r.Value), max(b.Max, r.Value)
		return nil
	})
	for _, metric := range slices.Sorted(maps.Keys(open)) {
		if err == nil {
			err = yield(open[metric])
		}
	}
	return err
}

// errOwnBuckets says that there are no buckets of ours to read.
var errOwnBuckets = errors.New("with BUCKETS=timeseries the buckets are MongoDB's own")

// NextSensor implements TruthReader: there is no truth to refresh from.
func (t *TimeSeries) NextSensor(context.Context, string) (string, error) { return "", errOwnBuckets }

// Truth implements TruthReader.
func (t *TimeSeries) Truth(_ context.Context, id string, _ int) (reading.Sensor, error) {
	return reading.Sensor{}, fmt.Errorf("cannot refresh sensor %q: %w", id, errOwnBuckets)
}

// Newest implements TruthReader.
func (t *TimeSeries) Newest(_ context.Context, s reading.Series, _ int) ([]reading.Point, error) {
	return nil, fmt.Errorf("cannot read the newest of %q: %w", s.Sensor, errOwnBuckets)
}

// NewestAt implements Store.
func (t *TimeSeries) NewestAt(ctx context.Context, s reading.Series, from, at int64) (reading.Stretch, error) {
	found := reading.Stretch{Until: at + 1}
	q := reading.Query{Sensor: s.Sensor, Metric: s.Metric, Limit: 1}
	opts := options.Find().SetSort(bson.D{{Key: mongodb.TimeField, Value: -1}}).SetLimit(1).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: mongodb.TimeField, Value: 1}})
	limited, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	last := int64(0)
	err := t.each(limited, mongodb.Readings, seriesMatch(q, from, at+1), opts, func(doc bson.Raw) error {
		last = mongodb.Time(doc.Lookup(mongodb.TimeField))
		found.Documents++
		return nil
	})
	if err != nil || found.Documents == 0 {
		return found, err
	}
	q.From, q.To = last, last+1 // of several values for that time, the one that all answers have
	list, err := t.Readings(ctx, q)
	for _, r := range list {
		found.Points = append(found.Points, reading.Point{Time: r.Time, Value: r.Value})
	}
	return found, err
}

// Stretch implements Store.
func (t *TimeSeries) Stretch(ctx context.Context, s reading.Series, from, until int64, limit int) (reading.Stretch, error) {
	if limit <= 0 {
		return reading.Stretch{}, errNoLimit
	}
	list, err := t.Readings(ctx, reading.Query{Sensor: s.Sensor, Metric: s.Metric, From: from, To: until, Limit: limit})
	found := reading.Stretch{Until: until, Documents: len(list)}
	for _, r := range list {
		found.Points = append(found.Points, reading.Point{Time: r.Time, Value: r.Value})
	}
	if len(list) == limit {
		found.Until = list[limit-1].Time + 1
	}
	return found, err
}
