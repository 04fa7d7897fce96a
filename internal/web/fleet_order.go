package web

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gudang/internal/reading"
)

// order is one that the fleet can be listed in.
type order struct {
	by     orderBy
	metric string // of byValue
	down   bool
}

type orderBy byte

const (
	byID orderBy = iota
	bySeen
	byValue
)

// maxOrders is how many orders a snapshot keeps; others cost a sort each time.
const maxOrders = 16

// metricPrefix tells a metric from the other words in the sort parameter.
const metricPrefix = "metric."

// parseOrder reads the sort parameter: id, seen or metric.<name>, with a minus
// in front for the greatest first.
func parseOrder(text string) (order, error) {
	name, down := strings.CutPrefix(text, "-")
	o := order{down: down}
	metric, ok := strings.CutPrefix(name, metricPrefix)
	switch {
	case text == "" || name == "id":
	case name == "seen":
		o.by = bySeen
	case ok && isMetric(metric):
		o.by, o.metric = byValue, metric
	default:
		return o, badRequest("sort %q: must be id, seen or metric.<name>, with - in front to turn it round", clip(text))
	}
	return o, nil
}

// String is the parameter that parseOrder reads.
func (o order) String() string {
	text := [...]string{byID: "id", bySeen: "seen", byValue: metricPrefix + o.metric}[o.by]
	if o.down {
		return "-" + text
	}
	return text
}

// place is where a sensor stands in an order: by key, then by id.
type place struct {
	key uint64
	row int32
}

// orderableInt and orderable are numbers that compare as v does.
func orderableInt(v int64) uint64 { return uint64(v) ^ 1<<63 }

func orderable(v float64) uint64 {
	bits := math.Float64bits(v + 0) // -0 becomes 0
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

// key is where the row stands. What has no value is last both ways.
func (o order) key(r *row) uint64 {
	var key uint64
	switch o.by {
	case byID:
		return 0
	case bySeen:
		key = orderableInt(r.last)
	case byValue:
		points := r.metric(o.metric)
		if len(points) == 0 {
			return math.MaxUint64
		}
		key = orderable(points[0].Value)
	}
	if o.down {
		key = ^key
	}
	return key
}

// order is every row's place, made once.
func (s *snapshot) order(o order) []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if places, ok := s.orders[o]; ok {
		return places
	}
	places := make([]place, len(s.rows))
	for i := range s.rows {
		places[i] = place{o.key(&s.rows[i]), int32(i)}
	}
	switch {
	case o.by == byID && o.down:
		slices.Reverse(places)
	case o.by != byID:
		slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.row, b.row)) })
	}
	if len(s.orders) < maxOrders {
		s.orders[o] = places
	}
	return places
}

// mark is a place that a page of the fleet begins after or ends before. It
// holds the key and the id, so that it is good in later snapshots as well.
type mark struct {
	key uint64
	id  string
}

const fleetToken byte = 'f'

func (m mark) token() string {
	buf := binary.BigEndian.AppendUint64([]byte{fleetToken}, m.key)
	return tokenCoding.EncodeToString(append(buf, m.id...))
}

func parseMark(token string) (mark, error) {
	buf, err := parseToken(fleetToken, token)
	if err != nil || len(buf) < 9 || len(buf) > 8+reading.MaxSensorID || !utf8.Valid(buf[8:]) {
		return mark{}, errAfter
	}
	return mark{binary.BigEndian.Uint64(buf), string(buf[8:])}, nil
}

// states of a sensor that the fleet can be narrowed to.
const (
	stateSilent  = "silent"
	stateOutlier = "outlier"
)

// fleetQuery is which sensors a page of the fleet shows.
type fleetQuery struct {
	search string // part of the id; letter case doesn't matter
	state  string // stateSilent, stateOutlier or empty
	order  order
	after  *mark // at most one of these two
	before *mark
	limit  int
	since  int64 // who has said nothing since (ms) is silent
}

func (q *fleetQuery) takes(r *row) bool {
	return strings.Contains(r.folded, q.search) &&
		(q.state != stateSilent || r.last < q.since) &&
		(q.state != stateOutlier || r.outlier)
}

// fleetRows is a page of the fleet, and the marks of its neighbours.
type fleetRows struct {
	rows       []*row
	prev, next *mark
}

// page finds the rows of a page. It starts where the mark is and ends when the
// page is full; only what the search leaves out is gone through.
func (s *snapshot) page(q fleetQuery) fleetRows {
	q.search = strings.ToLower(q.search)
	places := s.order(q.order)
	at := func(m *mark) int {
		i, found := slices.BinarySearchFunc(places, *m, func(p place, m mark) int {
			byName := cmp.Compare(s.rows[p.row].id, m.id)
			if q.order.by == byID && q.order.down {
				byName = -byName
			}
			return cmp.Or(cmp.Compare(p.key, m.key), byName)
		})
		if found && m == q.after {
			i++
		}
		return i
	}
	var found []*row
	i, step := 0, 1
	switch {
	case q.before != nil:
		i, step = at(q.before)-1, -1
	case q.after != nil:
		i = at(q.after)
	}
	for ; i >= 0 && i < len(places) && len(found) <= q.limit; i += step {
		if r := &s.rows[places[i].row]; q.takes(r) {
			found = append(found, r)
		}
	}
	more := len(found) > q.limit
	found = found[:min(len(found), q.limit)]
	if step < 0 {
		slices.Reverse(found)
	}
	out := fleetRows{rows: found}
	if len(found) == 0 {
		return out
	}
	first, last := found[0], found[len(found)-1]
	if step < 0 && more || q.after != nil {
		out.prev = &mark{q.order.key(first), first.id}
	}
	if step > 0 && more || q.before != nil {
		out.next = &mark{q.order.key(last), last.id}
	}
	return out
}
