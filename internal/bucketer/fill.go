package bucketer

import (
	"time"

	"gudang/internal/reading"
)

// fill watches how full buckets become: count ÷ (span ÷ interval), observed
// once for each bucket when its span has passed and its readings have settled.
// It counts what was stored, so copies do not fill a bucket.
//
// What comes later for a bucket that was observed already does not count
// again: each series remembers the 64 spans before its newest one. Memory is
// bounded by maxSeries; a series beyond it is stored like any other, and only
// not watched.
type fill struct {
	span     reading.Span
	expected float64
	observe  func(float64)

	series map[reading.Series]*seriesFill
	due    map[int64][]watch // by second: what to look at then
	seen   int64             // the last second that was looked at
	open   int               // buckets that are not observed yet
}

// seriesFill is the newest bucket of a series and those before it that are
// open still.
type seriesFill struct {
	newest   bucketFill
	older    []bucketFill
	observed uint64 // bit i: the bucket i+1 spans before the newest is observed
	leaving  bool   // a watch is set that forgets the series when it stays silent
}

type bucketFill struct {
	start   int64
	count   int
	pending int // flushes under way that hold it
	done    bool
	touched time.Time
}

// watch is an appointment with a bucket that may be full by then, or with a
// series that may have been silent long enough to be forgotten.
type watch struct {
	key    reading.Key
	s      *seriesFill
	forget bool
}

const (
	// settle is how long a bucket whose span has passed must be left alone
	// before it is observed: the last readings are on their way still.
	settle    = 2 * time.Second
	maxSeries = 4_000_000
	memory    = 64 // spans that a silent series is remembered for
)

func newFill(span reading.Span, interval time.Duration, observe func(float64)) *fill {
	return &fill{
		span: span, expected: float64(span.Duration()) / float64(interval), observe: observe,
		series: map[reading.Series]*seriesFill{}, due: map[int64][]watch{},
	}
}

// find is the open bucket with that start; nil if it was observed.
func (s *seriesFill) find(start int64) *bucketFill {
	if s.newest.start == start {
		if s.newest.done {
			return nil
		}
		return &s.newest
	}
	for i := range s.older {
		if s.older[i].start == start {
			return &s.older[i]
		}
	}
	return nil
}

// touch says that a gathering has opened the bucket.
func (f *fill) touch(key reading.Key, now time.Time) {
	s := f.series[key.Series]
	if s == nil {
		if len(f.series) >= maxSeries {
			return
		}
		s = &seriesFill{newest: bucketFill{start: key.Start, pending: 1, touched: now}}
		f.series[key.Series] = s
		f.watch(key, s, now)
		return
	}
	if b := s.find(key.Start); b != nil {
		b.pending++
		b.touched = now
		return
	}
	switch back := (s.newest.start - key.Start) / int64(f.span); {
	case back < 0: // a newer bucket
		if !s.newest.done {
			s.older = append(s.older, s.newest)
		}
		s.observed = s.observed<<1 | b2u(s.newest.done)
		s.observed <<= uint(-back - 1) // a shift by 64 or more leaves nothing, as it should
		s.newest = bucketFill{start: key.Start, pending: 1, touched: now}
	case back == 0: // observed
		return
	default:
		if back <= memory && s.observed>>(uint(back)-1)&1 == 1 {
			return
		}
		s.older = append(s.older, bucketFill{start: key.Start, pending: 1, touched: now})
	}
	f.watch(key, s, now)
}

// add says that a flush is done, which stored so many readings in the bucket.
func (f *fill) add(key reading.Key, stored int, now time.Time) {
	s := f.series[key.Series]
	if s == nil {
		return
	}
	if b := s.find(key.Start); b != nil {
		b.pending--
		b.count += stored
		b.touched = now
	}
}

func (f *fill) watch(key reading.Key, s *seriesFill, now time.Time) {
	f.open++
	f.later(watch{key: key, s: s}, f.ready(key.Start, now))
}

// ready is when a bucket that was touched at the given time can be observed.
func (f *fill) ready(start int64, touched time.Time) time.Time {
	end := time.UnixMilli(start + int64(f.span))
	if t := touched.Add(settle); t.After(end) {
		return t
	}
	return end
}

func (f *fill) later(w watch, at time.Time) {
	second := max(at.Unix()+1, f.seen+1)
	f.due[second] = append(f.due[second], w)
}

// sweep observes what is due.
func (f *fill) sweep(now time.Time) {
	second := now.Unix()
	if second-f.seen > 3600 { // the first time, or the clock was set
		f.seen = second
		for at, list := range f.due {
			if at <= second {
				delete(f.due, at)
				f.look(list, now)
			}
		}
		return
	}
	for f.seen < second {
		f.seen++
		list := f.due[f.seen]
		delete(f.due, f.seen)
		f.look(list, now)
	}
}

func (f *fill) look(list []watch, now time.Time) {
	for _, w := range list {
		if w.forget {
			f.forget(w, now)
			continue
		}
		b := w.s.find(w.key.Start)
		if at := f.ready(b.start, b.touched); b.pending > 0 || at.After(now) {
			f.later(w, at)
			continue
		}
		f.observe(float64(b.count) / f.expected)
		f.open--
		w.s.close(b, f.span)
		if !w.s.leaving {
			w.s.leaving = true
			f.later(watch{key: w.key, s: w.s, forget: true}, now.Add(memory*f.span.Duration()))
		}
	}
}

// close marks a bucket as observed.
func (s *seriesFill) close(b *bucketFill, span reading.Span) {
	if b == &s.newest {
		b.done = true
		return
	}
	if back := (s.newest.start - b.start) / int64(span); back >= 1 && back <= memory {
		s.observed |= 1 << (uint(back) - 1)
	}
	for i := range s.older {
		if &s.older[i] == b {
			s.older[i] = s.older[len(s.older)-1]
			s.older = s.older[:len(s.older)-1]
			return
		}
	}
}

// forget drops a series that has been silent for as long as it is remembered.
func (f *fill) forget(w watch, now time.Time) {
	until := w.s.newest.touched.Add(memory * f.span.Duration())
	if until.After(now) || !w.s.newest.done || len(w.s.older) > 0 {
		f.later(w, until)
		return
	}
	delete(f.series, w.key.Series)
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
