package testenv

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TimeSeriesServer knows as much of time series collections as the product
// asks for: it makes one, takes documents into it, finds them by series and
// time, and summarizes them by span. Other collections only take what they
// are given and give it back whole.
type TimeSeriesServer struct {
	*MongoServer
	// Fault, if set, answers a command ahead of the server, unless it is nil.
	Fault func(command bson.D) bson.D
	// Docs are the documents of each collection, in order of arrival.
	Docs map[string][]bson.D
	// Options are those that the time series collection has; nil: there is none.
	Options bson.D
	// Kind is what the server calls it.
	Kind string
}

// NewTimeSeriesServer starts one that is empty.
func NewTimeSeriesServer(t testing.TB) *TimeSeriesServer {
	t.Helper()
	s := &TimeSeriesServer{Docs: map[string][]bson.D{}, Kind: "timeseries"}
	s.MongoServer = NewMongoServer(t, s.answer)
	return s
}

func (s *TimeSeriesServer) answer(command bson.D) bson.D {
	if s.Fault != nil {
		if reply := s.Fault(command); reply != nil {
			return reply
		}
	}
	name, _ := command[0].Value.(string)
	switch command[0].Key {
	case "ping", "createIndexes", "killCursors":
	case "update":
		return bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: int32(0)}, {Key: "nModified", Value: int32(0)}}
	case "listCollections":
		if s.Options == nil {
			return cursorOf("$cmd.listCollections")
		}
		return cursorOf("$cmd.listCollections", bson.D{
			{Key: "name", Value: "readings"}, {Key: "type", Value: s.Kind}, {Key: "options", Value: s.Options}, {Key: "info", Value: bson.D{}},
		})
	case "create":
		if s.Options != nil {
			return MongoFault(48, "Collection already exists. NS: gudang.readings")
		}
		s.Options = append(bson.D{}, command[1:]...)
	case "collMod":
		s.Options = append(bson.D{}, command[1:]...)
	case "insert":
		docs := Lookup(command, "documents").(bson.A)
		for _, d := range docs {
			s.Docs[name] = append(s.Docs[name], d.(bson.D))
		}
		return bson.D{{Key: "ok", Value: 1.0}, {Key: "n", Value: int32(len(docs))}}
	case "find":
		return cursorOf(name, s.find(name, command)...)
	case "aggregate":
		return cursorOf(name, s.aggregate(Lookup(command, "pipeline").(bson.A))...)
	default:
		return MongoFault(59, fmt.Sprintf("no such command: '%s'", command[0].Key))
	}
	return bson.D{{Key: "ok", Value: 1.0}}
}

func cursorOf(name string, docs ...bson.D) bson.D {
	batch := bson.A{}
	for _, d := range docs {
		batch = append(batch, d)
	}
	return bson.D{{Key: "ok", Value: 1.0}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "gudang." + name}, {Key: "firstBatch", Value: batch}}}}
}

// Lookup is the value at a path in a document, nil if there is none.
func Lookup(doc bson.D, path ...string) any {
	for _, e := range doc {
		if e.Key != path[0] {
			continue
		}
		if len(path) == 1 {
			return e.Value
		}
		inner, _ := e.Value.(bson.D)
		return Lookup(inner, path[1:]...)
	}
	return nil
}

func (s *TimeSeriesServer) find(name string, command bson.D) (found []bson.D) {
	filter, _ := Lookup(command, "filter").(bson.D)
	if name != "readings" {
		return s.Docs[name]
	}
	found = s.match(filter)
	order, _ := Lookup(command, "sort", "time").(int32)
	if sort, _ := Lookup(command, "sort").(bson.D); order == 0 || len(sort) != 1 {
		s.t.Errorf("a find in another order than time's: %v", command)
	}
	slices.SortStableFunc(found, func(a, b bson.D) int { return int(order) * cmp.Compare(timeOf(a), timeOf(b)) })
	if limit, _ := Lookup(command, "limit").(int64); limit > 0 {
		found = found[:min(int(limit), len(found))]
	}
	return found
}

