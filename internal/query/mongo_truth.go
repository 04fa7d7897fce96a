package query

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

var _ TruthReader = (*Mongo)(nil)

// NextSensor implements TruthReader.
func (m *Mongo) NextSensor(ctx context.Context, after string) (string, error) {
	next := ""
	err := m.ends(ctx).find(mongodb.Buckets, bson.D{{Key: "sensorId", Value: bson.D{{Key: "$gt", Value: after}}}},
		options.Find().SetSort(bson.D{{Key: "sensorId", Value: 1}}).SetLimit(1).SetProjection(bson.D{{Key: "sensorId", Value: 1}, {Key: "_id", Value: 0}}),
		func(doc bson.Raw) error {
			next, _ = doc.Lookup("sensorId").StringValueOK()
			return nil
		})
	if err == nil && next == "" {
		err = reading.ErrNotFound
	}
	return next, err
}

// Newest implements TruthReader.
func (m *Mongo) Newest(ctx context.Context, s reading.Series, n int) ([]reading.Point, error) {
	return m.ends(ctx).newest(s, n)
}

// Truth implements TruthReader.
func (m *Mongo) Truth(ctx context.Context, id string, keep int) (reading.Sensor, error) {
	return truthOf(m.ends(ctx), id, keep)
}

// mongoEnds reads the ends of series from the primary, and what a majority has
// if writes wait for one: whatever a sensor's document tells of was written
// into the buckets before, and a secondary may not have it yet.
type mongoEnds struct {
	*Mongo
	ctx context.Context //nolint:containedctx // it lives as long as one question
}

func (m *Mongo) ends(ctx context.Context) *mongoEnds { return &mongoEnds{m, ctx} }

// find is one step, and only its time is bounded: a sensor with many metrics
// takes many.
func (e *mongoEnds) find(collection string, filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
	ctx, cancel := context.WithTimeout(e.ctx, mongoTimeout)
	defer cancel()
	return e.eachOf(ctx, collection, e.client.Truth(), filter, opts, yield)
}

func (e *mongoEnds) metricsOf(sensor string) ([]string, error) {
	return metricNames(sensor, func(filter any, opts *options.FindOptionsBuilder, yield func(bson.Raw) error) error {
		return e.find(mongodb.Buckets, filter, opts, yield)
	})
}

// bucketsAtOnce bounds how many buckets are read before it is seen whether
// they are enough.
const bucketsAtOnce = 100

// newest goes through the series' buckets from the newest on, each time as
// many as are likely to be needed still.
func (e *mongoEnds) newest(s reading.Series, n int) ([]reading.Point, error) {
	if n <= 0 {
		return nil, errNoLimit
	}
	newest := tail{n: n, reach: int64(e.span)}
	var bucket Stored
	read := 0
	for until, few := int64(maxTime), 1; ; {
		since := newest.since()
		if since >= until {
			return newest.points, nil
		}
		seen := 0
		err := e.find(mongodb.Buckets, seriesFilter(s, "start", since, until), options.Find().
			SetSort(bson.D{{Key: "start", Value: -1}}).SetLimit(int64(few)), func(doc bson.Raw) error {
			decodeBucket(doc, &bucket)
			seen, until = seen+1, bucket.Start
			newest.add(newestOf(bucket.Start, bucket.Offsets, bucket.Values, n))
			if !bucket.Outlier {
				return nil
			}
			return e.spill(bucket.Key, n, &newest)
		})
		if err != nil || seen < few {
			return newest.points, err
		}
		read += seen
		few = min(max(1, read*(n-len(newest.points))/max(1, len(newest.points))), bucketsAtOnce)
	}
}

// maxTime is after every time that a reading can have.
const maxTime = 1 << 52

func seriesFilter(s reading.Series, field string, from, until int64) bson.D {
	return bson.D{
		{Key: "sensorId", Value: s.Sensor},
		{Key: "metric", Value: s.Metric},
		{Key: field, Value: bson.D{{Key: "$gte", Value: bson.DateTime(from)}, {Key: "$lt", Value: bson.DateTime(until)}}},
	}
}

// spill adds the newest readings of an outlier. They are asked for after the
// bucket, whose arrays may have been on their way here until then.
func (e *mongoEnds) spill(k reading.Key, n int, to *tail) error {
	var points []reading.Point
	err := e.find(mongodb.Overflow, seriesFilter(k.Series, "time", k.Start, k.Start+int64(e.span)),
		options.Find().SetSort(bson.D{{Key: "time", Value: -1}}).SetLimit(int64(n)), func(doc bson.Raw) error {
			points = append(points, reading.Point{Time: mongodb.Time(doc.Lookup("time")), Value: number(doc.Lookup("value"))})
			return nil
		})
	to.add(points)
	return err
}

func (e *mongoEnds) first(s reading.Series) (at int64, found bool, err error) {
	see := func(t int64) {
		if !found || t < at {
			at, found = t, true
		}
	}
	var bucket Stored
	err = e.find(mongodb.Buckets, bson.D{{Key: "sensorId", Value: s.Sensor}, {Key: "metric", Value: s.Metric}}, options.Find().
		SetSort(bson.D{{Key: "start", Value: 1}}).SetBatchSize(2).SetProjection(bson.D{{Key: "values", Value: 0}}), func(doc bson.Raw) error {
		decodeBucket(doc, &bucket)
		if found && bucket.Start > at {
			return errEnough
		}
		if len(bucket.Offsets) > 0 {
			see(bucket.Start + int64(slices.Min(bucket.Offsets)))
		}
		if !bucket.Outlier {
			return nil
		}
		return e.find(mongodb.Overflow, seriesFilter(s, "time", bucket.Start, bucket.Start+int64(e.span)),
			options.Find().SetSort(bson.D{{Key: "time", Value: 1}}).SetLimit(1), func(doc bson.Raw) error {
				see(mongodb.Time(doc.Lookup("time")))
				return nil
			})
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return at, found, err
}
