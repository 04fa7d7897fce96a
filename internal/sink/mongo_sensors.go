package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

const (
	sensorsAtOnce = 500
	sensorRounds  = 20
	// createAtOnce bounds a command that only inserts, as batchBytes does.
	createAtOnce = 5000
)

// CreateSensors implements Store. It does not look first: a sensor that is
// there already is refused, and then merged.
func (m *Mongo) CreateSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	for len(sensors) > 0 {
		docs := newSensors(sensors, keep)
		there, err := m.createSome(ctx, db, docs)
		if err != nil {
			return fmt.Errorf("cannot insert %d sensors into MongoDB: %w", len(docs), m.client.Explain(err))
		}
		var again []reading.Sensor
		for _, i := range there {
			again = append(again, sensors[i])
		}
		if err := m.MergeSensors(ctx, again, keep); err != nil {
			return err
		}
		sensors = sensors[len(docs):]
	}
	return nil
}

// newSensors is the documents of the first of the sensors: as many as one
// command takes.
func newSensors(sensors []reading.Sensor, keep int) []bson.Raw {
	docs := make([]bson.Raw, 0, min(len(sensors), createAtOnce))
	buf := make([]byte, 0, cap(docs)*256)
	for _, s := range sensors[:cap(docs)] {
		from := len(buf)
		buf = mongodb.AppendSensor(buf, s.Bounded(max(1, keep)), keep)
		if docs = append(docs, buf[from:len(buf):len(buf)]); len(buf) > batchBytes {
			break
		}
	}
	return docs
}

// createSome inserts the documents and says which were there already.
func (m *Mongo) createSome(ctx context.Context, db *mongo.Database, docs []bson.Raw) (there []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	answer, err := m.client.Insert(ctx, db, mongodb.Sensors, docs)
	switch {
	case err != nil:
		return nil, err
	case !answer.Duplicates():
		return nil, answer.Err()
	case answer.N+len(answer.Errors) != len(docs): // it does not say what became of the others
		for i := range docs {
			there = append(there, i)
		}
		return there, nil
	}
	for _, e := range answer.Errors {
		there = append(there, e.Index)
	}
	return there, nil
}

// MergeSensors merges each sensor into its document. Several instances may do
// so at once: a document is written only if it is still what it was when it
// was read, else it is read again.
func (m *Mongo) MergeSensors(ctx context.Context, sensors []reading.Sensor, keep int) error {
	news := make(map[string]reading.Sensor, len(sensors))
	for _, s := range sensors {
		if have, twice := news[s.ID]; twice {
			var both reading.Sensor
			both.Merge(have, max(1, keep))
			both.Merge(s, max(1, keep))
			s = both
		}
		news[s.ID] = s
	}
	db, err := m.client.Database()
	if err != nil {
		return err
	}
	// In order of id, so that two instances go the same way.
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(news)), sensorsAtOnce) {
		if err := m.mergeChunk(ctx, db, ids, news, keep); err != nil {
			return fmt.Errorf("cannot write %d sensors to MongoDB: %w", len(ids), m.client.Explain(err))
		}
	}
	return nil
}

func (m *Mongo) mergeChunk(ctx context.Context, db *mongo.Database, ids []string, news map[string]reading.Sensor, keep int) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	collection := db.Collection(mongodb.Sensors, options.Collection().SetReadPreference(readpref.Primary()))
	for range sensorRounds {
		stored, err := readSensors(ctx, collection, ids)
		if err != nil {
			return err
		}
		if settled, err := m.writeSensors(ctx, db, mergedSensors(stored, ids, news, keep)); err != nil || settled {
			return err
		}
		// Someone else wrote some of them in between. Those that were written
		// now are found to be right by the next round.
	}
	return errors.New("their documents are contested by other instances")
}

// sensorWrites are documents to be inserted, and fields to be set where the
// document is still what it was.
type sensorWrites struct {
	inserts []bson.Raw
	updates []sensorUpdate
}

