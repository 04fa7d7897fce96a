package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// MarkStale implements Marker.
func (m *Mongo) MarkStale(ctx context.Context, marks []reading.Mark) error {
	models := make([]mongo.WriteModel, len(marks))
	for i, k := range marks {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(bson.D{{Key: "_id", Value: markID(k)}}).
			SetUpdate(bson.D{{Key: "$set", Value: bson.D{
				{Key: "sensorId", Value: k.Sensor},
				{Key: "metric", Value: k.Metric},
				{Key: "span", Value: int64(k.Span)},
				{Key: "start", Value: bson.DateTime(k.Start)},
				{Key: "writes", Value: token()},
			}}})
	}
	return m.writeMarks(ctx, models)
}

// Unmark implements Rollups.
func (m *Mongo) Unmark(ctx context.Context, marks []reading.Mark) error {
	models := make([]mongo.WriteModel, len(marks))
	for i, k := range marks {
		models[i] = mongo.NewDeleteOneModel().SetFilter(bson.D{{Key: "_id", Value: markID(k)}, {Key: "writes", Value: k.Token}})
	}
	return m.writeMarks(ctx, models)
}

func markID(k reading.Mark) bson.Binary { return binaryID(k.WindowID(k.Start, k.Span)) }

// writeMarks writes each mark. Two writers that create one at once make one of
// them fail, whose second try meets what the first has made.
func (m *Mongo) writeMarks(ctx context.Context, models []mongo.WriteModel) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(models, rollupsAtOnce) {
		var err error
		for range rollupRounds {
			limited, cancel := context.WithTimeout(ctx, attemptTimeout)
			_, err = db.Collection(mongodb.Stale).BulkWrite(limited, some, options.BulkWrite().SetOrdered(false))
			cancel()
			if err == nil || !onlyDuplicates(err) {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("cannot write %d marks of outdated roll-ups in MongoDB: %w", len(some), m.client.Explain(err))
		}
	}
	return nil
}

// Stale implements Rollups.
func (m *Mongo) Stale(ctx context.Context, after reading.Mark, limit int) ([]reading.Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	filter := bson.D{}
	if after != (reading.Mark{}) {
		filter = bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: markID(after)}}}}
	}
	cursor, err := m.truly(db, mongodb.Stale).Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("cannot read the marks of outdated roll-ups in MongoDB: %w", m.client.Explain(err))
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var marks []reading.Mark
	for cursor.Next(ctx) {
		doc := cursor.Current
		span, _ := mongodb.Integer(doc.Lookup("span"))
		writes, _ := mongodb.Integer(doc.Lookup("writes"))
		marks = append(marks, reading.Mark{
			Key: reading.Key{Series: seriesOf(doc), Start: mongodb.Time(doc.Lookup("start"))}, Span: reading.Span(span), Token: writes,
		})
	}
	return marks, m.client.Explain(cursor.Err())
}

// Progress implements Rollups.
func (m *Mongo) Progress(ctx context.Context) (map[reading.Span]reading.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return nil, err
	}
	all := map[reading.Span]reading.Progress{}
	for doc, err := range found(ctx, m.truly(db, mongodb.Meta), bson.D{}, nil) {
		if err != nil {
			return nil, fmt.Errorf("cannot read how far the roll-ups in MongoDB are: %w", m.client.Explain(err))
		}
		if span, p, ok := mongodb.DecodeProgress(doc); ok {
			all[span] = p
		}
	}
	return all, nil
}

// Begin implements Rollups.
func (m *Mongo) Begin(ctx context.Context, span reading.Span, p reading.Progress) error {
	return m.note(ctx, span, bson.D{{Key: "$setOnInsert", Value: bson.D{
		{Key: "from", Value: bson.DateTime(p.From)}, {Key: "until", Value: bson.DateTime(p.Until)},
	}}}, options.UpdateOne().SetUpsert(true))
}

// Advance implements Rollups.
func (m *Mongo) Advance(ctx context.Context, span reading.Span, until int64) error {
	return m.note(ctx, span, bson.D{{Key: "$max", Value: bson.D{{Key: "until", Value: bson.DateTime(until)}}}}, options.UpdateOne())
}

func (m *Mongo) note(ctx context.Context, span reading.Span, update bson.D, opts *options.UpdateOneOptionsBuilder) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	for range rollupRounds {
		_, err = db.Collection(mongodb.Meta).UpdateOne(ctx, bson.D{{Key: "_id", Value: mongodb.ProgressID(span)}}, update, opts)
		if !mongo.IsDuplicateKeyError(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cannot note in MongoDB how far the roll-ups are: %w", m.client.Explain(err))
	}
	return nil
}

// DropProgress implements Rollups.
func (m *Mongo) DropProgress(ctx context.Context, keep []reading.Span) error {
	all, err := m.Progress(ctx)
	if err != nil {
		return err
	}
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	for span := range all {
		if slices.Contains(keep, span) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		_, err := db.Collection(mongodb.Meta).DeleteOne(limited, bson.D{{Key: "_id", Value: mongodb.ProgressID(span)}})
		cancel()
		if err != nil {
			return fmt.Errorf("cannot forget in MongoDB how far roll-ups are that are not kept any more: %w", m.client.Explain(err))
		}
	}
	return nil
}

// prepareRollups makes the index of the read side, once for each time that a
// store is opened. Without it reads are slow, and still right.
func (m *Mongo) prepareRollups(ctx context.Context, db *mongo.Database) error {
	m.rollups.mu.Lock()
	defer m.rollups.mu.Unlock()
	if m.rollups.ready || time.Since(m.rollups.tried) < setupEvery {
		return nil
	}
	m.rollups.tried = time.Now()
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	_, err := db.Collection(mongodb.Rollups).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{
		{Key: "sensorId", Value: 1}, {Key: "metric", Value: 1}, {Key: "span", Value: 1}, {Key: "start", Value: 1},
	}})
	err = m.client.Explain(err)
	if errors.Is(err, mongodb.ErrAway) {
		return err
	}
	if m.rollups.ready = err == nil; !m.rollups.ready {
		m.log.Warn("cannot make the index of the roll-ups, reads will be slow", "error", err)
	}
	return nil
}
