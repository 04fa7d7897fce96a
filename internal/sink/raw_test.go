package sink

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
	"gudang/internal/testenv"
)

func rawSink(store Store, log *slog.Logger) *Sink {
	return New(Config{Latest: 3, Raw: true, Log: log}, store, prometheus.NewRegistry())
}

// A flush is committed when raw has it too, duplicates included and what was
// refused not.
func TestAFlushWaitsForRaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testenv.LogBuffer{}
		a, b := bucket("a", 1, 2), bucket("b", 1, 2, 3)
		order := []string{}
		st := &script{answer: func(int, []*reading.Bucket) Result {
			order = append(order, "buckets")
			return Result{Refused: []reading.Refusal{
				{Bucket: a, Offset: 0, Verdict: reading.Duplicate},
				{Bucket: b, Offset: 0, Verdict: reading.Conflict},
				{Bucket: b, Offset: 1000, Reason: reading.StoreRefused, Detail: "no"},
			}}
		}}
		var s *Sink
		st.keep = func(call int) (int, string, error) {
			order = append(order, "raw")
			if call < 3 {
				return 0, "", errors.New("not now")
			}
			if testutil.ToFloat64(s.metrics.up) != 0 {
				t.Error("the store counts as up while it does not take raw readings")
			}
			return 1, "too strange", nil
		}
		s = rawSink(st, slog.New(slog.NewTextHandler(log, nil)))
		refused, err := s.Write(t.Context(), []*reading.Bucket{a, b})
		if err != nil || len(refused) != 3 {
			t.Fatalf("refused %v, error %v", refused, err)
		}
		if got := strings.Join(order, " "); got != "buckets raw raw raw" {
			t.Errorf("order: %s", got)
		}
		last := st.raw[2]
		if len(last) != 2 || last[0] != a || last[1].Count() != 1 || last[1].Offsets[0] != 2000 {
			t.Errorf("raw got %+v", last)
		}
		if s.failure != nil || testutil.ToFloat64(s.metrics.up) != 1 {
			t.Error("the store counts as down after it took the flush")
		}
		for _, want := range []string{"store does not take raw readings, trying again", "too strange", "readings=1"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log)
			}
		}
	})
}

func TestAStopEndsTheWaitForRaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		ctx, cancel := context.WithCancel(t.Context())
		st := &script{answer: ok, keep: func(call int) (int, string, error) {
			if call == 4 {
				cancel()
			}
			return 0, "", away
		}}
		_, err := rawSink(st, slog.New(slog.DiscardHandler)).Write(ctx, []*reading.Bucket{bucket("a", 1)})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, away) {
			t.Errorf("error %v", err)
		}
	})
}

func TestWithoutRawNothingIsKept(t *testing.T) {
	st := &script{answer: ok}
	if _, err := newSink(st).Write(t.Context(), []*reading.Bucket{bucket("a", 1)}); err != nil || len(st.raw) > 0 {
		t.Errorf("raw got %v, error %v", st.raw, err)
	}
}

func TestARawDocumentIsWhatTheSchemaSays(t *testing.T) {
	id := reading.Series{Sensor: "S-é", Metric: "temperature"}
	uuid := id.ID(1_780_000_000_123)
	want, err := bson.Marshal(bson.D{
		{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: uuid[:]}},
		{Key: "sensorId", Value: "S-é"},
		{Key: "metric", Value: "temperature"},
		{Key: "time", Value: bson.DateTime(1_780_000_000_123)},
		{Key: "value", Value: 0.0},
	})
	if err != nil {
		t.Fatal(err)
	}
	have := appendReading(nil, uuid, id, 1_780_000_000_123, math.Copysign(0, -1))
	if string(have) != string(want) {
		t.Errorf("%s, want %s", bson.Raw(have), bson.Raw(want))
	}
	if len(have) != readingSize(id) {
		t.Errorf("%d bytes, reckoned with %d", len(have), readingSize(id))
	}
}

func TestRawDocumentsCostFewAllocations(t *testing.T) {
	b := bucket("a", make([]float64, 60)...)
	if n := testing.AllocsPerRun(100, func() { rawDocs([]*reading.Bucket{b, b}) }); n > 130 {
		t.Errorf("%.0f allocations for 120 readings", n)
	}
}

// rawServer inserts as MongoDB does, and goes wrong as servers do.
type rawServer struct {
	have  map[string]bool
	codes map[string]int // by sensor
	stops bool           // at the first error, and does not say how far it got
	fail  error
	sent  int
}

func (f *rawServer) insert(_ context.Context, docs []bson.Raw) (answer mongodb.Answer, err error) {
	f.sent++
	if f.fail != nil {
		return answer, f.fail
	}
	for i, doc := range docs {
		id := doc.Lookup("_id").String()
		code := f.codes[doc.Lookup("sensorId").StringValue()]
		if code == 0 && f.have[id] {
			code = mongodb.CodeDuplicateKey
		}
		if code == 0 {
			f.have[id] = true
			answer.N++
			continue
		}
		answer.Errors = append(answer.Errors, mongo.WriteError{Index: i, Code: code, Message: "a message"})
		if f.stops {
			return mongodb.Answer{Errors: answer.Errors}, nil
		}
	}
	return answer, nil
}