type sensorUpdate struct{ filter, set bson.Raw }

func (u sensorUpdate) size() int { return len(u.filter) + len(u.set) + 32 }

// writeSensors carries out the writes, and says whether all of them were done.
func (m *Mongo) writeSensors(ctx context.Context, db *mongo.Database, w sensorWrites) (settled bool, err error) {
	settled = true
	for _, docs := range chunks(w.inserts, sensorsAtOnce, func(doc bson.Raw) int { return len(doc) }) {
		answer, err := m.client.Insert(ctx, db, mongodb.Sensors, docs)
		if err == nil && !answer.Duplicates() {
			err = answer.Err()
		}
		if err != nil {
			return false, err
		}
		settled = settled && answer.N == len(docs)
	}
	for _, some := range chunks(w.updates, sensorsAtOnce, sensorUpdate.size) {
		size := 0
		for _, u := range some {
			size += u.size()
		}
		answer, err := m.client.Update(ctx, db, mongodb.Sensors, len(some), size, func(dst []byte, i int) []byte {
			dst = mongodb.AppendDocument(dst, "q", some[i].filter)
			dst, set := mongodb.BeginIn(dst, bson.TypeEmbeddedDocument, "u")
			return mongodb.End(mongodb.AppendDocument(dst, "$set", some[i].set), set)
		})
		if err == nil && !answer.Duplicates() {
			err = answer.Err()
		}
		if err != nil {
			return false, err
		}
		settled = settled && answer.N == len(some)
	}
	return settled, nil
}

// mergedSensors is what must be written for the documents to hold the news.
func mergedSensors(stored map[string]bson.Raw, ids []string, news map[string]reading.Sensor, keep int) (w sensorWrites) {
	for _, id := range ids {
		old := stored[id]
		merged := reading.Sensor{}
		if old != nil {
			merged = mongodb.DecodeSensor(old)
		}
		merged.Merge(news[id], max(1, keep))
		if old == nil {
			w.inserts = append(w.inserts, mongodb.AppendSensor(nil, merged, keep))
			continue
		}
		fields := bson.Raw(mongodb.AppendSensorFields(make([]byte, 0, len(old)+64), merged, keep))
		if filter, same := unchanged(id, old, fields); !same {
			w.updates = append(w.updates, sensorUpdate{filter, fields})
		}
	}
	return w
}

func readSensors(ctx context.Context, collection *mongo.Collection, ids []string) (map[string]bson.Raw, error) {
	cursor, err := collection.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	stored := make(map[string]bson.Raw, len(ids))
	for cursor.Next(ctx) {
		doc := bytes.Clone(cursor.Current)
		if id, ok := bson.Raw(doc).Lookup("_id").StringValueOK(); ok {
			stored[id] = doc
		}
	}
	return stored, cursor.Err()
}

// unchanged is the filter that matches the document while its fields are what
// they were, and whether they are already what they should be.
func unchanged(id string, old, fields bson.Raw) (filter bson.Raw, same bool) {
	filter, doc := mongodb.Begin(make([]byte, 0, len(old)+128))
	filter, same = mongodb.AppendString(filter, "_id", id), true
	elements, _ := fields.Elements() // of our own making
	for _, f := range elements {
		have := old.Lookup(f.Key())
		if have.IsZero() {
			var at int
			filter, at = mongodb.BeginIn(filter, bson.TypeEmbeddedDocument, f.Key())
			filter, same = mongodb.End(mongodb.AppendBool(filter, "$exists", false), at), false
			continue
		}
		filter = mongodb.AppendValue(filter, f.Key(), have)
		same = same && have.Equal(f.Value())
	}
	return mongodb.End(filter, doc), same
}

// onlyDuplicates says whether all that went wrong is that documents were there
// already.
func onlyDuplicates(err error) bool {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return false
	}
	return !slices.ContainsFunc(bulk.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Code != mongodb.CodeDuplicateKey })
}
