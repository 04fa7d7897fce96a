package web

import (
	"context"
	"time"

	"gudang/internal/reading"
)

// What a sensor's page can list under its charts.
const (
	listBuckets  = "buckets"
	listReadings = "readings"
)

// bucketList is a page of a sensor's buckets, or of its readings.
type bucketList struct {
	View        string // listBuckets or listReadings
	Buckets     []bucketView
	Readings    []readingView
	ToBuckets   string
	ToReadings  string
	First, Next string
}

type bucketView struct {
	Start          moment
	Metric, Unit   string
	Count          string
	Mean, Min, Max string
	Outlier        bool
}

type readingView struct {
	At           moment
	Metric, Unit string
	Value, Exact string
}

// fillList reads a page of the list.
func (s *Server) fillList(ctx context.Context, v *sensorView, win window, p params) error {
	l := &v.List
	l.View = p["view"]
	if l.View == "" {
		l.View = listBuckets
	}
	link := func(view, after string) string {
		values := win.values()
		for name, value := range map[string]string{"metric": p["metric"], "view": view, "after": after} {
			if value != "" {
				values.Set(name, value)
			}
		}
		return sensorHref(v.ID, values) + "#list"
	}
	l.ToBuckets, l.ToReadings = link("", ""), link(listReadings, "")
	q := reading.Query{Sensor: v.ID, Metric: p["metric"], From: win.from, To: win.to, Limit: listLimit + 1}
	kind := bucketsToken
	switch l.View {
	case listBuckets:
		q.From = max(0, s.site.Span.Start(q.From))
	case listReadings:
		kind = readingsToken
	default:
		return badRequest("view %q: must be buckets or readings", clip(l.View))
	}
	if p["after"] != "" {
		var err error
		if q.After, err = parseCursor(kind, p["after"]); err != nil {
			return err
		}
		l.First = link(p["view"], "")
	}
	next, err := s.listPage(ctx, l, q)
	if next != "" {
		l.Next = link(p["view"], next)
	}
	return err
}

// listPage reads what is listed, and says where the next page begins.
func (s *Server) listPage(ctx context.Context, l *bucketList, q reading.Query) (next string, err error) {
	if l.View == listReadings {
		found, err := s.reader.Readings(ctx, q)
		if err != nil {
			return "", err
		}
		found, next = cut(found, listLimit, func(v reading.Reading) string {
			return cursorToken(readingsToken, reading.Cursor{Time: v.Time, Metric: v.Metric})
		})
		for _, r := range found {
			l.Readings = append(l.Readings, s.readingView(r))
		}
		return next, nil
	}
	found, err := s.reader.Summaries(ctx, q)
	if err != nil {
		return "", err
	}
	found, next = cut(found, listLimit, func(v reading.Summary) string {
		return cursorToken(bucketsToken, reading.Cursor{Time: v.Start, Metric: v.Metric})
	})
	for _, b := range found {
		l.Buckets = append(l.Buckets, s.bucketView(b))
	}
	return next, nil
}

func (s *Server) readingView(r reading.Reading) readingView {
	return readingView{
		At: s.listMoment(r.Time, timeForPeople+".000"), Metric: r.Metric, Unit: s.site.Unit(r.Metric),
		Value: value(r.Value, 2), Exact: exact(r.Value),
	}
}

func (s *Server) bucketView(b reading.Summary) bucketView {
	v := bucketView{
		Start: s.listMoment(b.Start, timeForPeople), Metric: b.Metric, Unit: s.site.Unit(b.Metric),
		Count: count(int(b.Count)), Min: value(b.Min, 2), Max: value(b.Max, 2), Mean: "–", Outlier: b.Outlier,
	}
	if b.Count > 0 {
		v.Mean = value(b.Sum/float64(b.Count), 2)
	}
	return v
}

func (s *Server) listMoment(ms int64, layout string) moment {
	return moment{Exact: utc(ms), Words: time.UnixMilli(ms).In(s.site.Zone).Format(layout)}
}
