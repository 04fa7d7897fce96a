package query

import (
	"cmp"
	"errors"
	"slices"

	"gudang/internal/reading"
)

// dayMS is what every span divides.
const dayMS = 86_400_000

// seriesReader is what a store knows of one series. It is called by one
// goroutine.
type seriesReader interface {
	// starts yields where the buckets that start in [from, until) do, in order
	// or the newest first. While it does, load reads the one that it stands at.
	starts(from, until int64, newestFirst bool, yield func(start int64, load func() (*Stored, error)) error) error
	// overflow is an overflowReader of the series.
	overflow(from, until int64, limit int) ([]reading.Point, error)
	// lastOverflow is the newest reading in overflow in [from, until), if any.
	lastOverflow(from, until int64) ([]reading.Point, error)
}

// gatherer puts a stretch together. Buckets of one span never overlap; where
// the span was changed they may, and reach is the longest there can be.
type gatherer struct {
	from, until int64 // of interest
	reach       int64
	reading.Stretch
}

// ends is where a bucket that starts there must have ended: spans begin at
// their multiples and divide a day, so that few starts can have a long one. An
// outlier's own word is not enough: it is of the span that it was made under,
// and the bucket may be of a longer one.
func (g *gatherer) ends(start int64) int64 {
	a, b := start%dayMS, int64(dayMS)
	for a != 0 {
		a, b = b%a, a
	}
	return start + min(g.reach, max(b, -b))
}

// take adds what the bucket's arrays have of interest.
func (g *gatherer) take(b *Stored) {
	g.Documents++
	for i, off := range b.Offsets[:min(len(b.Offsets), len(b.Values))] {
		if t := b.Start + int64(off); t >= g.from && t < g.until {
			g.Points = append(g.Points, reading.Point{Time: t, Value: b.Values[i]})
		}
	}
}

// settle orders what was gathered and leaves out what lies outside. A reading
// that was found twice is in it once.
func (g *gatherer) settle(from, until int64) reading.Stretch {
	g.Points = slices.DeleteFunc(g.Points, func(p reading.Point) bool { return p.Time < from || p.Time >= until })
	byTime := func(a, b reading.Point) int { return cmp.Compare(a.Time, b.Time) }
	if !slices.IsSortedFunc(g.Points, byTime) {
		slices.SortStableFunc(g.Points, byTime)
	}
	g.Points = slices.CompactFunc(g.Points, func(a, b reading.Point) bool { return a.Time == b.Time })
	g.Until = until
	return g.Stretch
}

// newest finds the newest reading in [from, at], and what else its bucket has
// behind it. It reads one or two buckets, whatever else there is.
func newest(r seriesReader, reach, from, at int64) (reading.Stretch, error) {
	ahead := at + min(reach, dayMS) + 1
	g := gatherer{from: from, until: ahead, reach: reach}
	best, outlier := from-1, false
	err := r.starts(before(from, reach-1), ahead, true, func(start int64, load func() (*Stored, error)) error {
		switch {
		case start > at: // it only says how far the ones before it reach
			g.until = start
			return nil
		case start+reach <= best:
			return errEnough
		case g.ends(start) <= max(best, from):
			return nil
		}
		b, err := load()
		if err != nil {
			return err
		}
		g.take(b)
		if b.Outlier {
			outlier = true
			last, err := r.lastOverflow(max(from, start), min(at+1, g.ends(start)))
			if err != nil {
				return err
			}
			g.Points = append(g.Points, last...)
			g.Documents += len(last)
		}
		for _, p := range g.Points {
			if p.Time <= at {
				best = max(best, p.Time)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return reading.Stretch{}, err
	}
	if outlier || best < from { // nothing is known of what comes behind it
		g.until = at + 1
	}
	return g.settle(max(best, from), g.until), nil
}

// stretch reads the readings in [from, until), bucket by bucket, until it has
// limit of them or more.
func stretch(r seriesReader, reach, from, until int64, limit int) (reading.Stretch, error) {
	g := gatherer{from: from, until: until, reach: reach}
	err := r.starts(before(from, reach-1), until, false, func(start int64, load func() (*Stored, error)) error {
		switch {
		case start > from && (len(g.Points) >= limit || start >= g.until):
			g.until = min(g.until, start)
			return errEnough
		case g.ends(start) <= from:
			return nil
		}
		b, err := load()
		if err != nil {
			return err
		}
		g.take(b)
		if !b.Outlier {
			return nil
		}
		points, err := r.overflow(max(from, start), min(g.until, g.ends(start)), limit)
		if err != nil {
			return err
		}
		if len(points) == limit {
			g.until = min(g.until, points[limit-1].Time+1)
		}
		g.Points = append(g.Points, points...)
		g.Documents += len(points)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return reading.Stretch{}, err
	}
	return g.settle(from, g.until), nil
}
