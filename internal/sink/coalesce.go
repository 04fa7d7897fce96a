package sink

import (
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

// gathered is what has come for a sensor since its document was written.
type gathered struct {
	since    time.Time
	readings int
}

func (l *latest) gatherLocked(b *reading.Bucket) {
	g, waits := l.waiting[b.Sensor]
	if !waits {
		g.since = time.Now()
	}
	g.readings += b.Count()
	l.waiting[b.Sensor] = g
}

// dueLocked says whether the sensor's document is to be written now. What is
// not counted, such as what could not be written before, is.
func (l *latest) dueLocked(id string) bool {
	g, waits := l.waiting[id]
	return !waits || g.readings >= latestReadings || time.Since(g.since) >= latestWait
}

// few says whether so few sensors have sent anything that all are written.
func (l *latest) few() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) <= latestFew
}
