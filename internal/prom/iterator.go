package prom

import (
	"context"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"gudang/internal/reading"
)

// source is where the samples of one series come from.
type source interface {
	// newest is the newest sample in [from, at], or if there is none whatever
	// was read behind it. Stretch are those in [from, until), about limit of them.
	newest(ctx context.Context, from, at int64) (reading.Stretch, error)
	stretch(ctx context.Context, from, until int64, limit int) (reading.Stretch, error)
}

// mostAhead is how many samples are read at once where one follows the other.
const mostAhead = 4096

// iterator gives the engine the samples of one series. It reads no more than
// the engine gets to see, so that a query costs what its points cost, however
// many readings lie between them.
//
// For a plain selector the engine seeks to the beginning of the look-back
// before a step, steps through all samples in it, and takes the last. Here such
// a seek goes to that last one at once: window is the length of the look-back
// then, and zero for a range, of which every sample counts.
type iterator struct {
	ctx        context.Context
	src        source
	mint, maxt int64
	window     int64
	span       int64 // of a range: how much of it a seek is going to need

	points  []reading.Point
	pos     int
	until   int64 // points has all samples before this
	ahead   int   // how many to read next
	started bool
	first   *chunkenc.ValueType // what Next has found already, until it is asked for
	err     error
}

// newIterator prepares an iterator over the samples in [mint, maxt].
func newIterator(ctx context.Context, src source, mint, maxt, window, span int64) *iterator {
	return &iterator{ctx: ctx, src: src, mint: mint, maxt: maxt, window: window, span: span, until: mint}
}

// Next implements chunkenc.Iterator.
func (it *iterator) Next() chunkenc.ValueType {
	if it.first != nil {
		found := *it.first
		it.first = nil
		return found
	}
	if !it.started {
		return it.Seek(it.mint)
	}
	if it.pos < len(it.points) {
		it.pos++
	}
	if it.pos < len(it.points) {
		return chunkenc.ValFloat
	}
	return it.fetch(it.maxt + 1)
}

// timeMS is a time as the engine counts it. The name keeps vet from taking Seek
// for io.Seeker's.
type timeMS = int64

// Seek implements chunkenc.Iterator.
func (it *iterator) Seek(t timeMS) chunkenc.ValueType {
	it.first = nil
	t = max(t, it.mint)
	switch {
	case it.started && it.pos < len(it.points) && it.points[it.pos].Time >= t:
		return chunkenc.ValFloat
	case it.err != nil || t > it.maxt:
		it.points, it.pos, it.until = nil, 0, it.maxt+1
		return chunkenc.ValNone
	}
	it.started = true
	if it.window > 0 {
		return it.seekNewest(t, min(t+it.window-1, it.maxt))
	}
	if it.skipTo(t) {
		return chunkenc.ValFloat
	}
	if t > it.until {
		it.until = t
	}
	it.ahead = mostAhead
	found := it.fetch(min(t+it.span+1, it.maxt+1))
	it.ahead = 1
	return found
}

// seekNewest goes to the newest sample in [from, at], or to the first behind.
func (it *iterator) seekNewest(from, at int64) chunkenc.ValueType {
	if at < it.until && it.skipTo(from) {
		for it.pos+1 < len(it.points) && it.points[it.pos+1].Time <= at {
			it.pos++
		}
		return chunkenc.ValFloat
	}
	it.ahead = 1
	if at < it.until {
		return it.fetch(it.maxt + 1)
	}
	if !it.keep(it.src.newest(it.ctx, from, at)) {
		return it.fetch(it.maxt + 1)
	}
	return chunkenc.ValFloat
}

// skipTo goes to the first sample at t or later if that has been read.
func (it *iterator) skipTo(t int64) bool {
	rest := it.points[it.pos:]
	it.pos += sort.Search(len(rest), func(i int) bool { return rest[i].Time >= t })
	return it.pos < len(it.points)
}

// fetch reads on, before end in one go if it can, to the next sample.
func (it *iterator) fetch(end int64) chunkenc.ValueType {
	for it.err == nil && it.until <= it.maxt {
		if end <= it.until {
			end, it.ahead = it.maxt+1, 1
		}
		found := it.keep(it.src.stretch(it.ctx, it.until, end, max(it.ahead, 1)))
		it.ahead = min(4*max(it.ahead, 1), mostAhead)
		if found {
			return chunkenc.ValFloat
		}
	}
	return chunkenc.ValNone
}

// keep makes what was read the samples to go through, and says whether there
// are any.
func (it *iterator) keep(s reading.Stretch, err error) bool {
	it.points, it.pos = s.Points, 0
	if it.err = err; err != nil {
		it.points = nil
		return false
	}
	it.until = s.Until
	return len(s.Points) > 0
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) {
	p := it.points[it.pos]
	return p.Time, p.Value
}

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.points[it.pos].Time }

// AtST implements chunkenc.Iterator: nothing here counts from a start.
func (it *iterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator: every sample is a float.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) { return 0, nil }

// AtFloatHistogram implements chunkenc.Iterator.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return it.err }
