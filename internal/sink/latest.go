package sink

import (
	"slices"
	"sync"
	"time"

	"gudang/internal/reading"
)

const (
	// latestEvery is how often sensors' documents are written, coalesce.go says
	// which.
	latestEvery = 5 * time.Second
	latestBatch = 1000
)

// latest gathers the newest points of the sensors between two writes of their
// documents. It holds what has changed since, and of the rest of the fleet
// only that its documents exist.
type latest struct {
	keep int

	mu    sync.Mutex
	dirty map[string]*gathered
	// known are the sensors whose document exists. One that is taken for
	// another has its document written a little later than it should.
	known reading.IDs
}

func newLatest(keep int) *latest {
	return &latest{keep: keep, dirty: map[string]*gathered{}}
}

// note takes over the newest points of buckets that are stored, and returns
// the sensors that are new to this process.
func (l *latest) note(buckets []*reading.Bucket) (fresh []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var places map[string]int // in fresh
	for _, b := range buckets {
		if b.Count() == 0 {
			continue
		}
		if l.known.Has(b.Sensor) {
			g := l.dirty[b.Sensor]
			if g == nil {
				g = &gathered{Sensor: reading.Sensor{ID: b.Sensor}}
				l.dirty[b.Sensor] = g
			}
			l.add(&g.Sensor, b)
			g.gather(b)
			continue
		}
		place, met := places[b.Sensor]
		if !met {
			s := reading.Sensor{ID: b.Sensor}
			if g := l.dirty[b.Sensor]; g != nil { // what is known of its outliers
				s = g.Sensor
				delete(l.dirty, b.Sensor)
			}
			if places == nil {
				places = make(map[string]int, len(buckets))
			}
			place = len(fresh)
			fresh, places[b.Sensor] = append(fresh, s), place
		}
		l.add(&fresh[place], b)
	}
	return fresh
}

// add takes over the newest points of a bucket.
func (l *latest) add(s *reading.Sensor, b *reading.Bucket) {
	points := newestOf(b, max(l.keep, 1))
	first, last := b.Start+int64(slices.Min(b.Offsets)), points[0].Time
	if s.Metrics == nil {
		s.FirstSeen, s.LastSeen, s.Metrics = first, last, make(map[string][]reading.Point, 1)
	}
	s.FirstSeen, s.LastSeen = min(s.FirstSeen, first), max(s.LastSeen, last)
	if have := s.Metrics[b.Metric]; len(have) > 0 {
		points = reading.MergeLatest(have, points, max(l.keep, 1))
	}
	s.Metrics[b.Metric] = points
}

// outlier notes that a bucket is one.
func (l *latest) outlier(o Outlier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.dirty[o.Sensor]
	if g == nil {
		g = &gathered{Sensor: reading.Sensor{ID: o.Sensor, FirstSeen: o.Start, LastSeen: o.Start}}
		l.dirty[o.Sensor] = g
	}
	g.OutlierUntil = max(g.OutlierUntil, o.Until)
}

// know says that the document of a sensor exists.
func (l *latest) know(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(id)
}

// introduced says that the documents of these sensors exist now.
func (l *latest) introduced(sensors []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sensors {
		l.known.Add(s.ID)
	}
}

// forget says that the document of a sensor may be gone.
func (l *latest) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Remove(id)
}

// take removes up to n sensors that have changed, all or those that are due.
func (l *latest) take(n int, all bool) []reading.Sensor {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []reading.Sensor
	for id, g := range l.dirty {
		if len(out) == n {
			break
		}
		if !all && !g.due() {
			continue
		}
		out = append(out, g.Sensor)
		delete(l.dirty, id)
	}
	return out
}

// giveBack puts back what could not be written.
func (l *latest) giveBack(sensors []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sensors {
		g := l.dirty[s.ID]
		if g == nil {
			g = &gathered{Sensor: s}
			l.dirty[s.ID] = g
		} else {
			g.Merge(s, max(l.keep, 1))
		}
		g.readings += latestReadings // it has waited
	}
}

// newestOf is the newest n points of a bucket, newest first.
func newestOf(b *reading.Bucket, n int) []reading.Point {
	points := make([]reading.Point, 0, min(n+1, b.Count()))
	for i, off := range b.Offsets {
		at := len(points)
		for at > 0 && points[at-1].Time < b.Start+int64(off) {
			at--
		}
		if at == n {
			continue
		}
		points = slices.Insert(points, at, reading.Point{Time: b.Start + int64(off), Value: b.Values[i]})
		points = points[:min(len(points), n)]
	}
	return points
}
