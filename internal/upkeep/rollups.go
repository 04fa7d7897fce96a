package upkeep

import (
	"context"
	"log/slog"
	"time"

	"gudang/internal/reading"
)

// Roller is the store that roll-ups are kept in. Each of its methods may be
// called again, and by several instances at once, without harm.
type Roller interface {
	// FirstAt is the start of the earliest bucket (source 0) or roll-up of
	// that span which begins at from or later.
	FirstAt(ctx context.Context, source reading.Span, from int64) (start int64, found bool, err error)
	// RollUp stores the roll-up of each series that has readings in the
	// window, and returns how many these are.
	RollUp(ctx context.Context, w reading.Window, rest func(ctx context.Context, n int) error) (series int, err error)
	// RollUpSeries does it for some, and returns those to come back to.
	RollUpSeries(ctx context.Context, w reading.Window, series []reading.Series) (written int, unsettled []reading.Series, err error)
	// Progress is how far each span is. Begin stores where it begins, unless
	// it has begun, and Advance moves Until on, never back.
	Progress(ctx context.Context) (map[reading.Span]reading.Progress, error)
	Begin(ctx context.Context, span reading.Span, p reading.Progress) error
	Advance(ctx context.Context, span reading.Span, until int64) error
	DropProgress(ctx context.Context, keep []reading.Span) error
	// Stale lists marks; Unmark removes those that were not made again.
	Stale(ctx context.Context, after reading.Mark, limit int) ([]reading.Mark, error)
	Unmark(ctx context.Context, marks []reading.Mark) error
}

// RollupsConfig is what is rolled up.
type RollupsConfig struct {
	Spans     []reading.Span // ascending; none: nothing is, and what was is not continued
	Buckets   time.Duration  // how long buckets are kept; 0: for ever
	Retention time.Duration  // how long roll-ups are; 0: for ever
	Clock     Clock
	Log       *slog.Logger
}

// Rollups keeps roll-ups of the buckets.
//
// The windows of a span are rolled up in order of time, each when it has been
// over for reading.RollupGrace, and how far that is, is stored. Whatever is
// written into a window later is announced by a mark, for which the window is
// rolled up again.
type Rollups struct {
	cfg     RollupsConfig
	store   Roller
	metrics *rollupMetrics

	begun bool
	seen  map[reading.Mark]time.Time // since when each mark has been as it is
}

// NewRollups makes the task. Run does it.
func NewRollups(cfg RollupsConfig, store Roller, reg Registerer) *Rollups {
	return &Rollups{cfg: cfg, store: store, metrics: newRollupMetrics(reg)}
}

const (
	// windowsAtOnce bounds what a pass does of one span before it looks after
	// marks again.
	windowsAtOnce = 100
	rollupsEvery  = 10 * time.Second
	// slack is how far clocks and the time of one step may lead a window into
	// what is being deleted.
	slack = reading.RollupGrace
)

// Run rolls up until ctx ends.
func (r *Rollups) Run(ctx context.Context) error {
	return repeat(ctx, r.cfg.Clock, r.cfg.Log, "roll-ups", func(ctx context.Context) (time.Duration, error) {
		more, err := r.Pass(ctx)
		if more {
			return leastRest, err
		}
		return rollupsEvery, err
	})
}

// Pass rolls up what is due now, or a part of it, which it says.
func (r *Rollups) Pass(ctx context.Context) (more bool, err error) {
	if !r.begun {
		if err := r.store.DropProgress(ctx, r.cfg.Spans); err != nil {
			return false, err
		}
		r.begun = true
	}
	if len(r.cfg.Spans) == 0 {
		return false, nil
	}
	progress, err := r.store.Progress(ctx)
	if err != nil {
		return false, err
	}
	for _, span := range r.cfg.Spans {
		unfinished, err := r.advance(ctx, span, progress)
		if err != nil {
			return false, err
		}
		more = more || unfinished
	}
	r.showBehind(progress)
	return more, r.correct(ctx, progress)
}

