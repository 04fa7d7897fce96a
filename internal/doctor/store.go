package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"gudang/internal/query"
)

const (
	fatWarning = 64 << 10
	fatSerious = 1 << 20
	// clockSlack is how far the clocks of two machines may be apart.
	clockSlack = 5 * time.Second
	// A query that examines this many times what it returns, and this many
	// documents beside, is not served by its index.
	badRatio    = 2
	ratioExcess = 20
)

// server judges what the store is.
func (r *Report) server(in Input) {
	const check = "store"
	s := in.Store.Server
	text := strings.TrimSpace(s.Name + " " + s.Version)
	switch {
	case s.Sharded:
		text += ", sharded"
	case s.Set != "":
		text += ", replica set " + s.Set
	}
	var has, hasNot []string
	for _, f := range s.Features {
		if f.Has {
			has = append(has, f.Name)
		} else {
			hasNot = append(hasNot, f.Name)
		}
	}
	if len(has) > 0 {
		text += "; has " + strings.Join(has, ", ")
	}
	if len(hasNot) > 0 {
		text += "; has no " + strings.Join(hasNot, ", ")
	}
	r.fact(check, "%s", text)
	r.fact(check, "%s sensors, about %s buckets", humanize.Comma(int64(len(in.Store.Sensors))), humanize.Comma(in.Store.Buckets))
	if s.Embedded {
		return
	}
	if s.Name == "MongoDB" && s.Set == "" && !s.Sharded {
		r.find(Note, check, "the database is on one machine alone", "the server is no member of a replica set", "make it a replica set of three for readings that outlive a disk")
	}
	if !s.Majority {
		r.find(Warning, check, "acknowledged readings may be rolled back when the primary changes", "MONGODB_URI sets a write concern below majority", "take w out of MONGODB_URI")
	}
	if off := time.UnixMilli(s.Clock).Sub(in.Now); s.Clock != 0 && off.Abs() > clockSlack {
		r.find(Warning, check, "the clocks of this machine and of the database differ", fmt.Sprintf("the database's is %v off", off.Round(time.Second)), "have both follow NTP")
	}
}

// wanted is an index that our queries need.
type wanted struct {
	collection string
	fields     []string
	always     bool // or only where the collection is there
}

var indexes = []wanted{
	{"buckets", []string{"sensorId", "metric", "start"}, true},
	{"overflow", []string{"sensorId", "metric", "time"}, false},
	{"raw", []string{"sensorId", "metric", "time"}, false},
}

// plans judges how the store answers our queries. A plan that scans for want
// of an index is told once, with the index.
func (r *Report) plans(e query.Examination) {
	const check = "queries"
	if len(e.Collections) == 0 {
		return // nothing was stored yet
	}
	told := map[string]bool{}
	for _, w := range indexes {
		if !missing(e, w) {
			continue
		}
		told[w.collection] = true
		var slow []string
		for _, p := range e.Plans {
			if p.Collection == w.collection && (p.Scan || p.Sort) {
				slow = append(slow, fmt.Sprintf("%s (%s)", p.Query, stage(p)))
			}
		}
		fields := strings.Join(w.fields, ", ")
		evidence := "no index has these fields first"
		if len(slow) > 0 {
			evidence = "without it: " + some(slow)
		}
		do := fmt.Sprintf("restart the service, which makes it; or: db.%s.createIndex({%s: 1})", w.collection, strings.Join(w.fields, ": 1, "))
		if e.Server.Embedded {
			do = fmt.Sprintf("stop the service and make it: CREATE UNIQUE INDEX %s_series ON %s (%s)", w.collection, w.collection, fields)
		}
		r.find(Serious, check, fmt.Sprintf("the index of %s on (%s) is missing", w.collection, fields), evidence, do)
	}
	good := 0
	for _, p := range e.Plans {
		bad := p.Examined >= 0 && p.Returned >= 0 && p.Examined > badRatio*p.Returned+ratioExcess
		switch {
		case told[p.Collection]:
		case p.Scan || p.Sort:
			r.find(Serious, check, fmt.Sprintf("no index serves the query: %s", p.Query), stage(p), "compare the indexes of "+p.Collection+" with internal/sink/SCHEMA.md")
		case bad:
			r.find(Warning, check, fmt.Sprintf("the query reads far more than it returns: %s", p.Query), stage(p), "compare the indexes of "+p.Collection+" with internal/sink/SCHEMA.md")
		default:
			good++
		}
	}
	if len(e.Plans) == 0 {
		r.fact(check, "the server does not say how it answers them; the indexes are there as listed")
	} else {
		r.fact(check, "%d of %d are served by an index", good, len(e.Plans))
	}
}

