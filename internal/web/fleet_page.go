package web

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"gudang/internal/reading"
)

const (
	fleetRowsShown = 50
	fleetColumns   = 3                // metrics with a column of their own
	columnShare    = 5                // and at least one sensor in so many has them
	othersShown    = 3                // of the rest
	maxSearch      = 256              // bytes
	timeForPeople  = "2 Jan 15:04:05" // of the page's zone
)

// fleetView is what the page of the fleet shows.
type fleetView struct {
	frame
	Status   status
	Sensors  string // how many there are
	Silent   int
	Outliers int
	Links    map[string]string // all, silent, outlier: the list narrowed to these
	Search   string
	State    string
	Sort     string
	Sorts    []option
	Name     column // of the id
	When     column // of the last reading
	Columns  []column
	Others   bool // some row has metrics without a column
	Rows     []fleetRow
	Clear    string // address of the list with nothing narrowed
	First    string
	Prev     string
	Next     string
	Trouble  string // why the list is old or missing
	Beyond   string // what the list doesn't cover
	Empty    bool   // nothing is stored yet
	Hints    []Hint
}

// option is one of a select.
type option struct {
	Value, Text string
	Chosen      bool
}

// column is one of the list.
type column struct {
	Metric string
	Href   string // the list in its order
	Order  string // for aria-sort
}

// fleetRow is a sensor in the list.
type fleetRow struct {
	ID, Href        string
	Last            string // RFC 3339
	LastWords, Ago  string
	Silent, Outlier bool
	Cells           []cell
	Others          []cell
	More            int // metrics that are not shown
}

// cell is the last value of a metric.
type cell struct {
	Metric, Unit string
	Has          bool
	Value        string
	Exact        string // all its digits
	Line         string // the latest readings, as the path of an SVG
}

// fleetPage answers /: how the service is, and every sensor.
func (s *Server) fleetPage(w http.ResponseWriter, r *http.Request) error {
	p, err := parseParams(r.URL.RawQuery, "q", "state", "sort", "after", "before")
	if err != nil {
		return err
	}
	now := time.Now()
	q, err := parseFleetQuery(p)
	if err != nil {
		return err
	}
	q.since = now.Add(-s.site.StaleAfter).UnixMilli()
	v := fleetView{frame: s.frame("Fleet"), Status: s.status(r.Context()), Search: p["q"], State: q.state, Sort: q.order.String()}
	v.Bad, v.Live, v.Every = v.Status.Bad, livePath, 2
	snap, err := s.site.fleet.get(r.Context())
	if err != nil {
		v.Trouble = s.storeTrouble(r, err)
		if snap != nil {
			v.Trouble += " This is the fleet as it was " + ago(snap.at.UnixMilli(), now) + "."
		}
	}
	if snap != nil {
		if err := s.fillFleet(r, &v, snap, q, p, now); err != nil {
			return err
		}
	}
	return s.show(w, r, http.StatusOK, fleetTemplate, &v)
}

// storeTrouble logs an error of the store, and says what is to be shown of it.
func (s *Server) storeTrouble(r *http.Request, err error) string {
	if ok, missed := s.trouble.allow(time.Now()); ok {
		s.log.Error("cannot answer from the store", "route", r.Pattern, "err", err, "unlogged", missed)
	}
	if errors.Is(err, r.Context().Err()) {
		return "The store did not answer in time."
	}
	return "The store can't be read right now."
}

func parseFleetQuery(p params) (q fleetQuery, err error) {
	q.search, q.state, q.limit = p["q"], p["state"], fleetRowsShown
	if len(q.search) > maxSearch {
		return q, badRequest("q %q: an id has at most %d bytes", clip(q.search), maxSearch)
	}
	if q.state != "" && q.state != stateSilent && q.state != stateOutlier {
		return q, badRequest("state %q: must be silent or outlier", clip(q.state))
	}
	if q.order, err = parseOrder(p["sort"]); err != nil {
		return q, err
	}
	for name, to := range map[string]**mark{"after": &q.after, "before": &q.before} {
		if p[name] == "" {
			continue
		}
		m, err := parseMark(p[name])
		if err != nil {
			return q, err
		}
		*to = &m
	}
	if q.after != nil && q.before != nil {
		return q, badRequest("give after or before, not both")
	}
	return q, nil
}

