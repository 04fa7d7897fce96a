package main

import "github.com/prometheus/client_golang/prometheus"

// registerLimits shows the bounds that were set, so that an alert can say
// "nearly full" without knowing the settings.
func registerLimits(reg prometheus.Registerer, c *config) {
	limit := func(name, help string, value float64) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		g.Set(value)
		reg.MustRegister(g)
	}
	limit("gudang_max_sensors", "MAX_SENSORS.", float64(c.MaxSensors))
	limit("gudang_max_unacked_messages", "MQTT_MAX_UNACKED.", float64(c.MQTTMaxUnacked))
	if c.Journal == "on" {
		limit("gudang_journal_max_bytes", "JOURNAL_MAX_BYTES.", float64(c.JournalMaxBytes))
	}
}
