package sink

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// fakeServer applies the writes of buckets as MongoDB does, and goes wrong in
// the ways that real servers do.
type fakeServer struct {
	mu    sync.Mutex
	docs  map[[16]byte]bson.D
	sent  int            // writes received, over all commands
	codes map[string]int // by sensor: the code that a write of it ends with

	before  func(n int) error // fails command n before anything is done
	after   func(n int) error // fails it when all is done: the reply is lost
	unsafe  func(n int) bool  // it is done, but not by a majority
	stops   bool              // at the first error, and says neither where nor what was done
	whole   bool              // answers a permanent error as one of the whole command
	refuses bool              // takes no write at all, not even the harmless one
	n       int

	most     int // readings in a bucket
	overflow map[[16]byte]reading.Reading
	marked   map[[16]byte]mark
}

func newFake() *fakeServer {
	return &fakeServer{
		docs: map[[16]byte]bson.D{}, codes: map[string]int{}, most: DefaultOutlier,
		overflow: map[[16]byte]reading.Reading{}, marked: map[[16]byte]mark{},
	}
}

func (f *fakeServer) writable(context.Context) bool { return !f.refuses }

func (f *fakeServer) upsert(_ context.Context, items []*item) (answer mongodb.Answer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.sent += len(items)
	if f.before != nil {
		if err := f.before(f.n); err != nil {
			return answer, err
		}
	}
	for i, it := range items {
		code := f.apply(appendFilter(nil, it.id, it.left), appendUpdate(nil, it.left))
		switch {
		case code != 0 && f.whole && code != mongodb.CodeDuplicateKey:
			return answer, mongo.CommandError{Code: int32(code), Message: "the whole command"}
		case code != 0 && f.stops:
			return mongodb.Answer{Errors: []mongo.WriteError{{Code: code, Message: "at some place"}}}, nil
		case code != 0:
			answer.Errors = append(answer.Errors, mongo.WriteError{Index: i, Code: code, Message: fmt.Sprintf("code %d", code)})
		default:
			answer.N++
		}
	}
	if f.after != nil {
		if err := f.after(f.n); err != nil {
			return mongodb.Answer{}, err
		}
	}
	if f.unsafe != nil && f.unsafe(f.n) {
		answer.Concern = &mongo.WriteConcernError{Code: 64, Message: "waiting for replication timed out"}
	}
	return answer, nil
}

// apply is one upsert, by what its documents say.
func (f *fakeServer) apply(filter, update bson.Raw) (code int) {
	_, data := filter.Lookup("_id").Binary()
	id := [16]byte(data)
	sensor := filter.Lookup("sensorId").StringValue()
	if code := f.codes[sensor]; code != 0 {
		return code
	}
	key := reading.Key{Series: reading.Series{Sensor: sensor, Metric: filter.Lookup("metric").StringValue()}, Start: filter.Lookup("start").DateTime()}
	doc, there := f.docs[id]
	if there {
		offsets, _ := field(doc, "offsets").(bson.A)
		taken, _ := filter.Lookup("offsets", "$nin").Array().Values()
		for _, v := range taken {
			if slices.Contains(offsets, any(v.Int32())) {
				return mongodb.CodeDuplicateKey
			}
		}
		if outlier, _ := field(doc, "isOutlier").(bool); outlier || field(doc, "sensorId") != sensor {
			return mongodb.CodeDuplicateKey
		}
	} else {
		doc = emptyDoc(id, key)
	}
	for name, path := range map[string][]string{"offsets": {"$push", "offsets", "$each"}, "values": {"$push", "values", "$each"}} {
		values, _ := update.Lookup(path...).Array().Values()
		array := field(doc, name).(bson.A)
		for _, v := range values {
			if name == "offsets" {
				array = append(array, v.Int32())
			} else {
				array = append(array, v.Double())
			}
		}
		set(doc, name, array)
	}
	count(doc, totals{
		count: int64(update.Lookup("$inc", "count").Int32()), sum: update.Lookup("$inc", "sum").Double(),
		min: update.Lookup("$min", "min").Double(), max: update.Lookup("$max", "max").Double(),
	})
	f.docs[id] = doc
	return 0
}

func emptyDoc(id [16]byte, key reading.Key) bson.D {
	return bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: bytes.Clone(id[:])}},
		{Key: "sensorId", Value: key.Sensor},
		{Key: "metric", Value: key.Metric},
		{Key: "start", Value: bson.DateTime(key.Start)},
		{Key: "offsets", Value: bson.A{}},
		{Key: "values", Value: bson.A{}},
		{Key: "count", Value: int32(0)},
		{Key: "sum", Value: 0.0},
		{Key: "min", Value: math.Inf(1)},
		{Key: "max", Value: math.Inf(-1)},
		{Key: "isOutlier", Value: false},
		{Key: "settles", Value: int64(0)},
	}
}

// count adds to the counters.
func count(doc bson.D, t totals) {
	set(doc, "count", field(doc, "count").(int32)+int32(t.count))
	set(doc, "sum", field(doc, "sum").(float64)+t.sum)
	set(doc, "min", min(field(doc, "min").(float64), t.min))
	set(doc, "max", max(field(doc, "max").(float64), t.max))
}

func field(doc bson.D, name string) any {
	for _, e := range doc {
		if e.Key == name {
			return e.Value
		}
	}
	return nil
}

func set(doc bson.D, name string, value any) {
	for i := range doc {
		if doc[i].Key == name {
			doc[i].Value = value
			return
		}
	}
	panic("BUG: the document has no " + name)
}

func (f *fakeServer) read(_ context.Context, ids bson.A, yield func(bson.Raw)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if doc, ok := f.docs[[16]byte(id.(bson.Binary).Data)]; ok {
			raw, err := bson.Marshal(slices.DeleteFunc(slices.Clone(doc), func(e bson.E) bool { return e.Value == nil }))
			if err != nil {
				return err
			}
			yield(raw)
		}
	}
	return nil
}

// put stores a reading, as another instance would.
func (f *fakeServer) put(key reading.Key, off int32, v float64) {
	id := key.ID(key.Start)
	doc, ok := f.docs[id]
	if !ok {
		doc = emptyDoc(id, key)
	}
	set(doc, "offsets", append(field(doc, "offsets").(bson.A), off))
	set(doc, "values", append(field(doc, "values").(bson.A), v))
	count(doc, totals{1, v, v, v})
	f.docs[id] = doc
}

// stored is what the bucket holds, and whether it has an offset twice.
func (f *fakeServer) stored(key reading.Key) (readings map[int32]float64, twice bool) {
	readings = map[int32]float64{}
	doc := f.docs[key.ID(key.Start)]
	offsets, _ := field(doc, "offsets").(bson.A)
	values, _ := field(doc, "values").(bson.A)
	for i, off := range offsets {
		_, twice = readings[off.(int32)]
		readings[off.(int32)] = values[i].(float64)
	}
	return readings, twice
}
