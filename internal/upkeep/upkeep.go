// Package upkeep is what the service does to its store in the background:
// deleting what is old, and keeping roll-ups. Its tasks go in bounded steps
// with pauses, may be run by several instances at once, and go on where they
// were whatever stopped them.
package upkeep

import (
	"context"
	"log/slog"
	"time"
)

// Clock is the time, and waiting for it.
type Clock struct {
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// RealClock is the clock of the machine.
func RealClock() Clock { return Clock{Now: time.Now, Sleep: sleep} }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	// A task works for at most a third of the time: whatever a step costs, what
	// is ingested meanwhile has the rest.
	restFactor = 2
	leastRest  = 10 * time.Millisecond
	mostRest   = 10 * time.Second

	retryEvery = 10 * time.Second
	logEvery   = time.Minute
)

// pacer makes the pauses between steps.
type pacer struct {
	clock Clock
	since time.Time
}

func newPacer(c Clock) *pacer { return &pacer{c, c.Now()} }

func (p *pacer) rest(ctx context.Context) error {
	took := p.clock.Now().Sub(p.since)
	err := p.clock.Sleep(ctx, min(max(restFactor*took, leastRest), mostRest))
	p.since = p.clock.Now()
	return err
}

// repeat calls pass again and again, after what it says, until ctx ends. A pass
// that fails is tried again; the log has it at a limited rate.
func repeat(ctx context.Context, clock Clock, log *slog.Logger, task string, pass func(ctx context.Context) (time.Duration, error)) error {
	var logged time.Time
	for ctx.Err() == nil {
		next, err := pass(ctx)
		if err != nil && ctx.Err() == nil {
			next = retryEvery
			if now := clock.Now(); now.Sub(logged) >= logEvery {
				logged = now
				log.Warn("upkeep of the store failed, trying again", "task", task, "error", err)
			}
		}
		if clock.Sleep(ctx, next) != nil {
			break
		}
	}
	return nil
}
