package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gudang/internal/reading"
)

// recordPage is how many buckets are asked for at once.
const recordPage = 500

// storedStream gives the readings that the buckets of a series have, outliers'
// included, in order of time, each time once. Buckets come in order of start
// but may overlap, where the span was changed: a bucket is taken in before the
// first reading at its start or later is given out.
type storedStream struct {
	store    SeriesReader
	q        reading.Query // of the next page of buckets
	overflow pages
	// taken is told of each bucket, with the start of the one after it.
	taken   func(r *reading.Record, nextStart int64) error
	doubled func(p reading.Point) // in two buckets

	records []reading.Record
	ended   bool
	ready   []reading.Point // in order of time
}

func newStream(store SeriesReader, q reading.Query, taken func(*reading.Record, int64) error, doubled func(reading.Point)) *storedStream {
	s := &storedStream{store: store, q: q, overflow: pages{ask: store.OverflowReadings, q: q}, taken: taken, doubled: doubled}
	s.q.Limit = recordPage
	return s
}

// load has at least n buckets at hand, unless there are fewer.
func (s *storedStream) load(ctx context.Context, n int) error {
	for len(s.records) < n && !s.ended {
		page, err := s.store.Records(ctx, s.q)
		if err != nil {
			return err
		}
		s.records = append(s.records, page...)
		if s.ended = len(page) < s.q.Limit; !s.ended {
			s.q.From = page[len(page)-1].Start + 1
		}
	}
	return nil
}

// peek is the next reading, which stays the next until drop.
func (s *storedStream) peek(ctx context.Context) (reading.Point, bool, error) {
	for {
		elsewhere, there, err := s.overflow.peek(ctx)
		if err != nil {
			return reading.Point{}, false, err
		}
		var next reading.Point
		found := len(s.ready) > 0
		if found {
			next = s.ready[0]
		}
		if there && (!found || elsewhere.Time < next.Time) {
			next, found = elsewhere, true
		}
		if err := s.load(ctx, 1); err != nil {
			return next, false, err
		}
		if len(s.records) == 0 || found && s.records[0].Start > next.Time {
			return next, found, nil
		}
		if err := s.take(ctx); err != nil {
			return next, false, err
		}
	}
}

// take takes in the next bucket.
func (s *storedStream) take(ctx context.Context) error {
	if err := s.load(ctx, 2); err != nil {
		return err
	}
	nextStart := int64(math.MaxInt64)
	if len(s.records) > 1 {
		nextStart = s.records[1].Start
	}
	r := &s.records[0]
	s.records = s.records[1:]
	if err := s.taken(r, nextStart); err != nil {
		return err
	}
	if len(s.ready) == 0 {
		s.ready = r.Points()
		return nil
	}
	s.ready = append(s.ready, r.Points()...)
	slices.SortStableFunc(s.ready, func(a, b reading.Point) int { return cmp.Compare(a.Time, b.Time) })
	return nil
}

// drop goes past the reading that peek gave. A bucket that is half-way to be
// an outlier has some of its readings in both places.
func (s *storedStream) drop() {
	t := int64(math.MaxInt64)
	if len(s.ready) > 0 {
		t = s.ready[0].Time
	}
	if len(s.overflow.ready) > 0 {
		t = min(t, s.overflow.ready[0].Time)
	}
	if len(s.overflow.ready) > 0 && s.overflow.ready[0].Time == t {
		s.overflow.ready = s.overflow.ready[1:]
	}
	for n := 0; len(s.ready) > 0 && s.ready[0].Time == t; n++ {
		if n > 0 {
			s.doubled(s.ready[0])
		}
		s.ready = s.ready[1:]
	}
}
