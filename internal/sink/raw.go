package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gudang/internal/reading"
)

// RawWriter keeps readings one by one beside their buckets.
type RawWriter interface {
	// WriteRaw inserts each reading of the buckets into raw. One that is there
	// already stays as it is, so that the same again changes nothing. It
	// answers how many the store will never take, and why the first of them.
	WriteRaw(ctx context.Context, buckets []*reading.Bucket) (refused int, why string, err error)
}

// keepRaw stores the readings of the buckets in raw, and tries until ctx ends:
// a flush counts as committed when raw has it too. Duplicates are among them:
// after a crash between the two writes the replay finds the buckets full.
func (s *Sink) keepRaw(ctx context.Context, buckets []*reading.Bucket) error {
	var logged time.Time
	for attempt, pause := 1, firstPause; ; attempt, pause = attempt+1, min(2*pause, longPause) {
		refused, why, err := s.store.WriteRaw(ctx, buckets)
		if err == nil {
			if refused > 0 {
				s.log.Error("store refused raw readings for good, the buckets have them", "readings", refused, "detail", why)
			}
			s.succeeded(attempt)
			return nil
		}
		if stop := ctx.Err(); stop != nil {
			return fmt.Errorf("cannot store the raw readings of %d buckets: %w", len(buckets), errors.Join(stop, err))
		}
		s.failed(err)
		if now := time.Now(); now.Sub(logged) >= logEvery {
			logged = now
			s.log.Warn("store does not take raw readings, trying again", "buckets", len(buckets), "attempt", attempt, "error", err)
		}
		if stop := rest(ctx, pause); stop != nil {
			return fmt.Errorf("cannot store the raw readings of %d buckets: %w", len(buckets), errors.Join(stop, err))
		}
	}
}
