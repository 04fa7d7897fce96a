// Package rebuild builds buckets from raw readings: it adds what they lack,
// mends what contradicts raw or itself, and brings them to another span. Each
// of its steps leaves every reading in at least one bucket and can be done
// again, so it may be stopped anywhere, and ingestion may go on beside it.
package rebuild

import (
	"context"
	"fmt"
	"slices"

	"gudang/internal/reading"
)

// Source is where raw readings and buckets are read. Each list is in order of
// time and has at most the query's limit.
type Source interface {
	NextSeries(ctx context.Context, after reading.Series) (reading.Series, bool, error)
	RawReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	OverflowReadings(ctx context.Context, q reading.Query) ([]reading.Point, error)
	Records(ctx context.Context, q reading.Query) ([]reading.Record, error)
}

// Target is where buckets are written.
type Target interface {
	// Write adds the readings of the buckets to what is stored, and returns
	// which of them were not: those that were there, and those that the store
	// will never take.
	Write(ctx context.Context, buckets []*reading.Bucket) ([]reading.Refusal, error)
	// FixBuckets replaces stored buckets by what fix makes of them, provided that
	// nobody changes them meanwhile: then fix is asked again. It is not asked
	// about outliers, nor about what is not there; nil leaves a bucket as it is,
	// and one without readings is removed.
	FixBuckets(ctx context.Context, keys []reading.Key, fix func(have *reading.Record) *reading.Bucket) error
}

// Config is what is rebuilt.
type Config struct {
	Span     reading.Span
	From, To int64          // ms; To is exclusive
	After    reading.Series // only the series after this one
	// Progress is told after each piece of work, if it is not nil.
	Progress func(Summary)
}

// Summary is what was done so far.
type Summary struct {
	Done     reading.Series `json:"-"`        // the last series that is finished
	Series   int64          `json:"series"`   // so many are
	Raw      int64          `json:"raw"`      // raw readings gone through
	Added    int64          `json:"added"`    // readings that buckets lacked
	Mended   int64          `json:"mended"`   // buckets replaced, for they were wrong
	Moved    int64          `json:"moved"`    // readings taken out of buckets of another span
	Removed  int64          `json:"removed"`  // buckets of another span that were emptied
	Outliers int64          `json:"outliers"` // raw readings passed over, because their bucket is an outlier
	Refused  int64          `json:"refused"`  // readings that the store will never take
}

const (
	// piece and recordsAtOnce are how many raw readings and buckets of a series
	// are in memory at once.
	piece         = 50_000
	recordsAtOnce = 500
	// longest is the longest span that a bucket can have, in ms.
	longest = 24 * 60 * 60 * 1000
)

// Run rebuilds, one series after the other. When it fails, or ctx ends, the
// summary says after which series it is to be done again.
func Run(ctx context.Context, cfg Config, from Source, to Target) (Summary, error) {
	b := builder{cfg: cfg, source: from, target: to, piece: piece, records: recordsAtOnce}
	b.sum.Done = cfg.After
	for {
		series, more, err := from.NextSeries(ctx, b.sum.Done)
		if err == nil && !more {
			return b.sum, nil
		}
		if err == nil {
			err = b.series(ctx, series)
		}
		if err != nil {
			return b.sum, fmt.Errorf("cannot rebuild the buckets: %w", err)
		}
		b.sum.Done = series
	}
}

type builder struct {
	cfg            Config
	source         Source
	target         Target
	piece, records int
	sum            Summary
}

// series rebuilds the buckets of one series, from the span of its first raw
// reading on: what is before that is in its buckets alone.
func (b *builder) series(ctx context.Context, series reading.Series) error {
	q := reading.Query{Sensor: series.Sensor, Metric: series.Metric}
	earliest, err := b.source.RawReadings(ctx, limited(q, 1))
	if err != nil || len(earliest) == 0 {
		return err
	}
	q.From, q.To = max(b.cfg.From, b.cfg.Span.Start(earliest[0].Time)), b.cfg.To
	if q.From >= q.To {
		return nil
	}
	b.sum.Series++
	carried, err := b.reaching(ctx, q)
	for err == nil && q.From < q.To {
		q.From, carried, err = b.onePiece(ctx, q, carried)
		if err == nil && b.cfg.Progress != nil {
			b.cfg.Progress(b.sum)
		}
	}
	return err
}

func limited(q reading.Query, limit int) reading.Query {
	q.Limit = limit
	return q
}

// reaching is the starts of buckets from before the range that reach into it.
func (b *builder) reaching(ctx context.Context, q reading.Query) (starts []int64, err error) {
	from := q.From
	q.From, q.To = from-longest+1, from
	for {
		page, err := b.source.Records(ctx, limited(q, b.records))
		if err != nil {
			return nil, err
		}
		for i := range page {
			if b.reaches(&page[i], from) {
				starts = append(starts, page[i].Start)
			}
		}
		if len(page) < b.records {
			return starts, nil
		}
		q.From = page[len(page)-1].Start + 1
	}
}

// reaches says whether a bucket holds, or is to hold, readings of that time or
// later.
func (b *builder) reaches(r *reading.Record, t int64) bool {
	if b.cfg.Span.Start(r.Start) == r.Start && r.Start+int64(b.cfg.Span) > t {
		return true
	}
	return slices.ContainsFunc(r.Offsets, func(off int32) bool { return r.Start+int64(off) >= t })
}

// onePiece does as much of the range as fits in memory, and returns where it
// ends and which buckets reach beyond.
func (b *builder) onePiece(ctx context.Context, q reading.Query, carried []int64) (until int64, reach []int64, err error) {
	records, err := b.source.Records(ctx, limited(q, b.records))
	if err != nil {
		return 0, nil, err
	}
	if len(records) == b.records {
		q.To = max(records[len(records)-1].Start, q.From+1)
	}
	raw, err := b.source.RawReadings(ctx, limited(q, b.piece))
	if err != nil {
		return 0, nil, err
	}
	if len(raw) == b.piece {
		q.To = raw[len(raw)-1].Time + 1
	}
	records = slices.DeleteFunc(records, func(r reading.Record) bool { return r.Start >= q.To })
	for _, start := range carried {
		q := q
		q.From, q.To = start, start+1
		earlier, err := b.source.Records(ctx, limited(q, 1))
		if err != nil {
			return 0, nil, err
		}
		records = append(records, earlier...)
	}
	b.sum.Raw += int64(len(raw))
	p := newPlan(b, q)
	if err := p.read(ctx, raw, records); err != nil {
		return 0, nil, err
	}
	for i := range records {
		if b.reaches(&records[i], q.To) {
			reach = append(reach, records[i].Start)
		}
	}
	return q.To, reach, p.carryOut(ctx)
}
