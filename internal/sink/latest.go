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
// documents. It holds what has changed since, not the whole fleet.
type latest struct {
	keep int

	mu    sync.Mutex
	dirty map[string]*reading.Sensor
	known map[string]struct{} // sensors whose document exists

	waiting map[string]gathered // of those in dirty
}

func newLatest(keep int) *latest {
	return &latest{keep: keep, dirty: map[string]*reading.Sensor{}, known: map[string]struct{}{}, waiting: map[string]gathered{}}
}

// note takes over the newest points of buckets that are stored, and returns
// the sensors that are new to this process.
func (l *latest) note(buckets []*reading.Bucket) (fresh []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names map[string]bool
	for _, b := range buckets {
		if b.Count() == 0 {
			continue
		}
		s := l.dirty[b.Sensor]
		points := newestOf(b, max(l.keep, 1))
		first, last := b.Start+int64(slices.Min(b.Offsets)), points[0].Time
		if s == nil {
			s = &reading.Sensor{ID: b.Sensor}
			l.dirty[b.Sensor] = s
		}
		if s.Metrics == nil {
			s.FirstSeen, s.LastSeen, s.Metrics = first, last, make(map[string][]reading.Point, 2)
		}
		s.FirstSeen, s.LastSeen = min(s.FirstSeen, first), max(s.LastSeen, last)
		s.Metrics[b.Metric] = reading.MergeLatest(s.Metrics[b.Metric], points, max(l.keep, 1))
		l.gatherLocked(b)
		if _, ok := l.known[b.Sensor]; !ok {
			if names == nil {
				names = map[string]bool{}
			}
			names[b.Sensor] = true
		}
	}
	for name := range names {
		fresh = append(fresh, *l.dirty[name])
		delete(l.dirty, name)
		delete(l.waiting, name)
	}
	return fresh
}

// outlier notes that a bucket is one.
func (l *latest) outlier(o Outlier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.dirty[o.Sensor]
	if s == nil {
		s = &reading.Sensor{ID: o.Sensor, FirstSeen: o.Start, LastSeen: o.Start}
		l.dirty[o.Sensor] = s
	}
	s.OutlierUntil = max(s.OutlierUntil, o.Until)
}

// know says that the document of a sensor exists.
func (l *latest) know(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[id] = struct{}{}
}

// introduced says that the documents of these sensors exist now.
func (l *latest) introduced(sensors []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sensors {
		l.known[s.ID] = struct{}{}
	}
}

// forget says that the document of a sensor may be gone.
func (l *latest) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, id)
}

// take removes up to n sensors that have changed, all or those that are due.
func (l *latest) take(n int, all bool) []reading.Sensor {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []reading.Sensor
	for id, s := range l.dirty {
		if len(out) == n {
			break
		}
		if !all && !l.dueLocked(id) {
			continue
		}
		out = append(out, *s)
		delete(l.dirty, id)
		delete(l.waiting, id)
	}
	return out
}

// giveBack puts back what could not be written.
func (l *latest) giveBack(sensors []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sensors {
		if have := l.dirty[s.ID]; have != nil {
			have.Merge(s, max(l.keep, 1))
		} else {
			l.dirty[s.ID] = &s
		}
		l.waiting[s.ID] = gathered{readings: latestReadings} // it has waited
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