// advance rolls up windows of one span, in order. It keeps progress true.
func (r *Rollups) advance(ctx context.Context, span reading.Span, progress map[reading.Span]reading.Progress) (more bool, err error) {
	source := reading.SourceOf(span, r.cfg.Spans)
	p, known := progress[span]
	if !known {
		if p, known, err = r.begin(ctx, span, source, progress); err != nil || !known {
			return false, err
		}
		progress[span] = p
	}
	pace := newPacer(r.cfg.Clock)
	for range windowsAtOnce {
		due := r.due(span, source, progress)
		start := max(p.Until, ceil(span, r.oldest(source)))
		if start >= due {
			return false, nil
		}
		w := reading.Window{Span: span, Start: start, Source: source}
		series, err := r.store.RollUp(ctx, w, func(ctx context.Context, n int) error {
			r.metrics.written.Add(float64(n))
			return pace.rest(ctx)
		})
		if err != nil {
			return false, err
		}
		p.Until = w.End()
		if series == 0 {
			// A gap is not gone through window by window.
			next, found, err := r.store.FirstAt(ctx, source, p.Until)
			if err != nil {
				return false, err
			}
			if p.Until = due; found {
				p.Until = max(w.End(), min(due, span.Start(next)))
			}
		}
		if err := r.store.Advance(ctx, span, p.Until); err != nil {
			return false, err
		}
		progress[span] = p
		if err := pace.rest(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// begin decides where the roll-ups of a span begin: at the earliest window that
// has anything, or at the first one of which nothing was deleted. A window that
// can still be written to without a mark is not passed over in any case.
func (r *Rollups) begin(ctx context.Context, span, source reading.Span, progress map[reading.Span]reading.Progress) (reading.Progress, bool, error) {
	first, found, err := r.store.FirstAt(ctx, source, 0)
	if err != nil || !found {
		return reading.Progress{}, false, err
	}
	var p reading.Progress
	p.Until = min(span.Start(first), span.Start(r.ago(reading.RollupGrace+span.Duration())))
	whole := max(r.oldest(source), progress[source].From)
	if whole > 0 {
		p.From = ceil(span, whole)
		p.Until = max(p.Until, p.From)
	}
	if err := r.store.Begin(ctx, span, p); err != nil {
		return p, false, err
	}
	all, err := r.store.Progress(ctx) // another instance may have been before us
	if err != nil {
		return p, false, err
	}
	p, known := all[span]
	r.cfg.Log.Info("roll-ups begin", "span", span.String(), "at", time.UnixMilli(p.Until).UTC())
	return p, known, nil
}

// due is the end of the last window that may be rolled up.
func (r *Rollups) due(span, source reading.Span, progress map[reading.Span]reading.Progress) int64 {
	due := span.Start(r.ago(reading.RollupGrace))
	if source != 0 {
		due = min(due, span.Start(progress[source].Until))
	}
	return due
}

// oldest is the time from which on nothing of the source is deleted yet. What
// begins before is not rolled up, or not again: it would be less than it was.
func (r *Rollups) oldest(source reading.Span) int64 {
	keep := r.cfg.Buckets
	if source != 0 {
		keep = r.cfg.Retention
	}
	if keep == 0 {
		return 0
	}
	return r.ago(keep - slack)
}

func (r *Rollups) ago(d time.Duration) int64 { return r.cfg.Clock.Now().Add(-d).UnixMilli() }

// ceil is the first window that begins at t or later.
func ceil(span reading.Span, t int64) int64 {
	start := span.Start(t)
	if start < t {
		start += int64(span)
	}
	return start
}

// showBehind says how late the latest of the spans is.
func (r *Rollups) showBehind(progress map[reading.Span]reading.Progress) {
	var behind time.Duration
	for _, span := range r.cfg.Spans {
		if p, known := progress[span]; known {
			due := time.UnixMilli(p.Until).Add(span.Duration() + reading.RollupGrace)
			behind = max(behind, r.cfg.Clock.Now().Sub(due))
		}
	}
	r.metrics.behind.Set(behind.Seconds())
}
