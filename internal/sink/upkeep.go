package sink

import (
	"context"
	"time"

	"gudang/internal/reading"
)

// Rest is called after each bounded step of a long task, with how many
// documents the step wrote or deleted. It waits, so that the task never holds
// up ingestion; the task ends with its error.
type Rest = func(ctx context.Context, n int) error

// Retention deletes what is old. All of it may be done again, and by several
// instances at once.
type Retention interface {
	// Expire has the server delete by itself what is older than the given
	// times (0: keep all), and nothing if it was told so before and is not any
	// more. It reports whether the server does, and if not, why.
	Expire(ctx context.Context, buckets, raw time.Duration) (byServer bool, why string, err error)
	// DeleteBefore deletes what has a time before the given one, in steps.
	DeleteBefore(ctx context.Context, kind reading.Kind, before int64, rest Rest) error
	// SilentSensors lists sensors, in order of id and after the given one,
	// whose latest reading is older than that.
	SilentSensors(ctx context.Context, before int64, after string, limit int) ([]string, error)
	// DeleteSensors deletes the documents of those of the sensors that are
	// still silent and of which nothing else is stored, and returns these.
	DeleteSensors(ctx context.Context, ids []string, before int64) ([]string, error)
}

// Rollups keeps the roll-ups. Each change of one goes by what its writer read
// before it read the source, so that of several writers none can undo what
// another did later.
type Rollups interface {
	// FirstAt is the start of the earliest bucket (source 0) or roll-up of
	// that span which begins at from or later.
	FirstAt(ctx context.Context, source reading.Span, from int64) (start int64, found bool, err error)
	// RollUp stores the roll-up of each series that has readings in the
	// window. Where that is not certain yet, it leaves a mark. It returns how
	// many series there are.
	RollUp(ctx context.Context, w reading.Window, rest Rest) (series int, err error)
	// RollUpSeries does it for some series, and returns those of which that
	// is not certain yet.
	RollUpSeries(ctx context.Context, w reading.Window, series []reading.Series) (written int, unsettled []reading.Series, err error)
	// Progress is how far the roll-ups of each span are.
	Progress(ctx context.Context) (map[reading.Span]reading.Progress, error)
	// Begin stores where the roll-ups of a span begin, unless they have begun.
	Begin(ctx context.Context, span reading.Span, p reading.Progress) error
	// Advance moves Until on, never back, if they have begun.
	Advance(ctx context.Context, span reading.Span, until int64) error
	// DropProgress forgets the progress of all spans but these.
	DropProgress(ctx context.Context, keep []reading.Span) error
	// Stale lists marks in an order of the store, at most limit, after the given one.
	Stale(ctx context.Context, after reading.Mark, limit int) ([]reading.Mark, error)
	// Unmark removes those of the marks that were not made again since.
	Unmark(ctx context.Context, marks []reading.Mark) error
	Marker
}

// Marker marks windows for being rolled up again.
type Marker interface {
	// MarkStale makes each mark, or makes it again. The tokens are drawn here.
	MarkStale(ctx context.Context, marks []reading.Mark) error
}
