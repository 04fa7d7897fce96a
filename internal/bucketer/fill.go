package bucketer

import (
	"hash/maphash"
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
//
// There may be a million series, so none of what is kept of them has pointers.
// Of its names a series has only a hash: should two ever meet in one, their
// buckets are observed as one, which harms a statistic.
type fill struct {
	span     reading.Span
	expected float64
	observe  func(float64)

	seed    maphash.Seed
	places  map[uint64]int32 // of the series in the slab, by hash
	series  slab[seriesFill]
	buckets slab[bucketFill]  // those that are not observed yet
	due     map[int64][]watch // by second: what to look at then
	seen    int64             // the last second that was looked at
}

// seriesFill is what is known of the buckets of a series.
type seriesFill struct {
	hash     uint64
	newest   int64  // start of its newest bucket
	touched  int64  // when that was, in ms
	observed uint64 // bit i: the bucket i+1 spans before the newest is observed
	first    int32  // of its buckets that are not observed yet
	leaving  bool   // a watch is set that forgets the series when it stays silent
}

// bucketFill is a bucket that is not observed yet.
type bucketFill struct {
	start   int64
	touched int64 // in ms
	series  int32
	next    int32 // of the same series
	count   int32
	pending int32 // flushes under way that hold it
}

// watch is an appointment with a bucket that may be full by then, or with a
// series that may have been silent long enough to be forgotten.
type watch struct {
	place  int32
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
		seed: maphash.MakeSeed(), places: map[uint64]int32{}, due: map[int64][]watch{},
	}
}

// open is how many buckets are not observed yet.
func (f *fill) open() int { return f.buckets.len() }

// find is the place of the bucket of s with that start; none if it is not open.
func (f *fill) find(s *seriesFill, start int64) int32 {
	for at := s.first; at != none; at = f.buckets.at(at).next {
		if f.buckets.at(at).start == start {
			return at
		}
	}
	return none
}

// touch says that a gathering has opened the bucket. It returns the bucket's
// place for add, none if it is not to be watched.
func (f *fill) touch(key reading.Key, now time.Time) int32 {
	hash := maphash.Comparable(f.seed, key.Series)
	ms := now.UnixMilli()
	place, known := f.places[hash]
	if !known {
		if len(f.places) >= maxSeries {
			return none
		}
		place = f.series.add(seriesFill{hash: hash, newest: key.Start, touched: ms, first: none})
		f.places[hash] = place
		return f.begin(place, key.Start, ms)
	}
	s := f.series.at(place)
	if key.Start == s.newest {
		s.touched = ms
	}
	if at := f.find(s, key.Start); at != none {
		b := f.buckets.at(at)
		b.pending++
		b.touched = ms
		return at
	}
	switch back := (s.newest - key.Start) / int64(f.span); {
	case back < 0: // a newer bucket
		s.observed = s.observed<<1 | b2u(f.find(s, s.newest) == none)
		s.observed <<= uint(-back - 1) // a shift by 64 or more leaves nothing, as it should
		s.newest, s.touched = key.Start, ms
	case back == 0, back <= memory && s.observed>>(uint(back)-1)&1 == 1: // observed
		return none
	}
	return f.begin(place, key.Start, ms)
}

// begin watches a bucket.
func (f *fill) begin(place int32, start, ms int64) int32 {
	s := f.series.at(place)
	s.first = f.buckets.add(bucketFill{start: start, touched: ms, series: place, next: s.first, pending: 1})
	f.later(watch{place: s.first}, f.ready(f.buckets.at(s.first)))
	return s.first
}

// add says that a flush is done, which stored so many readings in the bucket.
func (f *fill) add(place int32, stored int, now time.Time) {
	if place == none {
		return
	}
	b := f.buckets.at(place)
	b.pending--
	b.count += int32(stored)
	b.touched = now.UnixMilli()
	if s := f.series.at(b.series); s.newest == b.start {
		s.touched = b.touched
	}
}

// ready is from when on, in ms, a bucket can be observed.
func (f *fill) ready(b *bucketFill) int64 {
	return max(b.start+int64(f.span), b.touched+settle.Milliseconds())
}

// later makes an appointment for a time in ms.
func (f *fill) later(w watch, ms int64) {
	second := max(time.UnixMilli(ms).Unix()+1, f.seen+1)
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
				f.look(list, now.UnixMilli())
			}
		}
		return
	}
	for f.seen < second {
		f.seen++
		list := f.due[f.seen]
		delete(f.due, f.seen)
		f.look(list, now.UnixMilli())
	}
}

func (f *fill) look(list []watch, now int64) {
	for _, w := range list {
		if w.forget {
			f.forget(w, now)
			continue
		}
		b := f.buckets.at(w.place)
		if at := f.ready(b); b.pending > 0 || at > now {
			f.later(w, at)
			continue
		}
		f.observe(float64(b.count) / f.expected)
		f.close(w.place)
		if s := f.series.at(b.series); !s.leaving {
			s.leaving = true
			f.later(watch{place: b.series, forget: true}, now+memory*int64(f.span))
		}
	}
}

// close marks a bucket as observed.
func (f *fill) close(place int32) {
	b := f.buckets.at(place)
	s := f.series.at(b.series)
	link := &s.first
	for *link != place {
		link = &f.buckets.at(*link).next
	}
	*link = b.next
	f.buckets.remove(place)
	if back := (s.newest - b.start) / int64(f.span); back >= 1 && back <= memory {
		s.observed |= 1 << (uint(back) - 1)
	}
}

// forget drops a series that has been silent for as long as it is remembered.
func (f *fill) forget(w watch, now int64) {
	s := f.series.at(w.place)
	if until := s.touched + memory*int64(f.span); until > now || s.first != none {
		f.later(w, until)
		return
	}
	delete(f.places, s.hash)
	f.series.remove(w.place)
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