func stage(p query.Plan) string {
	if p.Examined < 0 {
		return p.Stage
	}
	return fmt.Sprintf("%s, %d examined for %d", p.Stage, p.Examined, p.Returned)
}

// missing says whether the collection has no index that begins with the
// fields. SQLite's tables of single readings are their own index.
func missing(e query.Examination, w wanted) bool {
	i := slices.IndexFunc(e.Collections, func(c query.Collection) bool { return c.Name == w.collection })
	if i < 0 || e.Server.Embedded && !w.always {
		return w.always
	}
	return !slices.ContainsFunc(e.Collections[i].Indexes, func(have query.Index) bool {
		return len(have.Fields) >= len(w.fields) && slices.Equal(have.Fields[:len(w.fields)], w.fields)
	})
}

// documents judges sizes, and how full buckets are.
func (r *Report) documents(in Input) {
	const check = "documents"
	e := in.Store
	type key struct{ sensor, metric string }
	fat := map[query.Document]bool{}
	for _, level := range []Level{Serious, Warning} {
		var names []string
		for _, d := range e.Fat {
			if (level == Serious) != (d.Bytes > fatSerious) || d.Bytes <= fatWarning {
				continue
			}
			fat[d] = true
			names = append(names, fmt.Sprintf("%s of %s", name(d), kib(d.Bytes)))
		}
		if len(names) > 0 {
			r.find(level, check, many(len(names), "document is", "documents are")+" far larger than any of ours should be", some(names),
				"if they are full of readings, lower OUTLIER_READINGS or BUCKET_SPAN, in sensors LATEST_READINGS; else find out who wrote into them: each read drags them along, and at 16 MB writing stops")
		}
	}
	over, near := map[key][]query.Document{}, map[key][]query.Document{}
	for _, d := range e.Full {
		k := key{d.Sensor, d.Metric}
		switch {
		case fat[d]:
		case d.Count > in.Settings.OutlierReadings:
			over[k] = append(over[k], d)
		default:
			near[k] = append(near[k], d)
		}
	}
	told := func(of map[key][]query.Document) string {
		var names []string
		for k, docs := range of {
			names = append(names, fmt.Sprintf("%q %s: %s, up to %d readings", k.sensor, k.metric, many(len(docs), "bucket", "buckets"), docs[0].Count))
		}
		slices.Sort(names)
		return some(names)
	}
	if len(over) > 0 {
		r.find(Warning, check, "buckets are over OUTLIER_READINGS and no outliers yet", told(over), "the service migrates them by itself; if they stay, look at its log")
	}
	if len(near) > 0 {
		r.find(Note, check, fmt.Sprintf("buckets are close to OUTLIER_READINGS (%d)", in.Settings.OutlierReadings), told(near),
			"if that is how these sensors are, raise it; beyond it their readings are kept one by one")
	}
	if e.Largest.Bytes > 0 {
		r.fact(check, "the largest is %s of %s", name(e.Largest), kib(e.Largest.Bytes))
	}
}

// name says which document it is.
func name(d query.Document) string {
	if d.Metric == "" {
		return fmt.Sprintf("%q in %s", d.Sensor, d.Collection)
	}
	return fmt.Sprintf("%q %s at %s in %s", d.Sensor, d.Metric, at(d.Start), d.Collection)
}

func kib(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
}
