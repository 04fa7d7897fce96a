package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

const (
	maxCharts       = 6             // metrics drawn at once
	rawRange        = 2 * time.Hour // up to here readings are drawn one by one
	maxRawPoints    = 1500          // of a metric, unless they are more
	maxChartBuckets = 100000        // read for all charts of a page
	chartRead       = 5000          // buckets at once
	listLimit       = 40            // rows of the list under the charts
	timeInList      = "2 Jan 2006, 15:04:05"
)

// sensorView is what a sensor's page shows.
type sensorView struct {
	frame
	ID              string
	Self            string // its address, and what a form adds to it
	Hidden          string // the id, where the address doesn't hold it
	Part            bool   // only the head is asked for
	Silent, Outlier bool
	First, Last     moment
	Latest          []cell
	Ranges          []rangeLink
	Name            string // of the range that ends now
	Metric          string // the one that is chosen
	All             string // the link to all metrics
	From, To        string // as an input of type datetime-local has them
	FromMS, ToMS    int64
	FromWords       string
	ToWords         string
	Zone            string
	Earlier, Later  string
	Back            string // where the readings are, if there are none here
	Charts          []*chartView
	MoreMetrics     []option // metrics without a chart, by their link
	Short           string   // the time up to which the charts go, if not to the end
	List            bucketList
	CSV, JSON       string
}

// moment is a time, for people and for programs.
type moment struct{ Exact, Words, Ago string }

type rangeLink struct {
	Text, Href string
	Chosen     bool
}

// chartView is a chart with the words that go with it.
type chartView struct {
	*chart
	N      int
	Link   string // to this metric alone
	Words  string // what it shows, for who can't see it
	Step   string // what a point is
	Points []pointView
}

// pointView is a row of the table beside a chart.
type pointView struct {
	At             moment
	Mean, Min, Max string
	Count          string
}

// sensorPage answers /sensors/{id}.
func (s *Server) sensorPage(w http.ResponseWriter, r *http.Request) error {
	p, err := parseParams(r.URL.RawQuery, "id", "range", "from", "to", "metric", "view", "after", "part")
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if id == "" {
		id = p["id"]
	}
	if id == "" || len(id) > reading.MaxSensorID || !utf8.ValidString(id) {
		return errSensor
	}
	now := time.Now()
	win, err := parseWindow(p, now, s.site.Zone)
	if err != nil {
		return err
	}
	if p["metric"] != "" && !isMetric(p["metric"]) {
		return badRequest("metric %q: a name has letters, digits and _ only, and no digit first", clip(p["metric"]))
	}
	found, err := s.reader.Sensor(r.Context(), id)
	if err != nil {
		return err
	}
	v := s.sensorHead(&found, now)
	v.Bad, v.Live, v.Every = s.status(r.Context()).Bad, livePath+"?"+url.Values{"sensor": {id}}.Encode(), win.every()
	if v.Part = p["part"] == "head"; v.Part {
		return s.show(w, r, http.StatusOK, sensorTemplate, v)
	}
	s.navigate(v, &found, win, p, now)
	if err := s.charts(r.Context(), v, &found, win, p["metric"]); err != nil {
		return err
	}
	if err := s.fillList(r.Context(), v, win, p); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, sensorTemplate, v)
}

// sensorHead is what the sensor's own document says.
func (s *Server) sensorHead(found *reading.Sensor, now time.Time) *sensorView {
	v := &sensorView{
		frame: s.frame(found.ID), ID: found.ID, Outlier: found.Outlier(),
		Silent: now.Sub(time.UnixMilli(found.LastSeen)) > s.site.StaleAfter,
		First:  s.moment(found.FirstSeen, now), Last: s.moment(found.LastSeen, now),
		Zone: zoneWords(s.site.Zone, now),
	}
	v.Self, _, _ = strings.Cut(sensorHref(found.ID, nil), "?")
	if v.Self == sensorPages {
		v.Hidden = found.ID
	}
	for _, name := range slices.Sorted(maps.Keys(found.Metrics)) {
		if len(v.Latest) == maxRowMetrics {
			break
		}
		if points := found.Metrics[name]; len(points) > 0 {
			v.Latest = append(v.Latest, s.cell(name, points[:min(len(points), maxRowPoints)], decimals(points[0].Value)))
		}
	}
	return v
}

func (s *Server) moment(ms int64, now time.Time) moment {
	return moment{utc(ms), time.UnixMilli(ms).In(s.site.Zone).Format(timeInList), ago(ms, now)}
}

// zoneWords names a zone and how far it is from UTC.
func zoneWords(zone *time.Location, now time.Time) string {
	if name := zone.String(); name != "UTC" {
		return name + " (UTC" + now.In(zone).Format("-07:00") + ")"
	}
	return "UTC"
}