func timeOf(doc bson.D) int64 { return int64(Lookup(doc, "time").(bson.DateTime)) }

func (s *TimeSeriesServer) match(filter bson.D) (found []bson.D) {
	from, to := int64(-1<<62), int64(1<<62)
	if at, ok := Lookup(filter, "time", "$gte").(bson.DateTime); ok {
		from = int64(at)
	}
	if at, ok := Lookup(filter, "time", "$lt").(bson.DateTime); ok {
		to = int64(at)
	}
	sensor, metric := Lookup(filter, "series.sensorId"), Lookup(filter, "series.metric")
	for _, d := range s.Docs["readings"] {
		if Lookup(d, "series", "sensorId") == sensor && (metric == nil || Lookup(d, "series", "metric") == metric) && timeOf(d) >= from && timeOf(d) < to {
			found = append(found, d)
		}
	}
	return found
}

// aggregate makes the summaries that the product asks for: of distinct times,
// by metric and bin.
func (s *TimeSeriesServer) aggregate(pipeline bson.A) (out []bson.D) {
	stage := func(i int) bson.D { return pipeline[i].(bson.D) }
	trunc, _ := Lookup(stage(2), "$group", "_id", "start", "$dateTrunc").(bson.D)
	bin, _ := Lookup(trunc, "binSize").(int64)
	if unit := Lookup(trunc, "unit"); unit == "second" {
		bin *= 1000
	} else if unit != "millisecond" {
		s.t.Errorf("an unknown unit %v", unit)
	}
	type reading struct {
		metric string
		time   int64
	}
	least := map[reading]float64{}
	var order []reading
	for _, d := range s.match(Lookup(stage(0), "$match").(bson.D)) {
		r := reading{Lookup(d, "series", "metric").(string), timeOf(d)}
		v := Lookup(d, "value").(float64)
		if have, again := least[r]; !again {
			least[r], order = v, append(order, r)
		} else {
			least[r] = min(have, v)
		}
	}
	slices.SortFunc(order, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.time-mod(a.time, bin), b.time-mod(b.time, bin)), cmp.Compare(a.metric, b.metric), cmp.Compare(a.time, b.time))
	})
	after, _ := Lookup(stage(3), "$match", "$or").(bson.A)
	for _, r := range order {
		start, v := r.time-mod(r.time, bin), least[r]
		if len(after) == 2 && !past(after, start, r.metric) {
			continue
		}
		if n := len(out); n > 0 && Lookup(out[n-1], "_id", "start") == bson.DateTime(start) && Lookup(out[n-1], "_id", "metric") == r.metric {
			was := func(key string) float64 { return Lookup(out[n-1], key).(float64) }
			out[n-1] = summary(r.metric, start, Lookup(out[n-1], "count").(int32)+1, was("sum")+v, min(was("min"), v), max(was("max"), v))
			continue
		}
		out = append(out, summary(r.metric, start, 1, v, v, v))
	}
	limit, _ := Lookup(stage(len(pipeline)-1), "$limit").(int32)
	return out[:min(int(limit), len(out))]
}

func past(after bson.A, start int64, metric string) bool {
	at := int64(Lookup(after[0].(bson.D), "_id.start", "$gt").(bson.DateTime))
	than := Lookup(after[1].(bson.D), "_id.metric", "$gt").(string)
	return start > at || start == at && metric > than
}

func summary(metric string, start int64, count int32, sum, least, most float64) bson.D {
	return bson.D{
		{Key: "_id", Value: bson.D{{Key: "metric", Value: metric}, {Key: "start", Value: bson.DateTime(start)}}},
		{Key: "count", Value: count},
		{Key: "sum", Value: sum},
		{Key: "min", Value: least},
		{Key: "max", Value: most},
	}
}

func mod(t, n int64) int64 { return (t%n + n) % n }
