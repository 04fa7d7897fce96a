package reading

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
)

// ErrNotFound is the answer to a question for something that is not stored.
var ErrNotFound = errors.New("not found")

// Summary is a stored bucket without its readings.
type Summary struct {
	Key
	Count   int64
	Sum     float64
	Min     float64
	Max     float64
	Outlier bool
}

// Point is a value at a time, of a series that is known from where it stands.
type Point struct {
	Time  int64
	Value float64
}

// Sensor is what a sensor's own document says: the newest few readings of each
// of its metrics, copied from the buckets (the subset pattern).
type Sensor struct {
	ID        string
	FirstSeen int64              // earliest reading time
	LastSeen  int64              // latest reading time
	Metrics   map[string][]Point // newest first, times distinct
	// OutlierUntil is where the span of its newest outlier bucket ends; 0 if
	// it has had none.
	OutlierUntil int64
}

// Outlier says whether the sensor's newest reading lies in an outlier bucket, or
// not far behind one: at the start of a span even the fastest has few readings.
func (s *Sensor) Outlier() bool {
	return s.OutlierUntil > 0 && s.LastSeen < s.OutlierUntil+outlierLinger
}

const outlierLinger = 60_000

// MergeLatest merges two lists of points, newest first, into the newest n.
// Where both have a time, the one in have stays.
func MergeLatest(have, more []Point, n int) []Point {
	out := make([]Point, 0, min(n, len(have)+len(more)))
	i, j := 0, 0
	for len(out) < n && (i < len(have) || j < len(more)) {
		switch {
		case j == len(more) || i < len(have) && have[i].Time > more[j].Time:
			out = append(out, have[i])
			i++
		case i == len(have) || have[i].Time < more[j].Time:
			out = append(out, more[j])
			j++
		default:
			out = append(out, have[i])
			i, j = i+1, j+1
		}
	}
	return out
}

// MaxMetrics is how many metrics a sensor's document holds. A sensor that
// makes up metric names would otherwise let it grow without a bound.
const MaxMetrics = 256

// Merge takes over what o, the same sensor seen elsewhere or later, knows.
// keep is how many points a metric keeps, if so many fit into the document (see
// Points). Beyond MaxMetrics the metrics that were silent for longest are left
// out.
func (s *Sensor) Merge(o Sensor, keep int) {
	if s.Metrics == nil {
		s.Metrics = make(map[string][]Point, len(o.Metrics))
	}
	if s.ID == "" {
		s.ID, s.FirstSeen, s.LastSeen = o.ID, o.FirstSeen, o.LastSeen
	}
	if len(o.Metrics) > 0 { // else it only says something of its buckets
		s.FirstSeen = min(s.FirstSeen, o.FirstSeen)
		s.LastSeen = max(s.LastSeen, o.LastSeen)
	}
	s.OutlierUntil = max(s.OutlierUntil, o.OutlierUntil)
	for name, points := range o.Metrics {
		s.Metrics[name] = MergeLatest(s.Metrics[name], points, keep)
	}
	defer s.cut(keep)
	if len(s.Metrics) <= MaxMetrics {
		return
	}
	names := slices.SortedFunc(maps.Keys(s.Metrics), func(a, b string) int {
		return cmp.Or(cmp.Compare(newest(s.Metrics[b]), newest(s.Metrics[a])), cmp.Compare(a, b))
	})
	for _, name := range names[MaxMetrics:] {
		delete(s.Metrics, name)
	}
}

func newest(points []Point) int64 {
	if len(points) == 0 {
		return math.MinInt64
	}
	return points[0].Time
}

// Query asks for the readings or buckets of a sensor in order of time, then
// metric. Its zero fields ask for everything.
type Query struct {
	Sensor string
	Metric string // empty: all of the sensor's metrics
	From   int64  // inclusive
	To     int64  // exclusive; 0: no end
	After  Cursor // only what comes after this
	Limit  int
}

// Cursor is a place in the order of time, then metric. The zero Cursor is
// before everything.
type Cursor struct {
	Time   int64
	Metric string
}

// IsZero says whether c is the beginning.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Past says whether an item at (t, metric) comes after c.
func (c Cursor) Past(t int64, metric string) bool {
	return c.IsZero() || t > c.Time || t == c.Time && metric > c.Metric
}

// Until is the exclusive end of the query's range.
func (q Query) Until() int64 {
	if q.To == 0 {
		return math.MaxInt64
	}
	return q.To
}

// Since is the inclusive start of the query's range, with what After says
// taken into account.
func (q Query) Since() int64 {
	if q.After.IsZero() {
		return q.From
	}
	return max(q.From, q.After.Time)
}

// Page sorts readings that a store found, in whatever order, into the order of
// the query and cuts them to its range and limit. A reading that was found twice
// is in it once: a bucket that is becoming an outlier has it in both places.
func (q Query) Page(found []Reading) []Reading {
	found = slices.DeleteFunc(found, func(r Reading) bool {
		return r.Time < q.From || r.Time >= q.Until() || !q.After.Past(r.Time, r.Metric) || q.Metric != "" && r.Metric != q.Metric
	})
	slices.SortStableFunc(found, func(a, b Reading) int {
		return Key{a.Series, a.Time}.Compare(Key{b.Series, b.Time})
	})
	found = slices.CompactFunc(found, func(a, b Reading) bool { return a.Time == b.Time && a.Series == b.Series })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found
}
