package web

import (
	"context"
	"time"
)

// gate bounds how many requests are answered from the store at one time. A
// dashboard asks for all its panels at once, so a few more may wait for a
// while; whoever finds the queue full is told to come back.
type gate struct {
	running  chan struct{} // a token in it is one at work
	waiting  chan struct{}
	patience time.Duration
}

func newGate(running, waiting int, patience time.Duration) *gate {
	return &gate{
		running:  make(chan struct{}, running),
		waiting:  make(chan struct{}, waiting),
		patience: patience,
	}
}

// enter waits for a place and returns how to leave it, or why there is none.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-g.running }
	select {
	case g.running <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return nil, errBusy
	}
	timer := time.NewTimer(g.patience)
	defer timer.Stop()
	select {
	case g.running <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
