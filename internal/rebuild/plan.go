package rebuild

import (
	"context"
	"slices"

	"gudang/internal/reading"
)

// plan is what is to be done with a range of a series, [from, to).
type plan struct {
	*builder
	series   reading.Series
	from, to int64

	raw map[int64]float64 // by time, without what outliers have
	// windows are the buckets to be, by start.
	windows map[int64]*window
	// strays are the buckets that hold readings of other windows, by start,
	// with the times of these readings that lie in the range, in order.
	strays map[int64][]int64
	placed map[int64]bool // times that are in their own bucket now
}

// window is one bucket to be.
type window struct {
	want    *reading.Bucket // what raw and strays say belongs into it
	have    map[int64]float64
	there   bool // a bucket is stored under its start
	outlier bool
	wrong   bool // it contradicts itself, or raw
	mended  bool // and has been replaced
}

func newPlan(b *builder, q reading.Query) *plan {
	return &plan{
		builder: b, series: reading.Series{Sensor: q.Sensor, Metric: q.Metric}, from: q.From, to: q.To,
		raw: map[int64]float64{}, windows: map[int64]*window{}, strays: map[int64][]int64{}, placed: map[int64]bool{},
	}
}

// window is the one that a time belongs to.
func (p *plan) window(t int64) *window {
	start := p.cfg.Span.Start(t)
	w := p.windows[start]
	if w == nil {
		w = &window{want: &reading.Bucket{Series: p.series, Start: start}, have: map[int64]float64{}}
		p.windows[start] = w
	}
	return w
}

// read finds out what is stored and what should be.
func (p *plan) read(ctx context.Context, raw []reading.Point, records []reading.Record) error {
	elsewhere, err := p.overflow(ctx)
	if err != nil {
		return err
	}
	var strays []reading.Point
	for i := range records {
		strays = append(strays, p.record(&records[i])...)
	}
	for _, point := range raw {
		if point.Value-point.Value != 0 {
			continue // no number: nothing that we have written
		}
		w := p.window(point.Time)
		if elsewhere[point.Time] || w.outlier {
			p.sum.Outliers++
			continue
		}
		p.raw[point.Time] = point.Value
		w.want.Add(point.Time, point.Value)
		if v, there := w.have[point.Time]; there && v != point.Value+0 {
			w.wrong = true
		}
	}
	// Where raw has another value for a time, raw's came first into want.
	for _, point := range strays {
		if w := p.window(point.Time); !w.outlier && !elsewhere[point.Time] {
			w.want.Add(point.Time, point.Value)
		}
	}
	return nil
}

// overflow is the times in the range that outlier buckets keep elsewhere.
func (p *plan) overflow(ctx context.Context) (map[int64]bool, error) {
	times := map[int64]bool{}
	q := reading.Query{Sensor: p.series.Sensor, Metric: p.series.Metric, From: p.from, To: p.to, Limit: p.piece}
	for {
		page, err := p.source.OverflowReadings(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, point := range page {
			times[point.Time] = true
		}
		if len(page) < q.Limit {
			return times, nil
		}
		q.From = page[len(page)-1].Time + 1
	}
}

// record notes what a stored bucket says, and returns its readings that lie in
// the range and belong to other buckets.
func (p *plan) record(r *reading.Record) (strays []reading.Point) {
	span := p.cfg.Span
	own := span.Start(r.Start) == r.Start && r.Start+int64(span) > p.from
	if r.Outlier {
		if own {
			p.window(r.Start).outlier = true
		}
		return nil
	}
	if own {
		w := p.window(r.Start)
		w.there = true
		w.wrong = !r.Sound()
	}
	for _, point := range r.Points() {
		switch {
		case own && span.Start(point.Time) == r.Start:
			p.window(r.Start).have[point.Time] = point.Value
		case span.Start(point.Time) != r.Start && point.Time >= p.from && point.Time < p.to:
			strays = append(strays, point)
			p.strays[r.Start] = append(p.strays[r.Start], point.Time)
		}
	}
	return strays
}

// starts are the windows in order of time.
func (p *plan) starts() []int64 {
	starts := make([]int64, 0, len(p.windows))
	for start := range p.windows {
		starts = append(starts, start)
	}
	slices.Sort(starts)
	return starts
}