// fillFleet fills in the part of the page that is made of the snapshot.
func (s *Server) fillFleet(r *http.Request, v *fleetView, snap *snapshot, q fleetQuery, p params, now time.Time) error {
	v.Sensors, v.Silent, v.Outliers = count(len(snap.rows)), snap.silent(q.since), snap.outliers
	v.Empty = len(snap.rows) == 0 && v.Trouble == ""
	if v.Empty {
		v.Hints = s.site.Hints
	}
	found := snap.page(q)
	if snap.more {
		v.Sensors = "over " + v.Sensors
		v.Beyond = "There are more than " + count(len(snap.rows)) + " sensors: search, order and the numbers above cover the first " +
			count(len(snap.rows)) + " by id. In order of id, without a search, all are listed."
		if q.order == (order{}) && q.search == "" && q.state == "" && q.before == nil {
			var err error
			if found, err = s.beyond(r, q); err != nil {
				return err
			}
		}
	}
	link := func(set ...string) string { return fleetHref(p, set...) }
	v.Links = map[string]string{"all": link("state", ""), "silent": link("state", stateSilent), "outlier": link("state", stateOutlier)}
	v.Clear = link("q", "", "state", "")
	if found.prev != nil {
		v.Prev, v.First = link("before", found.prev.token()), link()
	}
	if found.next != nil {
		v.Next = link("after", found.next.token())
	}
	if q.after != nil || q.before != nil && len(found.rows) == 0 {
		v.First = link()
	}
	v.Name, v.When = newColumn("Sensor", order{}, q.order, link), newColumn("Last reading", order{by: bySeen, down: true}, q.order, link)
	v.Columns = columns(snap, q.order, link)
	v.Sorts = sorts(snap, q.order)
	s.fillRows(v, found.rows, now)
	return nil
}

// beyond is a page of a fleet that is too large for the snapshot, read from the
// store.
func (s *Server) beyond(r *http.Request, q fleetQuery) (fleetRows, error) {
	after := ""
	if q.after != nil {
		after = q.after.id
	}
	found, err := s.reader.Sensors(r.Context(), after, q.limit+1)
	if err != nil {
		return fleetRows{}, err
	}
	names := map[string]string{}
	var out fleetRows
	for i := range found[:min(len(found), q.limit)] {
		row := newRow(&found[i], names)
		out.rows = append(out.rows, &row)
	}
	if len(found) > q.limit {
		out.next = &mark{id: found[q.limit-1].ID}
	}
	return out, nil // without the way back: the store lists in one direction
}

// fleetHref is the address of the list as p asks for it, from its first page,
// with some parameters set to something else.
func fleetHref(p params, set ...string) string {
	values := url.Values{}
	for _, name := range []string{"q", "state", "sort"} {
		values.Set(name, p[name])
	}
	for i := 0; i < len(set); i += 2 {
		values.Set(set[i], set[i+1])
	}
	for name := range values {
		if values.Get(name) == "" {
			values.Del(name)
		}
	}
	if len(values) == 0 {
		return "/"
	}
	return "/?" + values.Encode()
}

// columns are the metrics that are common enough for a column of their own.
func columns(snap *snapshot, o order, link func(...string) string) (all []column) {
	for _, m := range snap.metrics {
		if len(all) == fleetColumns || len(all) > 0 && m.sensors*columnShare < len(snap.rows) {
			break
		}
		all = append(all, newColumn(m.name, order{by: byValue, metric: m.name, down: true}, o, link))
	}
	return all
}