// navigate fills in the links that lead to other times and metrics.
func (s *Server) navigate(v *sensorView, found *reading.Sensor, win window, p params, now time.Time) {
	link := func(w window, set ...string) string {
		values := w.values()
		for i := 0; i < len(set); i += 2 {
			if set[i+1] != "" {
				values.Set(set[i], set[i+1])
			}
		}
		return sensorHref(v.ID, values)
	}
	metric, view := p["metric"], p["view"]
	for _, r := range ranges {
		v.Ranges = append(v.Ranges, rangeLink{r.text, link(window{name: r.name}, "metric", metric, "view", view), r.name == win.name})
	}
	v.Earlier = link(win.moved(-1), "metric", metric, "view", view)
	if later := win.moved(1); later.from < now.UnixMilli() && win.name == "" {
		v.Later = link(later, "metric", metric, "view", view)
	}
	if metric != "" {
		v.Metric, v.All = metric, link(win, "view", view)
	}
	v.Name = win.name
	v.FromMS, v.ToMS = win.from, win.to
	from, to := time.UnixMilli(win.from).In(s.site.Zone), time.UnixMilli(win.to).In(s.site.Zone)
	v.From, v.To = from.Format(formTime), to.Format(formTime)
	v.FromWords, v.ToWords = from.Format(timeInList), to.Format(timeInList)
	if found.LastSeen < win.from || found.FirstSeen >= win.to {
		end := found.LastSeen + 1
		if found.FirstSeen >= win.to {
			end = min(found.LastSeen, found.FirstSeen+win.length()) + 1
		}
		v.Back = link(window{from: max(0, end-win.length()), to: end}, "metric", metric, "view", view)
	}
	fixed := window{from: win.from, to: win.to}.values()
	fixed.Set("sensor", v.ID)
	if metric != "" {
		fixed.Set("metric", metric)
	}
	v.CSV, v.JSON = "/api/v1/readings.csv?"+fixed.Encode(), "/api/v1/readings?"+fixed.Encode()
}

// charts draws the metrics: the one that is asked for, else as many as there is
// room for.
func (s *Server) charts(ctx context.Context, v *sensorView, found *reading.Sensor, win window, metric string) error {
	names := slices.Sorted(maps.Keys(found.Metrics))
	if metric != "" {
		names = []string{metric}
	}
	budget := maxChartBuckets
	for i, name := range names {
		values := win.values()
		values.Set("metric", name)
		link := sensorHref(v.ID, values)
		if i >= maxCharts {
			v.MoreMetrics = append(v.MoreMetrics, option{Value: link, Text: name})
			continue
		}
		c, until, err := s.chart(ctx, reading.Series{Sensor: v.ID, Metric: name}, win, &budget)
		if err != nil {
			return err
		}
		if until < win.to {
			v.Short = time.UnixMilli(until).In(s.site.Zone).Format(timeInList)
		}
		c.Unit = s.site.Unit(name)
		v.Charts = append(v.Charts, s.chartView(c, i, link))
	}
	return nil
}

// chart reads and draws a metric. until is where it ends, should there be more
// buckets than may be read.
func (s *Server) chart(ctx context.Context, series reading.Series, win window, budget *int) (c *chart, until int64, err error) {
	q := reading.Query{Sensor: series.Sensor, Metric: series.Metric, From: win.from, To: win.to}
	if win.length() <= rawRange.Milliseconds() {
		q.Limit = maxRawPoints + 1
		found, err := s.reader.Readings(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		if len(found) <= maxRawPoints {
			return drawReadings(series.Metric, win.from, win.to, found, s.site.Zone), win.to, nil
		}
	}
	plot := newPlotter(win.from, win.to, int64(s.site.Span))
	span, read := s.summariesFor(plot.width)
	q.From = max(0, span.Start(win.from)) // the bucket that the range begins in
	for until = win.to; *budget > 0; {
		q.Limit = min(chartRead, *budget)
		found, err := read(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		for _, b := range found {
			plot.bucket(b)
		}
		*budget -= len(found)
		if len(found) < q.Limit {
			return plot.chart(series.Metric, s.site.Zone), win.to, nil
		}
		last := found[len(found)-1]
		q.After = reading.Cursor{Time: last.Start, Metric: last.Metric}
		until = last.Start
	}
	return plot.chart(series.Metric, s.site.Zone), until, nil
}

// summariesFor is what slots of that width are made of: the longest roll-ups
// that fit into one, else the buckets.
func (s *Server) summariesFor(width int64) (reading.Span, func(context.Context, reading.Query) ([]reading.Summary, error)) {
	span, read := s.site.Span, s.reader.Summaries
	for _, longer := range s.spans[1:] {
		if longer > 0 && width%int64(longer) == 0 {
			span, read = longer, func(ctx context.Context, q reading.Query) ([]reading.Summary, error) {
				return s.reader.Rollups(ctx, q, longer)
			}
		}
	}
	return span, read
}

// chartView puts a chart into words.
func (s *Server) chartView(c *chart, n int, link string) *chartView {
	v := &chartView{chart: c, N: n, Link: link, Step: "each reading"}
	if !c.Raw {
		v.Step = "average, least and greatest of each " + exactly(c.Slot)
	}
	if len(c.Slots) == 0 {
		v.Words = "No readings in this time."
		return v
	}
	low, high, sum, total := c.Slots[0].Min, c.Slots[0].Max, 0.0, int64(0)
	for _, slot := range c.Slots {
		low, high, sum, total = min(low, slot.Min), max(high, slot.Max), sum+slot.Sum, total+slot.Count
		at := time.UnixMilli(slot.Time)
		v.Points = append(v.Points, pointView{
			At:   moment{Exact: utc(slot.Time), Words: at.In(s.site.Zone).Format(timeForPeople)},
			Mean: value(slot.Mean(), c.Decimals), Min: value(slot.Min, c.Decimals), Max: value(slot.Max, c.Decimals), Count: count(int(slot.Count)),
		})
	}
	unit := c.Unit
	if unit != "" {
		unit = " " + unit
	}
	v.Words = plural(int(total), "reading") + ", from " + value(low, c.Decimals) + unit + " to " + value(high, c.Decimals) + unit + ", on average " +
		value(sum/float64(total), c.Decimals) + unit + "."
	return v
}
