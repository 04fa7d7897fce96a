package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"gudang/internal/reading"
)

const (
	// refreshEvery is the least time from one sensor to the next, and
	// refreshShare how many times longer the rest is than the work: ingestion
	// is not to notice.
	refreshEvery = 250 * time.Millisecond
	refreshShare = 10
	// refreshWait is how long after the start a walk begins, about, and
	// refreshDay the least time from one walk to the next.
	refreshWait = time.Minute
	refreshDay  = 24 * time.Hour

	// refreshTries is how often a sensor is tried before it is passed over,
	// with refreshPause in between. A store that is away does not count.
	refreshTries = 3
	refreshPause = time.Minute
)

// Refresh walks all sensors, slowly and about once a day, and has each one's
// document compared with the buckets. Any number of instances may do so.
type Refresh struct {
	// Next is the first sensor after the given one, or reading.ErrNotFound.
	Next func(ctx context.Context, after string) (string, error)
	// Do refreshes one sensor and counts what became of it.
	Do func(ctx context.Context, id string) error
	// Begin is where the first walk begins, so that a service that is started
	// again and again does not see the same few sensors each time.
	Begin func() string
	Log   *slog.Logger
}

// Run walks until ctx ends.
func (r *Refresh) Run(ctx context.Context) error {
	if !pause(ctx, refreshWait/2+rand.N(refreshWait)) {
		return nil
	}
	for from := r.Begin(); ; from = "" {
		begun := time.Now()
		if !r.walk(ctx, from) || !pause(ctx, refreshDay-time.Since(begun)) {
			return nil
		}
	}
}

// walk goes round: from the sensor after from to the last, then from the first
// on. It is false if ctx has ended.
func (r *Refresh) walk(ctx context.Context, from string) bool {
	round := from == "" // nothing lies before
	at, tries := from, 0
	for {
		begun := time.Now()
		next, err := r.Next(ctx, at)
		switch {
		case errors.Is(err, reading.ErrNotFound) && !round:
			round, at = true, ""
			continue
		case errors.Is(err, reading.ErrNotFound), err == nil && round && from != "" && next > from:
			return true
		case err != nil:
			if !r.failed(ctx, "cannot find the next sensor to refresh, trying again", "after", at, err) {
				return false
			}
			continue
		}
		if err := r.Do(ctx, next); err != nil {
			tries++
			if !r.failed(ctx, "cannot refresh a sensor", "sensor", next, err) {
				return false
			}
			if tries < refreshTries {
				continue
			}
		}
		at, tries = next, 0
		if !pause(ctx, max(refreshEvery, refreshShare*time.Since(begun))) {
			return false
		}
	}
}

// failed tells of an error, and waits. It is false if ctx has ended.
func (r *Refresh) failed(ctx context.Context, what, key, value string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	r.Log.Warn(what, key, value, "error", err) //nolint:sloglint // both texts are constants of the callers
	return pause(ctx, refreshPause)
}

// pause waits, and is false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
