package query

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// newestAtOnce is how many buckets come with the first answer: the one behind
// the time that is asked for, the one at it, and the one before that.
const newestAtOnce = 3

// NewestAt implements Store.
func (m *Mongo) NewestAt(ctx context.Context, series reading.Series, from, at int64) (reading.Stretch, error) {
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	return newest(&mongoSeries{Series: series, m: m, ctx: ctx, batch: newestAtOnce}, int64(m.span), from, at)
}

// Stretch implements Store.
func (m *Mongo) Stretch(ctx context.Context, series reading.Series, from, until int64, limit int) (reading.Stretch, error) {
	if limit <= 0 {
		return reading.Stretch{}, errNoLimit
	}
	ctx, cancel := context.WithTimeout(ctx, mongoTimeout)
	defer cancel()
	return stretch(&mongoSeries{Series: series, m: m, ctx: ctx, batch: min(limit+1, docsAtOnce)}, int64(m.span), from, until, limit)
}

// mongoSeries is a seriesReader, of one call.
type mongoSeries struct {
	reading.Series
	m      *Mongo
	ctx    context.Context
	batch  int
	bucket Stored
}

func (r *mongoSeries) starts(from, until int64, newestFirst bool, yield func(start int64, load func() (*Stored, error)) error) error {
	order := 1
	if newestFirst {
		order = -1
	}
	opts := options.Find().SetSort(bson.D{{Key: "start", Value: order}}).SetBatchSize(int32(r.batch))
	return r.m.each(r.ctx, mongodb.Buckets, seriesFilter(r.Series, "start", from, until), opts, func(doc bson.Raw) error {
		return yield(mongodb.Time(doc.Lookup("start")), func() (*Stored, error) {
			decodeBucket(doc, &r.bucket)
			return &r.bucket, nil
		})
	})
}

func (r *mongoSeries) overflow(from, until int64, limit int) ([]reading.Point, error) {
	return r.m.overflow(r.ctx, r.Series, from, until, limit)
}

func (r *mongoSeries) lastOverflow(from, until int64) ([]reading.Point, error) {
	return r.m.spilled(r.ctx, r.Series, from, until, -1, 1)
}
