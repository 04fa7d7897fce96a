package prom

import (
	"sync"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// aheadWidth is how many series are read from at one time.
const aheadWidth = 8

// ahead reads the first samples of the next few series while the engine is at
// one: over a network a fleet would take a round trip for each sensor, one after
// the other. Only the engine's goroutine calls take.
type ahead struct {
	series  []*series
	primed  []primed
	next    int // not read from yet
	reading sync.WaitGroup
}

// primed is an iterator that stands before the sample it found.
type primed struct {
	it    *iterator
	found chunkenc.ValueType
	done  chan struct{} // closed when that is known
}

// take is an iterator over series i. Whoever asks for one again gets a new one.
func (a *ahead) take(i int) chunkenc.Iterator {
	for ; a.next < min(i+aheadWidth, len(a.series)); a.next++ {
		p := &a.primed[a.next]
		p.it, p.done = a.series[a.next].iterator(), make(chan struct{})
		a.reading.Go(func() {
			defer close(p.done)
			p.found = p.it.Next()
		})
	}
	p := &a.primed[i]
	it := p.it
	if it == nil {
		return a.series[i].iterator()
	}
	<-p.done
	p.it, it.first = nil, &p.found
	return it
}
