package embedded

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register adds the broker's own metrics. What it counts as dropped concerns
// other subscribers: the service's own messages wait instead.
func (b *Broker) Register(r prometheus.Registerer) error {
	gauge := func(name, help string, f func(Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return f(b.Stats()) })
	}
	counter := func(name, help string, f func(Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return f(b.Stats()) })
	}
	for _, c := range []prometheus.Collector{
		gauge("gudang_broker_connections", "Clients connected to the embedded broker.", func(s Stats) float64 { return float64(s.Connections) }),
		gauge("gudang_broker_unacked_messages", "Messages that subscribers of the embedded broker have yet to acknowledge.", func(s Stats) float64 { return float64(s.Unacked) }),
		gauge("gudang_broker_waiting_publishers", "Publishers that wait for the service to make room.", func(s Stats) float64 { return float64(s.Waiting) }),
		counter("gudang_broker_received_total", "Messages that the embedded broker received.", func(s Stats) float64 { return float64(s.Received) }),
		counter("gudang_broker_dropped_total", "Messages that a full session or a slow subscriber did not get.", func(s Stats) float64 { return float64(s.Dropped) }),
		counter("gudang_broker_unretained_total", "Messages that were not retained because of a bound.", func(s Stats) float64 { return float64(s.Unretained) }),
	} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("cannot register the embedded broker's metrics: %w", err)
		}
	}
	return nil
}
