package prom

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"gudang/internal/reading"
)

// queryable is the store as one query sees it.
type queryable struct {
	api      *API
	lookback int64
	fleet    *[]member // nil: not asked for yet
	selected int       // series, by all selectors
}

// Querier implements storage.Queryable.
func (q *queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{queryable: q, mint: mint, maxt: maxt}, nil
}

// querier implements storage.Querier. The engine calls it from one goroutine.
type querier struct {
	*queryable
	mint, maxt int64
	selects    []*ahead
	stop       []context.CancelFunc
}

// Close implements storage.Querier. It waits until nothing is read any more.
func (q *querier) Close() error {
	for i, a := range q.selects {
		q.stop[i]()
		a.reading.Wait()
	}
	return nil
}

// Select implements storage.Querier. Which series there are it finds out at
// once, and of their samples it reads what is asked for, when it is.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if hints == nil {
		hints = &storage.SelectHints{Start: q.mint, End: q.maxt, Range: 1}
	}
	ctx, stop := context.WithCancel(ctx)
	found := &ahead{}
	q.selects, q.stop = append(q.selects, found), append(q.stop, stop)
	err := q.each(ctx, matchers, hints.Func == seriesFunc, func(k key) error {
		if q.selected++; q.selected > maxSeries {
			return errTooManySeries
		}
		found.series = append(found.series, q.series(ctx, k, hints))
		if hints.Limit > 0 && len(found.series) == hints.Limit {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	if sorted {
		slices.SortFunc(found.series, func(a, b *series) int { return a.compare(b.key) })
	}
	found.primed = make([]primed, len(found.series))
	for i, s := range found.series {
		s.ahead, s.at = found, i
	}
	return &seriesSet{series: found.series, at: -1}
}

// seriesFunc is what the engine's hints say of a query for series alone.
const seriesFunc = "series"

func (q *querier) series(ctx context.Context, k key, hints *storage.SelectHints) *series {
	s := &series{ctx: ctx, key: k, mint: clamp(hints.Start), maxt: clamp(hints.End), span: hints.Range}
	if hints.Range == 0 {
		s.window = q.lookback
	}
	base := reading.Series{Sensor: k.sensor, Metric: k.metric}
	if k.kind == nil {
		s.src = &readings{Series: base, store: q.api.reader}
	} else {
		s.src = &summed{Series: base, Summaries: *k.kind.of, value: k.kind.value}
	}
	return s
}

// series implements storage.Series.
type series struct {
	key
	ctx        context.Context
	src        source
	mint, maxt int64
	window     int64
	span       int64
	ahead      *ahead
	at         int // among those of ahead
}

// Iterator implements storage.Series.
func (s *series) Iterator(chunkenc.Iterator) chunkenc.Iterator { return s.ahead.take(s.at) }

func (s *series) iterator() *iterator {
	return newIterator(s.ctx, s.src, s.mint, s.maxt, s.window, s.span)
}

type seriesSet struct {
	series []*series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// LabelValues implements storage.Querier.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values, err := q.distinct(ctx, hints, matchers, func(k key, yield func(string)) {
		if v := k.label(name); v != "" {
			yield(v)
		}
	})
	return values, nil, err
}

// LabelNames implements storage.Querier.
func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names, err := q.distinct(ctx, hints, matchers, func(k key, yield func(string)) {
		for _, name := range labelNames {
			if k.label(name) != "" {
				yield(name)
			}
		}
	})
	return names, nil, err
}

// distinct is what pick yields of the series that match, each once and in order.
func (q *querier) distinct(ctx context.Context, hints *storage.LabelHints, matchers []*labels.Matcher, pick func(key, func(string))) ([]string, error) {
	seen := make(map[string]bool)
	err := q.each(ctx, matchers, true, func(k key) error {
		pick(k, func(s string) { seen[s] = true })
		if hints.AllowsEarlyStop() && len(seen) >= hints.Limit {
			return errEnough
		}
		return nil
	})
	return sortedKeys(seen), err
}