func TestRawIsInsertedWhateverTheServerDoes(t *testing.T) {
	docs := rawDocs([]*reading.Bucket{bucket("a", 1, 2, 3), bucket("b", 4, 5), bucket("c", 6)})
	for _, stops := range []bool{false, true} {
		f := &rawServer{have: map[string]bool{}, codes: map[string]int{"b": 121}, stops: stops}
		for range 2 {
			refused, why, err := insertRaw(t.Context(), f, docs)
			if err != nil || refused != 2 || why != "a message" {
				t.Errorf("stops %t: %d refused, %q, error %v", stops, refused, why, err)
			}
		}
		if len(f.have) != 4 {
			t.Errorf("stops %t: %d are stored, want 4", stops, len(f.have))
		}
	}
	f := &rawServer{have: map[string]bool{}, codes: map[string]int{"b": 112}}
	if _, _, err := insertRaw(t.Context(), f, docs); err == nil {
		t.Error("an error that passes was taken for the end")
	}
	f = &rawServer{have: map[string]bool{}, fail: errors.New("reset")}
	if _, _, err := insertRaw(t.Context(), f, docs); !errors.Is(err, f.fail) || f.sent != 1 {
		t.Errorf("a lost connection: %v after %d commands", err, f.sent)
	}
}

// fixServer is one bucket that others may write to.
type fixServer struct {
	doc    bson.D
	before func(n int) // of each write
	n      int
}

func (f *fixServer) get(context.Context, bson.A) ([]bson.Raw, error) {
	if f.doc == nil {
		return nil, nil
	}
	raw, err := bson.Marshal(f.doc)
	return []bson.Raw{raw}, err
}

// matches compares as MongoDB does what asItWas asks for.
func (f *fixServer) matches(filter bson.D) bool {
	f.n++
	if f.before != nil {
		f.before(f.n)
	}
	raw, err := bson.Marshal(f.doc)
	if err != nil {
		return false
	}
	for _, e := range filter {
		want, err := bson.Marshal(bson.D{e})
		if err != nil {
			return false
		}
		have, condition := bson.Raw(raw).Lookup(e.Key), bson.Raw(want).Lookup(e.Key)
		same := have.Equal(condition)
		if d, isDoc := condition.DocumentOK(); isDoc {
			same = have.Equal(d.Lookup("$eq")) || have.IsZero() && !d.Lookup("$exists").IsZero()
		}
		if !same {
			return false
		}
	}
	return true
}

func (f *fixServer) swap(_ context.Context, models []mongo.WriteModel) (done int64, err error) {
	for _, model := range models {
		switch m := model.(type) {
		case *mongo.UpdateOneModel:
			if f.matches(m.Filter.(bson.D)) {
				for _, e := range m.Update.(bson.D)[0].Value.(bson.D) {
					set(f.doc, e.Key, e.Value)
				}
				done++
			}
		case *mongo.DeleteOneModel:
			if f.matches(m.Filter.(bson.D)) {
				f.doc = nil
				done++
			}
		}
	}
	return done, nil
}

func storedDoc(key reading.Key) bson.D {
	doc := emptyDoc(key.ID(key.Start), key)
	set(doc, "offsets", bson.A{int32(0), int32(5)})
	set(doc, "values", bson.A{1.0, 2.0})
	set(doc, "count", int32(2))
	return append(doc, bson.E{Key: "sum", Value: 3.0}, bson.E{Key: "min", Value: "x"}, bson.E{Key: "max", Value: 2.0})
}

func TestABucketIsFixedAsItWasRead(t *testing.T) { synctest.Test(t, testFixedAsRead) }

func testFixedAsRead(t *testing.T) {
	key := reading.Key{Series: reading.Series{Sensor: "a", Metric: "t"}, Start: 60_000}
	want := reading.BucketOf(key, []int32{0, 5}, []float64{1, 2})
	f := &fixServer{doc: storedDoc(key)}
	f.before = func(n int) {
		if n < 3 { // a shell, say, changes a counter
			set(f.doc, "sum", float64(n*100))
		}
	}
	asked := 0
	fix := func(keys []reading.Key, want *reading.Bucket) error {
		asked = 0
		return fixBuckets(t.Context(), f, keys, func(r *reading.Record) *reading.Bucket {
			asked++
			if r.Key != key {
				t.Errorf("asked about %+v", r)
			}
			return want
		})
	}
	if err := fix([]reading.Key{key}, want); err != nil || asked != 3 {
		t.Errorf("asked %d times, error %v", asked, err)
	}
	raw, err := bson.Marshal(f.doc)
	if err != nil || !mongodb.DecodeRecord(raw).Sound() {
		t.Errorf("it is %v", f.doc)
	}

	f.before = func(n int) { set(f.doc, "sum", float64(n)) }
	if err := fix([]reading.Key{key}, want); !errors.Is(err, errContested) || asked != fixRounds {
		t.Errorf("a bucket that never rests: asked %d times, %v", asked, err)
	}
	f.before = nil
	if err := fix([]reading.Key{{Series: key.Series, Start: 120_000}}, want); err == nil || asked != 0 {
		t.Error("another's document was taken for the bucket")
	}
	set(f.doc, "isOutlier", true)
	if err := fix([]reading.Key{key}, want); err != nil || asked != 0 {
		t.Errorf("an outlier: asked %d times, error %v", asked, err)
	}
	set(f.doc, "isOutlier", false)
	if err := fix([]reading.Key{key}, &reading.Bucket{Series: key.Series, Start: key.Start}); err != nil || f.doc != nil {
		t.Errorf("removed: %v, error %v", f.doc, err)
	}
}
