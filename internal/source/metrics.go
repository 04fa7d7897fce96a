package source

import "github.com/prometheus/client_golang/prometheus"

// Registerer is where the package's metrics are registered.
type Registerer = prometheus.Registerer

type metrics struct {
	messages  prometheus.Counter
	readings  prometheus.Counter
	badClock  prometheus.Counter
	connected prometheus.Gauge
	connects  prometheus.Counter
	last      prometheus.Gauge
}

func newMetrics(reg Registerer, unacked func() float64) *metrics {
	m := &metrics{
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_messages_received_total", Help: "MQTT messages received, copies included.",
		}),
		readings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_readings_received_total", Help: "Readings found in the messages received, copies included.",
		}),
		badClock: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_bad_clock_total", Help: "Messages whose own time was not believed; the receive time was used.",
		}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gudang_mqtt_connected", Help: "1 while connected to the broker and subscribed, or while the embedded one listens.",
		}),
		connects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gudang_mqtt_connects_total", Help: "Connections made to the broker.",
		}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gudang_last_message_timestamp_seconds", Help: "When the last message arrived.",
		}),
	}
	reg.MustRegister(m.messages, m.readings, m.badClock, m.connected, m.connects, m.last, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gudang_unacked_messages", Help: "Messages that are not acknowledged yet.",
	}, unacked))
	return m
}
