package query

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"gudang/internal/mongodb"
	"gudang/internal/reading"
)

// mongoQuery is a query that this program runs for its users, whose plan must
// not be a scan.
type mongoQuery struct {
	name, collection string
	filter, sort     bson.D
	fields           bson.D
	limit            int64
}

// mongoQueries are these queries, asked for one bucket's series and the day
// before its start.
func mongoQueries(k reading.Key) []mongoQuery {
	const day = 24 * 60 * 60 * 1000
	id := k.ID(k.Start)
	one := func(name string, direction int) bson.D { return bson.D{{Key: name, Value: direction}} }
	within := func(field string) bson.D {
		return bson.D{
			{Key: "sensorId", Value: k.Sensor},
			{Key: "metric", Value: k.Metric},
			{Key: field, Value: bson.D{{Key: "$gte", Value: bson.DateTime(k.Start - day)}, {Key: "$lt", Value: bson.DateTime(k.Start + 1)}}},
		}
	}
	several := func() bson.D {
		filter := within("start")
		filter[1].Value = bson.D{{Key: "$in", Value: []string{k.Metric, k.Metric + "_"}}}
		return filter
	}
	return []mongoQuery{
		{"page of sensors", mongodb.Sensors, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: ""}}}}, one("_id", 1), nil, 100},
		{"one sensor", mongodb.Sensors, bson.D{{Key: "_id", Value: k.Sensor}}, nil, nil, 1},
		{"next metric of a sensor", mongodb.Buckets, bson.D{{Key: "sensorId", Value: k.Sensor}, {Key: "metric", Value: bson.D{{Key: "$gt", Value: ""}}}}, one("metric", 1), bson.D{{Key: "metric", Value: 1}, {Key: "_id", Value: 0}}, 1},
		{"readings of a series in a range", mongodb.Buckets, within("start"), one("start", 1), nil, docsAtOnce},
		{"readings of all metrics in a range", mongodb.Buckets, several(), one("start", 1), nil, docsAtOnce},
		{"summaries of a series in a range", mongodb.Buckets, within("start"), one("start", 1), bson.D{{Key: "offsets", Value: 0}, {Key: "values", Value: 0}}, docsAtOnce},
		{"one bucket, by its writer", mongodb.Buckets, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}}}}}, nil, nil, 0},
		{"readings of an outlier", mongodb.Overflow, within("time"), one("time", 1), nil, docsAtOnce},
		{"raw readings in a range", mongodb.Raw, within("time"), one("time", 1), nil, docsAtOnce},
	}
}

// examinePlans asks the server how it answers each of them. It runs them, so
// each has a limit.
func (m *Mongo) examinePlans(ctx context.Context, db *mongo.Database, e *Examination) error {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	var k reading.Key
	if len(e.Recent) > 0 {
		k = e.Recent[len(e.Recent)/2].Key
	}
	for _, q := range mongoQueries(k) {
		find := bson.D{{Key: "find", Value: q.collection}, {Key: "filter", Value: q.filter}}
		if q.sort != nil {
			find = append(find, bson.E{Key: "sort", Value: q.sort})
		}
		if q.fields != nil {
			find = append(find, bson.E{Key: "projection", Value: q.fields})
		}
		if q.limit > 0 {
			find = append(find, bson.E{Key: "limit", Value: q.limit})
		}
		answer, err := db.RunCommand(ctx, bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "executionStats"}}).Raw()
		if mongodb.Lacks(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if p, ok := planOf(answer); ok {
			p.Query, p.Collection = q.name, q.collection
			e.Plans = append(e.Plans, p)
		}
	}
	return nil
}

// planOf reads an explanation, if it is one of MongoDB's.
func planOf(answer bson.Raw) (Plan, bool) {
	p := Plan{Examined: -1, Returned: -1}
	if answer.Validate() != nil {
		return p, false // the driver's lookup panics at what is no document
	}
	winner, ok := answer.Lookup("queryPlanner", "winningPlan").DocumentOK()
	if !ok {
		return p, false
	}
	stages(winner, func(stage string) {
		p.Scan = p.Scan || stage == "COLLSCAN"
		p.Sort = p.Sort || stage == "SORT"
		if p.Stage != "" {
			p.Stage += " < "
		}
		p.Stage += stage
	})
	if n, ok := mongodb.Integer(answer.Lookup("executionStats", "totalDocsExamined")); ok {
		p.Examined = n
	}
	if n, ok := mongodb.Integer(answer.Lookup("executionStats", "nReturned")); ok {
		p.Returned = n
	}
	return p, p.Stage != ""
}

// stages yields the stages of a plan, the outermost first: nested documents
// however they are called, as that differs between engines, versions and
// shards. What an engine makes of the plan in its own language is left out.
func stages(plan bson.Raw, yield func(string)) {
	if stage, ok := plan.Lookup("stage").StringValueOK(); ok {
		yield(stage)
	}
	elements, _ := plan.Elements()
	for _, e := range elements {
		if e.Key() == "slotBasedPlan" {
			continue
		}
		if inner, ok := e.Value().DocumentOK(); ok {
			stages(inner, yield)
		}
		if list, ok := e.Value().ArrayOK(); ok {
			values, _ := list.Values()
			for _, v := range values {
				if inner, ok := v.DocumentOK(); ok {
					stages(inner, yield)
				}
			}
		}
	}
}
