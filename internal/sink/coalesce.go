package sink

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gudang/internal/reading"
)

// How often a sensor's document is written. While no more than latestFew have
// anything new, all are, every latestEvery: one small command, whatever was
// sent. In a larger fleet a document waits until latestReadings have come for
// it, or for latestWait: a copy must cost far less than what it is a copy of.
const (
	latestFew      = 100
	latestReadings = 10
	// latestWait is short enough for a sensor of the usual pace, so that no page
	// takes it for silent.
	latestWait = 30 * time.Second
)

// gathered is what has come for a sensor since its document was written: a
// reading.Sensor in a third of the memory, as there may be a million of them.
type gathered struct {
	id          string
	first, last int64
	until       int64 // the end of its newest outlier bucket
	since       int64 // when the first reading came, by latest.now
	readings    int
	metrics     []gatheredMetric // in order of name
}

type gatheredMetric struct {
	name   string
	points []reading.Point
}

// add takes over the newest points of a bucket.
func (g *gathered) add(b *reading.Bucket, keep int, now int64) {
	keep = max(keep, 1)
	if g.since == 0 {
		g.since = now
	}
	g.readings += b.Count()
	points := newestOf(b, keep)
	first, last := b.Start+int64(slices.Min(b.Offsets)), points[0].Time
	if len(g.metrics) == 0 {
		g.first, g.last = first, last
	}
	g.first, g.last = min(g.first, first), max(g.last, last)
	place, met := slices.BinarySearchFunc(g.metrics, b.Metric, func(m gatheredMetric, name string) int { return strings.Compare(m.name, name) })
	if met {
		g.metrics[place].points = reading.MergeLatest(g.metrics[place].points, points, keep)
		return
	}
	g.metrics = slices.Insert(g.metrics, place, gatheredMetric{b.Metric, points})
}

// sensor is the same in the form that stores take.
func (g *gathered) sensor() reading.Sensor {
	s := reading.Sensor{ID: g.id, FirstSeen: g.first, LastSeen: g.last, OutlierUntil: g.until}
	if len(g.metrics) > 0 {
		s.Metrics = make(map[string][]reading.Point, len(g.metrics))
	}
	for _, m := range g.metrics {
		s.Metrics[m.name] = m.points
	}
	return s
}

// set takes over all that a sensor says.
func (g *gathered) set(s reading.Sensor) {
	g.first, g.last, g.until, g.metrics = s.FirstSeen, s.LastSeen, s.OutlierUntil, nil
	for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		g.metrics = append(g.metrics, gatheredMetric{name, s.Metrics[name]})
	}
}

// due says whether the sensor's document is to be written now. What is not
// counted is.
func (g *gathered) due(now int64) bool {
	return g.readings == 0 || g.readings >= latestReadings || now-g.since >= latestWait.Milliseconds()
}

// few says whether so few sensors have sent anything that all are written.
func (l *latest) few() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) <= latestFew
}
