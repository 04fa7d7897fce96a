package upkeep

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"gudang/internal/reading"
)

const (
	marksAtOnce = 500
	// marksMost bounds what is remembered of marks. The others have their turn
	// when these are gone.
	marksMost = 50_000
)

// correct rolls up again what marks say, once they have been quiet. A mark is
// removed after that, and only if it is still the same: whoever made it again
// may have written since.
func (r *Rollups) correct(ctx context.Context, progress map[reading.Span]reading.Progress) error {
	seen := make(map[reading.Mark]time.Time, len(r.seen))
	pace := newPacer(r.cfg.Clock)
	var after reading.Mark
	for len(seen) < marksMost {
		marks, err := r.store.Stale(ctx, after, marksAtOnce)
		if err != nil {
			return err
		}
		now := r.cfg.Clock.Now()
		var quiet []reading.Mark
		for _, m := range marks {
			since, known := r.seen[m]
			if !known {
				since = now
			}
			seen[m] = since
			if now.Sub(since) >= reading.QuietFor {
				quiet = append(quiet, m)
			}
		}
		done, err := r.correctMarks(ctx, quiet, progress, pace)
		if err != nil {
			return err
		}
		for _, m := range done {
			delete(seen, m)
		}
		if len(marks) < marksAtOnce {
			break
		}
		after = marks[len(marks)-1]
		if err := pace.rest(ctx); err != nil {
			return err
		}
	}
	r.seen = seen
	r.metrics.stale.Set(float64(len(seen)))
	return nil
}

// correctMarks rolls up the windows of the marks, shorter ones before those
// that are made of them, and returns the marks that it is done with.
func (r *Rollups) correctMarks(ctx context.Context, marks []reading.Mark, progress map[reading.Span]reading.Progress, pace *pacer) ([]reading.Mark, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	unsettled := map[reading.Series]bool{}
	for _, span := range r.cfg.Spans {
		windows := r.outdated(span, progress[span].From, marks)
		for _, w := range slices.SortedFunc(maps.Keys(windows), func(a, b reading.Window) int { return cmp.Compare(a.Start, b.Start) }) {
			if w.Start < r.oldest(w.Source) {
				continue // time has passed: it is being deleted
			}
			written, lag, err := r.store.RollUpSeries(ctx, w, windows[w])
			if err != nil {
				return nil, err
			}
			r.metrics.written.Add(float64(written))
			for _, s := range lag {
				unsettled[s] = true
			}
			if err := pace.rest(ctx); err != nil {
				return nil, err
			}
		}
	}
	done := slices.DeleteFunc(marks, func(m reading.Mark) bool { return unsettled[m.Series] })
	return done, r.store.Unmark(ctx, done)
}

// outdated are the windows of a span that may have been rolled up without the
// readings that the marks announced, with the series to roll up again. What is
// not over for so long will be rolled up later, and what lies before all that
// was rolled up is not whole.
func (r *Rollups) outdated(span reading.Span, from int64, marks []reading.Mark) map[reading.Window][]reading.Series {
	source := reading.SourceOf(span, r.cfg.Spans)
	windows := map[reading.Window][]reading.Series{}
	over := r.ago(reading.RollupGrace / 2)
	for _, m := range marks {
		if m.Span > reading.MaxSpan {
			continue // nothing that we have written
		}
		for start := span.Start(m.Start); start < m.Start+int64(m.Span); start += int64(span) {
			w := reading.Window{Span: span, Start: start, Source: source}
			if w.End() > over || start < max(from, r.oldest(source)) {
				continue
			}
			windows[w] = append(windows[w], m.Series)
		}
	}
	for w, series := range windows {
		slices.SortFunc(series, reading.Series.Compare)
		windows[w] = slices.Compact(series)
	}
	return windows
}
