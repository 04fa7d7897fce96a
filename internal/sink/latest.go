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
	keep  int
	begun time.Time

	mu    sync.Mutex
	dirty map[string]*gathered
	// known are the sensors whose document exists. One that is taken for
	// another has its document written a little later than it should.
	known reading.IDs
}

func newLatest(keep int) *latest {
	return &latest{keep: keep, begun: time.Now(), dirty: map[string]*gathered{}}
}

// now is how long it has been there in ms, at least 1: it goes on evenly,
// whatever becomes of the time of day.
func (l *latest) now() int64 { return time.Since(l.begun).Milliseconds() + 1 }

// note takes over the newest points of buckets that are stored, and returns
// the sensors that are new to this process.
func (l *latest) note(buckets []*reading.Bucket) (fresh []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var news []gathered
	var places map[string]int // in news
	for _, b := range buckets {
		if b.Count() == 0 {
			continue
		}
		if l.known.Has(b.Sensor) {
			l.getLocked(b.Sensor).add(b, l.keep, now)
			continue
		}
		place, met := places[b.Sensor]
		if !met {
			g := gathered{id: b.Sensor}
			if have := l.dirty[b.Sensor]; have != nil { // what is known of its outliers
				g = *have
				delete(l.dirty, b.Sensor)
			}
			if places == nil {
				places = make(map[string]int, len(buckets))
			}
			place = len(news)
			news, places[b.Sensor] = append(news, g), place
		}
		news[place].add(b, l.keep, now)
	}
	for i := range news {
		fresh = append(fresh, news[i].sensor())
	}
	return fresh
}

// getLocked is what has come for a sensor.
func (l *latest) getLocked(id string) *gathered {
	g := l.dirty[id]
	if g == nil {
		g = &gathered{id: id}
		l.dirty[id] = g
	}
	return g
}

// outlier notes that a bucket is one.
func (l *latest) outlier(o Outlier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.getLocked(o.Sensor)
	if len(g.metrics) == 0 && g.until == 0 {
		g.first, g.last = o.Start, o.Start
	}
	g.until = max(g.until, o.Until)
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
	now := l.now()
	for id, g := range l.dirty {
		if len(out) == n {
			break
		}
		if !all && !g.due(now) {
			continue
		}
		out = append(out, g.sensor())
		delete(l.dirty, id)
	}
	return out
}

// giveBack puts back what could not be written.
func (l *latest) giveBack(sensors []reading.Sensor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sensors {
		g := l.getLocked(s.ID)
		both := g.sensor()
		if len(g.metrics) == 0 && g.until == 0 {
			both = s
		} else {
			both.Merge(s, max(l.keep, 1))
		}
		g.set(both)
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