// newColumn is a column whose head leads to the list in its order, or turns
// that round.
func newColumn(name string, own, now order, link func(...string) string) column {
	c := column{Metric: name, Order: "none"}
	if now.by == own.by && now.metric == own.metric {
		c.Order = "ascending"
		if now.down {
			c.Order = "descending"
		}
		own.down = !now.down
	}
	if c.Href = link("sort", own.String()); own == (order{}) {
		c.Href = link("sort", "")
	}
	return c
}

// sorts are the orders that the list offers.
func sorts(snap *snapshot, now order) (all []option) {
	add := func(o order, text string) { all = append(all, option{o.String(), text, o == now}) }
	add(order{}, "Name")
	all[0].Value = "" // as if it were left out
	add(order{down: true}, "Name, backwards")
	add(order{by: bySeen, down: true}, "Last heard first")
	add(order{by: bySeen}, "Longest silent first")
	for i, m := range snap.metrics {
		if i == maxOrders/2 && now.metric == "" {
			break
		}
		if i >= maxOrders/2 && m.name != now.metric {
			continue
		}
		add(order{by: byValue, metric: m.name, down: true}, title(m.name)+", highest first")
		add(order{by: byValue, metric: m.name}, title(m.name)+", lowest first")
	}
	if !slices.ContainsFunc(all, func(o option) bool { return o.Chosen }) {
		add(now, "By "+now.String())
	}
	return all
}

// fillRows makes the rows of the list. The values of a column have the same
// number of decimals, so that they stand below each other.
func (s *Server) fillRows(v *fleetView, rows []*row, now time.Time) {
	places := make([]int, len(v.Columns))
	for i, c := range v.Columns {
		places[i] = usualDecimals(rows, c.Metric)
	}
	for _, r := range rows {
		at := time.UnixMilli(r.last)
		out := fleetRow{
			ID: r.id, Href: sensorHref(r.id, nil), Outlier: r.outlier, Silent: now.Sub(at) > s.site.StaleAfter,
			Last: at.UTC().Format(time.RFC3339), LastWords: at.In(s.site.Zone).Format(timeForPeople), Ago: ago(r.last, now),
		}
		for i, c := range v.Columns {
			out.Cells = append(out.Cells, s.cell(c.Metric, r.metric(c.Metric), places[i]))
		}
		for _, m := range r.metrics {
			if slices.ContainsFunc(v.Columns, func(c column) bool { return c.Metric == m.name }) {
				continue
			}
			if len(out.Others) == othersShown {
				out.More++
				continue
			}
			out.Others = append(out.Others, s.cell(m.name, m.points, decimals(m.points[0].Value)))
		}
		v.Others = v.Others || len(out.Others) > 0
		v.Rows = append(v.Rows, out)
	}
}

// usualDecimals is how many most of the rows need.
func usualDecimals(rows []*row, metric string) int {
	var counts [3]int
	for _, r := range rows {
		if points := r.metric(metric); len(points) > 0 {
			counts[decimals(points[0].Value)]++
		}
	}
	usual := 0
	for n, rows := range counts {
		if rows > 0 && rows >= counts[usual] {
			usual = n
		}
	}
	return usual
}

// cell shows the newest of the points, and a line through all of them.
func (s *Server) cell(metric string, points []reading.Point, decimals int) cell {
	c := cell{Metric: metric, Unit: s.site.Unit(metric)}
	if len(points) == 0 {
		return c
	}
	c.Has = true
	c.Value, c.Exact = value(points[0].Value, decimals), exact(points[0].Value)
	if len(points) > 1 {
		values := make([]float64, 0, len(points))
		for _, p := range slices.Backward(points) {
			values = append(values, p.Value)
		}
		c.Line = sparkline(values, false)
	}
	return c
}

// exact is a value with all its digits.
func exact(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v+0, 'g', -1, 64)
}
