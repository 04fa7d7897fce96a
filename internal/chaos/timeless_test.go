//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gudang/internal/fleet"
	"gudang/internal/query"
	"gudang/internal/reading"
)

// A run may be without times: its messages do not say when they were measured,
// so no manifest can say what must be stored. Each has a value of its own
// instead, and each value must be stored once, whatever time it was given.
//
// A message that comes again must then be recognised by what the journal has of
// it, and the fleet must never send one again: nothing may cut it off from its
// broker.

// publishValues publishes count messages, each when it is due.
func (r *run) publishValues() *publishing {
	log, err := os.Create(r.file("fleet.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := fleet.NewMQTT(fleet.MQTTConfig{Broker: r.broker.URL, Connections: r.writers, QoS: 1, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	var acked atomic.Int64
	p := &publishing{progress: func() string { return fmt.Sprint(acked.Load()) }, done: make(chan fleetEnd, 1), stop: stop}
	go func() {
		defer log.Close()
		var running, open sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		var end fleetEnd
		begun := time.Now()
		for n := int64(0); n < r.fleet.Count && end.err == nil; n++ {
			due := begun.Add(time.Duration(float64(n) / r.fleet.Rate * float64(time.Second)))
			<-time.After(time.Until(due)) // at once if it is late
			sensor := int(n) % r.fleet.Sensors
			open.Add(1)
			msg := fleet.Message{
				Sensor: sensor, Topic: fmt.Sprintf("warehouse/S-%04d/reading", sensor), Payload: fmt.Appendf(nil, `{"pulses":%d}`, n),
				Done: func(err error) {
					if err == nil {
						acked.Add(1)
					}
					open.Done()
				},
			}
			if err := m.Publish(ctx, msg); err != nil {
				open.Done()
				end.err = err
				continue
			}
			end.summary.Published++
		}
		open.Wait()
		stop()
		running.Wait()
		end.summary.Acked, end.summary.Readings = acked.Load(), acked.Load()
		p.done <- end
	}()
	return p
}

// countValues is the judge of a run without times.
func (r *run) countValues() {
	span, err := reading.NewSpan(r.span)
	if err != nil {
		r.t.Fatal(err)
	}
	store, err := query.OpenSQLite(r.data(), span)
	if err != nil {
		r.problem("%v", err)
		return
	}
	times := map[int]int{}
	err = store.Scan(r.t.Context(), func(b *query.Stored) error {
		for _, v := range b.Values {
			times[int(v)]++
		}
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		r.problem("%v", err)
		return
	}
	var missing, doubled []int
	for n := range int(r.fleet.Count) {
		switch times[n] {
		case 0:
			missing = append(missing, n)
		case 1:
		default:
			doubled = append(doubled, n)
		}
	}
	foreign := len(times) + len(missing) - int(r.fleet.Count)
	if len(missing)+len(doubled)+foreign > 0 {
		r.problem("of %d values %d are missing %v, %d doubled %v, %d foreign", r.fleet.Count,
			len(missing), missing[:min(len(missing), 10)], len(doubled), doubled[:min(len(doubled), 10)], foreign)
	}
}
