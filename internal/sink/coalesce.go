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
	reading.Sensor
	since    time.Time // of the first reading
	readings int
}

func (g *gathered) gather(b *reading.Bucket) {
	if g.since.IsZero() {
		g.since = time.Now()
	}
	g.readings += b.Count()
}

// due says whether the sensor's document is to be written now. What is not
// counted is.
func (g *gathered) due() bool {
	return g.readings == 0 || g.readings >= latestReadings || time.Since(g.since) >= latestWait
}

// few says whether so few sensors have sent anything that all are written.
func (l *latest) few() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) <= latestFew
}
